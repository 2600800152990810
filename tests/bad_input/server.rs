//! A Redis that does not let us: a password, a replica, no memory, still loading.

use redis::Commands;

use delayed::{BrokerErrorKind, Client, GoTask};

use crate::support::redis::{Options, TestRedis};
use crate::support::trial::{PATIENCE, QUEUE, Trial, count, gated, mark, marks, open};
use crate::support::wait;

fn set(redis: &mut redis::Connection, name: &str, value: &str) {
    let () = redis::cmd("CONFIG").arg("SET").arg(name).arg(value).query(redis).unwrap();
}

#[test]
fn a_password_is_asked_for_and_a_wrong_one_is_told() {
    let mut trial = Trial::with(Options { password: Some("secret"), ..Options::default() });
    let socket = trial.server.socket();
    for url in [format!("unix://{}", socket.display()), format!("unix://{}?pass=wrong", socket.display())] {
        let mut worker = trial.start_at(&url, &["--queue", QUEUE]);
        assert_eq!(worker.wait_exit(PATIENCE).code(), Some(4), "{}", worker.printed());
        let line = worker.wait_for_line("error: ");
        assert!(line.contains("password"), "expected advice: {line}");
        assert!(!worker.printed().contains("wrong"), "expected no password in {}", worker.printed());
        let error = Client::connect_blocking(&url).unwrap_err();
        assert_eq!(error.broker_kind(), Some(BrokerErrorKind::Denied), "{error}");
    }
    let mut worker = trial.worker(&[]);
    assert!(!worker.printed().contains("secret"), "expected no password in {}", worker.printed());
    trial.push(&marks(3));
    trial.wait_runs(3);
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(0..3);
    trial.assert_only(&[]);
}

#[test]
fn a_replica_is_refused_at_the_start() {
    let trial = Trial::new();
    let replica = TestRedis::with(Options {
        extra: ["--replicaof", "127.0.0.1", "1"].map(Into::into).into(),
        ..Options::default()
    });
    let mut worker = trial.start_at(&replica.url(), &["--queue", QUEUE]);
    assert_eq!(worker.wait_exit(PATIENCE).code(), Some(4), "{}", worker.printed());
    let line = worker.wait_for_line("error: ");
    assert!(line.contains("rejects writes"), "expected advice: {line}");
    let client = Client::connect_blocking(&replica.url()).unwrap();
    let error = client.enqueue_blocking(GoTask::new("a").queue(QUEUE)).unwrap_err();
    assert_eq!(error.broker_kind(), Some(BrokerErrorKind::ReadOnly), "{error}");
    assert!(!error.may_have_been_applied(), "{error}");
}

#[test]
fn a_master_that_becomes_a_replica_for_a_while_loses_nothing() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--concurrency", "4", "--lease", "2s"]);
    let gate = trial.gate("gate");
    let held: Vec<Vec<u8>> = (0..4).map(|n| gated(n, &gate)).collect();
    trial.push(&held);
    trial.push(&marks(20));
    trial.wait_runs(4);
    let () = redis::cmd("REPLICAOF").arg("127.0.0.1").arg(1).query(&mut trial.redis).unwrap();
    open(&gate);
    worker.wait_for_line("rejects writes");
    let () = redis::cmd("REPLICAOF").arg("NO").arg("ONE").query(&mut trial.redis).unwrap();
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (24, 0), "{stopped}");
    let both = |n: usize| [format!("+{n}"), format!("-{n}")];
    trial.ledger.assert_each_once((0..4).flat_map(both).chain((0..20).map(|n| n.to_string())));
    trial.assert_only(&[]);
}

#[test]
fn a_full_redis_refuses_calls_and_is_drained() {
    let mut trial = Trial::new();
    let client = Client::connect_blocking(&trial.server.url()).unwrap();
    client.enqueue_blocking(GoTask::new("trial.mark").arg("first").queue(QUEUE)).unwrap();
    let mut worker = trial.worker(&[]);
    trial.wait_runs(1);
    set(&mut trial.redis, "maxmemory-policy", "noeviction");
    trial.wait_settled();
    // Pushed in one go, so that there is something to drain when it is full.
    let mut pipe = redis::pipe();
    pipe.atomic();
    for message in &marks(500) {
        pipe.rpush(QUEUE, message).ignore().rpush("q_noti", "1").ignore();
    }
    pipe.cmd("CONFIG").arg("SET").arg("maxmemory").arg("1").ignore();
    let () = pipe.query(&mut trial.redis).unwrap();

    let error = client.enqueue_blocking(GoTask::new("trial.mark").arg("refused").queue(QUEUE)).unwrap_err();
    assert_eq!(error.broker_kind(), Some(BrokerErrorKind::Full), "{error}");
    assert!(!error.may_have_been_applied() && error.is_retryable(), "{error}");
    let bulk = client.enqueue_many_blocking((0..3).map(|n| GoTask::new("trial.mark").arg(n).queue(QUEUE)));
    let bulk = bulk.unwrap_err();
    assert_eq!(bulk.fates(), [delayed::Fate::NotApplied; 3], "{bulk}");

    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (501, 0), "{stopped}");
    trial.ledger.assert_each_once((0..500).map(|n| n.to_string()).chain(["first".to_owned()]));
    trial.assert_only(&[]);
}

#[test]
fn a_redis_that_is_loading_is_waited_for() {
    // Each command that it reads again takes a while.
    let mut trial = Trial::with(Options {
        append_only: true,
        extra: ["--key-load-delay", "300"].map(Into::into).into(),
        ..Options::default()
    });
    for n in 0..6_000 {
        redis::cmd("SET").arg("fill").arg(n).query::<()>(&mut trial.redis).unwrap();
    }
    let () = trial.redis.del("fill").unwrap();
    let mut worker = trial.worker(&["--concurrency", "2", "--log-level", "info,delayed=debug"]);
    let gate = trial.gate("gate");
    let held = |n: u32| gated(n, &gate);
    trial.push(&[held(0), held(1), mark("behind")]);
    trial.wait_runs(2);
    let client = Client::connect_blocking(&trial.server.url()).unwrap();
    client.enqueue_blocking(GoTask::new("trial.mark").arg("before").queue(QUEUE)).unwrap();
    trial.server.kill();
    open(&gate);
    let asking = std::thread::spawn(move || {
        client.enqueue_blocking(GoTask::new("trial.mark").arg("meanwhile").queue(QUEUE))
    });
    trial.server.restart();
    trial.redis = trial.server.connection();
    assert!(
        worker.printed().contains("not ready yet"),
        "expected Redis to have loaded: {}",
        worker.printed()
    );
    let applied = asking.join().unwrap();
    wait::until("the worker to be back", PATIENCE, || worker.printed().contains("requests succeed again"));
    trial.wait_settled();
    let mut names = vec!["+0", "-0", "+1", "-1", "behind", "before"];
    match applied {
        Ok(_) => names.push("meanwhile"),
        // The connection broke while it was under way.
        Err(error) => assert!(error.may_have_been_applied(), "{error}"),
    }
    let stopped = trial.stop(&mut worker);
    assert_eq!(count(&stopped, "lost"), 0, "{stopped}");
    trial.ledger.assert_each_once(names);
    trial.assert_only(&[]);
}
