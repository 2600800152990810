//! A worker that waits, with a pick-up behind its wait: what happens to both when something happens to it.

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use delayed::testing::{Fault, Proxy, Requests, Side, Trap};
use nix::sys::signal::Signal;
use redis::Commands;

use crate::support::process::Program;
use crate::support::trial::{PATIENCE, QUEUE, Trial, count, gated, mark, marks, open};
use crate::support::wait;

/// Nobody but the worker itself brings anything back, and no lease ends within a test.
pub(super) const ALONE: [&str; 5] = ["--no-sweep", "--lease", "120s", "--concurrency", "4"];

/// A trial whose workers reach Redis through a network that knows what they wait for.
pub(super) struct Watched {
    trial: Trial,
    pub(super) proxy: Proxy,
}

impl Watched {
    pub(super) fn new() -> Self {
        let trial = Trial::new();
        let proxy = trial.server.proxy();
        Self { trial, proxy }
    }

    /// A worker that serves when this returns.
    pub(super) fn worker(&self, words: &[&str]) -> Program {
        self.trial.worker_at(self.proxy.url(), words)
    }
}

impl Deref for Watched {
    type Target = Trial;

    fn deref(&self) -> &Trial {
        &self.trial
    }
}

impl DerefMut for Watched {
    fn deref_mut(&mut self) -> &mut Trial {
        &mut self.trial
    }
}

/// The commands that wait in Redis. What stands behind them, not every server says.
fn waits(trial: &mut Trial) -> Vec<String> {
    let clients: String = redis::cmd("CLIENT").arg("LIST").query(&mut trial.redis).unwrap();
    let field = |line: &str, name: &str| {
        line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('=')).unwrap_or("").to_owned()
    };
    let blocked = clients.lines().filter(|line| field(line, "flags").contains('b'));
    blocked.map(|line| field(line, "cmd")).collect()
}

/// Waits until Redis knows of so many waits and of nothing else that blocks, each with a pick-up behind it.
#[track_caller]
pub(super) fn idle(trial: &mut Watched, workers: usize) {
    wait::until_ok(PATIENCE, || {
        let (waits, unanswered) = (waits(trial), trial.proxy.unanswered());
        let all = waits.len() == workers && waits.iter().all(|command| command == "blmove");
        // The wait, the pick-up, and what tells that the pick-up's reply is its own.
        (all && unanswered == 3 * workers).then_some(()).ok_or_else(|| {
            format!(
                "{workers} waits with a pick-up behind each, there are {waits:?}, and {unanswered} requests"
            )
        })
    });
}

/// Waits until one worker waits so, with nothing behind.
#[track_caller]
fn waits_only(trial: &mut Watched, command: &str) {
    wait::until("a wait with nothing behind it", PATIENCE, || {
        waits(trial) == [command] && trial.proxy.unanswered() == 1
    });
}

/// What happens to the wait that is begun as the `nth` from now.
pub(super) fn next_wait(trial: &Watched, nth: u32, fault: Fault) -> Trap {
    trial.proxy.trap(Side::Request, Requests::command("BLMOVE").nth(nth), fault)
}

/// Waits until nobody waits.
#[track_caller]
fn nobody_waits(trial: &mut Trial) {
    wait::until("no wait to be left", PATIENCE, || waits(trial).is_empty());
}

/// How many messages are owned.
pub(super) fn owned(trial: &mut Trial) -> usize {
    trial.state().processing.len()
}

/// Ends the worker and sees that each of `runs` ran once, within the life of the worker.
#[track_caller]
pub(super) fn ends_well(trial: &mut Trial, worker: &mut Program, runs: &[&str]) {
    trial.wait_runs(runs.len());
    trial.wait_settled();
    let stopped = trial.stop(worker);
    assert_eq!(count(&stopped, "lost"), 0, "{stopped}");
    assert_eq!(count(&stopped, "succeeded"), runs.len() as u64, "{stopped}");
    trial.ledger.assert_each_once(runs);
    trial.assert_only(&[]);
}

/// Whether each thread of a process is stopped.
pub(super) fn stands_still(program: &Program) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", program.pid())).unwrap();
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T'))
    })
}

#[test]
fn a_worker_that_is_killed_while_it_waits_takes_nothing_with_it() {
    let mut trial = Watched::new();
    let mut first = trial.worker(&ALONE);
    idle(&mut trial, 1);
    first.kill9();
    nobody_waits(&mut trial);
    trial.push(&marks(3));
    let state = trial.state();
    assert_eq!((state.waiting.len(), state.tokens, state.processing.len()), (3, 3, 0), "{state:#?}");
    let mut second = trial.worker(&ALONE);
    ends_well(&mut trial, &mut second, &["0", "1", "2"]);
}

