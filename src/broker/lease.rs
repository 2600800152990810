//! Is the worker alive, and which of its calls were applied? Beat, resign, reconcile.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redis::Value;

use crate::broker::Broker;
use crate::broker::connection::Target;
use crate::broker::error::BrokerError;
use crate::broker::orders::Order;
use crate::broker::queue::milliseconds;
use crate::broker::recovery::FORGET_WORKERS;
use crate::broker::script;
use crate::protocol::keys::QueueKeys;

/// The most slots that one call of `reconcile` asks after.
const MAX_RECONCILED: usize = 2000;

/// The keys of a worker on one queue, and who it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseKeys<'a> {
    pub(crate) queue: &'a QueueKeys,
    /// HASH of the worker.
    pub(crate) worker: &'a str,
    /// HASH of its orders.
    pub(crate) orders: &'a str,
    pub(crate) worker_id: &'a str,
}

/// What `beat` answered.
#[derive(Debug)]
pub(crate) struct Beaten {
    /// Whether a sweep of the queue may find something.
    pub(crate) found: bool,
    /// The orders that stood there.
    pub(crate) orders: Vec<Order>,
}

/// What a worker asks of `reconcile`: see `lua/reconcile.lua`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReconcileRequest<'a> {
    /// HASH of the worker.
    pub(crate) worker_key: &'a str,
    /// The number of this call, beyond any before.
    pub(crate) seq: u64,
    pub(crate) lease: Duration,
    /// At least one wire id: the slots in question.
    pub(crate) wire_ids: &'a [&'a str],
}

/// What `reconcile` answered.
#[derive(Debug)]
pub(crate) struct Reconciled {
    /// The number of the last call that was applied; none when Redis does not know.
    pub(crate) applied: Option<u64>,
    /// Which of the slots, from 0 on, own a suspect that is to run alone.
    pub(crate) alone: Vec<usize>,
    /// What each slot owns now.
    pub(crate) owned: Vec<Option<Bytes>>,
}

/// A connection of its own for the thread that beats: it does not wait for the runtime.
pub(crate) struct LeaseKeeper {
    target: Arc<Target>,
    longest: Duration,
    connection: Option<redis::Connection>,
}

impl<'a> LeaseKeys<'a> {
    /// The keys of a script: those that each has, its `own`, and those of `slots`.
    fn with(&self, own: &[&'a str], slots: &[&'a str]) -> Vec<&'a str> {
        [&[self.worker, &self.queue.workers, self.orders], own, slots].concat()
    }
}

impl LeaseKeeper {
    /// The means to beat from a thread. A beat may take as long as any request, until [`Self::hurry`].
    pub(crate) fn new(target: &Arc<Target>) -> Self {
        Self { target: Arc::clone(target), longest: target.timeout, connection: None }
    }

    /// From now on a beat takes no longer than about `longest`, so that one which gets no answer leaves time for others.
    pub(crate) fn hurry(&mut self, longest: Duration) {
        self.longest = longest;
        let longest = Some(longest.min(self.target.timeout));
        // One that does not take them is made anew.
        self.connection.take_if(|connection| {
            connection.set_read_timeout(longest).and_then(|()| connection.set_write_timeout(longest)).is_err()
        });
    }

    /// Connects ahead of the first beat. Where that fails, the beat tries it again.
    pub(crate) fn connect_ahead(&mut self) {
        self.connection = self.connected().ok();
    }

    /// Its connection, which is taken out, or a new one.
    fn connected(&mut self) -> Result<redis::Connection, BrokerError> {
        match self.connection.take() {
            Some(connection) => Ok(connection),
            None => self.target.connect_blocking(self.longest),
        }
    }

