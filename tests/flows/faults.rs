//! Flows whose processes die: nothing is lost, nothing is counted twice.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use delayed::testing::{Fault, Requests, Side};
use delayed::{CallId, CallState, FlowHandle, IntoFlow, WaitError, chain, group};
use nix::sys::signal::Signal;
use redis::Commands;

use super::{Site, tasks};
use crate::support::process::Program;
use crate::support::trial::{Dice, PATIENCE, WORKER, alone, open};
use crate::support::{is_full, wait};

/// The requests for flows, and those that end a step.
const REQUESTS: [&str; 7] =
    ["write_nodes", "begin_flow", "submit", "finish", "join", "drop_deliveries", "close"];
/// When a process dies, as in docs/lifecycle.md.
const STEPS: [&str; 4] = ["before", "sent", "committed", "replied"];
/// How many points are played at a time.
const AT_ONCE: usize = 6;

/// How a request is told from others in the network.
fn requests(name: &str, flow: CallId) -> Requests {
    let key = format!("q:f:{}", flow.to_string().replace('-', ""));
    let writes = |field: &str| Requests::with(format!("HSET\r\n$36\r\n{key}\r\n${}\r\n{field}", field.len()));
    match name {
        "write_nodes" => writes("n0"),
        "begin_flow" => writes("keep"),
        "drop_deliveries" => Requests::with("HDEL\r\n$8\r\nq_outbox"),
        script => Requests::script(script),
    }
}

impl Site {
    /// A worker that dies when it is at a point for the `nth` time.
    fn dying_worker(&self, at: &str, nth: usize, note: &Path) -> Program {
        let words = ["worker", "--queue", "q", "--queue", "other", "--lease", "1s"];
        self.dying(&words, &format!("{at}:{nth}"), note)
    }

    fn dying(&self, words: &[&str], at: &str, note: &Path) -> Program {
        let mut command = self.trial.command(WORKER);
        command.args(words).args(["--redis", &self.trial.server.url()]);
        command.env("DELAYED_CRASH_AT", at).env("DELAYED_CRASH_NOTE", note);
        Program::spawn(&mut command)
    }

    /// Everything that the flow has to do is done.
    fn has_ended<R>(&self, handle: &FlowHandle<R>) -> bool {
        let state = self.runtime.block_on(handle.state()).unwrap();
        let mut redis = self.trial.server.connection();
        state.is_some_and(|state| state.is_final()) && redis.hlen::<_, u64>("q_outbox").unwrap() == 0
    }

    /// Starts a worker that is to die at the `nth` request of a kind, and waits until it has, or until the flow has ended without.
    /// Returns whether it has died.
    fn dies<R>(&self, handle: &FlowHandle<R>, point: (&str, &str), nth: u32) -> bool {
        let words = ["worker", "--queue", "q", "--queue", "other", "--lease", "1s"];
        self.dies_as(&words, handle, point, nth)
    }

    /// The same for an operator who lets the flow go on.
    fn operator_dies<R>(&self, handle: &FlowHandle<R>, point: (&str, &str), nth: u32) -> bool {
        let id = handle.id().unwrap().to_string();
        self.dies_as(&["flows", "retry", &id, "--queue", "q"], handle, point, nth)
    }