#[test]
fn a_connection_that_is_cut_while_it_waits() {
    let mut trial = Watched::new();
    let mut worker = trial.worker(&ALONE);
    idle(&mut trial, 1);
    for n in 0..3 {
        trial.proxy.cut();
        worker.wait_for_lines("requests reconciled", n + 1);
        idle(&mut trial, 1);
    }
    trial.push(&marks(3));
    ends_well(&mut trial, &mut worker, &["0", "1", "2"]);
}

#[test]
fn redis_is_killed_while_a_worker_waits() {
    let mut trial = Watched::new();
    let mut worker = trial.worker(&ALONE);
    idle(&mut trial, 1);
    trial.server.kill();
    worker.wait_for_line("failed; retrying");
    trial.server.restart();
    trial.redis = trial.server.connection();
    trial.push(&marks(3));
    ends_well(&mut trial, &mut worker, &["0", "1", "2"]);
}

#[test]
fn an_idle_worker_ends_soon_also_without_redis() {
    let mut trial = Watched::new();
    let mut worker = trial.worker(&ALONE);
    idle(&mut trial, 1);
    trial.server.kill();
    worker.wait_for_line("failed; retrying");
    let began = Instant::now();
    worker.signal(Signal::SIGTERM);
    worker.wait_exit(PATIENCE);
    assert!(began.elapsed() < Duration::from_secs(20), "expected it to end soon: {:?}", began.elapsed());
}

#[test]
fn worker_that_stops_or_is_quiet_in_a_wait_claims_nothing_more() {
    for signal in [Signal::SIGTERM, Signal::SIGUSR1] {
        let mut trial = Watched::new();
        let mut worker = trial.worker(&ALONE);
        idle(&mut trial, 1);
        let began = Instant::now();
        worker.signal(signal);
        if signal == Signal::SIGTERM {
            trial.ended(&mut worker);
            assert!(
                began.elapsed() < Duration::from_secs(5),
                "expected an end at once: {:?}",
                began.elapsed()
            );
        }
        nobody_waits(&mut trial);
        trial.push(&marks(3));
        let state = trial.state();
        assert_eq!((state.waiting, state.tokens), (marks(3), 3), "expected it to leave them alone");
        if signal != Signal::SIGTERM {
            trial.stop(&mut worker);
        }
        assert_eq!(trial.ledger.total(), 0, "expected nothing to run");
        trial.assert_only(&["q", "q_noti"]);
    }
}

#[test]
fn what_comes_while_a_worker_is_told_to_stop_runs_once_or_waits() {
    let mut trial = Watched::new();
    for n in 0..40 {
        let mut worker = trial.worker(&ALONE);
        idle(&mut trial, 1);
        // Both at once: sometimes the one comes first, and sometimes the other.
        worker.signal([Signal::SIGTERM, Signal::SIGINT][n % 2]);
        trial.push(&[mark(n)]);
        trial.ended(&mut worker);
        let state = trial.state();
        assert!(state.processing.is_empty(), "expected nothing to be owned by nobody: {state:#?}");
        assert_eq!(state.tokens, state.waiting.len() as u64, "expected a token for each message: {state:#?}");
    }
    let mut worker = trial.worker(&["--burst"]);
    trial.ended(&mut worker);
    trial.ledger.assert_each_once(0..40);
    trial.assert_only(&[]);
}

#[test]
fn a_wait_that_times_out_is_begun_again() {
    let mut trial = Watched::new();
    let mut worker = trial.worker(&ALONE);
    idle(&mut trial, 1);
    let again = next_wait(&trial, u32::MAX, Fault::Drop);
    wait::until("another wait", PATIENCE, || again.met() >= 1);
    idle(&mut trial, 1);
    assert!(!trial.redis.exists::<_, bool>("q_hand").unwrap(), "expected no token from nowhere");
    trial.push(&marks(2));
    ends_well(&mut trial, &mut worker, &["0", "1"]);
    assert!(
        !worker.printed().contains("failed; retrying"),
        "expected nothing to be amiss: {}",
        worker.printed()
    );
}

