//! A queue is paused and resumed: what runs ends, nothing more is claimed, and all goes on at once when it is resumed.

use std::time::Duration;

use delayed::testing::{Fault, Requests, Side};
use nix::sys::signal::Signal;
use redis::Commands;

use crate::support::process::{DELAYED, Program};
use crate::support::redis::snapshot;
use crate::support::trial::{PATIENCE, QUEUE, Trial, WORKER, count, gated, mark, marks, open};
use crate::support::wait;

/// With which a worker neither beats nor sweeps while a test lasts: it hears of everything by push.
const BY_PUSH: [&str; 3] = ["--lease", "24h", "--no-sweep"];

fn queues(trial: &Trial, verb: &str, queue: &str) -> String {
    let words = ["queues", verb, queue, "--by", "anna", "--redis", &trial.server.url()];
    let mut tool = Program::spawn(trial.command(DELAYED).args(words));
    let said = tool.last_words();
    assert_eq!(tool.wait_exit(PATIENCE).code(), Some(0), "{said}");
    said
}

fn pause(trial: &Trial) {
    assert!(queues(trial, "pause", QUEUE).starts_with("paused q"));
}

fn resume(trial: &Trial) {
    assert!(queues(trial, "resume", QUEUE).starts_with("resumed q"));
}

/// Waits until so many workers listen to what operators say about the queue.
#[track_caller]
fn wait_for_listeners(trial: &mut Trial, workers: u64) {
    wait::until("workers to listen", PATIENCE, || {
        let heard: Vec<(String, u64)> =
            redis::cmd("PUBSUB").arg("NUMSUB").arg("q:paused").query(&mut trial.redis).unwrap();
        heard[0].1 == workers
    });
}

fn listening(trial: &mut Trial, words: &[&str]) -> Program {
    let worker = trial.worker(&[&BY_PUSH[..], words].concat());
    wait_for_listeners(trial, 1);
    worker
}

/// As many tokens as messages, all of them where whoever waits finds them.
#[track_caller]
fn wait_for_tokens(trial: &mut Trial, messages: usize) {
    wait::until_ok(PATIENCE, || {
        let state = trial.state();
        let in_hand: u64 = trial.redis.llen("q_hand").unwrap();
        match (state.waiting.len(), state.tokens, in_hand) {
            (waiting, tokens, 0) if waiting == messages && tokens == messages as u64 => Ok(()),
            wrong => Err(format!("{messages} messages and tokens: {wrong:?}")),
        }
    });
}

#[test]
fn paused_queue_is_left_alone_and_resumed_by_push() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let mut worker = listening(&mut trial, &["--concurrency", "4"]);
    trial.push(&[gated("held", &gate)]);
    trial.wait_runs(1);
    pause(&trial);
    let line = worker.wait_for_line("\"queue paused\"");
    assert!(line.contains("\"queue\":\"q\"") && line.contains("\"by\":\"anna\""), "{line}");
    trial.push(&marks(50));
    let words = ["enqueue", "trial.mark", "[\"50\"]", "--queue", QUEUE, "--redis", &trial.server.url()];
    let mut producer = Program::spawn(trial.command(WORKER).args(words));
    assert_eq!(producer.wait_exit(PATIENCE).code(), Some(0), "{}", producer.printed());
    open(&gate);
    wait::until("its release", PATIENCE, || trial.left() == (51, 0));
    wait_for_tokens(&mut trial, 51);
    trial.commands();
    wait::pause(Duration::from_millis(300));
    let commands = trial.commands();
    let asked: Vec<_> = ["evalsha", "blmove", "blpop", "client|unblock"]
        .iter()
        .filter(|name| commands.contains_key(**name))
        .collect();
    assert!(asked.is_empty(), "expected it to ask for nothing: {commands:?}");
    assert_eq!(trial.ledger.lines(), ["+held", "-held"]);
    resume(&trial);
    worker.wait_for_line("\"queue resumed\"");
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!(count(&stopped, "succeeded"), 52, "{stopped}");
    trial.ledger.assert_each_once((0..51).map(|n| n.to_string()).chain(["+held".into(), "-held".into()]));
    trial.assert_only(&[]);
}

