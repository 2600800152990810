//! How does a process come to each point? One scene for each row of the tables, from an empty queue on.

use std::fmt;

use delayed::__private::protocol::keys::waiters;
use delayed::__private::protocol::limit::LimitKeys;
use delayed::__private::protocol::periodic::Definition;
use delayed::__private::script_text;
use delayed::CallId;
use delayed::testing::{Fault, Requests, Side};
use nix::sys::signal::Signal;
use redis::Commands;

use super::case::{Case, Party, Stage, call};
use super::table::Place;
use crate::support::process::Program;
use crate::support::redis::read;
use crate::support::trial::PATIENCE;
use crate::support::wait;

/// Which process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Producer,
    Worker,
    Sweeper,
    Operator,
}

impl Who {
    /// As the document says it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Worker => "worker",
            Self::Sweeper => "sweeper",
            Self::Operator => "operator",
        }
    }
}

/// How one row is played.
pub(super) struct Scene {
    /// Its name in the table.
    pub(super) row: &'static str,
    pub(super) who: Who,
    /// What its points are named after: the script, or `run`.
    pub(super) script: &'static str,
    /// At which time it comes there.
    pub(super) nth: u32,
    pub(super) task: &'static str,
    /// How long its worker lets a failed call wait.
    pub(super) backoff: &'static str,
    /// Whether it makes a difference where the worker runs its calls.
    pub(super) by_mode: bool,
    /// Whose workers may have owned the message before.
    pub(super) owners: &'static [Party],
    /// Whether workers of this kind can take over when the message is there.
    pub(super) can_inherit: fn(Party, Place) -> bool,
    /// Whether the call ends as a dead letter, wherever it is after the crash.
    pub(super) buries: fn(&Case) -> bool,
    pub(super) play: fn(&mut Stage<'_>),
}

impl fmt::Debug for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row)
    }
}

/// What is so where nothing else is said: a worker dies in the call of a script, and all can inherit.
const USUAL: Scene = Scene {
    row: "",
    who: Who::Worker,
    script: "",
    nth: 1,
    task: "points:note",
    backoff: "none",
    by_mode: true,
    owners: &[Party::Rust],
    can_inherit: |_, _| true,
    buries: |_| false,
    play: |stage| {
        stage.push_both();
        stage.start_worker("1s");
    },
};

/// Only Rust's workers have something to do with it.
const OURS: fn(Party, Place) -> bool = |party, _| party == Party::Rust;

