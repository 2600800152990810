//! Reconcile: finds out what happened to calls whose replies were lost.

use std::time::Duration;

use bytes::Bytes;
use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::numbered::Transaction;
use crate::broker::script::{self, milliseconds};
use crate::broker::transitions::claim::read_places;
use crate::protocol::keys::QueueKeys;

/// Maximum number of slots in one call.
const MAX_RECONCILED: usize = 2000;

/// The arguments of `reconcile`: see `lua/reconcile.lua`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReconcileRequest<'a> {
    /// HASH of the worker.
    pub(crate) worker_key: &'a str,
    /// The number of this call, beyond any before.
    pub(crate) seq: u64,
    pub(crate) lease: Duration,
    /// The wire ids of the slots in question, at least one.
    pub(crate) wire_ids: &'a [&'a str],
}

/// The reply of `reconcile`.
#[derive(Debug)]
pub(crate) struct Reconciled {
    /// The number of the last call that was applied; `None` if Redis does not know.
    pub(crate) applied: Option<u64>,
    /// Which of the slots, from 0, own a suspect that must run alone.
    pub(crate) alone: Vec<usize>,
    /// Which of the slots, from 0, own a cancelled call.
    pub(crate) cancelled: Vec<usize>,
    /// What each slot owns now.
    pub(crate) owned: Vec<Option<Owned>>,
}

/// The message that a slot owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owned {
    Message(Bytes),
    /// A message of this many bytes that was not read.
    Unread(u64),
}

impl Broker {
    /// Finds out what happened to calls whose replies were lost, and makes Redis refuse those still in flight. Splits the
    /// request for many slots or large messages.
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
            all.cancelled.extend(more.cancelled.into_iter().map(|place| before + place));
            all.owned.extend(more.owned);
        }
        Ok(all)
    }

    /// Does the same without the messages, whose reply may be larger than the connection accepts.
    pub(crate) async fn reconcile_unread(
        &self,
        keys: &QueueKeys,
        ask: &ReconcileRequest<'_>,
    ) -> Result<Reconciled, BrokerError> {
        // No slot has this name. From then on, no call of this worker changes what its slots own.
        let nothing = ReconcileRequest { wire_ids: &[ask.worker_key], ..*ask };
        let Reconciled { applied, .. } = self.reconcile_some(keys, &nothing).await?;
        let length = |id: &&str| redis::cmd("HSTRLEN").arg(&keys.processing).arg(*id).to_owned();
        let lengths = Transaction::new(ask.wire_ids.iter().map(length));
        let lengths = self.commands.clone().transact(&lengths).await;
        let failed = |error| BrokerError::from_redis("reconcile", &error);
        let owned = lengths.map_err(failed)?.into_iter().map(|length| match length.extract_error() {
            Ok(Value::Int(0)) => Ok(None),
            Ok(Value::Int(length)) => Ok(Some(Owned::Unread(length.unsigned_abs()))),
            Ok(other) => Err(script::RECONCILE.unexpected(&other)),
            Err(error) => Err(failed(error)),
        });
        let owned = owned.collect::<Result<_, _>>()?;
        Ok(Reconciled { applied, alone: Vec::new(), cancelled: Vec::new(), owned })
    }

    /// Handles at least the first of these slots.
    async fn reconcile_some(
        &self,
        keys: &QueueKeys,
        ask: &ReconcileRequest<'_>,
    ) -> Result<Reconciled, BrokerError> {
        let ReconcileRequest { worker_key, seq, lease, wire_ids } = *ask;
        let wire_ids = &wire_ids[..wire_ids.len().min(MAX_RECONCILED)];
        let bytes = wire_ids.iter().map(|id| id.len()).sum::<usize>() + 32;
        let mut command = script::RECONCILE.command(
            &[&keys.processing, worker_key, &keys.deaths, &keys.cancelled],
            wire_ids.len() + 2,
            bytes,
        );
        command.arg(seq).arg(milliseconds(lease));
        for id in wire_ids {
            command.arg(*id);
        }
        let reply = script::RECONCILE.run(&mut self.commands.clone(), command).await?;
        let mut values = script::RECONCILE.array(reply)?.into_iter();
        let (Some(Value::Int(applied)), Some(alone), Some(cancelled)) =
            (values.next(), values.next(), values.next())
        else {
            return Err(script::RECONCILE.unexpected(&Value::Nil));
        };
        let alone = read_places(&script::RECONCILE, alone)?;
        let cancelled = read_places(&script::RECONCILE, cancelled)?;
        let mut owned = Vec::with_capacity(wire_ids.len());
        for value in values {
            owned.push(match value {
                Value::BulkString(message) => Some(Owned::Message(message.into())),
                Value::Nil => None,
                other => return Err(script::RECONCILE.unexpected(&other)),
            });
        }
        if owned.is_empty() {
            return Err(script::RECONCILE.unexpected(&Value::Nil));
        }
        Ok(Reconciled { applied: u64::try_from(applied).ok(), alone, cancelled, owned })
    }
}
