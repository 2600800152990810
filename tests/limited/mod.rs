//! Calls that name limits: how many run at a time, in which order, and how many begin in a period.

#[path = "../programs/limited.rs"]
pub(crate) mod tasks;

mod concurrency;
mod faults;
mod figures;
mod operated;
mod ordered;
mod python;
mod rate;
mod rights;

use delayed::{Client, Limit};
use tokio::runtime::Runtime;

use crate::support::trial::{PATIENCE, Trial};
use crate::support::wait;

/// What is left of a limit that nobody holds.
const KEYS: [&str; 3] = ["delayed_limits", "{delayed:few}:policy", "{delayed:few}:state"];

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

    fn set(&self, name: &str, limit: Limit) {
        self.runtime.block_on(self.client.set_limit(name, limit)).unwrap();
    }

    fn enqueue<C: delayed::IntoCall>(&self, calls: impl IntoIterator<Item = C>) {
        self.runtime.block_on(self.client.enqueue_many(calls)).unwrap();
    }

    fn len(&mut self, command: &str, key: &str) -> u64 {
        redis::cmd(command).arg(key).query(&mut self.trial.redis).unwrap()
    }

    /// Waits until so many messages of the queue are parked for a limit.
    #[track_caller]
    fn wait_parked(&mut self, limit: &str, count: u64) {
        wait::until_ok(PATIENCE, || match self.len("LLEN", &format!("q:l:{limit}")) {
            found if found == count => Ok(()),
            found => Err(format!("{count} calls to be parked, not {found}")),
        });
    }

    /// Nothing of the limit is held or waits.
    #[track_caller]
    fn assert_free(&mut self, limit: &str) {
        wait::until_ok(PATIENCE, || {
            let held = self.len("ZCARD", &format!("{{delayed:{limit}}}:holders"));
            let waiting = self.len("LLEN", &format!("{{delayed:{limit}}}:line"));
            let parked = self.len("LLEN", &format!("q:l:{limit}"));
            match (held, waiting, parked) {
                (0, 0, 0) => Ok(()),
                found => Err(format!("nobody to hold the limit or to wait for it, not {found:?}")),
            }
        });
    }
}

/// The most runs at a time, by `+n` and `-n` in the ledger.
fn most(lines: &[String]) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for line in lines {
        if line.starts_with('+') {
            now += 1
        } else {
            now = now.saturating_sub(1)
        }
        most = most.max(now);
    }
    most
}
