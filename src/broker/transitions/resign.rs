//! Resign: ends a worker's lease.

use std::time::Duration;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::lease::LeaseKeys;
use crate::broker::script::{self, milliseconds};

impl Broker {
    /// Ends the worker's lease on one queue, and the live keys of `slots` (at most 1000). For a while, Redis refuses calls
    /// that are still in flight.
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
}