#[test]
fn idle_worker_does_not_claim_and_wakes_when_resumed() {
    for words in [&[][..], &["--queue", "other"]] {
        let mut trial = Trial::new();
        let mut worker = listening(&mut trial, words);
        for round in 0..3 {
            pause(&trial);
            worker.wait_for_lines("\"queue paused\"", round + 1);
            trial.push(&[mark(round)]);
            wait_for_tokens(&mut trial, 1);
            resume(&trial);
            trial.wait_settled();
            // It waits for tokens again.
            trial.push(&[mark(format!("after {round}"))]);
            trial.wait_settled();
        }
        assert_eq!(count(&trial.stop(&mut worker), "succeeded"), 6);
        trial.assert_only(&[]);
    }
}

#[test]
fn worker_that_starts_on_a_paused_queue_claims_nothing() {
    let mut trial = Trial::new();
    pause(&trial);
    trial.push(&marks(20));
    let mut worker = listening(&mut trial, &[]);
    let line = worker.wait_for_line("\"queue paused\"");
    assert!(line.contains("\"by\":\"anna\""), "expected who it was from Redis: {line}");
    wait_for_tokens(&mut trial, 20);
    assert!(trial.ledger.lines().is_empty());
    resume(&trial);
    trial.wait_settled();
    assert_eq!(count(&trial.stop(&mut worker), "succeeded"), 20);
    trial.assert_only(&[]);
}

#[test]
fn other_queues_of_the_worker_go_on() {
    for names in [["a", "b"], ["a=3", "b=1"]] {
        let mut trial = Trial::new();
        let named = |name: &str| -> Vec<Vec<u8>> { (0..50).map(|n| mark(format!("{name}{n}"))).collect() };
        queues(&trial, "pause", "a");
        trial.push_to("a", &named("a"));
        trial.push_to("b", &named("b"));
        let words = [&BY_PUSH[..], &["--queue", names[0], "--queue", names[1]]].concat();
        let mut worker = trial.start_at(&trial.server.url(), &words);
        trial.wait_runs(50);
        worker.wait_for_line("\"queue paused\"");
        // It waits for tokens of the second while the first has some.
        trial.push_to("b", &[mark("late")]);
        trial.wait_runs(51);
        let state = snapshot(&mut trial.redis, "a");
        assert_eq!((state.waiting.len(), state.tokens), (50, 50), "{state:#?}");
        queues(&trial, "resume", "a");
        trial.wait_runs(101);
        assert_eq!(count(&trial.stop(&mut worker), "succeeded"), 101);
        trial.assert_only(&[]);
    }
}

#[test]
fn prefetched_calls_of_a_paused_queue_are_put_back() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    trial.push(&[gated("held", &gate)]);
    trial.push(&marks(5));
    let mut worker = listening(&mut trial, &["--concurrency", "1", "--prefetch", "4"]);
    wait::until("five to be claimed", PATIENCE, || trial.left() == (1, 5));
    pause(&trial);
    wait::until("four to be put back", PATIENCE, || trial.left() == (5, 1));
    assert_eq!(trial.state().waiting, marks(5), "expected them in their order");
    wait_for_tokens(&mut trial, 5);
    open(&gate);
    wait::until("the end of what runs", PATIENCE, || trial.left() == (5, 0));
    resume(&trial);
    trial.wait_settled();
    trial.stop(&mut worker);
    assert_eq!(trial.ledger.lines(), ["+held", "-held", "0", "1", "2", "3", "4"]);
    trial.assert_only(&[]);
}

