//! What becomes of followed and unique calls when Redis, a process, a clock or another program fails.

use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use delayed::{CallId, CallState, Cancelled, Conflict, GoTask, Unique, WaitError};
use redis::Commands;

use super::{Site, tasks};
use crate::support::process::Program;
use crate::support::redis::{Options, everything};
use crate::support::trial::{PATIENCE, Trial, WORKER, open, ready};
use crate::support::{python, root, skew, wait};

const HOUR: Duration = Duration::from_secs(3600);

impl Site {
    fn with(options: Options) -> Self {
        let trial = Trial::with(options);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let client = runtime.block_on(delayed::Client::connect(&trial.server.url())).unwrap();
        Self { trial, client, runtime }
    }

    pub(super) fn allow(&mut self, rules: &[&str]) {
        redis::cmd("ACL").arg("SETUSER").arg("poor").arg(rules).exec(&mut self.trial.redis).unwrap();
    }

    /// The address for a user that may do all but that.
    pub(super) fn without(&mut self, right: &str) -> String {
        self.allow(&["reset", "on", ">word", "~*", "&*", "+@all", right]);
        format!("{}?user=poor&pass=word", self.trial.server.url())
    }
}

#[test]
fn wait_outlives_a_restart_of_redis() {
    let mut site = Site::with(Options { append_only: true, ..Options::default() });
    let gate = site.trial.gate("gate");
    let handle = site.enqueue(tasks::gated::call(gate.clone()));
    let waiting = {
        let handle = handle.clone();
        site.runtime.spawn(async move { handle.wait(PATIENCE).await })
    };
    site.wait_for_waiters(1);
    site.trial.server.kill();
    site.trial.server.restart();
    site.trial.redis = site.trial.server.connection();
    site.trial.redis = site.trial.server.connection();
    let mut worker = site.trial.worker(&[]);
    site.wait_state(&handle, CallState::Running);
    site.wait_for_waiters(1);
    open(&gate);
    assert_eq!(site.runtime.block_on(waiting).unwrap().unwrap(), "opened");
    site.trial.stop(&mut worker);
}

#[test]
fn wait_outlives_the_runtime_of_another_wait() {
    let site = Site::new();
    let gate = site.trial.gate("gate");
    let handle = site.enqueue(tasks::gated::call(gate.clone()));
    let first = tokio::runtime::Runtime::new().unwrap();
    first.block_on(handle.wait(Duration::from_millis(20))).unwrap_err();
    let waiting = {
        let handle = handle.clone();
        site.runtime.spawn(async move { handle.wait(PATIENCE).await })
    };
    drop(first);
    let mut worker = site.trial.worker(&[]);
    site.wait_state(&handle, CallState::Running);
    let began = Instant::now();
    open(&gate);
    assert_eq!(site.runtime.block_on(waiting).unwrap().unwrap(), "opened");
    assert!(began.elapsed() < PATIENCE / 2, "expected the end to be pushed: {:?}", began.elapsed());
    site.trial.stop(&mut worker);
}

#[test]
fn crashed_child_ends_its_call_as_dead_and_frees_the_lock() {
    let mut site = Site::new();
    let mut worker = site.trial.worker(&[]);
    for round in 1..=2 {
        let ends = [
            site.wait(&site.enqueue(tasks::dies_apart::call())),
            site.wait(&site.enqueue(tasks::dies_pooled::call())),
        ];
        for end in ends {
            let Err(WaitError::Dead { reason, .. }) = end else { panic!("expected it dead: {end:?}") };
            assert_eq!(reason, "crashed");
        }
        assert_eq!(site.trial.dead(), 2 * round, "expected the lock to be free");
    }
    site.trial.stop(&mut worker);
}

#[test]
fn results_around_the_size_of_a_frame_come_whole() {
    let site = Site::new();
    let mut worker = site.trial.worker(&[]);
    for length in (16_384 - 12)..=(16_384 + 2) {
        assert_eq!(site.wait(&site.enqueue(tasks::text_apart::call(length))).unwrap().len(), length);
    }
    for length in [65_535, 65_536, (1 << 20) - 6] {
        assert_eq!(site.wait(&site.enqueue(tasks::text_apart::call(length))).unwrap().len(), length);
    }
    site.trial.stop(&mut worker);
}

