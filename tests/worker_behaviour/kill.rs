//! A run that is ended by hand: that one and no other, for good, and whoever asks hears what became of it.

use std::time::Duration;

use delayed::__private::protocol::encode::{Meta, native};
use delayed::inspect::{Ending, KillError, Killed};
use delayed::{BrokerErrorKind, CallId, Inspector};
use nix::sys::signal::Signal;
use redis::Commands;
use serde_json::Value;

use crate::support::trial::{PATIENCE, QUEUE, Trial, at_gate, call, count, gated, open};
use crate::support::wait;

/// Gives an order and waits for what becomes of it.
fn kill_at(url: &str, id: &str) -> Result<Killed, KillError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { Inspector::connect(url).await?.kill(id, &[], "anna@home").await })
}

pub(super) fn kill(trial: &Trial, id: &str) -> Result<Killed, KillError> {
    kill_at(&trial.server.url(), id)
}

#[track_caller]
fn ending(trial: &Trial, id: &str) -> Ending {
    kill(trial, id).unwrap_or_else(|error| panic!("expected {id} to be ordered to end: {error}")).fate
}

/// A call with an id.
pub(super) fn with_id(path: &str, arguments: &Value, id: CallId) -> Vec<u8> {
    let payload = rmp_serde::to_vec(arguments).unwrap();
    native(path, &payload, &Meta { id: Some(id), ..Meta::default() })
}

/// The slot that owns a message with this text in it.
#[track_caller]
fn slot_of(trial: &mut Trial, text: &str) -> String {
    wait::until_some(&format!("a slot that owns {text}"), PATIENCE, || {
        let holds = |message: &[u8]| message.windows(text.len()).any(|part| part == text.as_bytes());
        trial.state().processing.into_iter().find(|(_, message)| holds(message)).map(|(slot, _)| slot)
    })
}

fn letter(trial: &mut Trial, number: usize, field: &str) -> String {
    String::from_utf8(trial.state().dead[number][field].clone()).unwrap()
}

#[test]
fn runs_are_killed_by_call_id_or_by_slot() {
    let mut trial = Trial::new();
    let mut workers = [trial.worker(&["--concurrency", "1"]), trial.worker(&["--concurrency", "1"])];
    let id = CallId::new();
    trial.push(&[with_id("trial.never", &"first".into(), id), call("trial.never", &["second".into()])]);
    trial.wait_runs(2);
    let first = slot_of(&mut trial, "first");
    let killed = kill(&trial, &id.to_string()).unwrap();
    assert_eq!((killed.fate, &killed.wire_id), (Ending::Killed, &first));
    assert_eq!((killed.by.as_str(), killed.queue.as_str()), ("anna@home", QUEUE));
    assert!(first.contains(&killed.worker) && killed.letter.is_some(), "{killed:?}");
    assert_eq!(killed.message.call_id, Some(id.to_string()));
    assert_eq!(
        (letter(&mut trial, 0, "reason"), letter(&mut trial, 0, "attempt")),
        ("killed".into(), "1".into())
    );
    assert_eq!(letter(&mut trial, 0, "detail"), "killed by anna@home");
    assert_eq!(trial.state().processing.len(), 1, "expected the other to run on");
    let second = slot_of(&mut trial, "second");
    assert_eq!(ending(&trial, &second), Ending::Killed);
    trial.wait_settled();
    let buried: u64 = workers.iter_mut().map(|worker| count(&trial.stop(worker), "buried")).sum();
    assert_eq!(buried, 2);
    trial.ledger.assert_each_once(["first", "second"]);
    trial.assert_only(&["q_dead"]);
}

#[test]
fn a_killed_run_frees_its_slot_and_is_not_retried() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--concurrency", "1"]);
    let id = CallId::new();
    let payload = rmp_serde::to_vec("stuck").unwrap();
    trial.push(&[
        native("trial.never", &payload, &Meta { id: Some(id), retry: Some(-1), ..Meta::default() }),
        call("trial.mark", &["next".into()]),
    ]);
    trial.wait_runs(1);
    assert_eq!(ending(&trial, &id.to_string()), Ending::Killed);
    trial.wait_runs(2);
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["stuck", "next"]);
    trial.assert_only(&["q_dead"]);
}