    fn dies_as<R>(&self, words: &[&str], handle: &FlowHandle<R>, point: (&str, &str), nth: u32) -> bool {
        let (request, step) = point;
        let is_worker = words[0] == "worker";
        let name = format!("{request}.{step}:{nth}");
        let is_caught = matches!(step, "sent" | "committed");
        if !is_caught {
            let note = self.trial.gate(&format!("note-{name}"));
            let mut dying = self.dying(words, &name, &note);
            wait::until("it to die, or the flow to end", PATIENCE, || {
                note.exists() || if is_worker { self.has_ended(handle) } else { dying.has_ended() }
            });
            if is_worker {
                dying.signal(Signal::SIGTERM);
            }
            dying.wait_exit(PATIENCE);
            // Its end may have come with that of the flow.
            let has_died = note.exists();
            if is_worker && !has_died {
                self.trial.ended(&mut dying);
            }
            return has_died;
        }
        let side = if step == "sent" { Side::Request } else { Side::Reply };
        let proxy = self.trial.server.proxy();
        let trap = proxy.trap(side, requests(request, handle.id().unwrap()).nth(nth), Fault::Hold);
        let mut command = self.trial.command(WORKER);
        let mut dying = Program::spawn(command.args(words).args(["--redis", proxy.url()]));
        wait::until("it to be caught, or the flow to end", PATIENCE, || {
            let is_over = if is_worker { self.has_ended(handle) } else { dying.has_ended() };
            trap.struck() > 0 || (is_over && trap.met() < nth)
        });
        let is_caught = trap.struck() > 0;
        if is_caught {
            dying.kill9();
        }
        trap.release();
        if is_worker && !is_caught {
            self.trial.stop(&mut dying);
        }
        wait::until("all that was sent to arrive", PATIENCE, || proxy.unanswered() == 0);
        is_caught
    }

    /// What a flow of three steps, two at the same time, and one after them, comes to.
    fn small_flow(&self, name: &str) -> FlowHandle<String> {
        let step = |name: &str| tasks::identified::call(vec![], name.into());
        let rest = chain(step("a")).then(group(["b", "c"].map(step)));
        self.enqueue(rest.then(tasks::identified::step(name.into())).on_error(tasks::alert::step()))
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

/// With how many results each call of a step has run, from the lines of `flows.identified`.
fn results_of<'a>(calls: &BTreeSet<&'a str>, step: &str) -> Vec<&'a str> {
    let words = calls.iter().map(|line| line.split(' ').collect::<Vec<_>>());
    words.filter(|words| words[0] == step).map(|words| words[2]).collect()
}

/// Lets a worker die at one point of one flow after the other, each time at the next request of that kind, until none comes.
fn play(request: &str, step: &str) {
    let mut site = Site::new();
    for nth in 1.. {
        let name = format!("{request}.{step}:{nth}");
        let before = site.trial.ledger.lines().len();
        let handle = site.small_flow(&name);
        let has_died = site.dies(&handle, (request, step), nth);
        let mut heir = site.worker(&["--lease", "1s"]);
        assert_eq!(site.wait(&handle), name);
        site.assert_done();
        site.trial.wait_settled();
        let lines = site.trial.ledger.lines().split_off(before);
        // A run whose worker dies before its end is recorded is repeated, as everywhere: as the same call.
        let calls: BTreeSet<&str> = lines.iter().map(String::as_str).collect();
        let results: Vec<_> = ["a", "b", "c", &name].map(|step| results_of(&calls, step)).into();
        assert_eq!(
            results,
            [["0"], ["0"], ["0"], ["2"]],
            "{name}: expected each step to be one call: {lines:?}"
        );
        assert!(!lines.iter().any(|line| line.starts_with("alert")), "{name}: {lines:?}");
        assert_eq!(site.tree(&handle).to_string().matches("succeeded").count(), 7, "{name}");
        assert_eq!(site.trial.state().dead.len(), 0, "{name}");
        site.trial.stop(&mut heir);
        if !has_died {
            assert!(nth > 1, "expected {request} to be passed");
            break;
        }
    }
}

#[test]
fn worker_that_dies_at_any_point_leaves_the_flow_to_others() {
    let _alone = alone();
    let points: Vec<_> = REQUESTS.iter().flat_map(|request| STEPS.map(|step| (*request, step))).collect();
    let next = Mutex::new(points.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((request, step)) = { next.lock().unwrap().next() } {
                    play(request, step);
                }
            });
        }
    });
}

