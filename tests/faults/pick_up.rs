//! A pick-up that stands behind a wait: when it is lost, late or refused, and what it costs.

use std::time::{Duration, Instant};

use delayed::testing::{Fault, Mode, Requests, Side};
use nix::sys::signal::Signal;
use redis::Commands;

use super::waiting::{ALONE, Watched, ends_well, idle, next_wait, owned, stands_still};
use crate::support::trial::{PATIENCE, QUEUE, count, gated, mark, marks, open};
use crate::support::wait;

/// What a crash leaves between the two: Redis has moved the token, and has not run the pick-up.
fn in_hand() -> Watched {
    let mut trial = Watched::new();
    trial.push(&[mark("left")]);
    let mut token = redis::cmd("LMOVE");
    token.arg("q_noti").arg("q_hand").arg("LEFT").arg("RIGHT").exec(&mut trial.redis).unwrap();
    trial
}

#[test]
fn a_connection_that_is_cut_after_the_pick_up_was_run() {
    let mut trial = Watched::new();
    let mut worker = trial.worker(&ALONE);
    idle(&mut trial, 1);
    trial.proxy.set(Mode::Hold);
    trial.push(&[mark("claimed")]);
    wait::until("it to be owned", PATIENCE, || owned(&mut trial) == 1);
    trial.proxy.cut();
    trial.proxy.set(Mode::Pass);
    worker.wait_for_line("requests reconciled");
    ends_well(&mut trial, &mut worker, &["claimed"]);
}

#[test]
fn a_pick_up_that_does_not_arrive_behind_its_wait() {
    let mut trial = Watched::new();
    let trap = trial.proxy.trap(Side::Request, Requests::script("pick_up").nth(1), Fault::End);
    let mut worker = trial.worker(&ALONE);
    worker.wait_for_line("requests reconciled");
    assert_eq!(trap.struck(), 1, "expected it to be cut");
    idle(&mut trial, 1);
    trial.push(&marks(2));
    ends_well(&mut trial, &mut worker, &["0", "1"]);
}

#[test]
fn a_lone_message_takes_two_calls_of_scripts() {
    let mut trial = Watched::new();
    let mut worker = trial.worker(&ALONE);
    idle(&mut trial, 1);
    trial.commands();
    trial.push(&[mark("lone")]);
    trial.wait_settled();
    idle(&mut trial, 1);
    let commands = trial.commands();
    // It is picked up, and released: each asks for the number of the last call. The next pick-up stands behind the wait.
    assert_eq!(commands.get("hget"), Some(&2), "{commands:?}");
    ends_well(&mut trial, &mut worker, &["lone"]);
}

#[test]
fn a_pick_up_that_is_stale_takes_nothing_and_its_token_is_used() {
    let mut trial = Watched::new();
    let mut worker = trial.worker(&ALONE);
    idle(&mut trial, 1);
    let keys: Vec<String> = trial.redis.keys("q:*").unwrap();
    let hash = keys.iter().find(|key| key.matches(':').count() == 1).expect("the worker has a hash");
    // As if the call before it had not been applied.
    let () = redis::cmd("HINCRBY").arg(hash).arg("seq").arg(-1).query(&mut trial.redis).unwrap();
    let (held, waits) = (next_wait(&trial, 1, Fault::Hold), next_wait(&trial, u32::MAX, Fault::Drop));
    trial.push(&[mark("stale")]);
    worker.wait_for_line("requests reconciled");
    trial.wait_runs(1);
    assert!(waits.met() <= 1, "expected its token to be used at once, and not found behind another wait");
    held.release();
    idle(&mut trial, 1);
    ends_well(&mut trial, &mut worker, &["stale"]);
}