#[test]
fn a_slot_that_went_on_to_another_call_is_not_hit() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let mut worker = trial.worker(&["--concurrency", "1"]);
    let held = gated("held", &gate);
    trial.push(&[&held]);
    trial.wait_runs(1);
    let slot = slot_of(&mut trial, "held");
    let (worker_key, _) = slot.rsplit_once(':').unwrap();
    let (orders, told) = (format!("{worker_key}:kill"), format!("{slot}:told"));
    let seq: u64 = trial.redis.hget(worker_key, "seq").unwrap();
    let digest = sha1(&mut trial, &held);
    let other = sha1(&mut trial, b"another message");
    // As they stand when the slot moved on after the order: to other bytes, or to the same bytes once more.
    for (digest, seq) in [(&other, seq), (&digest, seq - 1)] {
        let () = trial.redis.hset(&orders, &slot, format!("{digest} {seq} anna@home")).unwrap();
        let said: String = wait::until_some("an answer", PATIENCE, || trial.redis.get(&told).unwrap());
        assert_eq!(said, format!("{digest} over"));
        let () = trial.redis.del(&told).unwrap();
        assert!(!trial.redis.exists::<_, bool>(&orders).unwrap(), "expected the order to be taken");
    }
    open(&gate);
    trial.wait_settled();
    assert_eq!(count(&trial.stop(&mut worker), "succeeded"), 1);
    trial.ledger.assert_each_once(["+held", "-held"]);
    trial.assert_only(&[]);
}

fn sha1(trial: &mut Trial, message: &[u8]) -> String {
    redis::Script::new("return redis.sha1hex(ARGV[1])").arg(message).invoke(&mut trial.redis).unwrap()
}

#[test]
fn a_function_that_blocks_goes_on_and_a_success_is_a_success() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let mut worker = trial.worker(&["--concurrency", "1"]);
    trial.push(&[at_gate("trial.gated_blocking", "held", &gate)]);
    trial.wait_runs(1);
    let slot = slot_of(&mut trial, "held");
    for _ in 0..2 {
        assert_eq!(ending(&trial, &slot), Ending::Blocks);
        assert_eq!(trial.state().processing.len(), 1, "expected it to keep its slot");
    }
    open(&gate);
    trial.wait_settled();
    let said: String = wait::until_some("the last answer", PATIENCE, || {
        let said: String = trial.redis.get(format!("{slot}:told")).unwrap();
        said.ends_with(" succeeded").then_some(said)
    });
    println!("{said}");
    assert_eq!(count(&trial.stop(&mut worker), "succeeded"), 1);
    trial.ledger.assert_each_once(["+held", "-held"]);
    trial.assert_only(&[]);
}

#[test]
fn a_function_that_blocks_and_fails_in_the_end_was_killed() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let mut worker = trial.worker(&["--concurrency", "1"]);
    trial.push(&[at_gate("trial.gated_failing", "held", &gate)]);
    trial.wait_runs(1);
    let slot = slot_of(&mut trial, "held");
    assert_eq!(ending(&trial, &slot), Ending::Blocks);
    open(&gate);
    trial.wait_settled();
    assert_eq!(letter(&mut trial, 0, "detail"), "killed by anna@home");
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "buried"), count(&stopped, "retried")), (1, 0), "{stopped}");
    trial.ledger.assert_each_once(["+held", "-held"]);
    trial.assert_only(&["q_dead"]);
}

#[test]
fn what_takes_its_context_is_asked_and_has_its_grace() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--lease", "1s"]);
    let tasks = ["trial.obedient", "trial.obedient_blocking", "trial.deaf"];
    for task in tasks {
        trial.push(&[call(task, &[task.into()])]);
        let slot = slot_of(&mut trial, task);
        assert_eq!(ending(&trial, &slot), Ending::Killed, "{task}");
    }
    trial.wait_settled();
    for number in 0..tasks.len() {
        assert_eq!(letter(&mut trial, number, "detail"), "killed by anna@home");
    }
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "buried"), count(&stopped, "retried")), (3, 0), "{stopped}");
    // Those that end by themselves are told by when.
    let ended = ["-trial.obedient true", "-trial.obedient_blocking", "-trial.deaf"].map(str::to_owned);
    trial.ledger.assert_each_once(tasks.map(|task| format!("+{task}")).into_iter().chain(ended));
    trial.assert_only(&["q_dead"]);
}

#[test]
fn an_asynchronous_run_that_comes_to_no_await_is_said_to_go_on() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let mut worker = trial.worker(&["--lease", "1s"]);
    trial.push(&[at_gate("trial.starve", "held", &gate)]);
    trial.wait_runs(1);
    let slot = slot_of(&mut trial, "held");
    assert_eq!(ending(&trial, &slot), Ending::Blocks);
    open(&gate);
    trial.wait_settled();
    assert_eq!(count(&trial.stop(&mut worker), "succeeded"), 1);
    trial.ledger.assert_each_once(["+held", "-held"]);
    trial.assert_only(&[]);
}

