//! Each fault that a network can have, at each kind of request of a worker, a sweeper and a client: nothing is lost,
//! nothing runs more often than the fault explains, and all go on with new connections, also where an old one stays.

use std::time::Duration;

use delayed::testing::{Fault, Mode, Proxy, Requests, Side};
use delayed::{Client, GoTask};
use redis::Commands;

use crate::support::process::{DELAYED, Program};
use crate::support::redis::Options;
use crate::support::trial::{PATIENCE, QUEUE, Trial, WORKER, call, count, mark, marks, ready};
use crate::support::wait;

/// After this time without a reply a party gives a connection up.
const TIMEOUT: Duration = Duration::from_millis(400);

const FAULTS: [Fault; 8] = [
    Fault::Delay(Duration::from_millis(30)),
    // Not released: what was once silent stays so.
    Fault::Hold,
    Fault::Drop,
    Fault::Double,
    Fault::End,
    Fault::Reset,
    Fault::HalfThenEnd,
    Fault::HalfThenNothing,
];

/// A Redis on a port, since only there a connection can be reset, and a proxy before it.
fn network() -> (Trial, Proxy) {
    let trial = Trial::with(Options { tcp: true, ..Options::default() });
    let proxy = Proxy::to(&trial.server.tcp_url()).unwrap();
    (trial, proxy)
}

/// Starts one of the programs at the proxy.
fn start(trial: &Trial, proxy: &Proxy, program: &str, words: &[&str]) -> Program {
    let mut command = trial.command(program);
    command.args(words).args(["--redis", proxy.url(), "--queue", QUEUE]);
    Program::spawn(command.env("DELAYED_REDIS_TIMEOUT", format!("{TIMEOUT:?}")))
}

fn worker(trial: &Trial, proxy: &Proxy, words: &[&str]) -> Program {
    let worker = start(trial, proxy, WORKER, &[&["worker"][..], words].concat());
    ready(&worker);
    worker
}

/// Calls `play` with each fault and each side, some at a time.
fn each(play: impl Fn(Side, Fault) + Sync) {
    for side in [Side::Request, Side::Reply] {
        std::thread::scope(|scope| {
            for fault in FAULTS {
                let play = &play;
                scope.spawn(move || play(side, fault));
            }
        });
    }
}

#[test]
fn a_worker_runs_each_call_once() {
    each(|side, fault| {
        let (mut trial, proxy) = network();
        let mut worker = worker(&trial, &proxy, &["--concurrency", "4", "--lease", "60s"]);
        let mut runs: Vec<String> = Vec::new();
        let mut struck =
            |trial: &mut Trial, name: &str, requests: Requests, message: &dyn Fn(String) -> Vec<u8>| {
                let trap = proxy.trap(side, requests.nth(1), fault);
                let names: Vec<String> = (0..6).map(|n| format!("{name}/{n}")).collect();
                let hit = format!("{name}/hit");
                let mut messages: Vec<Vec<u8>> = names.iter().map(mark).collect();
                messages.insert(3, message(hit.clone()));
                trial.push(&messages);
                wait::until_ok(PATIENCE, || {
                    let done = names.iter().all(|name| trial.ledger.executions().contains_key(name));
                    if done && trap.struck() == 1 && trial.left() == (0, 0) {
                        return Ok(());
                    }
                    let (state, left) = (trap.struck(), trial.left());
                    Err(format!(
                        "{fault:?} of a {side:?} of {name}: struck {state}, left {left:?}\n{}",
                        worker.printed()
                    ))
                });
                runs.extend(names);
                hit
            };
        let hits = [
            struck(&mut trial, "claim", Requests::script("claim"), &|hit| mark(hit)),
            struck(&mut trial, "release", Requests::script("claim"), &|hit| {
                call("trial.mark_blocking", &[hit.into()])
            }),
            struck(&mut trial, "wait", Requests::command("BLMOVE"), &|hit| mark(hit)),
        ];
        let retried = struck(&mut trial, "retry", Requests::script("retry"), &|hit| {
            call("trial.flaky", &[hit.into(), 1.into()])
        });
        let buried =
            struck(&mut trial, "bury", Requests::script("bury"), &|hit| call("trial.shown", &[hit.into()]));
        let stopped = trial.stop(&mut worker);
        assert_eq!(count(&stopped, "lost"), 0, "{fault:?} of a {side:?}: {stopped}\n{}", worker.printed());
        runs.extend(hits.into_iter().chain([format!("{retried} 1"), format!("{retried} 2"), buried]));
        trial.ledger.assert_each_once(runs);
        assert_eq!(trial.dead(), 1, "expected one dead letter: {:#?}", trial.state().dead);
        trial.assert_only(&["q_dead"]);
    });
}

#[test]
fn a_reply_that_comes_twice_or_not_at_all_is_not_taken_for_that_of_another_request() {
    const CALLS: usize = 3000;
    for fault in [Fault::Double, Fault::Drop] {
        let (mut trial, proxy) = network();
        // So that two claims are under way at a time, and something else too.
        proxy.set(Mode::Delay(Duration::from_micros(300)));
        let mut worker = worker(&trial, &proxy, &["--concurrency", "16", "--lease", "60s"]);
        let traps: Vec<_> =
            (1..=20).map(|n| proxy.trap(Side::Reply, Requests::script("claim").nth(5 * n), fault)).collect();
        trial.push(&marks(CALLS));
        trial.wait_runs(CALLS);
        trial.wait_settled();
        let stopped = trial.stop(&mut worker);
        let struck: u32 = traps.iter().map(|trap| trap.struck()).sum();
        assert!(struck >= 10, "expected more replies to have come twice or not at all than {struck}");
        assert_eq!(count(&stopped, "lost"), 0, "{fault:?}: {stopped}");
        trial.ledger.assert_each_once(0..CALLS);
        trial.assert_only(&[]);
    }
}
