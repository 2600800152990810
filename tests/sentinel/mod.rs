//! Sentinels: clients and workers find the master, and the one that is elected when it fails.

use std::process::Command;
use std::time::{Duration, Instant};

use delayed::{BrokerErrorKind, Client, GoTask, Inspector};
use tokio::runtime::Runtime;

use crate::support::ledger::Ledger;
use crate::support::process::Program;
use crate::support::sentinel::{Logins, Watched};
use crate::support::trial::{PATIENCE, WORKER, count, mark, ready};
use crate::support::wait;

/// A watched master, and a ledger of what workers ran.
struct Site {
    directory: tempfile::TempDir,
    ledger: Ledger,
    watched: Watched,
    runtime: Runtime,
}

impl Site {
    fn new() -> Self {
        Self::with(&Logins::default())
    }

    fn with(logins: &Logins) -> Self {
        let directory = crate::support::directory();
        let ledger = Ledger::new(directory.path());
        Self { ledger, directory, watched: Watched::start(logins, None), runtime: Runtime::new().unwrap() }
    }

    fn start(&self, url: &str) -> Program {
        let mut command = Command::new(WORKER);
        command.current_dir(self.directory.path()).env("LEDGER", self.ledger.path());
        command.env("DELAYED_LOG_FORMAT", "json");
        Program::spawn(command.args(["worker", "--queue", "q", "--redis", url]))
    }

    fn client(&self) -> Client {
        self.runtime.block_on(Client::connect(&self.watched.url())).unwrap()
    }

    /// Enqueues calls, one after the other, each until it is certain to be there.
    fn enqueue(&self, client: &Client, calls: std::ops::Range<usize>) {
        for n in calls {
            wait::until_ok(PATIENCE, || {
                let call = GoTask::new("trial.mark").arg(n.to_string()).queue("q");
                self.runtime.block_on(client.enqueue(call)).map(drop).map_err(|error| error.to_string())
            });
        }
    }

    #[track_caller]
    fn wait_runs(&self, count: usize) {
        wait::until_ok(PATIENCE, || match self.ledger.lines().len() {
            lines if lines >= count => Ok(()),
            lines => Err(format!("{count} lines in the ledger; there are {lines}")),
        });
    }
}

/// How long work may stand still after an election. The machine may be busy.
const SOON: Duration = Duration::from_secs(8);

#[test]
fn work_goes_on_when_the_master_was_killed_or_does_not_answer() {
    for is_killed in [true, false] {
        let mut site = Site::new();
        let mut worker = site.start(&site.watched.url());
        ready(&worker);
        let client = site.client();
        site.enqueue(&client, 0..20);
        site.wait_runs(20);
        if is_killed {
            site.watched.server_mut(0).kill();
        } else {
            site.watched.server(0).pause();
        }
        site.watched.wait_master(1);
        let elected = Instant::now();
        site.enqueue(&client, 20..21);
        site.wait_runs(21);
        let took = elected.elapsed();
        println!("a call ran {took:?} after the election");
        assert!(took < SOON, "expected work to go on soon, not after {took:?}");
        site.enqueue(&client, 21..40);
        site.wait_runs(40);
        let mut idle = site.watched.server(1).connection();
        let () = redis::pipe().rpush("q", mark(40)).rpush("q_noti", "1").query(&mut idle).unwrap();
        site.wait_runs(41);
        worker.signal(nix::sys::signal::Signal::SIGTERM);
        assert_eq!(worker.wait_exit(PATIENCE).code(), Some(0), "{}", worker.printed());
        let stopped = serde_json::from_str(&worker.wait_for_line("\"stopped\"")).unwrap();
        assert!(count(&stopped, "succeeded") >= 41, "{stopped}");
        site.ledger.assert_each_at_least_once(0..41, 20);
        if !is_killed {
            site.watched.server(0).resume();
        }
    }
}

