//! Each fault that a network can have, at each kind of request of a worker, a sweeper and a client: nothing is lost,
//! nothing runs more often than the fault explains, and all go on with new connections, also where an old one stays.

use std::time::Duration;

use delayed::config::{Config, RedisConfig};
use delayed::testing::{Fault, Mode, Proxy, Requests, Side};
use delayed::{Call, Client, Fate, GoTask};
use redis::Commands;

use crate::support::process::{DELAYED, Program};
use crate::support::redis::Options;
use crate::support::trial::{
    PATIENCE, QUEUE, Trial, WORKER, alone, call, count, gated, mark, marks, open, ready,
};
use crate::support::wait;

/// After this time without a reply a party gives a connection up; on a busy machine it takes that long to be in time.
const TIMEOUT: Duration = Duration::from_millis(1500);

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
fn start(trial: &Trial, proxy: &Proxy, timeout: Duration, program: &str, words: &[&str]) -> Program {
    let mut command = trial.command(program);
    command.args(words).args(["--redis", proxy.url(), "--queue", QUEUE]);
    Program::spawn(command.env("DELAYED_REDIS_TIMEOUT", format!("{timeout:?}")))
}

fn worker(trial: &Trial, proxy: &Proxy, words: &[&str]) -> Program {
    let worker = start(trial, proxy, TIMEOUT, WORKER, &[&["worker"][..], words].concat());
    ready(&worker);
    worker
}

/// Calls `play` with each fault of each side, all at a time: most of them wait for something that does not come.
fn each(play: impl Fn(Side, Fault) + Sync) {
    let (_alone, play) = (alone(), &play);
    std::thread::scope(|scope| {
        for (side, fault) in FAULTS.iter().flat_map(|fault| [(Side::Request, *fault), (Side::Reply, *fault)])
        {
            scope.spawn(move || play(side, fault));
        }
    });
}

#[test]
fn a_worker_runs_each_call_once() {
    each(|side, fault| {
        let (mut trial, proxy) = network();
        let mut worker = worker(&trial, &proxy, &["--concurrency", "4", "--lease", "60s"]);
        let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", worker.pid())).unwrap().count();
        let before = descriptors();
        let mut runs: Vec<String> = Vec::new();
        for (name, requests, task) in [
            ("claim", Requests::script("claim").nth(1), "trial.mark"),
            ("pick_up", Requests::script("pick_up").nth(1), "trial.mark"),
            ("release", Requests::script("claim").nth(2), "trial.mark_blocking"),
            ("wait", Requests::command("BLMOVE").nth(1), "trial.mark"),
            ("retry", Requests::script("retry").nth(1), "trial.flaky"),
            ("bury", Requests::script("bury").nth(1), "trial.shown"),
        ] {
            let trap = proxy.trap(side, requests, fault);
            let mut messages: Vec<Vec<u8>> = (0..6).map(|n| mark(format!("{name}/{n}"))).collect();
            messages.insert(
                3,
                match task {
                    "trial.flaky" => call(task, &[name.into(), 1.into()]),
                    _ => call(task, &[name.into()]),
                },
            );
            trial.push(&messages);
            runs.extend((0..6).map(|n| format!("{name}/{n}")));
            runs.extend(match task {
                "trial.flaky" => vec![format!("{name} 1"), format!("{name} 2")],
                _ => vec![name.to_owned()],
            });
            wait::until_ok(PATIENCE, || {
                let (struck, left, lines) = (trap.struck(), trial.left(), trial.ledger.lines().len());
                if struck == 1 && left == (0, 0) && lines >= runs.len() {
                    return Ok(());
                }
                let said = worker.printed();
                Err(format!(
                    "{fault:?} of a {side:?} of {name}: {struck} struck, {left:?} left, {lines} ran\n{said}"
                ))
            });
        }
        // A beat, a wait and what hears of schedules have connections of their own, which may have come later.
        wait::until("old connections to be closed", PATIENCE, || descriptors() <= before + 3);
        let stopped = trial.stop(&mut worker);
        assert_eq!(count(&stopped, "lost"), 0, "{fault:?} of a {side:?}: {stopped}\n{}", worker.printed());
        trial.ledger.assert_each_once(runs);
        assert_eq!(trial.dead(), 1, "expected one dead letter: {:#?}", trial.state().dead);
        trial.assert_only(&["q_dead"]);
    });
}

