//! The example: a program with a `main` of its own has a client, a worker and a sweeper. And what such a program may do to its
//! worker.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use redis::Commands;
use tokio::sync::Semaphore;

use crate::support::example::example;
use crate::support::process::Program;
use crate::support::trial::{PATIENCE, Trial, call};
use crate::support::wait;

#[test]
fn a_program_of_its_own_runs_what_it_sends() {
    let trial = Trial::new();
    let program = example("embedded_worker");
    let mut command = trial.command(program.to_str().unwrap());
    let mut program = Program::spawn(command.arg(trial.server.url()));
    assert_eq!(program.wait_exit(PATIENCE).code(), Some(0), "{}", program.printed());
    program.wait_for_line("sent 100, succeeded 100, total 5050");
}

const LEASE: Duration = Duration::from_secs(2);

static GATE: Semaphore = Semaphore::const_new(0);

#[delayed::task(name = "embedded.gated")]
async fn gated() {
    let _ = GATE.acquire().await;
}

#[test]
fn call_picked_up_while_a_thread_is_blocked_keeps_its_lease() {
    let mut trial = Trial::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let registry = delayed::Registry::new().with::<gated>().unwrap();
    let worker =
        delayed::Worker::builder(&trial.server.url()).queue("q").lease(LEASE).sweep(false).registry(registry);
    let worker = runtime.block_on(worker.connect()).unwrap();
    let handle = worker.handle();
    let running = runtime.spawn(worker.run());
    wait::until("the worker to wait", PATIENCE, || {
        let clients: String = redis::cmd("INFO").arg("clients").query(&mut trial.redis).unwrap();
        clients.contains("blocked_clients:1\r")
    });

    // A timer ends on the thread that looks for events, and its task goes on there.
    let (release, released) = channel::<()>();
    let (hold, held) = channel();
    runtime.spawn(async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        hold.send(()).unwrap();
        let _ = released.recv();
    });
    held.recv_timeout(PATIENCE).unwrap();
    trial.push(&[call("embedded.gated", &[])]);
    let owner = wait::until_some("it to be picked up", PATIENCE, || {
        let owners: Vec<String> = trial.redis.hkeys("q_processing").unwrap();
        owners.into_iter().next()
    });
    // From now on it is the worker's to renew, which has not heard of it.
    let began = Instant::now();
    wait::until("its first lease to be over", PATIENCE, || {
        assert!(trial.redis.exists::<_, bool>(&owner).unwrap(), "it ended after {:?}", began.elapsed());
        began.elapsed() > LEASE * 3 / 2
    });
    GATE.add_permits(1);
    drop(release);
    trial.wait_settled();
    handle.stop();
    assert_eq!(runtime.block_on(running).unwrap().unwrap().stats.succeeded, 1);
    trial.assert_only(&[]);
}

static STUCK: Semaphore = Semaphore::const_new(0);
static STUCK_RUNS: AtomicUsize = AtomicUsize::new(0);

#[delayed::task(name = "embedded.stuck")]
fn stuck() {
    STUCK_RUNS.fetch_add(1, Ordering::Relaxed);
    let _ = tokio::runtime::Handle::current().block_on(STUCK.acquire());
}

#[test]
fn worker_ends_while_endless_functions_hold_all_threads() {
    let mut trial = Trial::new();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).max_blocking_threads(1).enable_all().build().unwrap();
    let registry = delayed::Registry::new().with::<stuck>().unwrap();
    let worker =
        delayed::Worker::builder(&trial.server.url()).queue("q").shutdown(Duration::ZERO).registry(registry);
    let worker = runtime.block_on(worker.connect()).unwrap();
    let handle = worker.handle();
    let running = runtime.spawn(worker.run());
    trial.push(&[call("embedded.stuck", &[])]);
    wait::until("it to run", PATIENCE, || STUCK_RUNS.load(Ordering::Relaxed) == 1);
    handle.stop();
    let ended = runtime.block_on(async { tokio::time::timeout(PATIENCE, running).await });
    STUCK.add_permits(1);
    let stopped = ended.expect("expected it to end").unwrap().unwrap();
    assert_eq!(stopped.still_running, 1);
    assert_eq!(trial.left(), (1, 0), "expected it to be put back");
}

#[delayed::task(name = "embedded.quick")]
async fn quick() {}

/// A worker of that one task, which is connected and does not run yet.
fn connected(runtime: &tokio::runtime::Runtime, url: &str, queues: &[&str]) -> delayed::Worker {
    let registry = delayed::Registry::new().with::<quick>().unwrap();
    let worker = queues.iter().fold(delayed::Worker::builder(url), |worker, queue| worker.queue(queue));
    runtime.block_on(worker.registry(registry).connect()).unwrap()
}

#[test]
fn worker_whose_connections_were_closed_before_run_reconnects() {
    let mut trial = Trial::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let worker = connected(&runtime, &trial.server.url(), &["q"]);
    let closed = wait::until_some("both of its connections", PATIENCE, || {
        let clients: String = redis::cmd("CLIENT").arg("LIST").query(&mut trial.redis).unwrap();
        (clients.lines().count() == 3).then(|| {
            let mut kill = redis::cmd("CLIENT");
            kill.arg("KILL").arg("TYPE").arg("normal").query::<u64>(&mut trial.redis).unwrap()
        })
    });
    assert_eq!(closed, 2);

    let handle = worker.handle();
    let running = runtime.spawn(worker.run());
    trial.push(&[call("embedded.quick", &[])]);
    trial.wait_settled();
    handle.stop();
    assert_eq!(runtime.block_on(running).unwrap().unwrap().stats.succeeded, 1);
    trial.assert_only(&[]);
}

#[test]
fn a_worker_that_cannot_start_is_nowhere_listed() {
    let mut trial = Trial::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut user = redis::cmd("ACL");
    user.arg("SETUSER").arg("poor").arg(&["on", ">secret", "~*", "&*", "+@all", "-sadd"]);
    let () = user.query(&mut trial.redis).unwrap();
    let () = trial.redis.set("broken_workers", "no sorted set").unwrap();
    let poor = format!("{}?user=poor&pass=secret", trial.server.url());
    for (url, queues, kind) in [
        (&poor, &["q"][..], delayed::BrokerErrorKind::Denied),
        (&trial.server.url(), &["q", "broken"], delayed::BrokerErrorKind::WrongType),
    ] {
        let worker = connected(&runtime, url, queues);
        let id = worker.id().to_owned();
        let error = runtime.block_on(worker.run()).unwrap_err();
        assert_eq!(error.broker_kind(), Some(kind), "{error}");
        let fields: Vec<String> = trial.redis.hkeys(format!("q:{id}")).unwrap();
        assert_eq!(fields, ["seq"], "expected it to have resigned where it had begun");
        let listed: Vec<String> = trial.redis.zrange("q_workers", 0, -1).unwrap();
        assert!(listed.is_empty(), "{listed:?}");
    }
}
