//! The keys of a worker's lease, and the connections over which a thread renews it.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, Value};
use tokio::runtime::{Builder, Runtime};

use crate::broker::commands::Commands;
use crate::broker::error::BrokerError;
use crate::broker::outage::Outage;
use crate::broker::script::Script;
use crate::broker::target::Target;
use crate::protocol::keys::QueueKeys;

/// How long a beat may take at least.
const LAST: Duration = Duration::from_millis(50);

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

/// The connections of the heartbeat thread. They have a runtime of their own, which tasks cannot keep busy.
pub(crate) struct LeaseKeeper {
    target: Arc<Target>,
    commands: Commands,
    longest: Duration,
    /// When the beats of this round are to be over.
    end: Instant,
    runtime: Runtime,
}

impl<'a> LeaseKeys<'a> {
    /// The keys of a script: the common ones, its `own`, and those of `slots`.
    pub(super) fn with(&self, own: &[&'a str], slots: &[&'a str]) -> Vec<&'a str> {
        [&[self.worker, &self.queue.workers, self.orders], own, slots].concat()
    }
}

impl LeaseKeeper {
    /// Creates it without connecting. A beat may take as long as any request, until [`Self::hurry`].
    ///
    /// # Errors
    /// The system gives no runtime.
    pub(crate) fn new(target: &Arc<Target>) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let commands = Commands::new(Arc::clone(target));
        Ok(Self {
            target: Arc::clone(target),
            commands,
            longest: target.timeout,
            end: Instant::now(),
            runtime,
        })
    }

    /// The log of failures at this Redis.
    pub(crate) fn outage(&self) -> &Outage {
        &self.target.outage
    }

    /// Limits later rounds to about `longest`, so that a beat without a reply leaves time for others.
    pub(crate) fn hurry(&mut self, longest: Duration) {
        self.longest = longest;
    }

    /// Connects ahead of the first beat, which retries if this fails.
    pub(crate) fn connect_ahead(&mut self) {
        let commands = self.commands.by(Some(Instant::now() + self.target.timeout));
        let _ = self.runtime.block_on(commands.connect());
    }

    /// Begins a round of beats.
    pub(crate) fn begin(&mut self) {
        self.end = Instant::now() + self.longest.min(self.target.timeout);
    }

    /// The address of the server with this key, as far as known.
    pub(crate) fn server_of(&self, key: &str) -> Option<String> {
        let cluster = self.target.cluster()?;
        Some(cluster.known(key.as_bytes())?.address().to_owned())
    }

    /// Runs a script call. Connects if necessary; reconnects after an error.
    pub(super) fn run(&mut self, script: &Script, command: Cmd) -> Result<Value, BrokerError> {
        // Also at the end of a round that a silent server has used up.
        let end = self.end.max(Instant::now() + LAST);
        let mut commands = self.commands.by(Some(end));
        self.runtime.block_on(script.run(&mut commands, command))
    }
}