#[test]
fn a_worker_keeps_its_lease() {
    each(|side, fault| {
        let (mut trial, proxy) = network();
        // A beat does not wait for as long as other requests may.
        let words = ["worker", "--concurrency", "2", "--lease", "6s", "--no-sweep"];
        let mut worker = start(&trial, &proxy, PATIENCE, WORKER, &words);
        ready(&worker);
        let mut sweeper = trial.sweeper(&["--queue", QUEUE, "--interval", "100ms"]);
        let gate = trial.gate("gate");
        trial.push(&[gated("held", &gate)]);
        trial.wait_runs(1);
        let (trap, beats) = (
            proxy.trap(side, Requests::script("beat").nth(1), fault),
            proxy.trap(Side::Request, Requests::script("beat").nth(u32::MAX), Fault::Drop),
        );
        // The lease would have ended by the last of them.
        wait::until("the fault, and beats after it", PATIENCE, || trap.struck() == 1 && beats.met() > 6);
        open(&gate);
        trial.wait_settled();
        let stopped = trial.stop(&mut worker);
        assert_eq!(count(&stopped, "lost"), 0, "{fault:?} of a {side:?}: {stopped}\n{}", worker.printed());
        trial.ledger.assert_each_once(["+held", "-held"]);
        sweeper.kill9();
        trial.assert_only(&[]);
    });
}

#[test]
fn a_sweeper_brings_back_each_call_once() {
    each(|side, fault| {
        let (mut trial, proxy) = network();
        let sweeper = start(&trial, &proxy, TIMEOUT, DELAYED, &["sweeper", "--interval", "50ms"]);
        sweeper.wait_for_line("\"sweeping\"");
        let mut calls = 0;
        for (name, requests) in [
            ("requeue_lost", Requests::script("requeue_lost")),
            ("forget_workers", Requests::command("TIME")),
            ("balance", Requests::script("balance")),
            ("depth", Requests::command("LLEN")),
        ] {
            let trap = proxy.trap(side, requests.nth(1), fault);
            if matches!(name, "balance" | "depth") {
                // As if all tokens had been popped by those who died, and a last message had come without one.
                let () = trial.redis.rpush(QUEUE, mark(calls)).unwrap();
                let () = trial.redis.del("q_noti").unwrap();
                calls += 1;
            } else {
                let lost = |n: usize| (format!("q:{}:{n}", "dead".repeat(4)), mark(calls + n));
                let () =
                    trial.redis.hset_multiple("q_processing", &(0..3).map(lost).collect::<Vec<_>>()).unwrap();
                calls += 3;
            }
            wait::until_ok(PATIENCE, || {
                let (struck, state) = (trap.struck(), trial.state());
                let (waiting, tokens) = (state.waiting.len(), state.tokens);
                if struck == 1 && (waiting, tokens) == (calls, calls as u64) {
                    return Ok(());
                }
                let said = sweeper.printed();
                Err(format!(
                    "{fault:?} of a {side:?} of {name}: {struck} struck, {waiting} wait, {tokens} tokens\n{said}"
                ))
            });
        }
        drop(sweeper);
        let mut worker = trial.worker(&["--burst", "--no-sweep"]);
        trial.ended(&mut worker);
        trial.ledger.assert_each_once(0..calls);
        trial.assert_only(&[]);
    });
}

/// A client that gives up as soon as the programs do.
async fn client(url: &str) -> Client {
    let mut config = Config::default();
    config.redis = RedisConfig::new(url);
    config.redis.timeout = TIMEOUT;
    Client::with_config(&config).await.unwrap()
}

fn marking(name: impl ToString) -> Call {
    GoTask::new("trial.mark").arg(name.to_string()).queue(QUEUE)
}