/// Nothing more than what runs is left with the worker, also where a claim was on its way.
#[test]
fn claim_that_a_pause_overtakes_leaves_nothing_ahead() {
    let mut trial = Trial::new();
    let (gate, proxy) = (trial.gate("gate"), trial.server.proxy());
    let words = [&BY_PUSH[..], &["--concurrency", "1", "--prefetch", "9"]].concat();
    let mut worker = trial.worker_at(proxy.url(), &words);
    wait_for_listeners(&mut trial, 1);
    // Then it knows how large messages are, and claims many.
    trial.push(&[mark("first")]);
    trial.wait_runs(1);
    trial.wait_settled();
    let held = proxy.trap(Side::Reply, Requests::script("claim").nth(1), Fault::Hold);
    let messages: Vec<_> = [gated("held", &gate)].into_iter().chain(marks(4)).collect();
    trial.push(&messages);
    wait::until("all to be claimed", PATIENCE, || trial.left() == (0, 5));
    wait::until("a claim to be answered", PATIENCE, || held.struck() > 0);
    pause(&trial);
    worker.wait_for_line("\"queue paused\"");
    held.release();
    wait::until("all but one to be put back", PATIENCE, || trial.left() == (4, 1));
    open(&gate);
    wait::until("the end of what runs", PATIENCE, || trial.left() == (4, 0));
    assert_eq!(trial.state().waiting, marks(4), "expected them in their order");
    resume(&trial);
    trial.wait_settled();
    trial.stop(&mut worker);
    assert_eq!(trial.ledger.lines(), ["first", "+held", "-held", "0", "1", "2", "3"]);
    trial.assert_only(&[]);
}

/// Replies come on another connection than what operators say.
#[test]
fn reply_that_a_resume_overtakes_does_not_pause_again() {
    let mut trial = Trial::new();
    let proxy = trial.server.proxy();
    pause(&trial);
    trial.push(&marks(20));
    let held = proxy.trap(Side::Reply, Requests::script("claim").nth(1), Fault::Hold);
    let mut worker = trial.worker_at(proxy.url(), &BY_PUSH);
    wait_for_listeners(&mut trial, 1);
    wait::until("a claim to be answered", PATIENCE, || held.struck() > 0);
    resume(&trial);
    worker.wait_for_line("\"queue resumed\"");
    held.release();
    trial.wait_settled();
    assert_eq!(count(&trial.stop(&mut worker), "succeeded"), 20);
    trial.assert_only(&[]);
}

#[test]
fn calls_of_a_worker_killed_while_paused_are_not_lost() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    let mut first = trial.worker(&["--lease", "1s"]);
    trial.push(&[gated("held", &gate)]);
    trial.push(&marks(10));
    trial.wait_runs(11);
    pause(&trial);
    first.wait_for_line("\"queue paused\"");
    trial.push(&marks(20)[10..]);
    first.kill9();
    open(&gate);
    let mut second = trial.worker(&["--lease", "1s"]);
    second.wait_for_line("\"queue paused\"");
    wait::until("its call to be requeued", PATIENCE, || matches!(trial.left(), (11.., 0)));
    resume(&trial);
    trial.wait_settled();
    trial.stop(&mut second);
    let names = (0..20).map(|n| n.to_string()).chain(["+held".into(), "-held".into()]);
    // What had ended may not have been released when the worker was killed.
    trial.ledger.assert_each_at_least_once(names, 11);
    trial.assert_only(&[]);
}

/// Whoever may not subscribe finds a pause with its next claim, and that it is over with its next beat.
#[test]
fn worker_that_hears_no_channel_goes_by_its_claims_and_beats() {
    for words in [&[][..], &["--queue", "other"]] {
        let mut trial = Trial::new();
        let rules = ["SETUSER", "deaf", "on", ">word", "~*", "+@all", "resetchannels"];
        let () = redis::cmd("ACL").arg(&rules).query(&mut trial.redis).unwrap();
        let url = format!("{}?user=deaf&pass=word", trial.server.url());
        let mut worker = trial.worker_at(&url, &[&["--lease", "2s"], words].concat());
        pause(&trial);
        trial.push(&marks(3));
        worker.wait_for_line("\"queue paused\"");
        wait_for_tokens(&mut trial, 3);
        resume(&trial);
        trial.wait_settled();
        worker.wait_for_line("\"queue resumed\"");
        assert_eq!(count(&trial.stop(&mut worker), "succeeded"), 3);
        trial.assert_only(&[]);
    }
}