#[test]
fn sentinel_that_names_the_old_master_misleads_nobody() {
    let mut site = Site::new();
    // The old master comes back as a replica, and two Sentinels know.
    site.watched.server_mut(0).kill();
    site.watched.wait_master(1);
    site.watched.server_mut(0).restart();
    site.watched.mislead(0);
    for _ in 0..5 {
        let client = site.client();
        let inspector = site.runtime.block_on(Inspector::connect(&site.watched.url())).unwrap();
        site.runtime.block_on(client.enqueue(GoTask::new("a").queue("q"))).unwrap();
        site.runtime.block_on(inspector.queues()).unwrap();
    }
    let waiting: u64 = redis::cmd("LLEN").arg("q").query(&mut site.watched.server(1).connection()).unwrap();
    assert_eq!(waiting, 5);
}

#[test]
fn sentinels_and_servers_have_logins_of_their_own() {
    let site = Site::with(&Logins { servers: Some("of-servers"), sentinels: Some("of-sentinels") });
    let url = site.watched.url_with(":of-servers@", "?sentinel_password=of-sentinels");
    let client = Client::connect_blocking(&url).unwrap();
    client.enqueue_blocking(GoTask::new("a").queue("q")).unwrap();
    for (login, query, advice) in [
        (":of-servers@", "", "add sentinel_user and sentinel_password"),
        (":of-servers@", "?sentinel_password=wrong", "Sentinel"),
        ("", "?sentinel_password=of-sentinels", "password"),
    ] {
        let error = Client::connect_blocking(&site.watched.url_with(login, query)).unwrap_err();
        assert_eq!(error.broker_kind(), Some(BrokerErrorKind::Denied), "{query}: {error}");
        let text = error.to_string();
        assert!(text.contains(advice) && !text.contains("of-servers"), "{query}: {text}");
    }
}

#[test]
fn wrong_kind_of_address_is_refused_with_the_right_one() {
    let site = Site::new();
    let plain = Client::connect_blocking(&site.watched.plain_url()).unwrap_err();
    assert_eq!(plain.broker_kind(), Some(BrokerErrorKind::Address), "{plain}");
    assert!(plain.to_string().contains("redis-sentinel://"), "{plain}");
    let server = site.watched.server(0).port();
    let watched =
        Client::connect_blocking(&format!("redis-sentinel://127.0.0.1:{server}/mymaster")).unwrap_err();
    assert_eq!(watched.broker_kind(), Some(BrokerErrorKind::Address), "{watched}");
    assert!(watched.to_string().contains("is no Sentinel: use redis://"), "{watched}");
    let other = site.watched.url().replace("mymaster", "other");
    let unknown = Client::connect_blocking(&other).unwrap_err();
    assert!(unknown.to_string().contains("no master of the name `other`"), "{unknown}");
}

#[test]
fn call_that_too_few_replicas_have_is_not_certain() {
    let mut site = Site::new();
    let mut config = delayed::config::Config::default();
    config.redis.url = site.watched.url();
    config.redis.timeout = Duration::from_millis(500);
    config.client.durability = "replicas(1)".parse().unwrap();
    let client = site.runtime.block_on(Client::with_config(&config)).unwrap();
    let call = || GoTask::new("a").queue("q");
    site.runtime.block_on(client.enqueue(call())).unwrap();
    let replicated: u64 =
        redis::cmd("LLEN").arg("q").query(&mut site.watched.server(1).connection()).unwrap();
    assert_eq!(replicated, 1, "expected the replica to have it by then");

    site.watched.server_mut(1).kill();
    let error = site.runtime.block_on(client.enqueue(call())).unwrap_err();
    assert_eq!(error.broker_kind(), Some(BrokerErrorKind::Uncertain), "{error}");
    assert!(error.may_have_been_applied(), "{error}");
    assert!(error.to_string().contains("0 of 1 replicas have confirmed"), "{error}");
    let waiting: u64 = redis::cmd("LLEN").arg("q").query(&mut site.watched.server(0).connection()).unwrap();
    assert_eq!(waiting, 2, "expected it to be there, as the error says");
}