#[test]
fn client_knows_the_fate_of_each_call_or_says_unknown() {
    each(|side, fault| {
        let (mut trial, proxy) = network();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let mut fates: Vec<(String, Fate)> = Vec::new();
        runtime.block_on(async {
            let client = client(proxy.url()).await;
            let trap = proxy.trap(side, Requests::command("EXEC").nth(2), fault);
            let mut tasks = tokio::task::JoinSet::new();
            for n in 0..30 {
                let (client, name) = (client.clone(), format!("one/{n}"));
                tasks.spawn(async move { (client.enqueue(marking(&name)).await, name) });
            }
            while let Some(done) = tasks.join_next().await {
                let (result, name) = done.unwrap();
                let fate = match result {
                    Ok(_) => Fate::Applied,
                    Err(error) if error.may_have_been_applied() => Fate::Uncertain,
                    Err(_) => Fate::NotApplied,
                };
                fates.push((name, fate));
            }
            assert_eq!(trap.struck(), 1, "expected {fault:?} of a {side:?}");
            let trap = proxy.trap(side, Requests::command("EXEC").nth(2), fault);
            let names: Vec<String> = (0..2500).map(|n| format!("many/{n}")).collect();
            match client.enqueue_many(names.iter().map(marking)).await {
                Ok(_) => fates.extend(names.into_iter().map(|name| (name, Fate::Applied))),
                Err(error) => fates.extend(names.into_iter().zip(error.fates().iter().copied())),
            }
            assert_eq!(trap.struck(), 1, "expected {fault:?} of a {side:?} in bulk");
            client
                .enqueue(marking("after"))
                .await
                .unwrap_or_else(|error| panic!("{fault:?} of a {side:?}: {error}"));
            fates.push(("after".into(), Fate::Applied));
        });
        let mut worker = trial.worker(&["--burst"]);
        trial.ended(&mut worker);
        let mut runs = trial.ledger.executions();
        for (name, fate) in &fates {
            let ran = runs.remove(name).unwrap_or(0);
            let expected = match fate {
                Fate::Applied => 1..=1,
                Fate::Uncertain => 0..=1,
                Fate::NotApplied => 0..=0,
            };
            assert!(
                expected.contains(&ran),
                "{fault:?} of a {side:?}: {name} is {fate:?}, and ran {ran} times"
            );
        }
        assert!(runs.is_empty(), "expected nothing else to run: {runs:?}");
        let uncertain = fates.iter().filter(|(_, fate)| *fate == Fate::Uncertain).count();
        let loses = !matches!(fault, Fault::Delay(_) | Fault::Double);
        assert!(uncertain > 0 || !loses, "expected {fault:?} of a {side:?} to leave something uncertain");
        trial.assert_only(&[]);
    });
}

#[test]
fn client_does_not_take_the_reply_to_another_call_for_its_own() {
    // All of a transaction, in which an echo tells that the reply is its own.
    let whole = &[("MULTI", 1), ("RPUSH", 1), ("RPUSH", 2), ("ECHO", 1), ("EXEC", 1)][..];
    for (fault, commands) in [(Fault::Double, &whole[4..]), (Fault::Drop, whole)] {
        let (mut trial, proxy) = network();
        // Both are on their way before the first is answered.
        proxy.set(Mode::Delay(Duration::from_millis(50)));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let client = client(proxy.url()).await;
            // The client has found nothing wrong with the queues before.
            client.enqueue(marking("before")).await.unwrap();
            client.enqueue(GoTask::new("trial.mark").arg("before").queue("wrong")).await.unwrap();
            let () = trial.redis.del("wrong").unwrap();
            let () = trial.redis.set("wrong", "no list").unwrap();
            let traps: Vec<_> = (commands.iter())
                .map(|(command, nth)| proxy.trap(Side::Reply, Requests::command(*command).nth(*nth), fault))
                .collect();
            let refused = client.enqueue(GoTask::new("trial.mark").arg("refused").queue("wrong"));
            let taken = client.enqueue(marking("taken"));
            // The one that is refused hears what is not meant for it.
            let refused = match fault {
                Fault::Double => tokio::join!(taken, refused).1,
                _ => tokio::join!(refused, taken).0,
            };
            assert!(traps.iter().all(|trap| trap.struck() == 1), "expected each to have struck: {traps:?}");
            refused.expect_err("expected it not to be taken");
        });
        assert_eq!(trial.state().waiting, [mark("before"), mark("taken")]);
    }
}

#[test]
fn repeated_or_missing_reply_is_not_taken_for_another_requests() {
    const CALLS: usize = 3000;
    // A call, and what tells that a reply is its own.
    let both = &["EVALSHA", "ECHO"][..];
    for (fault, commands) in [(Fault::Double, &both[..1]), (Fault::Drop, &both[..1]), (Fault::Drop, both)] {
        let (mut trial, proxy) = network();
        let nth = |n: u32| {
            commands.iter().map(move |command| Requests::command(*command).nth(20 * n)).collect::<Vec<_>>()
        };
        let traps: Vec<_> =
            (1..=5).flat_map(nth).map(|requests| proxy.trap(Side::Reply, requests, fault)).collect();
        // So that two claims are under way at a time, and something else too, and many claims are made.
        proxy.set(Mode::Delay(Duration::from_micros(300)));
        let words = ["--concurrency", "16", "--prefetch", "0", "--lease", "60s"];
        let mut worker = worker(&trial, &proxy, &words);
        trial.push(&marks(CALLS));
        trial.wait_runs(CALLS);
        trial.wait_settled();
        let stopped = trial.stop(&mut worker);
        assert!(traps.iter().all(|trap| trap.struck() == 1), "expected each to have struck: {traps:?}");
        assert_eq!(count(&stopped, "lost"), 0, "{fault:?} of {commands:?}: {stopped}");
        trial.ledger.assert_each_once(0..CALLS);
        trial.assert_only(&[]);
    }
}