#[test]
fn listener_that_was_cut_off_asks_again() {
    let mut trial = Trial::new();
    let mut worker = listening(&mut trial, &[]);
    pause(&trial);
    worker.wait_for_line("\"queue paused\"");
    trial.push(&marks(3));
    let () = redis::cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"]).query(&mut trial.redis).unwrap();
    wait_for_listeners(&mut trial, 0);
    let () = trial.redis.del("q_paused").unwrap(); // Nobody is told.
    trial.wait_settled();
    worker.wait_for_line("\"queue resumed\"");
    assert_eq!(count(&trial.stop(&mut worker), "succeeded"), 3);
    trial.assert_only(&[]);
}

#[test]
fn burst_ends_and_leaves_the_calls_of_a_paused_queue() {
    let mut trial = Trial::new();
    pause(&trial);
    trial.push(&marks(3));
    trial.push_to("other", &[mark("other")]);
    let mut worker = trial.start(&["--queue", "other", "--burst"]);
    let stopped = trial.ended(&mut worker);
    assert_eq!(count(&stopped, "succeeded"), 1, "{stopped}");
    worker.wait_for_line("\"queue paused\"");
    assert_eq!(trial.state().waiting, marks(3));
    trial.assert_only(&["q", "q_noti", "q_paused"]);
}

#[test]
fn scheduled_calls_become_due_while_paused_and_run_afterwards() {
    let mut trial = Trial::new();
    let mut worker = listening(&mut trial, &[]);
    pause(&trial);
    worker.wait_for_line("\"queue paused\"");
    let words = [
        "enqueue",
        "trial.mark",
        "[\"due\"]",
        "--queue",
        QUEUE,
        "--after",
        "100ms",
        "--redis",
        &trial.server.url(),
    ];
    Program::spawn(trial.command(WORKER).args(words)).last_words();
    wait_for_tokens(&mut trial, 1);
    assert!(trial.state().later.is_empty() && trial.ledger.lines().is_empty());
    resume(&trial);
    trial.wait_runs(1);
    trial.stop(&mut worker);
    trial.assert_only(&[]);
}

#[test]
fn list_of_another_program_is_no_pause() {
    let mut trial = Trial::new();
    let () = trial.redis.rpush("q_paused", "a call of the queue q_paused").unwrap();
    let mut worker = trial.worker(&[]);
    trial.push(&marks(20));
    trial.wait_settled();
    assert_eq!(count(&trial.stop(&mut worker), "succeeded"), 20);
    trial.assert_only(&["q_paused"]);
}

/// Operators pause and resume while workers claim, are killed and started: each call runs once but for those of the dead.
#[test]
fn pauses_under_load_lose_nothing() {
    const CALLS: usize = 3_000;
    let mut trial = Trial::new();
    let words = ["--lease", "1s", "--concurrency", "8", "--prefetch", "0"];
    let mut workers: Vec<Program> = (0..3).map(|_| trial.worker(&words)).collect();
    for (round, part) in marks(CALLS).chunks(CALLS / 30).enumerate() {
        let queue = redis::cmd("EXISTS").arg("q_paused").query::<bool>(&mut trial.redis).unwrap();
        if queue {
            resume(&trial)
        } else {
            pause(&trial)
        }
        trial.push(part);
        if round % 10 == 9 {
            workers.remove(0).kill9();
            workers.push(trial.worker(&words));
        }
    }
    queues(&trial, "resume", QUEUE);
    trial.wait_settled();
    for mut worker in workers {
        worker.signal(Signal::SIGTERM);
        trial.ended(&mut worker);
    }
    trial.ledger.assert_each_at_least_once((0..CALLS).map(|n| n.to_string()), 3 * 8);
    let state = trial.state();
    assert!(state.waiting.is_empty() && state.tokens == 0 && state.dead.is_empty(), "{state:#?}");
}
