//! Redis refuses for a while, or somebody else has become the master: who is connected goes on when that is over.

use std::os::unix::fs::symlink;

use delayed::{BrokerErrorKind, Client, GoTask};
use tokio::runtime::Runtime;

use crate::support::redis::{Options, TestRedis, snapshot};
use crate::support::trial::{PATIENCE, QUEUE, Trial, count};
use crate::support::wait;

/// A client, and the runtime that it needs.
struct Producer {
    client: Client,
    runtime: Runtime,
}

impl Producer {
    fn connect(url: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let client = runtime.block_on(Client::connect(url)).unwrap();
        Self { client, runtime }
    }

    fn mark(&self, n: u32) -> Result<(), Option<BrokerErrorKind>> {
        let call = GoTask::new("trial.mark").arg(n.to_string()).queue(QUEUE);
        self.runtime.block_on(self.client.enqueue(call)).map(drop).map_err(|error| error.broker_kind())
    }
}

#[test]
fn a_password_that_was_refused_for_a_while_is_taken_again() {
    let mut trial = Trial::with(Options { password: Some("secret"), ..Options::default() });
    let mut worker = trial.worker(&["--lease", "60s"]);
    let producer = Producer::connect(&trial.server.url());
    producer.mark(0).unwrap();
    trial.wait_runs(1);
    trial.wait_settled();
    let change = |trial: &mut Trial, password: &str| {
        redis::cmd("CONFIG").arg("SET").arg("requirepass").arg(password).exec(&mut trial.redis).unwrap();
    };
    change(&mut trial, "another");
    let mut cut = redis::cmd("CLIENT");
    let () = cut.arg("KILL").arg("SKIPME").arg("yes").query(&mut trial.redis).unwrap();
    worker.wait_for_line("rejected the ");
    wait::until("a client that is refused", PATIENCE, || {
        producer.mark(0).is_err_and(|kind| kind == Some(BrokerErrorKind::Denied))
    });
    change(&mut trial, "secret");
    // None of it is sent before it is taken.
    wait::until("a client that is let in", PATIENCE, || producer.mark(1).is_ok());
    trial.wait_runs(2);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (2, 0), "{stopped}");
    trial.ledger.assert_each_once(["0", "1"]);
}

/// The address stays, and leads to another server; the old one lives on as a replica and keeps its connections.
#[test]
fn a_master_that_was_demoted_is_left_for_the_new_one() {
    let mut trial = Trial::new();
    let new_master = TestRedis::start();
    let address = trial.server.directory().join("master");
    symlink(trial.server.socket(), &address).unwrap();
    let url = format!("unix://{}", address.display());
    let mut worker = trial.worker_at(&url, &["--lease", "60s"]);
    let producer = Producer::connect(&url);
    producer.mark(0).unwrap();
    trial.wait_runs(1);
    trial.wait_settled();

    std::fs::remove_file(&address).unwrap();
    symlink(new_master.socket(), &address).unwrap();
    // Nobody is there.
    redis::cmd("REPLICAOF").arg("127.0.0.1").arg(1).exec(&mut trial.redis).unwrap();
    wait::until("the new master to take a call", PATIENCE, || match producer.mark(1) {
        Ok(()) => true,
        Err(kind) => {
            assert_eq!(kind, Some(BrokerErrorKind::ReadOnly));
            false
        }
    });
    trial.wait_runs(2);
    trial.redis = new_master.connection();
    wait::until_ok(PATIENCE, || {
        let state = snapshot(&mut trial.redis, QUEUE);
        (state.processing.is_empty() && state.waiting.is_empty())
            .then_some(())
            .ok_or_else(|| format!("{state:#?}"))
    });
    let stopped = trial.stop(&mut worker);
    assert_eq!(count(&stopped, "succeeded"), 2, "{stopped}");
    trial.ledger.assert_each_once(["0", "1"]);
}