#[test]
fn what_was_told_to_end_is_not_put_back_when_its_worker_ends() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--concurrency", "2", "--shutdown", "100ms"]);
    trial.push(&[call("trial.never_blocking", &["held".into()]), call("trial.never", &["other".into()])]);
    trial.wait_runs(2);
    let slot = slot_of(&mut trial, "held");
    assert_eq!(ending(&trial, &slot), Ending::Blocks);
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "buried"), count(&stopped, "put_back")), (1, 1), "{stopped}");
    assert_eq!(letter(&mut trial, 0, "detail"), "killed by anna@home");
    trial.ledger.assert_each_once(["held", "other"]);
    trial.assert_only(&["q", "q_dead", "q_noti"]);
}

#[test]
fn an_order_that_no_beat_takes_expires_and_the_run_goes_on() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let mut worker = trial.worker(&["--lease", "1s"]);
    trial.push(&[gated("held", &gate)]);
    trial.wait_runs(1);
    let slot = slot_of(&mut trial, "held");
    worker.signal(Signal::SIGSTOP);
    // A beat that was on its way is not.
    wait::until("the lease to end", PATIENCE, || !trial.redis.exists::<_, bool>(&slot).unwrap());
    let () = trial.redis.set(&slot, "1").unwrap();
    // Nor is it silent for so long that its number is forgotten.
    let (worker_key, _) = slot.rsplit_once(':').unwrap();
    let () = trial.redis.persist(worker_key).unwrap();
    assert_eq!(ending(&trial, &slot), Ending::Late);
    assert!(!trial.redis.exists::<_, bool>(format!("{worker_key}:kill")).unwrap(), "expected no order");
    worker.signal(Signal::SIGCONT);
    open(&gate);
    trial.wait_settled();
    assert_eq!(count(&trial.stop(&mut worker), "succeeded"), 1);
    trial.ledger.assert_each_once(["+held", "-held"]);
    trial.assert_only(&[]);
}

#[test]
fn death_before_a_kill_request_is_obeyed_leaves_a_usual_call() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--lease", "1s"]);
    let id = CallId::new();
    trial.push(&[with_id("trial.never", &"held".into(), id)]);
    trial.wait_runs(1);
    worker.signal(Signal::SIGSTOP);
    let slot = slot_of(&mut trial, "held");
    let () = trial.redis.pset_ex(&slot, "1", 500).unwrap();
    let url = trial.server.url();
    let asked = std::thread::spawn(move || kill_at(&url, &id.to_string()));
    let (worker_key, _) = slot.rsplit_once(':').unwrap();
    let orders = format!("{worker_key}:kill");
    wait::until("the order", PATIENCE, || trial.redis.exists(&orders).unwrap());
    worker.kill9();
    assert_eq!(asked.join().unwrap().unwrap().fate, Ending::Lost);
    assert!(!trial.redis.exists::<_, bool>(&orders).unwrap(), "expected the order to be forgotten");
    let mut next = trial.worker(&["--lease", "1s"]);
    trial.wait_runs(2);
    assert_eq!(ending(&trial, &id.to_string()), Ending::Killed);
    trial.wait_settled();
    trial.stop(&mut next);
    trial.ledger.assert_each_at_least_once(["held"], 1);
    trial.assert_only(&["q_dead"]);
}

#[test]
fn what_cannot_be_ended_is_told_and_left_alone() {
    let mut trial = Trial::new();
    let (id, foreign) = (CallId::new(), CallId::new().to_string().replace('-', ""));
    // Python's and Go's workers, of which one has a name that could be a call's id.
    for name in ["4711", &foreign] {
        let () = trial.redis.hset("q_processing", name, b"\x92\xa1f\x91\x01").unwrap();
        let () = trial.redis.pset_ex(name, "1", 60_000).unwrap();
    }
    // One call in two slots, and one in the slot of a worker that is dead.
    let (twice, dead) = (CallId::new(), CallId::new());
    let slots = ["q:abcdefghijklmn27:0", "q:abcdefghijklmn27:1", "q:abcdefghijklmn27:2"];
    for (slot, id) in slots.iter().zip([twice, twice, dead]) {
        let () = trial.redis.hset("q_processing", slot, with_id("trial.never", &"x".into(), id)).unwrap();
    }
    trial.push(&[call("trial.mark", &["before".into()]), with_id("trial.never", &"waits".into(), id)]);
    let before = trial.state();
    let says = |id: &str, text: &str| {
        let error = kill(&trial, id).map(|killed| killed.fate).unwrap_err();
        assert!(error.to_string().contains(text), "expected {text:?} for {id:?}: {error}");
        error
    };
    assert!(matches!(says("4711", "Python or Go worker"), KillError::Foreign { .. }));
    assert!(matches!(says(&foreign, "stop that process"), KillError::Foreign { .. }));
    assert!(matches!(says(&twice.to_string(), slots[1]), KillError::Ambiguous { .. }));
    assert!(matches!(says(&dead.to_string(), "when it runs again"), KillError::DeadWorker { .. }));
    assert!(matches!(says(slots[2], "a sweep requeues"), KillError::DeadWorker { .. }));
    let waiting = says(&id.to_string(), "waits in q (`peek q --start 1");
    assert!(matches!(waiting, KillError::Waiting { position: 1, .. }));
    assert!(matches!(says(&CallId::new().to_string(), "no running call"), KillError::NotRunning { .. }));
    assert!(matches!(says("q:abcdefghijklmn27:9", "`workers` shows"), KillError::NotRunning { .. }));
    for wrong in ["", "x", "q:abc:0", "4712", "q:abcdefghijklmn27:kill"] {
        assert!(matches!(says(wrong, "neither the id of a call"), KillError::Malformed { .. }));
    }
    assert_eq!(trial.state(), before, "expected nothing to be written");
}

