//! Calls that are collected, and run together as one batch.

#[path = "../programs/batches.rs"]
pub(crate) mod tasks;

mod faults;
mod fills;
mod items;
mod operated;
mod python;

use delayed::{Client, IntoCall};
use redis::Commands;
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

    fn enqueue<C: IntoCall>(&self, calls: impl IntoIterator<Item = C>) {
        self.runtime.block_on(self.client.enqueue_many(calls)).unwrap();
    }

    fn enqueue_one(&self, call: impl IntoCall) {
        self.runtime.block_on(self.client.enqueue(call)).map(drop).unwrap();
    }

    /// The items of each message that waits.
    fn waiting(&mut self) -> Vec<Vec<String>> {
        let messages = self.trial.state().waiting;
        messages.iter().map(|message| items_of(message)).collect()
    }

    /// How many items a filling batch has.
    fn filling(&mut self, name: &str) -> usize {
        let length: usize = self.trial.redis.llen(format!("q:g:{name}")).unwrap();
        length.saturating_sub(1)
    }

    /// Waits until nothing fills, waits, is due or runs.
    #[track_caller]
    fn wait_done(&mut self) {
        // In one script, because a call that is retried moves between these keys.
        let left = "return redis.call('ZCARD', 'q_due') + redis.call('LLEN', 'q') + redis.call('HLEN', 'q_processing')";
        let left = redis::Script::new(left);
        wait::until("nothing to be left", PATIENCE, || {
            left.prepare_invoke().invoke::<u64>(&mut self.trial.redis).unwrap() == 0
        });
    }
}

/// The items of a message of ours or of Go: `[path, bin [item, …], …]`.
fn items_of(message: &[u8]) -> Vec<String> {
    let message: rmpv::Value = rmpv::decode::read_value(&mut &message[..]).unwrap();
    rmp_serde::from_slice(message[1].as_slice().unwrap()).unwrap()
}

fn texts<T: ToString>(items: impl IntoIterator<Item = T>) -> Vec<String> {
    items.into_iter().map(|item| item.to_string()).collect()
}