#[test]
fn result_that_cannot_be_written_is_told() {
    let site = Site::new();
    let mut worker = site.trial.worker(&[]);
    for id in
        [site.enqueue(tasks::unwritable::call()).id(), site.enqueue(tasks::unwritable_apart::call()).id()]
    {
        let handle = site.client.handle_of::<()>(&"q".parse().unwrap(), id.unwrap());
        let error = site.wait(&handle).unwrap_err();
        assert!(error.to_string().contains("no words for it"), "{error}");
        assert_eq!(site.state(&handle), Some(CallState::Succeeded));
    }
    site.trial.stop(&mut worker);
}

#[test]
fn lock_of_a_call_that_python_dropped_holds_for_a_day() {
    let mut site = Site::new();
    let first = site.enqueue(tasks::charge::call(1).unique(Unique::UntilDone));
    let mut command = Command::new(python::interpreter());
    command.arg(root().join("tests/peers/python/work.py")).current_dir(site.trial.server.directory());
    command.args(["--queue", "q", "--redis", &site.trial.server.url()]);
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("LEDGER", site.trial.ledger.path());
    command.env("RECORD_FILE", site.trial.ledger.path());
    let mut other = Program::spawn(&mut command);
    wait::until_ok(PATIENCE, || match site.trial.left() {
        (0, 0) => Ok(()),
        left => Err(format!("it to be taken: {left:?}\n{}", other.printed())),
    });
    other.kill9();
    let second = site.enqueue(tasks::charge::call(1).unique(Unique::UntilDone));
    assert_eq!((second.id(), second.is_new()), (first.id(), false));
    let keys: Vec<String> = site.trial.redis.keys("q:u:*").unwrap();
    let left: i64 = site.trial.redis.pttl(&keys[0]).unwrap();
    assert!((1..=86_400_000).contains(&left), "expected a day at the most: {left}");
    let () = site.trial.redis.del(&keys[0]).unwrap();
    assert!(site.enqueue(tasks::charge::call(1).unique(Unique::UntilDone)).is_new());
}

#[test]
fn times_long_ago_are_now_and_far_ahead_are_refused() {
    let site = Site::new();
    let mut worker = site.trial.worker(&[]);
    let call = |order, at| tasks::charge::call(order).at(at).unique(Unique::UntilDone);
    let handle = site.enqueue(call(1, SystemTime::UNIX_EPOCH - HOUR));
    assert_eq!(site.wait(&handle).unwrap().order, 1);
    let year_10000 = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_800);
    let error = site.try_enqueue(call(2, year_10000)).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("a hundred years"), "{cause}");
    site.trial.stop(&mut worker);
}

#[test]
fn worker_with_a_wrong_clock_keeps_to_that_of_redis() {
    for wrong in ["7200", "-7200"] {
        let site = Site::new();
        let library = skew::build(site.trial.server.directory());
        let mut command = site.trial.command(WORKER);
        command.args(["worker", "--queue", "q", "--redis", &site.trial.server.url()]);
        let mut worker = Program::spawn(command.env("LD_PRELOAD", &library).env("SKEW", wrong));
        ready(&worker);
        let began = Instant::now();
        let due =
            site.enqueue(tasks::charge::call(1).after(Duration::from_millis(300)).unique(Unique::UntilDone));
        assert!(!site.enqueue(tasks::charge::call(1).unique(Unique::UntilDone)).is_new());
        site.wait(&due).unwrap();
        assert!(began.elapsed() >= Duration::from_millis(300), "{wrong}: early, after {:?}", began.elapsed());
        assert!(site.enqueue(tasks::charge::call(1).unique(Unique::UntilDone)).is_new());
        let began = Instant::now();
        site.enqueue(GoTask::new("trial.comes_back").arg("a").queue("q"));
        site.trial.wait_runs(2);
        assert!(began.elapsed() >= Duration::from_millis(400), "{wrong}: early, after {:?}", began.elapsed());
        let period = tasks::charge::call(2).unique(Unique::For(HOUR));
        site.wait(&site.enqueue(period)).unwrap();
        let again = site.enqueue(tasks::charge::call(2).unique(Unique::For(HOUR)));
        assert_eq!(again.conflict(), Some(&Conflict::Held(Some(CallState::Succeeded))));
        site.trial.stop(&mut worker);
    }
}