pub(super) static REQUESTS: [Scene; 43] = [
    Scene {
        row: "enqueue",
        who: Who::Producer,
        script: "enqueue",
        by_mode: false,
        play: |stage| {
            let (task, n, queue) = (stage.case.task, format!("[{}]", stage.case.n), stage.case.queue());
            stage.push(&[call("points:note", stage.case.n + 1)]);
            stage.start(&["enqueue", task, &n, "--queue", &queue]);
        },
        ..USUAL
    },
    Scene {
        row: "schedule",
        who: Who::Producer,
        script: "schedule",
        by_mode: false,
        // Others cannot read a message that has an id.
        can_inherit: OURS,
        play: |stage| {
            let (task, n, queue) = (stage.case.task, format!("[{}]", stage.case.n), stage.case.queue());
            stage.push(&[call("points:note", stage.case.n + 1)]);
            stage.start(&["enqueue", task, &n, "--queue", &queue, "--after", "10ms"]);
        },
        ..USUAL
    },
    Scene {
        row: "wait for a token, a claim behind it (`BLMOVE`)",
        script: "wait",
        play: |stage| {
            let claims = || Requests::script("pick_up");
            let behind = stage.proxy.trap(Side::Request, claims().nth(u32::MAX), Fault::Hold);
            if stage.case.step == "replied" {
                // Redis answers the claim too, which is not to be heard before the token.
                stage.trap = stage.proxy.trap(Side::Reply, claims().nth(1), Fault::Hold);
            }
            stage.start_worker("1s");
            if let "committed" | "replied" = stage.case.step {
                wait::until("a claim to be behind the wait", PATIENCE, || behind.met() >= 1);
            }
            push_to_waiting(stage);
        },
        ..USUAL
    },
    Scene {
        row: "wait for a token of several queues (`BLPOP`)",
        script: "wait_any",
        play: |stage| {
            stage.start_worker_of_two("1s");
            push_to_waiting(stage);
        },
        ..USUAL
    },
    Scene { row: "claim", script: "claim", ..USUAL },
    Scene {
        row: "pick_up",
        script: "pick_up",
        play: |stage| {
            stage.start_worker("1s");
            push_to_waiting(stage);
        },
        ..USUAL
    },
    Scene { row: "release", script: "claim", nth: 2, ..USUAL },
    Scene {
        row: "retry",
        script: "retry",
        task: "points:retried",
        // Others cannot read a message that says how often it was tried.
        can_inherit: |party, place| party == Party::Rust || place == Place::Owned,
        ..USUAL
    },
    Scene {
        row: "retry_later",
        script: "retry_later",
        task: "points:retried",
        backoff: "fixed:100ms",
        can_inherit: |party, place| party == Party::Rust || place == Place::Owned,
        ..USUAL
    },
    Scene {
        row: "bury",
        script: "bury",
        task: "points:failing",
        buries: |case| case.parties.1 == Party::Rust,
        ..USUAL
    },
    Scene {
        row: "bury what was killed",
        script: "bury",
        task: "points:held",
        play: |stage| {
            stage.push_both();
            // An order for a worker whose lease has ended, as it may on a busy machine, is refused.
            stage.start_worker("2s");
            stage.wait_effect();
            order(stage);
        },
        ..USUAL
    },
    Scene {
        row: "put_back at a shutdown",
        script: "put_back",
        task: "points:held",
        play: |stage| {
            stage.push_both();
            stage.start_worker("1s");
            stage.wait_effect();
            stage.victim().signal(Signal::SIGTERM);
        },
        ..USUAL
    },
    Scene {
        row: "put_back what is another worker's",
        script: "put_back",
        task: "points:foreign",
        by_mode: false,
        can_inherit: |party, _| party != Party::Rust,
        ..USUAL
    },
    Scene {
        row: "beat that takes an order",
        script: "beat",
        // The first one is made at the start; there are three seconds until the next.
        nth: 2,
        task: "points:held",
        play: |stage| {
            stage.push_both();
            stage.start_worker("12s");
            stage.wait_effect();
            order(stage);
            stage.arrive();
        },
        ..USUAL
    },
    Scene {
        row: "reconcile after a claim",
        script: "reconcile",
        play: |stage| {
            stage.push_both();
            stage.proxy.trap(Side::Reply, Requests::script("claim").nth(1), Fault::End);
            stage.start_worker("1s");
        },
        ..USUAL
    },
    Scene {
        row: "resign",
        script: "resign",
        can_inherit: OURS,
        play: |stage| {
            stage.push_both();
            stage.start_worker("1s");
            wait::until("both to be released", PATIENCE, || {
                let state = stage.state();
                state.waiting.is_empty() && state.processing.is_empty()
            });
            stage.victim().signal(Signal::SIGTERM);
        },
        ..USUAL
    },
    Scene {
        row: "requeue_lost",
        who: Who::Sweeper,
        script: "requeue_lost",
        task: "points:held",
        by_mode: false,
        owners: &[Party::Rust, Party::Python, Party::Go],
        play: |stage| {
            die_while_it_runs(stage);
            sweep(stage);
        },
        ..USUAL
    },
    Scene {
        row: "requeue_lost at the third death of a run alone",
        who: Who::Sweeper,
        script: "requeue_lost",
        task: "points:held",
        by_mode: false,
        buries: |_| true,
        can_inherit: OURS,
        play: |stage| {
            suspect(stage, "=2 ");
            die_while_it_runs(stage);
            sweep(stage);
        },
        ..USUAL
    },
    Scene {
        row: "balance",
        who: Who::Sweeper,
        script: "balance",
        by_mode: false,
        play: |stage| {
            let () = stage.redis.rpush(stage.case.queue(), stage.case.hit()).unwrap();
            sweep(stage);
        },
        ..USUAL
    },
    Scene {
        row: "promote",
        who: Who::Sweeper,
        script: "promote",
        by_mode: false,
        play: |stage| {
            let (queue, hit) = (stage.case.queue(), stage.case.hit());
            let () = stage.redis.zadd(format!("{queue}_due"), "cid", 1).unwrap();
            let () = stage.redis.hset(format!("{queue}_later"), "id", hit).unwrap();
            let bystander = call("points:note", stage.case.n + 1);
            stage.push(&[bystander]);
            sweep(stage);
        },
        ..USUAL
    },
    Scene {
        row: "kill",
        who: Who::Operator,
        script: "kill",
        task: "points:held",
        can_inherit: OURS,
        buries: |case| case.step != "before",
        play: |stage| {
            stage.push_both();
            let worker = stage.other_worker("8s");
            stage.wait_effect();
            // It shall not obey before we have looked.
            worker.signal(Signal::SIGSTOP);
            stage.others.push(worker);
            let slot = stage.state().processing.into_keys().next().expect("a run owns its message");
            stage.start(&["tasks", "kill", &slot, "--by", "anna"]);
        },
        ..USUAL
    },
    Scene {
        row: "revive",
        who: Who::Operator,
        script: "revive",
        by_mode: false,
        play: |stage| {
            leave_dead(stage);
            stage.start(&["dead", "requeue", "--all", "--queue", &stage.case.queue()]);
        },
        ..USUAL
    },
    Scene {
        row: "delete",
        who: Who::Operator,
        script: "delete",
        by_mode: false,
        can_inherit: OURS,
        play: |stage| {
            leave_dead(stage);
            stage.start(&["dead", "delete", "--all", "--yes", "--queue", &stage.case.queue()]);
        },
        ..USUAL
    },
    Scene {
        row: "purge",
        who: Who::Operator,
        script: "purge",
        by_mode: false,
        play: |stage| {
            stage.push(&[stage.case.hit()]);
            stage.start(&["purge", &stage.case.queue(), "--yes"]);
        },
        ..USUAL
    },
    Scene {
        row: "cancel",
        who: Who::Operator,
        script: "cancel",
        by_mode: false,
        play: |stage| {
            let id = leave_scheduled(stage);
            stage.start(&["calls", "cancel", &id, "--queue", &stage.case.queue()]);
        },
        ..USUAL
    },
    Scene {
        row: "run_now",
        who: Who::Operator,
        script: "run_now",
        by_mode: false,
        play: |stage| {
            let id = leave_scheduled(stage);
            stage.start(&["calls", "run", &id, "--queue", &stage.case.queue()]);
        },
        ..USUAL
    },
    Scene {
        row: "pause",
        who: Who::Operator,
        script: "pause",
        by_mode: false,
        play: |stage| {
            stage.push_both();
            stage.start(&["queues", "pause", &stage.case.queue()]);
        },
        ..USUAL
    },
    Scene {
        row: "resume",
        who: Who::Operator,
        script: "resume",
        by_mode: false,
        play: |stage| {
            stage.push_both();
            let () = stage.redis.set(format!("{}_paused", stage.case.queue()), "17 anna").unwrap();
            stage.start(&["queues", "resume", &stage.case.queue()]);
        },
        ..USUAL
    },
    Scene {
        row: "submit",
        who: Who::Producer,
        script: "submit",
        by_mode: false,
        can_inherit: OURS,
        play: |stage| {
            stage.push(&[call("points:note", stage.case.n + 1)]);
            stage.start_producer();
        },
        ..USUAL
    },
    Scene {
        row: "start",
        script: "start",
        task: "points:held",
        can_inherit: OURS,
        play: |stage| {
            stage.push_both();
            stage.start_worker("1s");
            stage.wait_effect();
        },
        ..USUAL
    },
    Scene {
        row: "note",
        script: "note",
        task: "points:says",

        can_inherit: OURS,
        play: |stage| {
            stage.push_both();
            stage.start_worker("1s");
            stage.wait_effect();
        },
        ..USUAL
    },
    Scene { row: "finish", script: "finish", can_inherit: OURS, ..USUAL },
    Scene {
        row: "finish of a cancelled call",
        script: "finish",
        can_inherit: OURS,
        play: |stage| {
            stage.push_both();
            stage.mark();
            stage.start_worker("1s");
        },
        ..USUAL
    },
    Scene {
        row: "cancel what waits",
        who: Who::Operator,
        script: "cancel",
        by_mode: false,
        can_inherit: OURS,
        play: |stage| {
            stage.push_both();
            let id = stage.case.id().to_string();
            stage.start(&["calls", "cancel", &id, "--queue", &stage.case.queue()]);
        },
        ..USUAL
    },
    Scene {
        row: "acquire",
        script: "acquire",
        can_inherit: OURS,
        play: |stage| {
            limit(stage, &[("concurrency", 1)]);
            stage.push(&[stage.case.hit()]);
            stage.start_worker("1s");
        },
        ..USUAL
    },
    Scene {
        row: "renew",
        script: "renew",
        task: "points:held",
        by_mode: false,
        can_inherit: OURS,
        play: |stage| {
            limit(stage, &[("concurrency", 1)]);
            stage.push(&[stage.case.hit()]);
            stage.start_worker("1s");
        },
        ..USUAL
    },
    Scene {
        row: "park",
        script: "park",
        can_inherit: OURS,
        play: |stage| {
            limit(stage, &[("concurrency", 1)]);
            let keys = LimitKeys::new(&stage.case.limit());
            hold(stage, &keys);
            stage.push(&[stage.case.hit()]);
            stage.start_worker("1s");
        },
        ..USUAL
    },
    Scene {
        row: "defer",
        script: "defer",
        can_inherit: OURS,
        play: |stage| {
            limit(stage, &[("rate", 1), ("period", 1000)]);
            let (keys, next) = (LimitKeys::new(&stage.case.limit()), server_ms(stage) + 2000);
            let () = stage.redis.hset(&keys.state, "next", next).unwrap();
            stage.push(&[stage.case.hit()]);
            stage.start_worker("1s");
        },
        ..USUAL
    },
    Scene {
        row: "wake",
        who: Who::Operator,
        script: "wake",
        by_mode: false,
        can_inherit: OURS,
        play: |stage| {
            leave_parked(stage);
            stage.start(&["limits", "set", stage.case.limit().as_str(), "--concurrency", "2"]);
        },
        ..USUAL
    },
    Scene {
        row: "unpark",
        who: Who::Operator,
        script: "unpark",
        by_mode: false,
        can_inherit: OURS,
        play: |stage| {
            leave_parked(stage);
            stage.start(&["limits", "set", stage.case.limit().as_str(), "--concurrency", "2"]);
        },
        ..USUAL
    },
    Scene {
        row: "begin a suspect",
        script: "begin",
        by_mode: false,
        play: |stage| {
            suspect(stage, "");
            stage.push_both();
            stage.start_worker("1s");
        },
        ..USUAL
    },
    Scene {
        row: "define: a task is removed",
        who: Who::Operator,
        script: "define",
        by_mode: false,
        can_inherit: OURS,
        play: |stage| {
            leave_due(stage);
            stage.start(&["periodic", "remove", "nightly", "--queue", &stage.case.queue()]);
        },
        ..USUAL
    },
    Scene {
        row: "tick",
        who: Who::Sweeper,
        script: "tick",
        by_mode: false,
        // Only ours make the calls of periodic tasks.
        can_inherit: |party, place| party == Party::Rust || place == Place::Waiting,
        play: |stage| {
            leave_due(stage);
            sweep(stage);
        },
        ..USUAL
    },
];

