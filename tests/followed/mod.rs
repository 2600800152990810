//! Calls that are followed: their records and results, unique calls, and cancellation.

#[path = "../programs/followed.rs"]
pub(crate) mod tasks;

mod cancels;
mod example;
mod faults;
mod finished;
mod inspected;
mod overflow;
mod python;
mod races;
mod records;
mod rights;
mod unique;
mod wrong_types;

use std::time::Duration;

use delayed::{CallState, Client, Handle};
use tokio::runtime::Runtime;

use crate::support::trial::{PATIENCE, Trial};
use crate::support::wait;

/// A Redis, a client of it, and a runtime to await in.
struct Site {
    trial: Trial,
    client: Client,
    runtime: Runtime,
}

impl Site {
    fn new() -> Self {
        let trial = Trial::new();
        let runtime = Runtime::new().unwrap();
        let client = runtime.block_on(Client::connect(&trial.server.url())).unwrap();
        Self { trial, client, runtime }
    }

    fn enqueue<C: delayed::IntoCall>(&self, call: C) -> Handle<C::Output> {
        self.try_enqueue(call).unwrap()
    }

    fn try_enqueue<C: delayed::IntoCall>(&self, call: C) -> Result<Handle<C::Output>, delayed::Error> {
        self.runtime.block_on(self.client.enqueue(call))
    }

    fn wait<R: serde::de::DeserializeOwned>(&self, handle: &Handle<R>) -> Result<R, delayed::WaitError> {
        self.runtime.block_on(handle.wait(PATIENCE))
    }

    fn state<R>(&self, handle: &Handle<R>) -> Option<CallState> {
        self.runtime.block_on(handle.state()).unwrap()
    }

    fn wait_state<R>(&self, handle: &Handle<R>, state: CallState) {
        wait::until_ok(PATIENCE, || match self.state(handle) {
            Some(found) if found == state => Ok(()),
            found => Err(format!("the call to be {state}, not {found:?}")),
        });
    }

    /// Waits until somebody listens to the end of a call.
    fn wait_for_waiters(&mut self, count: usize) {
        wait::until("somebody to wait for the call", PATIENCE, || {
            let channels: Vec<String> =
                redis::cmd("PUBSUB").arg(&["CHANNELS", "q:c:*"]).query(&mut self.trial.redis).unwrap();
            channels.len() == count
        });
    }
}

const NOT_LONG: Duration = Duration::from_millis(50);