/// An operator lets a flow go on that has failed, and dies at one kind of request.
fn play_operator(request: &str) {
    let mut site = Site::new();
    let mut worker = site.worker(&[]);
    for step in STEPS {
        for nth in 1.. {
            let name = format!("{request}.{step}:{nth}");
            let (file, before) = (site.trial.gate(&format!("file-{name}")), site.trial.ledger.lines().len());
            let parts = delayed::group_of((
                tasks::note_run::call("once".into()),
                tasks::needs::call(file.clone()),
                chain(tasks::needs::call(file.clone())).then(tasks::number::call(1)),
            ));
            let handle = site.enqueue(parts.then(tasks::note_run::call(name.clone())));
            assert!(matches!(site.try_wait(&handle), Err(WaitError::Dead { .. })), "{name}");
            open(&file);
            let has_died = site.operator_dies(&handle, (request, step), nth);
            // It goes on already, or another one lets it go on.
            let _ = site.runtime.block_on(handle.retry()).unwrap();
            assert_eq!(site.wait(&handle), name);
            site.assert_done();
            let lines = site.trial.ledger.lines().split_off(before);
            assert_eq!(lines, ["once", &name], "{name}");
            if !has_died {
                assert!(nth > 1, "expected {request} to be passed");
                break;
            }
        }
    }
    site.trial.stop(&mut worker);
}

#[test]
fn operator_that_dies_lets_the_flow_go_on_once() {
    std::thread::scope(|scope| {
        for request in ["reopen", "submit", "drop_deliveries"] {
            scope.spawn(move || play_operator(request));
        }
    });
}

#[test]
fn flow_is_begun_once_however_often_its_beginning_is_repeated() {
    let mut site = Site::new();
    let members = || (0..7).map(|n| tasks::note_run::call(format!("m{n}")));
    // After none of the members have begun, after the first, …, after all.
    let points = [(1, "submit.before")].into_iter().chain((1..=7).map(|nth| (nth, "submit.replied")));
    for (nth, point) in points {
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
        assert_eq!(lines.iter().filter(|other| **other == line).count(), 8, "{line}: {lines:?}");
    }
}

/// The runs of one step, as `flows.traced` notes them.
#[derive(Default)]
struct Runs<'a> {
    ids: BTreeSet<&'a str>,
    begun: usize,
    ended: usize,
}

/// The runs of every step, by its name.
fn runs(lines: &[String]) -> BTreeMap<&str, Runs<'_>> {
    let mut all: BTreeMap<&str, Runs<'_>> = BTreeMap::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let runs = all.entry(words[1]).or_default();
        runs.ids.insert(words[2]);
        match words[0] {
            "begin" => runs.begun += 1,
            "end" => {
                let expected = if words[1].contains('.') { "0" } else { "3" };
                assert_eq!(words[3], expected, "expected {expected} results: {line}");
                runs.ended += 1;
            }
            _ => panic!("expected steps to begin and to end, and nothing else: {line}"),
        }
    }
    all
}

