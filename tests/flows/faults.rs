//! Flows whose processes die: nothing is lost, nothing is counted twice.

use std::path::Path;

use delayed::{CallState, FlowHandle, IntoFlow, chain, group};
use redis::Commands;

use super::{Site, tasks};
use crate::support::process::Program;
use crate::support::trial::{Dice, PATIENCE, WORKER};
use crate::support::wait;

/// Where a worker dies: at its requests for flows, and those that end a step or a flow.
const POINTS: [&str; 8] = [
    "finish.before",
    "finish.replied",
    "join.before",
    "join.replied",
    "submit.before",
    "submit.replied",
    "close.before",
    "close.replied",
];

impl Site {
    /// A worker that dies when it is at a point for the `nth` time.
    fn dying_worker(&self, at: &str, nth: usize, note: &Path) -> Program {
        let mut command = self.trial.command(WORKER);
        command.args(["worker", "--redis", &self.trial.server.url(), "--queue", "q", "--queue", "other"]);
        command.args(["--lease", "1s"]);
        command.env("DELAYED_CRASH_AT", format!("{at}:{nth}")).env("DELAYED_CRASH_NOTE", note);
        Program::spawn(&mut command)
    }

    /// What a flow of three steps, two at the same time, and one after them, comes to.
    fn small_flow(&self, name: &str) -> FlowHandle<String> {
        let first = chain(tasks::note_run::call("a".into()));
        let rest = first.then(group(["b", "c"].map(|n| tasks::note_run::call(n.into()))));
        self.enqueue(rest.then(tasks::end::step(format!("end {name}"))).on_error(tasks::alert::step()))
    }
}

#[test]
fn burst_ends_when_its_flows_have_ended() {
    let mut site = Site::new();
    let handle = site.enqueue(
        group((0..20).map(tasks::number::call)).then(tasks::sum::step()).then(tasks::add_apart::step(1)),
    );
    let mut worker = site.worker(&["--burst"]);
    site.trial.ended(&mut worker);
    assert_eq!(site.wait(&handle), 191);
    site.assert_done();
}

#[test]
fn worker_that_dies_at_any_point_leaves_the_flow_to_others() {
    let mut site = Site::new();
    for point in POINTS {
        for nth in 1.. {
            let name = format!("{point}:{nth}");
            let note = site.trial.gate(&name);
            let handle = site.small_flow(&name);
            let mut dying = site.dying_worker(point, nth, &note);
            wait::until("the worker to die, or the flow to end", PATIENCE, || {
                note.exists() || site.runtime.block_on(handle.state()).unwrap() == Some(CallState::Succeeded)
            });
            // It may also die after the end of the flow, at what is left to do.
            let mut heir = site.worker(&["--lease", "1s"]);
            assert_eq!(site.wait(&handle), format!("end {name}"));
            site.assert_done();
            let lines = site.trial.ledger.lines();
            let ends = lines.iter().filter(|line| **line == format!("end {name} 2")).count();
            // A run whose worker dies before its end is recorded is repeated, as everywhere.
            let most = if point == "finish.before" { 2 } else { 1 };
            assert!((1..=most).contains(&ends), "{name}: {lines:?}");
            assert!(!lines.iter().any(|line| line.starts_with("alert")), "{lines:?}");
            site.trial.stop(&mut heir);
            if !note.exists() {
                site.trial.stop(&mut dying);
                assert!(nth > 1, "expected {point} to be passed");
                break;
            }
            dying.wait_exit(PATIENCE);
        }
    }
}

#[test]
fn flow_is_begun_once_however_often_its_beginning_is_repeated() {
    let mut site = Site::new();
    let members = || (0..7).map(|n| tasks::note_run::call(format!("m{n}")));
    for (nth, point) in (1..=3).flat_map(|nth| [(nth, "submit.before"), (nth, "submit.replied")]) {
        let () = site.trial.redis.del("q").unwrap();
        let note = site.trial.gate(&format!("begin-{point}-{nth}"));
        // Each member has a queue of its own, so that each is begun by a request of its own.
        let members = members().enumerate().map(|(n, call)| call.queue(format!("m{n}")));
        let call = group(members).then(tasks::end::step("end".into())).into_flow().call().queue("q");
        let handle = FlowHandle::from(site.runtime.block_on(site.client.enqueue(call)).unwrap());
        let mut dying = site.dying_worker(point, nth, &note);
        wait::until("the worker to die", PATIENCE, || note.exists());
        dying.wait_exit(PATIENCE);
        let queues: Vec<String> = (0..7).flat_map(|n| ["--queue".to_owned(), format!("m{n}")]).collect();
        let words: Vec<&str> = queues.iter().map(String::as_str).chain(["--lease", "1s"]).collect();
        let mut heir = site.trial.worker(&words);
        assert_eq!(site.wait(&handle), "end", "{point} {nth}");
        site.trial.stop(&mut heir);
    }
    let lines = site.trial.ledger.lines();
    for line in (0..7).map(|n| format!("m{n}")).chain(["end 7".to_owned()]) {
        assert_eq!(lines.iter().filter(|other| **other == line).count(), 6, "{line}: {lines:?}");
    }
}