/// The run of a call, from its claim to the next request.
pub(super) static RUN: Scene = Scene { row: "run", script: "run", ..USUAL };

/// Sets what the limit of the case allows.
fn limit(stage: &mut Stage<'_>, policy: &[(&str, u64)]) {
    let keys = LimitKeys::new(&stage.case.limit());
    let () = stage.redis.hset_multiple(&keys.policy, policy).unwrap();
}

fn server_ms(stage: &mut Stage<'_>) -> u64 {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut stage.redis).unwrap();
    seconds * 1000 + micros / 1000
}

/// Somebody holds the limit for a while.
fn hold(stage: &mut Stage<'_>, keys: &LimitKeys) {
    let ends = server_ms(stage) + 4000;
    let () = stage.redis.zadd(&keys.holders, "somebody#1", ends).unwrap();
}

/// The call waits for its limit, which somebody holds.
fn leave_parked(stage: &mut Stage<'_>) {
    limit(stage, &[("concurrency", 1)]);
    let (keys, queue, hit) = (LimitKeys::new(&stage.case.limit()), stage.case.queue(), stage.case.hit());
    hold(stage, &keys);
    let (waiters, entry) = (waiters(&queue, &stage.case.limit()), format!("{} {queue}", sha1(stage, &hit)));
    let () = stage.redis.rpush(waiters, hit).unwrap();
    let () = stage.redis.sadd(format!("{queue}_parked"), stage.case.limit().as_str()).unwrap();
    let () = stage.redis.rpush(&keys.line, entry).unwrap();
}