#[test]
fn callback_runs_once_while_workers_are_killed() {
    const MEMBERS: usize = 3;
    let count = if is_full() { 1_000 } else { 50 };
    let (mut site, began) = (Site::new(), Instant::now());
    let flows: Vec<FlowHandle<String>> = (0..count)
        .map(|n| {
            let members = group((0..MEMBERS).map(|m| tasks::traced::call(vec![], format!("{n}.{m}"))));
            site.enqueue(members.then(tasks::traced::step(format!("{n}"))).on_error(tasks::alert::step()))
        })
        .collect();
    let words = ["--lease", "1s", "--concurrency", "2"];
    let mut workers: Vec<Program> = (0..3).map(|_| site.worker(&words)).collect();
    let (mut dice, mut kills, mut left) = (Dice(17), 0, flows.iter().collect::<Vec<_>>());
    let mut running = || {
        let state = |handle: &FlowHandle<_>| site.runtime.block_on(handle.state()).unwrap();
        while left.last().is_some_and(|handle| state(handle) == Some(CallState::Succeeded)) {
            left.pop();
        }
        left.len()
    };
    loop {
        let since = Instant::now();
        wait::until("time to pass, or all flows to end", PATIENCE, || {
            running() == 0 || since.elapsed() >= Duration::from_millis(300)
        });
        if running() == 0 {
            break;
        }
        assert!(
            began.elapsed() < PATIENCE * 5,
            "expected all flows to end, not all but {} of them",
            running()
        );
        let victim = dice.roll(workers.len());
        workers[victim].kill9();
        kills += 1;
        workers[victim] = site.worker(&words);
    }
    site.assert_done();
    site.trial.wait_settled();
    workers.iter_mut().for_each(|worker| drop(site.trial.stop(worker)));

    let lines = site.trial.ledger.lines();
    let all = runs(&lines);
    assert_eq!(all.len(), count * (1 + MEMBERS), "expected each step to run, and no other");
    let mut again = 0;
    for (name, runs) in &all {
        assert_eq!(runs.ids.len(), 1, "expected {name} to be enqueued once: {:?}", runs.ids);
        assert!(runs.ended > 0, "expected {name} to run to its end");
        again += runs.begun - 1;
    }
    println!(
        "{count} flows, {kills} kills: {} callbacks, each of one call; {again} runs of {} were repeated; {:.1?}",
        all.keys().filter(|name| !name.contains('.')).count(),
        lines.iter().filter(|line| line.starts_with("begin")).count(),
        began.elapsed()
    );
    assert!(kills > 2, "expected kills while flows run: {kills}");
    assert_eq!(site.trial.dead(), 0);
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

#[test]
fn flow_that_ended_before_its_message_stays_ended() {
    let mut site = Site::new();
    let handle = site.enqueue(chain(tasks::note_run::call("once".into())));
    let message: Vec<u8> = site.trial.redis.lindex("q", 0).unwrap();
    let mut worker = site.worker(&[]);
    assert_eq!(site.wait(&handle), "once");
    site.trial.wait_settled();
    // As a worker leaves it that was silent for long while others ran the steps.
    let () = site.trial.redis.hset("q_processing", "q:abcdefghijklmn27:0", message).unwrap();
    let lost = worker.wait_for_line("found messages of dead workers");
    assert!(lost.contains("\"requeued\":1"), "{lost}");
    site.trial.wait_settled();
    site.trial.stop(&mut worker);
    assert_eq!(site.runtime.block_on(handle.state()).unwrap(), Some(CallState::Succeeded));
    assert_eq!(site.wait(&handle), "once");
    assert_eq!(site.trial.ledger.lines(), ["once"]);
}

#[test]
fn reply_to_another_request_loses_no_step() {
    for nth in [3, 10, 20, 30, 45, 60] {
        let site = Site::new();
        let proxy = site.trial.server.proxy();
        // Many flows go on at the same time, so that replies which are one place off come to requests of the same kind.
        let flow = || group((1..4).map(tasks::number::call)).at_most(1).then(tasks::sum::step());
        let enqueue = || site.runtime.block_on(site.client.enqueue_flow(flow())).unwrap();
        let flows: Vec<_> = (0..24).map(|_| enqueue()).collect();
        let trap = proxy.trap(Side::Reply, Requests::command("HMGET").nth(nth), Fault::Double);
        let mut worker = site.trial.worker_at(proxy.url(), &["--lease", "1s", "--concurrency", "24"]);
        for handle in flows {
            let sum = site.runtime.block_on(handle.wait(PATIENCE));
            assert_eq!(sum.unwrap_or_else(|error| panic!("reply {nth}: {error}")), 6);
        }
        assert_eq!(trap.struck(), 1, "reply {nth}: expected it to be there");
        site.trial.stop(&mut worker);
    }
}