#[test]
fn callback_runs_once_while_workers_are_killed() {
    let mut site = Site::new();
    let flows: Vec<_> = (0..40)
        .map(|n| {
            let members = group((0..5).map(|m| tasks::note_run::call(format!("{n}.{m}"))));
            site.enqueue(members.then(tasks::end::step(format!("end{n}"))).on_error(tasks::alert::step()))
        })
        .collect();
    let mut dice = Dice(17);
    let mut workers: Vec<Program> = (0..3).map(|_| site.worker(&["--lease", "1s"])).collect();
    let ended = |site: &Site| {
        let is_done = |handle: &FlowHandle<String>| {
            site.runtime.block_on(handle.state()).unwrap() == Some(CallState::Succeeded)
        };
        flows.iter().filter(|handle| is_done(handle)).count()
    };
    let mut before = ended(&site);
    for _ in 0..6 {
        let victim = dice.roll(workers.len());
        workers[victim].kill9();
        workers[victim] = site.worker(&["--lease", "1s"]);
        wait::until("flows to go on", PATIENCE, || {
            let now = ended(&site);
            let goes_on = now > before || now == flows.len();
            before = now;
            goes_on
        });
    }
    for handle in &flows {
        site.wait(handle);
    }
    site.assert_done();
    for worker in &mut workers {
        site.trial.stop(worker);
    }
    let lines = site.trial.ledger.lines();
    for n in 0..flows.len() {
        let ends: Vec<&String> = lines.iter().filter(|line| line.starts_with(&format!("end{n} "))).collect();
        // More than once only where a worker was killed while it ran it.
        assert!((1..=7).contains(&ends.len()) && ends.iter().all(|end| end.ends_with(" 5")), "{ends:?}");
    }
    assert!(!lines.iter().any(|line| line.starts_with("alert")), "{lines:?}");
    let enqueued = site.trial.redis.hlen::<_, u64>("q_processing").unwrap();
    assert_eq!(enqueued, 0);
}

#[test]
fn outcome_that_is_told_twice_counts_once() {
    let mut site = Site::new();
    let gate = site.trial.gate("gate");
    let members =
        delayed::group_of((tasks::note_run::call("a".into()), tasks::gated::call("b".into(), gate.clone())));
    let handle = site.enqueue(members.then(tasks::words_of::step()));
    let mut worker = site.worker(&[]);
    site.trial.wait_runs(2);
    let a = wait::until_some("the first step to have ended", PATIENCE, || {
        site.tree(&handle).root.parts[0]
            .parts
            .iter()
            .find(|part| part.state == Some(CallState::Succeeded))
            .cloned()
    });
    // As it stands in the outbox until it is delivered.
    let id = delayed::CallId::parse(a.call_id.as_deref().unwrap()).unwrap();
    let flow = handle.id().unwrap();
    let member = [&flow.as_bytes()[..], &a.number.to_be_bytes(), &[0; 4], b"q"].concat();
    let packed: Vec<u8> =
        redis::Script::new("return cmsgpack.pack({ 1, ARGV[1], 'succeeded', 'result', ARGV[2] })")
            .arg(&member)
            .arg(&b"\xa1x"[..])
            .invoke(&mut site.trial.redis)
            .unwrap();
    let () = site.trial.redis.hset("q_outbox", &id.as_bytes()[..], packed).unwrap();
    site.assert_done();
    assert_eq!(site.runtime.block_on(handle.state()).unwrap(), Some(CallState::Running));
    crate::support::trial::open(&gate);
    assert_eq!(site.wait(&handle), "a b");
    site.trial.stop(&mut worker);
}