/// Messages come when the worker waits for them.
fn push_to_waiting(stage: &mut Stage<'_>) {
    match stage.case.step {
        "before" | "sent" => stage.arrive(),
        _ => wait::until("the worker to wait", PATIENCE, || stage.trap.met() >= 1),
    }
    stage.push_both();
}

/// Orders the worker to end what it runs, again with each beat that fails: a beat whose reply comes too late, as it may on
/// a busy machine, has lost the orders that it took.
fn order(stage: &mut Stage<'_>) {
    let mut given = None;
    wait::until_ok(PATIENCE, || {
        let said = stage.victim().printed();
        let failed = said.matches("\"request\":\"heartbeat\"").count();
        if stage.has_arrived() {
            return Ok(());
        }
        if given != Some(failed) {
            give_order(stage, given.is_none());
            given = Some(failed);
        }
        Err(format!("the order to be heard: {:?}\n{said}", stage.case))
    });
}

fn give_order(stage: &mut Stage<'_>, first: bool) {
    let script = script_text("kill").unwrap();
    let Some((slot, message)) = stage.state().processing.into_iter().next() else {
        assert!(!first, "expected a run to own its message: {:?}", stage.case);
        return;
    };
    let (worker, _) = slot.rsplit_once(':').unwrap();
    let digest = sha1(stage, &message);
    let (orders, told) = (format!("{worker}:kill"), format!("{slot}:told"));
    let mut command = redis::cmd("EVAL");
    command.arg(script).arg(5).arg(format!("{}_processing", stage.case.queue()));
    command.arg(worker).arg(&slot).arg(orders).arg(told);
    command.arg(&slot).arg(digest).arg("anna").arg(60_000).arg(100);
    let stands: i64 = read(&mut stage.redis, &command);
    // A later one may find that its run has ended after all.
    assert!(stands == 1 || !first, "expected the order to stand: {stands}, {:?}", stage.case);
}

