//! How does a process come to each point? One scene for each row of the tables, from an empty queue on.

use delayed::__private::protocol::limit::LimitKeys;
use delayed::testing::{Fault, Requests, Side};
use nix::sys::signal::Signal;
use redis::Commands;

use super::case::{Party, call};
use super::lead_up::{
    die_while_it_runs, hold, leave_dead, leave_due, leave_scheduled, limit, order, push_to_waiting,
    raise_limit, server_ms, suspect, sweep,
};
use super::scene::{OURS, Scene, USUAL, Who};
use super::table::Place;
use crate::support::trial::PATIENCE;
use crate::support::wait;

pub(super) static REQUESTS: [Scene; 50] = [
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
            stage.start_producer("submits");
        },
        ..USUAL
    },
    Scene {
        row: "fill of a batch that is full then",
        who: Who::Producer,
        script: "fill",
        task: "points:collected",
        by_mode: false,
        can_inherit: OURS,
        play: |stage| {
            stage.push(&[call("points:note", stage.case.n + 1)]);
            stage.start_producer("fills");
        },
        ..USUAL
    },
    Scene {
        row: "submit: the call is scheduled",
        who: Who::Producer,
        script: "submit",
        by_mode: false,
        can_inherit: OURS,
        play: |stage| {
            stage.push(&[call("points:note", stage.case.n + 1)]);
            stage.start_producer("submits later");
        },
        ..USUAL
    },
    Scene { row: "split", script: "split", task: "points:split", can_inherit: OURS, ..USUAL },
    Scene {
        row: "split: an item is retried later",
        script: "split",
        task: "points:split",
        backoff: "fixed:100ms",
        can_inherit: OURS,
        ..USUAL
    },
    Scene {
        row: "split: an item is buried",
        script: "split",
        task: "points:split_once",
        can_inherit: OURS,
        buries: |_| true,
        ..USUAL
    },
    Scene {
        row: "promote of a batch",
        who: Who::Sweeper,
        script: "promote",
        task: "points:collected",
        by_mode: false,
        can_inherit: OURS,
        play: |stage| {
            let (queue, item) = (stage.case.queue(), rmp_serde::to_vec(&stage.case.n).unwrap());
            let batch = format!("{queue}:g:points:collected");
            let () = stage.redis.rpush(&batch, "1 3").unwrap();
            let () = stage.redis.rpush(&batch, item).unwrap();
            let () = stage.redis.zadd(format!("{queue}_due"), "gpoints:collected", 1).unwrap();
            stage.push(&[call("points:note", stage.case.n + 1)]);
            sweep(stage);
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
        play: raise_limit,
        ..USUAL
    },
    Scene {
        row: "unpark",
        who: Who::Operator,
        script: "unpark",
        by_mode: false,
        can_inherit: OURS,
        play: raise_limit,
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
        row: "define: a task is paused",
        who: Who::Operator,
        script: "define",
        by_mode: false,
        can_inherit: OURS,
        play: |stage| {
            leave_due(stage);
            stage.start(&["periodic", "pause", "nightly", "--queue", &stage.case.queue()]);
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
