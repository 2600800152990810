//! A task that a worker does not know: buried, left to others, or dropped.

use std::time::{Duration, Instant};

use delayed::Registry;
use delayed::testing::{Fault, Requests, Side};
use redis::Commands;

use crate::support::trial::{PATIENCE, QUEUE, Trial, call, count, mark, marks};
use crate::support::wait;

mod tasks {
    use std::sync::atomic::{AtomicU32, Ordering};

    pub(super) static RUNS: AtomicU32 = AtomicU32::new(0);

    /// Only the tests' own process knows it.
    #[delayed::task(name = "trial.known_elsewhere")]
    pub(super) fn known_elsewhere() {
        RUNS.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn it_is_buried_with_advice() {
    let mut trial = Trial::new();
    let foreign = call("trial.known_elsewhere", &[]);
    let mut worker = trial.worker(&["--unknown", "bury"]);
    trial.push(&[foreign.clone(), mark("ours")]);
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(["ours"]);
    let state = trial.state();
    assert_eq!((state.dead.len(), &state.dead[0]["message"]), (1, &foreign), "{state:#?}");
    assert_eq!(state.dead[0]["reason"], b"unknown", "{state:#?}");
    let detail = String::from_utf8(state.dead[0]["detail"].clone()).unwrap();
    assert!(detail.contains("trial.known_elsewhere") && detail.contains("--unknown requeue"), "{detail}");
    trial.assert_only(&["q_dead"]);
}

#[test]
fn it_is_dropped() {
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--unknown", "ignore"]);
    trial.push(&[call("trial.known_elsewhere", &[]), mark("ours")]);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "buried"), count(&stopped, "put_back")), (0, 0), "{stopped}");
    trial.ledger.assert_each_once(["ours"]);
    trial.assert_only(&[]);
}

#[test]
fn it_waits_for_who_knows_it_without_a_spin() {
    let mut trial = Trial::new();
    let foreign = vec![call("trial.known_elsewhere", &[]); 3];
    let mut worker = trial.worker(&["--unknown", "requeue", "--no-sweep", "--lease", "30s"]);
    trial.push(&foreign);
    trial.push(&[mark("ours")]);
    trial.wait_runs(1);
    // The pauses have grown: from here on it hardly asks.
    let mut claims = u64::MAX;
    wait::until("hardly any command", PATIENCE, || {
        trial.commands();
        let began = Instant::now();
        wait::pause(Duration::from_secs(2));
        let commands = trial.commands();
        let whole = began.elapsed().as_secs_f64() / 2.0;
        claims = (commands["evalsha"] as f64 / whole) as u64;
        claims <= 12
    });
    println!("{claims} script calls in 2 s with nothing but tasks of others in the queue");
    let state = trial.state();
    assert_eq!(state.waiting.len() + state.processing.len(), 3, "expected none to be lost: {state:#?}");
    // It still runs its own, soon.
    trial.push(&[mark("late")]);
    let began = Instant::now();
    trial.wait_runs(2);
    println!("a task of its own ran {:?} after it was pushed", began.elapsed());

    let registry = Registry::new().with::<tasks::known_elsewhere>().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stopped = runtime.block_on(async {
        let other = delayed::Worker::builder(&trial.server.url()).queue("q").registry(registry);
        let other = other.unknown(delayed::config::Unknown::Requeue).connect().await.unwrap();
        let handle = other.handle();
        let run = tokio::spawn(other.run());
        tokio::task::spawn_blocking(|| {
            wait::until("all of them to run where they are known", PATIENCE, || {
                tasks::RUNS.load(std::sync::atomic::Ordering::Relaxed) == 3
            })
        })
        .await
        .unwrap();
        handle.stop();
        run.await.unwrap().unwrap()
    });
    assert_eq!(stopped.stats.succeeded, 3, "{stopped:?}");
    trial.wait_settled();
    trial.stop(&mut worker);
    // A token may have been given back when there was nothing left to wake for; the next worker removes it.
    let mut worker = trial.worker(&["--burst"]);
    trial.ended(&mut worker);
    trial.ledger.assert_each_once(["ours", "late"]);
    trial.assert_only(&[]);
}