fn sha1(stage: &mut Stage<'_>, message: &[u8]) -> String {
    let mut command = redis::cmd("EVAL");
    read(&mut stage.redis, command.arg("return redis.sha1hex(ARGV[1])").arg(0).arg(message))
}

/// Two processes died while they owned the call, and what is known of it by itself.
fn suspect(stage: &mut Stage<'_>, own: &str) {
    let deaths = format!("{}_deaths", stage.case.queue());
    let digest = sha1(stage, &stage.case.hit());
    let (now, _): (u64, u64) = redis::cmd("TIME").query(&mut stage.redis).unwrap();
    let () = stage.redis.hset(&deaths, digest, format!("2 {}000 {own}one another", now - 60)).unwrap();
    let () = stage.redis.expire(&deaths, 3600).unwrap();
}

/// A worker of the owner's kind dies while it runs the call.
fn die_while_it_runs(stage: &mut Stage<'_>) {
    stage.push(&[stage.case.hit()]);
    let mut owner = match stage.case.parties.0 {
        Party::Rust => stage.other_worker("1s"),
        party => Program::spawn(&mut stage.site.foreign(party, &[stage.case.queue()])),
    };
    stage.wait_effect();
    owner.kill9();
    stage.end_lease();
    let bystander = call("points:note", stage.case.n + 1);
    stage.push(&[bystander]);
}

fn sweep(stage: &mut Stage<'_>) {
    stage.start(&["sweeper", "--interval", "100ms", "--queue", &stage.case.queue()]);
}

/// A periodic task is due, nobody has made its call yet, and its next tick is far away; and another call waits.
fn leave_due(stage: &mut Stage<'_>) {
    let queue = stage.case.queue();
    let definition = Definition::new("0 0 1 1 *", stage.case.hit(), false).encode();
    let () = stage.redis.hset(format!("{queue}_periodic"), "d:nightly", definition).unwrap();
    let () = stage.redis.zadd(format!("{queue}_due"), "pnightly", 1).unwrap();
    let bystander = call("points:note", stage.case.n + 1);
    stage.push(&[bystander]);
}

/// The call is due, and nobody has moved it yet; and another waits. Gives its id.
fn leave_scheduled(stage: &mut Stage<'_>) -> String {
    let (queue, hit, id) = (stage.case.queue(), stage.case.hit(), CallId::new());
    let member = [b"c", &id.as_bytes()[..]].concat();
    let () = stage.redis.zadd(format!("{queue}_due"), member, 1).unwrap();
    let () = stage.redis.hset(format!("{queue}_later"), &id.as_bytes()[..], hit).unwrap();
    let bystander = call("points:note", stage.case.n + 1);
    stage.push(&[bystander]);
    id.to_string()
}

/// A dead letter of the call, and somebody who waits.
fn leave_dead(stage: &mut Stage<'_>) {
    let (key, message) = (format!("{}_dead", stage.case.queue()), stage.case.hit());
    let mut command = redis::cmd("XADD");
    command.arg(key).arg("*").arg("message").arg(message).arg("reason").arg("failed");
    command.arg("detail").arg("no").arg("attempt").arg(1).arg("worker").arg("h/1/w");
    let _: String = read(&mut stage.redis, &command);
    let bystander = call("points:note", stage.case.n + 1);
    stage.push(&[bystander]);
}
