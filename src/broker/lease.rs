//! The keys of a worker's lease, and the connection over which a thread renews it.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};

use crate::broker::error::BrokerError;
use crate::broker::outage::Outage;
use crate::broker::script::Script;
use crate::broker::target::Target;
use crate::protocol::keys::QueueKeys;

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

/// A connection of its own for the thread that beats: it does not wait for the runtime.
pub(crate) struct LeaseKeeper {
    target: Arc<Target>,
    longest: Duration,
    connection: Option<redis::Connection>,
}

impl<'a> LeaseKeys<'a> {
    /// The keys of a script: those that each has, its `own`, and those of `slots`.
    pub(super) fn with(&self, own: &[&'a str], slots: &[&'a str]) -> Vec<&'a str> {
        [&[self.worker, &self.queue.workers, self.orders], own, slots].concat()
    }
}

impl LeaseKeeper {
    /// The means to beat from a thread. A beat may take as long as any request, until [`Self::hurry`].
    pub(crate) fn new(target: &Arc<Target>) -> Self {
        Self { target: Arc::clone(target), longest: target.timeout, connection: None }
    }

    /// The log of what fails at this Redis.
    pub(crate) fn outage(&self) -> &Outage {
        &self.target.outage
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

    /// Runs a call of a script. Connects when it is not connected; after an error it connects anew.
    pub(super) fn run(&mut self, script: &Script, command: &Cmd) -> Result<Value, BrokerError> {
        let mut connection = self.connected()?;
        let reply = script.run_blocking(&mut connection, command)?;
        self.connection = Some(connection);
        Ok(reply)
    }
}