#[test]
fn two_idle_workers_share_two_messages() {
    let mut trial = Watched::new();
    let mut workers = [trial.worker(&ALONE), trial.worker(&ALONE)];
    let gate = trial.gate("gate");
    let held = |n: usize| gated(n, &gate);
    idle(&mut trial, 2);
    trial.push(&[held(0), held(1)]);
    trial.wait_runs(2);
    let owners: std::collections::BTreeSet<String> =
        trial.state().processing.into_keys().map(|id| id.split(':').nth(1).unwrap().to_owned()).collect();
    assert_eq!(owners.len(), 2, "expected one for each worker");
    open(&gate);
    trial.wait_settled();
    for n in 0..200 {
        trial.push(&[mark(n)]);
        if n % 3 > 0 {
            trial.wait_runs(4 + n + 1);
        }
    }
    trial.wait_runs(204);
    trial.wait_settled();
    for worker in &mut workers {
        assert_eq!(count(&trial.stop(worker), "lost"), 0);
    }
    let held = (0..2).flat_map(|n| [format!("+{n}"), format!("-{n}")]);
    let executions = trial.ledger.executions();
    assert!(held.into_iter().all(|name| executions[&name] == 1), "{executions:?}");
    assert!((0..200).all(|n| executions[&n.to_string()] == 1), "{executions:?}");
    trial.assert_only(&[]);
}

#[test]
fn wait_begun_during_a_run_gets_its_claim_after_the_run() {
    let mut trial = Watched::new();
    let mut worker = trial.worker(&ALONE);
    let gate = trial.gate("gate");
    idle(&mut trial, 1);
    trial.push(&[gated("h", &gate)]);
    trial.wait_runs(1);
    waits_only(&mut trial, "blmove");
    // Woken so, it takes the token from the hand.
    trial.push(&[mark("beside")]);
    trial.wait_runs(2);
    open(&gate);
    idle(&mut trial, 1);
    trial.push(&[mark("behind")]);
    trial.wait_runs(4);
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["+h", "beside", "-h", "behind"]);
    trial.assert_only(&[]);
}

#[test]
fn what_comes_while_a_run_goes_on_is_claimed_with_its_release() {
    let mut trial = Watched::new();
    let mut worker = trial.worker(&ALONE);
    let gate = trial.gate("gate");
    idle(&mut trial, 1);
    // The wait beside that run never begins, so nothing tells the worker of what comes.
    let held = trial.proxy.trap(Side::Request, Requests::command("BLMOVE").nth(1), Fault::Hold);
    trial.push(&[gated("h", &gate)]);
    trial.wait_runs(1);
    wait::until("a wait beside the run", PATIENCE, || held.struck() == 1);
    let others = trial.proxy.trap(Side::Request, Requests::command("BLMOVE").nth(u32::MAX), Fault::Drop);
    trial.push(&[mark("beside")]);
    open(&gate);
    trial.wait_runs(3);
    assert_eq!(others.met(), 0, "expected it before the worker gave the wait up");
    held.release();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["+h", "-h", "beside"]);
    trial.assert_only(&[]);
}

#[test]
fn a_token_that_comes_to_a_quiet_worker_goes_back() {
    let mut trial = Watched::new();
    let mut worker = trial.worker(&ALONE);
    let gate = trial.gate("gate");
    idle(&mut trial, 1);
    trial.push(&[gated("h", &gate)]);
    trial.wait_runs(1);
    // The next wait beside that run, of which the worker shall hear late.
    let held = trial.proxy.trap(Side::Reply, Requests::command("BLMOVE").nth(1), Fault::Hold);
    wait::until("another wait", PATIENCE, || held.met() == 1);
    trial.push(&[mark("back")]);
    wait::until("a token to have moved", PATIENCE, || held.struck() == 1);
    // One whose token somebody else has popped.
    let () = trial.redis.rpush("q", mark("popped")).unwrap();
    worker.signal(Signal::SIGUSR1);
    worker.wait_for_line("claiming ended");
    held.release();
    wait::until("the token to be back", PATIENCE, || {
        let state = trial.state();
        state.tokens == 1 && !state.keys.contains(&"q_hand".to_owned())
    });
    let () = trial.redis.rpush("q_noti", "1").unwrap();
    open(&gate);
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["+h", "-h"]);
    trial.assert_only(&["q", "q_noti"]);
}

#[test]
fn a_worker_of_a_full_redis_waits_without_moving_tokens() {
    let mut trial = Watched::new();
    let limit = |trial: &mut Trial, bytes: &str| {
        let () = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).query(&mut trial.redis).unwrap();
    };
    limit(&mut trial, "1");
    let mut worker = trial.worker(&ALONE);
    waits_only(&mut trial, "blpop");
    limit(&mut trial, "0");
    let mut pipe = redis::pipe();
    // It is full again before the worker is woken.
    pipe.atomic().rpush(QUEUE, mark("full")).rpush("q_noti", "1");
    pipe.cmd("CONFIG").arg("SET").arg("maxmemory").arg("1");
    let () = pipe.query(&mut trial.redis).unwrap();
    trial.wait_runs(1);
    limit(&mut trial, "0");
    ends_well(&mut trial, &mut worker, &["full"]);
    assert!(!worker.printed().contains("wait for notifications failed"), "{}", worker.printed());
}