#[test]
fn ours_do_not_wait_for_those_of_others_before_them() {
    const OTHERS: usize = 3000;
    let mut trial = Trial::new();
    trial.push(&vec![call("trial.known_elsewhere", &[]); OTHERS]);
    trial.push(&marks(20));
    let words = ["--unknown", "requeue", "--no-sweep", "--concurrency", "4"];
    let mut worker = trial.worker(&words);
    // With a rest for each batch of others this would take minutes.
    trial.wait_runs(20);
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), count(&stopped, "lost")), (20, 0), "{stopped}");
    trial.ledger.assert_each_once(0..20);
    let state = trial.state();
    assert_eq!(
        state.waiting,
        vec![call("trial.known_elsewhere", &[]); OTHERS],
        "expected them to wait still"
    );
    trial.assert_only(&["q", "q_noti"]);
}

/// A worker that may not put back what it does not know, until that is mended: each waits once then, and has no slot.
#[track_caller]
fn goes_back(advice: &str, refuse: impl Fn(&mut redis::Connection), mend: impl Fn(&mut redis::Connection)) {
    const SLOTS: usize = 4;
    let mut trial = Trial::new();
    let mut user = redis::cmd("ACL");
    user.arg("SETUSER").arg("poor").arg(&["on", ">secret", "~*", "&*", "+@all"]);
    let () = user.query(&mut trial.redis).unwrap();
    let proxy = trial.server.proxy();
    let put_back = || Requests::script("put_back");
    let first = proxy.trap(Side::Request, put_back().nth(1), Fault::Hold);
    let all = proxy.trap(Side::Request, put_back().nth(u32::MAX), Fault::Drop);
    let foreign: Vec<_> = (0..SLOTS).map(|n| call("trial.known_elsewhere", &[n.into()])).collect();
    trial.push(&foreign);
    let (url, slots) = (format!("{}?user=poor&pass=secret", proxy.url()), SLOTS.to_string());
    let words = ["--unknown", "requeue", "--no-sweep", "--lease", "60s", "--prefetch", "0"];
    let mut worker = trial.worker_at(&url, &[&words[..], &["--concurrency", &slots]].concat());
    wait::until("them to be put back", PATIENCE, || first.struck() == 1);
    trial.commands();
    refuse(&mut trial.redis);
    first.release();
    wait::until("that to be refused again and again", PATIENCE, || all.met() >= 4);
    worker.wait_for_line(advice);
    let mut owned: Vec<Vec<u8>> = trial.redis.hvals("q_processing").unwrap();
    owned.sort();
    assert_eq!(owned, foreign, "expected each to be owned still");
    let kind: String = redis::cmd("TYPE").arg(QUEUE).query(&mut trial.redis).unwrap();
    assert_ne!(kind, "list", "expected none of them to wait");
    mend(&mut trial.redis);
    wait::until("all to wait", PATIENCE, || trial.left() == (SLOTS as u64, 0));
    assert!(!trial.commands().contains_key("lpush"), "expected them to go to the tail");
    trial.stop_all_free(&mut worker, SLOTS, &foreign);
}

#[test]
fn it_goes_back_when_the_queue_is_a_list_again() {
    for key in [QUEUE, "q_noti"] {
        let advice = "has the wrong type";
        goes_back(advice, |redis| redis.set(key, "no list").unwrap(), |redis| redis.del(key).unwrap());
    }
}

#[test]
fn it_goes_back_when_the_user_may_push_again() {
    let rule = |redis: &mut redis::Connection, rule: &str| {
        let () = redis::cmd("ACL").arg("SETUSER").arg("poor").arg(rule).query(redis).unwrap();
    };
    // Without its keys the script does not begin; without the command it ends at its first push.
    let advice = "grant it";
    goes_back(advice, |redis| rule(redis, "resetkeys"), |redis| rule(redis, "allkeys"));
    goes_back(advice, |redis| rule(redis, "-rpush"), |redis| rule(redis, "+rpush"));
}