#[test]
fn keys_of_another_type_are_told() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&[]);
    let id = CallId::new();
    trial.push(&[with_id("trial.never", &"held".into(), id)]);
    trial.wait_runs(1);
    let slot = slot_of(&mut trial, "held");
    let (worker_key, _) = slot.rsplit_once(':').unwrap();
    let orders = format!("{worker_key}:kill");
    let () = trial.redis.set(&orders, "x").unwrap();
    let kind = |trial: &Trial| match kill(trial, &id.to_string()) {
        Err(KillError::Error(error)) => error.broker_kind(),
        other => panic!("expected an error of Redis: {other:?}"),
    };
    assert_eq!(kind(&trial), Some(BrokerErrorKind::WrongType));
    let () = trial.redis.del(&orders).unwrap();
    let () = trial.redis.rename("q_processing", "aside").unwrap();
    let () = trial.redis.set("q_processing", "x").unwrap();
    assert_eq!(kind(&trial), Some(BrokerErrorKind::WrongType));
    let () = trial.redis.rename("aside", "q_processing").unwrap();
    assert_eq!(ending(&trial, &slot), Ending::Killed);
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["held"]);
    trial.assert_only(&["q_dead"]);
}

#[test]
fn killed_run_whose_dead_letter_is_refused_is_put_back() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--concurrency", "1", "--lease", "1s"]);
    trial.push(&[call("trial.never", &["held".into()])]);
    trial.wait_runs(1);
    let (slot, url) = (slot_of(&mut trial, "held"), trial.server.url());
    let () = trial.redis.set("q_dead", "no stream").unwrap();
    let operator = std::thread::spawn(move || kill_at(&url, &slot).map(|killed| killed.fate));
    worker.wait_for_line("dead letters cannot be written");
    let stopped = trial.stop(&mut worker);
    assert_eq!(count(&stopped, "put_back"), 1, "{stopped}");
    assert_eq!(operator.join().unwrap().unwrap(), Ending::Lost);
    assert_eq!(trial.left(), (1, 0), "expected it to run again");
}

#[test]
fn a_full_redis_is_no_obstacle() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--lease", "1s"]);
    trial.push(&[call("trial.never", &["held".into()])]);
    trial.wait_runs(1);
    let slot = slot_of(&mut trial, "held");
    let mut limit = |bytes: u64| {
        redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).query::<()>(&mut trial.redis)
    };
    limit(1).unwrap();
    // The worker cannot answer: what became of it is seen by its dead letter.
    let killed = kill_at(&trial.server.url(), &slot).unwrap();
    limit(0).unwrap();
    assert_eq!((killed.fate, killed.letter.is_some()), (Ending::Killed, true));
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["held"]);
    trial.assert_only(&["q_dead"]);
}

#[test]
fn an_order_is_heard_within_a_beat() {
    let trial = &mut Trial::new();
    let mut worker = trial.worker(&["--lease", "1s", "--concurrency", "8"]);
    let mut longest = Duration::ZERO;
    for n in 0..4 {
        trial.push(&[call("trial.never", &[format!("run {n}").into()])]);
        let slot = slot_of(trial, &format!("run {n}"));
        let began = std::time::Instant::now();
        assert_eq!(ending(trial, &slot), Ending::Killed);
        longest = longest.max(began.elapsed());
    }
    println!("the longest of four took {longest:?}, a beat is 250 ms");
    trial.stop(&mut worker);
    trial.assert_only(&["q_dead"]);
}