#[test]
fn refused_pick_up_keeps_neither_its_token_nor_its_slot() {
    const SLOTS: usize = 4;
    let mut trial = Watched::new();
    let mut worker = trial.worker(&[&ALONE[..], &["--prefetch", "0"]].concat());
    idle(&mut trial, 1);
    let again = trial.proxy.trap(Side::Request, Requests::script("pick_up").nth(u32::MAX), Fault::Drop);
    let () = trial.redis.set("q_processing", "no hash").unwrap();
    let gate = trial.gate("gate");
    trial.push(&(0..SLOTS).map(|n| gated(n, &gate)).collect::<Vec<_>>());
    worker.wait_for_line("has the wrong type");
    let () = trial.redis.del("q_processing").unwrap();
    // As many as there are slots, at a time.
    trial.wait_runs(SLOTS);
    assert_eq!(again.met(), 0, "expected its token to be used at once, and not found behind another wait");
    open(&gate);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (SLOTS as u64, 0), "{stopped}");
    trial.assert_only(&[]);
}

#[test]
fn message_of_a_worker_killed_after_its_pick_up_is_requeued() {
    let mut trial = Watched::new();
    let words = ["--lease", "1s", "--concurrency", "4"];
    let mut first = trial.worker(&words);
    idle(&mut trial, 1);
    // It stands still, and Redis runs its pick-up all the same.
    first.signal(Signal::SIGSTOP);
    wait::until("all threads to stand still", PATIENCE, || stands_still(&first));
    trial.push(&[mark("taken")]);
    wait::until("it to be owned", PATIENCE, || owned(&mut trial) == 1);
    assert_eq!((trial.state().tokens, trial.ledger.total()), (0, 0), "expected it to be taken and not run");
    first.kill9();
    let mut second = trial.worker(&words);
    ends_well(&mut trial, &mut second, &["taken"]);
}

#[test]
fn message_that_others_took_before_the_reply_came_is_not_run() {
    let mut trial = Watched::new();
    let _sweeper = trial.sweeper(&["--queue", QUEUE, "--interval", "50ms"]);
    let reply = trial.proxy.trap(Side::Reply, Requests::script("pick_up").nth(1), Fault::Hold);
    let mut worker = trial.worker(&["--no-sweep", "--lease", "4s", "--concurrency", "1"]);
    idle(&mut trial, 1);
    trial.push(&[mark("late")]);
    wait::until("it to be picked up", PATIENCE, || owned(&mut trial) == 1);
    // The proxy may get the reply a moment after Redis has sent it.
    wait::until("the reply to be held", PATIENCE, || reply.struck() == 1);
    // It beats all the while, but for nothing of which it knows.
    wait::until("its lease to end", PATIENCE, || trial.left() == (1, 0));
    assert_eq!(trial.ledger.total(), 0);
    reply.release();
    ends_well(&mut trial, &mut worker, &["late"]);
}

#[test]
fn token_without_a_pick_up_is_taken_from_the_hand_by_the_next() {
    let mut trial = in_hand();
    let mut worker = trial.worker(&ALONE);
    let began = Instant::now();
    ends_well(&mut trial, &mut worker, &["left"]);
    assert!(began.elapsed() < Duration::from_secs(20), "expected a wait, not a lease: {:?}", began.elapsed());
}

#[test]
fn token_without_a_pick_up_is_brought_back_by_a_sweeper() {
    let mut trial = in_hand();
    let mut sweeper = trial.sweeper(&["--queue", QUEUE, "--interval", "100ms"]);
    wait::until("the token to be back", PATIENCE, || {
        let state = trial.state();
        state.tokens == 1 && !state.keys.contains(&"q_hand".to_owned())
    });
    // One too many, which no message lacks, is dropped.
    let () = trial.redis.rpush("q_hand", "1").unwrap();
    wait::until("the hand to be empty", PATIENCE, || !trial.redis.exists::<_, bool>("q_hand").unwrap());
    sweeper.kill9();
    assert_eq!(trial.state().tokens, 1, "expected no token to be made");
    trial.assert_only(&["q", "q_noti"]);
}