#[test]
fn submit_without_a_right_leaves_nothing_of_the_call() {
    for right in [
        "-get", "-hget", "-set", "-hset", "-pexpire", "-zadd", "-rpush", "-lpush", "-llen", "-zrange",
        "-evalsha",
    ] {
        let mut site = Site::new();
        let url = site.without(right);
        let poor = site.runtime.block_on(delayed::Client::connect(&url)).unwrap();
        site.enqueue(tasks::once::call(0).id(CallId::new()));
        let before = everything(&mut site.trial.redis);
        let calls = |ids: [CallId; 3]| {
            let call = |n| tasks::charge::call(n).unique(Unique::For(HOUR));
            [call(1).id(ids[0]), call(2).id(ids[1]).after(HOUR), call(3).id(ids[2]).front()]
        };
        let ids = [CallId::new(), CallId::new(), CallId::new()];
        let mut refused = Vec::new();
        for (place, call) in calls(ids).into_iter().enumerate() {
            let before = everything(&mut site.trial.redis);
            if let Err(error) = site.runtime.block_on(poor.enqueue(call)) {
                assert_eq!(error.broker_kind(), Some(delayed::BrokerErrorKind::Denied), "{right}: {error}");
                assert_eq!(
                    everything(&mut site.trial.redis),
                    before,
                    "{right}: expected no change by call {place}"
                );
                refused.push(place);
            }
        }
        println!("{right}: {refused:?} of three are refused");
        drop(before);
        site.allow(&["+@all"]);
        for (place, call) in calls(ids).into_iter().enumerate() {
            let taken = site.runtime.block_on(poor.enqueue(call)).is_ok_and(|handle| handle.is_new());
            assert_eq!(taken, refused.contains(&place), "{right}: call {place}");
        }
    }
}

#[test]
fn cancel_without_a_right_changes_nothing() {
    for right in ["-zrem", "-hdel", "-zadd", "-hget", "-zcard", "-zremrangebyscore"] {
        let mut site = Site::new();
        let scheduled = site.enqueue(tasks::charge::call(1).after(HOUR).unique(Unique::UntilDone));
        let waiting = site.enqueue(tasks::charge::call(2));
        let url = site.without(right);
        let poor = site.runtime.block_on(delayed::Client::connect(&url)).unwrap();
        let before = everything(&mut site.trial.redis);
        for id in [scheduled.id(), waiting.id()] {
            let handle = poor.handle_of::<()>(&"q".parse().unwrap(), id.unwrap());
            site.runtime.block_on(handle.cancel()).expect_err(right);
            assert_eq!(everything(&mut site.trial.redis), before, "{right}");
        }
        site.allow(&["+@all"]);
        assert_eq!(site.runtime.block_on(scheduled.cancel()).unwrap(), Cancelled::Scheduled, "{right}");
        assert_eq!(site.runtime.block_on(waiting.cancel()).unwrap(), Cancelled::Waiting, "{right}");
    }
}

#[test]
fn worker_without_a_right_ends_each_call_in_its_record() {
    for right in ["-hset", "-hdel", "-unlink", "-publish", "-zadd", "-zrem", "-exists", "-pexpire"] {
        let mut site = Site::new();
        let url = site.without("+@all");
        let gate = site.trial.gate("gate");
        let mut worker = site.trial.worker_at(&url, &["--lease", "1s", "--concurrency", "4"]);
        let gated = site.enqueue(tasks::gated::call(gate.clone()));
        site.wait_state(&gated, CallState::Running);
        site.allow(&[right]);
        let charged: Vec<_> =
            (0..8).map(|n| site.enqueue(tasks::charge::call(n).unique(Unique::UntilDone))).collect();
        open(&gate);
        wait::until("a refusal, or all to be done without that right", PATIENCE, || {
            worker.printed().contains("grant it") || site.trial.left() == (0, 0)
        });
        site.allow(&["+@all"]);
        site.wait_state(&gated, CallState::Succeeded);
        charged.iter().for_each(|handle| site.wait_state(handle, CallState::Succeeded));
        site.trial.wait_settled();
        for n in 0..8 {
            let again = site.enqueue(tasks::charge::call(n).unique(Unique::UntilDone));
            assert!(again.is_new(), "{right}: expected the lock to hold nobody up");
        }
        site.trial.wait_settled();
        site.trial.stop(&mut worker);
    }
}
