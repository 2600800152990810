//! Is the worker alive, and which of its calls were applied? Beat, resign, reconcile.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use crate::broker::Broker;
use crate::broker::connection::Target;
use crate::broker::error::BrokerError;
use crate::broker::queue::milliseconds;
use crate::broker::script;
use crate::protocol::keys::QueueKeys;

/// What `reconcile` answered.
#[derive(Debug)]
pub(crate) struct Reconciled {
    /// The number of the last call that was applied; none when Redis does not know.
    pub(crate) applied: Option<u64>,
    /// What each slot owns now.
    pub(crate) owned: Vec<Option<Vec<u8>>>,
}

/// A connection of its own for the thread that beats: it does not wait for the runtime.
pub(crate) struct LeaseKeeper {
    target: Arc<Target>,
    longest: Duration,
    connection: Option<redis::Connection>,
}

impl LeaseKeeper {
    /// Renews the worker's lease on one queue, and the live keys of `slots` (at most 1000). Connects when it is
    /// not connected; after an error it connects anew.
    pub(crate) fn beat(
        &mut self,
        keys: &QueueKeys,
        worker_key: &str,
        worker: &str,
        lease: Duration,
        info: &[u8],
        slots: &[&str],
    ) -> Result<(), BrokerError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.target.connect_blocking(self.longest)?,
        };
        let mut script_keys = vec![worker_key, &keys.workers];
        script_keys.extend_from_slice(slots);
        let mut command = script::BEAT.command(&script_keys, 3, info.len() + worker.len() + 24);
        command.arg(milliseconds(lease)).arg(worker).arg(info);
        script::BEAT.run_blocking(&mut connection, &command)?;
        self.connection = Some(connection);
        Ok(())
    }
}

impl Broker {
    /// The means to beat from a thread. A beat takes no longer than about `longest`, so that one which gets no answer
    /// leaves time for others.
    pub(crate) fn lease_keeper(&self, longest: Duration) -> LeaseKeeper {
        LeaseKeeper { target: Arc::clone(&self.target), longest, connection: None }
    }

    /// Ends the worker's lease on one queue, and the live keys of `slots` (at most 1000).
    pub(crate) async fn resign(
        &self,
        keys: &QueueKeys,
        worker_key: &str,
        worker: &str,
        slots: &[&str],
    ) -> Result<(), BrokerError> {
        let mut script_keys = vec![worker_key, &keys.workers];
        script_keys.extend_from_slice(slots);
        let mut command = script::RESIGN.command(&script_keys, 1, worker.len());
        command.arg(worker);
        script::RESIGN.run(&mut self.commands.clone(), &command).await.map(drop)
    }

    /// Finds out what became of calls whose replies were lost, and refuses those still on their way.
    pub(crate) async fn reconcile(
        &self,
        keys: &QueueKeys,
        worker_key: &str,
        seq: u64,
        lease: Duration,
        wire_ids: &[&str],
    ) -> Result<Reconciled, BrokerError> {
        let bytes = wire_ids.iter().map(|id| id.len()).sum::<usize>() + 32;
        let mut command =
            script::RECONCILE.command(&[&keys.processing, worker_key], wire_ids.len() + 2, bytes);
        command.arg(seq).arg(milliseconds(lease));
        for id in wire_ids {
            command.arg(*id);
        }
        let reply = script::RECONCILE.run(&mut self.commands.clone(), &command).await?;
        let Value::Array(reply) = reply else { return Err(script::RECONCILE.unexpected(&reply)) };
        let mut values = reply.into_iter();
        let Some(Value::Int(applied)) = values.next() else {
            return Err(script::RECONCILE.unexpected(&Value::Nil));
        };
        let mut owned = Vec::with_capacity(wire_ids.len());
        for value in values {
            owned.push(match value {
                Value::BulkString(message) => Some(message),
                Value::Nil => None,
                other => return Err(script::RECONCILE.unexpected(&other)),
            });
        }
        owned.resize(wire_ids.len(), None);
        Ok(Reconciled { applied: u64::try_from(applied).ok(), owned })
    }
}
