//! SIGTERM, SIGINT and SIGHUP let runs end; a second one does not; SIGUSR1 makes quiet, and SIGTSTP until SIGCONT.

use nix::sys::signal::Signal;
use redis::Commands;

use crate::support::trial::{PATIENCE, Trial, at_gate, call, count, marks, open};
use crate::support::wait;

fn held(trial: &Trial, task: &str, n: usize) -> Vec<u8> {
    at_gate(task, format!("h{n}"), &trial.gate("gate"))
}

/// The worker's wait for notifications has ended, so a token is left to others.
fn wait_for_no_wait(trial: &mut Trial) {
    wait::until("the wait to end", PATIENCE, || !waits(trial));
}

/// Whether a worker waits for a call. One that is quieted between two waits may have sent the next one already.
fn waits(trial: &mut Trial) -> bool {
    let clients: String = redis::cmd("CLIENT").arg("LIST").query(&mut trial.redis).unwrap();
    clients.lines().any(|l| l.contains("cmd=blmove") && l.contains("flags=b"))
}

#[test]
fn running_tasks_may_end_and_nothing_more_is_claimed() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let mut trial = Trial::new();
        let mut worker = trial.worker(&["--concurrency", "2"]);
        let calls = [held(&trial, "trial.gated", 0), held(&trial, "trial.gated_blocking", 1)];
        trial.push(&calls);
        trial.wait_runs(2);
        trial.push(&marks(3));
        worker.signal(signal);
        worker.wait_for_line("send the signal again to stop immediately");
        open(&trial.gate("gate"));
        let stopped = trial.ended(&mut worker);
        assert_eq!(
            (count(&stopped, "succeeded"), count(&stopped, "put_back")),
            (2, 0),
            "{signal}: {stopped}"
        );
        trial.ledger.assert_each_once(["+h0", "-h0", "+h1", "-h1"]);
        assert_eq!(trial.state().waiting, marks(3), "expected the others to wait still");
        trial.assert_only(&["q", "q_noti"]);
    }
}

#[test]
fn ended_worker_that_never_had_a_message_is_not_listed() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&[]);
    let listed = |trial: &mut Trial| trial.redis.zcard::<_, u64>("q_workers").unwrap();
    assert_eq!(listed(&mut trial), 1);
    trial.stop(&mut worker);
    assert_eq!(listed(&mut trial), 0, "expected it to have resigned");
}

#[test]
fn a_second_signal_puts_back_at_the_head_in_order() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--concurrency", "8"]);
    let calls: Vec<Vec<u8>> =
        (0..8).map(|n| held(&trial, ["trial.gated", "trial.gated_blocking"][n % 2], n)).collect();
    // One by one, so that there are several claims.
    for (n, call) in calls.iter().enumerate() {
        trial.push(&[call]);
        trial.wait_runs(n + 1);
    }
    trial.push(&marks(3));
    worker.signal(Signal::SIGTERM);
    worker.wait_for_line("send the signal again to stop immediately");
    let began = std::time::Instant::now();
    worker.signal(Signal::SIGINT);
    let stopped = trial.ended(&mut worker);
    println!("ended {:?} after the second signal", began.elapsed());
    assert!(began.elapsed().as_secs() < 5, "expected it to end at once, it took {:?}", began.elapsed());
    assert_eq!((count(&stopped, "put_back"), count(&stopped, "lost")), (8, 0), "{stopped}");
    let expected: Vec<Vec<u8>> = calls.into_iter().chain(marks(3)).collect();
    assert_eq!(trial.state().waiting, expected, "expected them at the head, in the order of their claims");
    trial.assert_only(&["q", "q_noti"]);
    // They run when the next worker comes: no attempt was used up.
    open(&trial.gate("gate"));
    let mut worker = trial.worker(&["--burst"]);
    trial.ended(&mut worker);
    let executions = trial.ledger.executions();
    assert!((0..8).all(|n| executions[&format!("-h{n}")] == 1), "{executions:?}");
    trial.assert_only(&[]);
}

#[test]
fn a_task_is_told_to_end_and_what_it_returns_is_not_an_attempt() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--shutdown", "100ms"]);
    let obedient = call("trial.obedient", &["o".into()]);
    trial.push(&[&obedient]);
    trial.wait_runs(1);
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["+o", "-o true"]);
    let state = trial.state();
    // It failed because it was told to end: it waits as it came, and no attempt was counted.
    assert_eq!((state.waiting, state.dead.len()), (vec![obedient], 0));
    trial.assert_only(&["q", "q_noti"]);
}

#[test]
fn a_quiet_worker_claims_nothing_more_and_stays() {
    for signal in [Signal::SIGUSR1, Signal::SIGTSTP] {
        let mut trial = Trial::new();
        let mut worker = trial.worker(&["--concurrency", "2"]);
        let calls = [held(&trial, "trial.gated", 0)];
        trial.push(&calls);
        trial.wait_runs(1);
        worker.signal(signal);
        worker.wait_for_line("\"message\":\"claiming ");
        wait_for_no_wait(&mut trial);
        trial.push(&marks(3));
        open(&trial.gate("gate"));
        trial.wait_runs(2);
        wait::until("the run to be released", PATIENCE, || trial.state().processing.is_empty());
        let state = trial.state();
        assert_eq!((state.waiting, state.tokens), (marks(3), 3), "expected it to leave the others alone");
        assert!(!worker.has_ended(), "{}", worker.printed());
        let stopped = trial.stop(&mut worker);
        assert_eq!(count(&stopped, "succeeded"), 1, "{stopped}");
        trial.ledger.assert_each_once(["+h0", "-h0"]);
        trial.assert_only(&["q", "q_noti"]);
    }
}

#[test]
fn sigcont_ends_the_quiet_of_sigtstp_but_not_that_of_sigusr1() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&[]);
    for round in 1..=2 {
        wait::until("the worker to wait", PATIENCE, || waits(&mut trial));
        worker.signal(Signal::SIGTSTP);
        worker.wait_for_lines("until SIGCONT", round);
        wait_for_no_wait(&mut trial);
        trial.push(&marks(1));
        assert_eq!(trial.state().waiting, marks(1));
        worker.signal(Signal::SIGCONT);
        worker.wait_for_lines("claiming resumed", round);
        trial.wait_runs(round);
        trial.wait_settled();
    }
    wait::until("the worker to wait", PATIENCE, || waits(&mut trial));
    worker.signal(Signal::SIGTSTP);
    worker.wait_for_lines("until SIGCONT", 3);
    worker.signal(Signal::SIGUSR1);
    worker.wait_for_line("claiming ended");
    wait_for_no_wait(&mut trial);
    worker.signal(Signal::SIGCONT);
    trial.push(&marks(1));
    let stopped = trial.stop(&mut worker);
    assert_eq!(count(&stopped, "succeeded"), 2, "{stopped}");
    assert_eq!(worker.printed().matches("claiming resumed").count(), 2, "{}", worker.printed());
    assert_eq!(trial.state().waiting, marks(1), "expected it to be left");
}

#[test]
fn an_idle_worker_ends_at_once() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&[]);
    let began = std::time::Instant::now();
    trial.stop(&mut worker);
    println!("an idle worker ended {:?} after SIGTERM", began.elapsed());
    assert!(began.elapsed().as_secs() < 3, "expected it to end at once, it took {:?}", began.elapsed());
    trial.assert_only(&[]);
}
