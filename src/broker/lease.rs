//! The keys of a worker's lease, and the connection over which a thread renews it.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use crate::broker::error::BrokerError;
use crate::broker::outage::Outage;
use crate::broker::script::Script;
use crate::broker::target::Target;
use crate::protocol::keys::QueueKeys;

/// The keys of a worker on one queue, and its identity.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseKeys<'a> {
    pub(crate) queue: &'a QueueKeys,
    /// HASH of the worker.
    pub(crate) worker: &'a str,
    /// HASH of its kill requests.
    pub(crate) orders: &'a str,
    pub(crate) worker_id: &'a str,
}

/// The connection of the heartbeat thread, which does not depend on the runtime.
pub(crate) struct LeaseKeeper {
    target: Arc<Target>,
    longest: Duration,
    connection: Option<redis::Connection>,
}

impl<'a> LeaseKeys<'a> {
    /// The keys of a script: the common ones, its `own`, and those of `slots`.
    pub(super) fn with(&self, own: &[&'a str], slots: &[&'a str]) -> Vec<&'a str> {
        [&[self.worker, &self.queue.workers, self.orders], own, slots].concat()
    }
}

impl LeaseKeeper {
    /// Creates it without connecting. A beat may take as long as any request, until [`Self::hurry`].
    pub(crate) fn new(target: &Arc<Target>) -> Self {
        Self { target: Arc::clone(target), longest: target.timeout, connection: None }
    }

    /// The log of failures at this Redis.
    pub(crate) fn outage(&self) -> &Outage {
        &self.target.outage
    }

    /// Limits later beats to about `longest`, so that a beat without a reply leaves time for others.
    pub(crate) fn hurry(&mut self, longest: Duration) {
        self.longest = longest;
        let longest = Some(longest.min(self.target.timeout));
        // A connection that rejects the new timeouts is replaced.
        self.connection.take_if(|connection| {
            connection.set_read_timeout(longest).and_then(|()| connection.set_write_timeout(longest)).is_err()
        });
    }

    /// Connects ahead of the first beat, which retries if this fails.
    pub(crate) fn connect_ahead(&mut self) {
        self.connection = self.connected().ok();
    }

    /// Takes its connection, or makes a new one.
    fn connected(&mut self) -> Result<redis::Connection, BrokerError> {
        match self.connection.take() {
            Some(connection) => Ok(connection),
            None => self.target.connect_blocking(self.longest),
        }
    }

    /// Runs a script call. Connects if necessary; reconnects after an error.
    pub(super) fn run(&mut self, script: &Script, command: &Cmd) -> Result<Value, BrokerError> {
        let mut connection = self.connected()?;
        let reply = script.run_blocking(&mut connection, command)?;
        self.connection = Some(connection);
        Ok(reply)
    }
}
