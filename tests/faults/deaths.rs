//! Whose death is it? A call is buried for deaths of workers that ran it alone, and for no others.

use delayed::testing::{Fault, Requests, Side};
use redis::Commands;

use crate::support::process::Program;
use crate::support::trial::{PATIENCE, Trial, call, count, gated, mark, open};
use crate::support::wait;

/// Nobody but the sweeper brings anything back.
const WORDS: [&str; 5] = ["--no-sweep", "--lease", "1s", "--concurrency", "1"];

fn sweeper(trial: &Trial) -> Program {
    trial.sweeper(&["--queue", "q", "--interval", "50ms"])
}

/// Two processes died while they owned this message, and two more while they ran it alone.
fn next_death_buries(trial: &mut Trial, message: &[u8]) {
    let died = redis::Script::new(
        "local at = redis.call('TIME')[1] - 60
        redis.call('HSET', KEYS[1], redis.sha1hex(ARGV[1]), '2 ' .. at .. '000 =2 this that')",
    );
    let () = died.key("q_deaths").arg(message).invoke(&mut trial.redis).unwrap();
}

/// The slot that owns something, beside `others`.
fn slot(trial: &mut Trial, others: &[String]) -> String {
    let slots: Vec<String> = trial.redis.hkeys("q_processing").unwrap();
    let mut new = slots.into_iter().filter(|slot| !others.contains(slot));
    new.next().expect("expected a slot that owns its message")
}

/// A worker dies, and its lease ends at once.
fn kill(trial: &mut Trial, worker: &mut Program, slot: &str) {
    worker.kill9();
    let () = trial.redis.pexpire(slot, 1).unwrap();
}

/// Four workers that run four calls with the same bytes, each in its seat: what a dead worker ran is the only one that waits,
/// so the worker that takes its seat runs it.
struct Seats {
    trial: Trial,
    workers: Vec<Program>,
    slots: Vec<String>,
    begun: usize,
}

impl Seats {
    fn new() -> Self {
        let mut trial = Trial::new();
        let alike = gated("alike", &trial.gate("gate"));
        trial.push(&vec![alike; 4]);
        let mut seats = Self { trial, workers: Vec::new(), slots: Vec::new(), begun: 0 };
        for seat in 0..4 {
            seats.sit_down(seat);
        }
        seats
    }

    fn sit_down(&mut self, seat: usize) {
        let worker = self.trial.worker(&WORDS);
        self.begun += 1;
        self.trial.wait_runs(self.begun);
        let slot = slot(&mut self.trial, &self.slots);
        self.workers.insert(seat, worker);
        self.slots.insert(seat, slot);
    }

    /// The worker in a seat dies, and what it ran is brought back, or buried.
    fn kill(&mut self, seat: usize) {
        // Deaths within half a second would be one event.
        let last = self.trial.state().deaths.into_values().next();
        let last: u64 = last.map_or(0, |last| last.split(' ').nth(1).unwrap().parse().unwrap());
        wait::until("the last death to be another event", PATIENCE, || {
            let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut self.trial.redis).unwrap();
            seconds * 1000 + micros / 1000 > last + 600
        });
        let (mut worker, slot) = (self.workers.remove(seat), self.slots.remove(seat));
        kill(&mut self.trial, &mut worker, &slot);
        wait::until("its message to leave its slot", PATIENCE, || {
            !self.trial.redis.hexists::<_, _, bool>("q_processing", &slot).unwrap()
        });
    }
}

#[test]
fn look_alikes_are_buried_for_their_own_deaths_only() {
    let mut seats = Seats::new();
    let _sweeper = sweeper(&seats.trial);
    // At the third death of all, and of two calls two more times: from the second on they run alone.
    for seat in [0, 1, 2, 2, 1, 2] {
        seats.kill(seat);
        assert_eq!(
            seats.trial.dead(),
            0,
            "expected no call to be dead of others: {:#?}",
            seats.trial.state()
        );
        seats.sit_down(seat);
    }
    // Its fourth, and the third that ran it alone.
    seats.kill(2);
    let Seats { mut trial, mut workers, .. } = seats;
    let state = trial.state();
    assert_eq!((state.dead.len(), state.processing.len()), (1, 3), "expected the one to be dead: {state:#?}");
    let detail = String::from_utf8_lossy(&state.dead[0]["detail"]).into_owned();
    assert!(
        detail.starts_with("3 processes died, one after the other, while each ran this call alone"),
        "{detail}"
    );
    open(&trial.gate("gate"));
    trial.wait_settled();
    workers.iter_mut().for_each(|worker| drop(trial.stop(worker)));
    assert_eq!(trial.ledger.executions()["-alike"], 3, "expected the others to come to their ends");
    trial.assert_only(&["q_dead"]);
}

