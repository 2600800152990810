//! Flows: chains and groups of calls, how they end, and what becomes of them when processes die.

#[path = "../programs/flows.rs"]
pub(crate) mod tasks;

mod cancels;
mod ends;
mod failures;
mod faults;
mod large;
mod operated;
mod periodic;
mod python;
mod refused;
mod results;

use delayed::{CallState, Client, FlowHandle, FlowTree, IntoFlow, WaitError};
use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;

use crate::support::process::Program;
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

    /// A worker of both queues, with more options.
    fn worker(&self, words: &[&str]) -> Program {
        self.trial.worker(&[&["--queue", "other"][..], words].concat())
    }

    fn enqueue<F: IntoFlow>(&self, flow: F) -> FlowHandle<F::Output> {
        self.runtime.block_on(self.client.enqueue_flow(flow)).unwrap()
    }

    #[track_caller]
    fn wait<R: DeserializeOwned>(&self, handle: &FlowHandle<R>) -> R {
        self.try_wait(handle).unwrap()
    }

    fn try_wait<R: DeserializeOwned>(&self, handle: &FlowHandle<R>) -> Result<R, WaitError> {
        self.runtime.block_on(handle.wait(PATIENCE))
    }

    #[track_caller]
    fn tree<R>(&self, handle: &FlowHandle<R>) -> FlowTree {
        self.runtime.block_on(handle.tree()).unwrap().expect("the flow is known")
    }

    #[track_caller]
    fn wait_state<R>(&self, handle: &FlowHandle<R>, state: CallState) {
        wait::until_ok(PATIENCE, || match self.runtime.block_on(handle.state()).unwrap() {
            Some(found) if found == state => Ok(()),
            found => Err(format!("the flow to be {state}, not {found:?}")),
        });
    }

    /// Waits until so many gated steps of a flow are cancelled.
    #[track_caller]
    fn wait_cancelled<R>(&self, handle: &FlowHandle<R>, count: usize) {
        wait::until_ok(PATIENCE, || {
            let tree = self.tree(handle).to_string();
            match tree.matches("flows.gated  cancelled").count() {
                found if found == count => Ok(()),
                _ => Err(format!("{count} steps to be cancelled:\n{tree}")),
            }
        });
    }

    /// Nothing is left to do for flows.
    #[track_caller]
    fn assert_done(&mut self) {
        wait::until_ok(PATIENCE, || {
            let left: Vec<u64> = ["q_outbox", "other_outbox"]
                .map(|key| redis::cmd("HLEN").arg(key).query(&mut self.trial.redis).unwrap())
                .to_vec();
            if left == [0, 0] { Ok(()) } else { Err(format!("the outboxes to be empty, not {left:?}")) }
        });
    }
}