    /// Renews the worker's lease on one queue, and the live keys of `slots` (at most 1000). Connects when it is
    /// not connected; after an error it connects anew. Takes the orders that stand there, and looks for what a sweep
    /// would find.
    pub(crate) fn beat(
        &mut self,
        keys: LeaseKeys<'_>,
        lease: Duration,
        info: &[u8],
        slots: &[&str],
    ) -> Result<Beaten, BrokerError> {
        let mut connection = self.connected()?;
        let queue = keys.queue;
        let script_keys = keys.with(
            &[&queue.queue, &queue.notifications, &queue.hand, &queue.processing, &queue.deaths],
            slots,
        );
        let mut command = script::BEAT.command(&script_keys, 4, info.len() + keys.worker_id.len() + 32);
        command.arg(milliseconds(lease)).arg(keys.worker_id).arg(info).arg(milliseconds(FORGET_WORKERS));
        let reply = script::BEAT.run_blocking(&mut connection, &command)?;
        self.connection = Some(connection);
        match reply {
            Value::Array(mut reply) if matches!(reply[..], [Value::Int(_), ..]) => {
                let orders = reply.split_off(1);
                Ok(Beaten { found: reply != [Value::Int(0)], orders: Order::all_of(orders) })
            }
            reply => Err(script::BEAT.unexpected(&reply)),
        }
    }
}

impl Broker {
    /// Ends the worker's lease on one queue, and the live keys of `slots` (at most 1000). Calls that are still on their
    /// way are refused for a while.
    pub(crate) async fn resign(
        &self,
        keys: LeaseKeys<'_>,
        lease: Duration,
        slots: &[&str],
    ) -> Result<(), BrokerError> {
        let mut command = script::RESIGN.command(&keys.with(&[], slots), 2, keys.worker_id.len() + 16);
        command.arg(keys.worker_id).arg(milliseconds(lease));
        script::RESIGN.run(&mut self.commands.clone(), command).await.map(drop)
    }

    /// Finds out what became of calls whose replies were lost, and refuses those still on their way. Many slots are asked
    /// after, and large messages come, in several parts.
    pub(crate) async fn reconcile(
        &self,
        keys: &QueueKeys,
        ask: &ReconcileRequest<'_>,
    ) -> Result<Reconciled, BrokerError> {
        let mut all = self.reconcile_some(keys, ask).await?;
        while all.owned.len() < ask.wire_ids.len() {
            let left = ReconcileRequest { wire_ids: &ask.wire_ids[all.owned.len()..], ..*ask };
            let more = self.reconcile_some(keys, &left).await?;
            let before = all.owned.len();
            all.alone.extend(more.alone.into_iter().map(|place| before + place));
            all.owned.extend(more.owned);
        }
        Ok(all)
    }

    /// Does so for at least the first of these slots.
    async fn reconcile_some(
        &self,
        keys: &QueueKeys,
        ask: &ReconcileRequest<'_>,
    ) -> Result<Reconciled, BrokerError> {
        let ReconcileRequest { worker_key, seq, lease, wire_ids } = *ask;
        let wire_ids = &wire_ids[..wire_ids.len().min(MAX_RECONCILED)];
        let bytes = wire_ids.iter().map(|id| id.len()).sum::<usize>() + 32;
        let mut command = script::RECONCILE.command(
            &[&keys.processing, worker_key, &keys.deaths],
            wire_ids.len() + 2,
            bytes,
        );
        command.arg(seq).arg(milliseconds(lease));
        for id in wire_ids {
            command.arg(*id);
        }
        let reply = script::RECONCILE.run(&mut self.commands.clone(), command).await?;
        let mut values = script::RECONCILE.array(reply)?.into_iter();
        let (Some(Value::Int(applied)), Some(Value::Array(places))) = (values.next(), values.next()) else {
            return Err(script::RECONCILE.unexpected(&Value::Nil));
        };
        let mut alone = Vec::with_capacity(places.len());
        for place in places {
            match place {
                Value::Int(place @ 1..) => alone.push(place.unsigned_abs() as usize - 1),
                other => return Err(script::RECONCILE.unexpected(&other)),
            }
        }
        let mut owned = Vec::with_capacity(wire_ids.len());
        for value in values {
            owned.push(match value {
                Value::BulkString(message) => Some(message.into()),
                Value::Nil => None,
                other => return Err(script::RECONCILE.unexpected(&other)),
            });
        }
        if owned.is_empty() {
            return Err(script::RECONCILE.unexpected(&Value::Nil));
        }
        Ok(Reconciled { applied: u64::try_from(applied).ok(), alone, owned })
    }
}