#[test]
fn call_that_is_only_passed_on_is_never_buried() {
    let mut trial = Trial::new();
    let _sweeper = sweeper(&trial);
    let proxy = trial.server.proxy();
    let foreign = call("another.workers", &[1.into()]);
    next_death_buries(&mut trial, &foreign);
    trial.push(&[&foreign]);
    for _ in 0..3 {
        let held = proxy.trap(Side::Request, Requests::script("put_back").nth(1), Fault::Hold);
        let mut worker = trial.worker_at(proxy.url(), &[&WORDS[..], &["--unknown", "requeue"]].concat());
        wait::until("it to be passed on", PATIENCE, || held.struck() == 1);
        let slot = slot(&mut trial, &[]);
        kill(&mut trial, &mut worker, &slot);
        wait::until("it to wait again", PATIENCE, || trial.left() == (1, 0));
    }
    assert_eq!(trial.dead(), 0, "expected nobody to have died of it");
}

#[test]
fn death_before_a_suspect_begins_is_not_its_own() {
    let mut trial = Trial::new();
    let _sweeper = sweeper(&trial);
    let proxy = trial.server.proxy();
    let suspect = mark("suspect");
    next_death_buries(&mut trial, &suspect);
    trial.push(&[&suspect]);
    for _ in 0..2 {
        let held = proxy.trap(Side::Request, Requests::script("begin").nth(1), Fault::Hold);
        let mut worker = trial.worker_at(proxy.url(), &WORDS);
        wait::until("it to be about to begin", PATIENCE, || held.struck() == 1);
        let slot = slot(&mut trial, &[]);
        kill(&mut trial, &mut worker, &slot);
        wait::until("it to wait again", PATIENCE, || trial.left() == (1, 0));
        assert_eq!(trial.ledger.total(), 0, "expected it not to begin before Redis knows");
    }
    let mut worker = trial.worker(&WORDS);
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["suspect"]);
    trial.assert_only(&[]);
}

#[test]
fn suspect_begins_once_when_the_answer_to_its_begin_is_lost() {
    for side in [Side::Request, Side::Reply] {
        let mut trial = Trial::new();
        let proxy = trial.server.proxy();
        let suspect = mark("suspect");
        next_death_buries(&mut trial, &suspect);
        trial.push(&[suspect]);
        let trap = proxy.trap(side, Requests::script("begin").nth(1), Fault::End);
        let mut worker = trial.worker_at(proxy.url(), &WORDS);
        trial.wait_settled();
        assert_eq!(trap.struck(), 1, "expected its connection to be cut");
        let stopped = trial.stop(&mut worker);
        assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (1, 0), "{side:?}: {stopped}");
        trial.ledger.assert_each_once(["suspect"]);
        trial.assert_only(&[]);
    }
}

#[test]
fn suspect_that_was_taken_away_before_it_begins_does_not_run() {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    let suspect = mark("suspect");
    next_death_buries(&mut trial, &suspect);
    trial.push(&[suspect]);
    let held = proxy.trap(Side::Request, Requests::script("begin").nth(1), Fault::Hold);
    let mut worker = trial.worker_at(proxy.url(), &WORDS);
    wait::until("it to be about to begin", PATIENCE, || held.struck() == 1);
    // As a sweeper does that finds the lease ended.
    let () = trial.redis.del("q_processing").unwrap();
    held.release();
    worker.wait_for_line("requeued before they were settled");
    trial.push(&[mark("next")]);
    trial.wait_runs(1);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (1, 1), "{stopped}");
    trial.ledger.assert_each_once(["next"]);
}

#[test]
fn suspect_of_a_worker_that_stops_keeps_its_deaths() {
    let mut trial = Trial::new();
    let held = gated("held", &trial.gate("gate"));
    next_death_buries(&mut trial, &held);
    trial.push(&[&held]);
    let mut worker = trial.worker(&[&WORDS[..], &["--shutdown", "10ms"]].concat());
    trial.wait_runs(1);
    trial.stop(&mut worker);
    let known: Vec<String> = trial.state().deaths.into_values().collect();
    assert!(
        matches!(&known[..], [known] if known.contains(" =2 ")),
        "expected no more and no fewer: {known:?}"
    );
    assert_eq!((trial.left(), trial.dead()), ((1, 0), 0), "expected it to wait");
}
