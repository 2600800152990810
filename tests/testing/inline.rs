//! `testing::run`: one call, here and now, through encoding and decoding, as a worker runs it.

use std::time::{Duration, SystemTime};

use delayed::testing::{self, Redis, RunOutcome, assert_enqueued};
use delayed::{App, GoTask, States};

use super::{Outbox, shop};

#[tokio::test]
async fn a_call_runs_with_its_states_and_its_context() {
    let mut states = States::new();
    states.insert_with(Outbox::empty);
    let run = testing::run(shop::note::call("hello".into())).states(states.clone()).await;
    assert!(run.succeeded(), "{run}");
    assert_eq!(*states.get::<Outbox>().unwrap().0.lock().unwrap(), ["hello"]);
    assert_eq!((run.task(), run.queue(), run.attempt()), ("shop.note", "default", 1));

    let run = testing::run(shop::note::call("hello".into())).app(App::new().state(Outbox::empty())).await;
    assert!(run.succeeded(), "{run}");
    let run = testing::run(shop::at_once::call()).attempt(3).await;
    assert!(run.succeeded() && run.attempt() == 3, "{run}");
}

#[tokio::test]
async fn each_end_is_what_a_worker_would_make_of_it() {
    let run = async |how: &str| testing::run(shop::end::call(how.into())).await;
    assert_eq!(run("well").await.to_string(), "shop.end(\"well\"), attempt 1: succeeded");
    let failed = run("fails").await;
    assert!(failed.error() == Some("attempt 1 failed") && failed.delay() >= Some(Duration::from_secs(60)));
    assert_eq!(
        run("named").await.to_string(),
        "shop.end(\"named\"), attempt 1: failed: busy; retried after 90.0s"
    );
    assert_eq!(run("snoozes").await.to_string(), "shop.end(\"snoozes\"), attempt 1: snoozed for 3600s");
    let panicked = run("panics").await;
    assert!(matches!(panicked.outcome(), RunOutcome::Retried { reason: "panicked", .. }), "{panicked}");
    let last = testing::run(shop::end::call("fails".into())).attempt(2).await;
    assert_eq!(last.to_string(), "shop.end(\"fails\"), attempt 2: failed: attempt 2 failed; dead");
}

#[tokio::test]
async fn a_call_that_cannot_run_is_dead() {
    let reason = async |call: delayed::Call| match testing::run(call).await.outcome() {
        RunOutcome::Dead { reason, .. } => *reason,
        other => panic!("expected a dead letter, not {other}"),
    };
    assert_eq!(reason(GoTask::new("shop.end").arg(7).into()).await, "arguments");
    assert_eq!(reason(GoTask::new("mails.Send").into()).await, "unknown");
    let late = shop::end::call("well".into()).expires_at(SystemTime::UNIX_EPOCH);
    assert_eq!(reason(late).await, "expired");
    let hangs = shop::end::call("hangs".into()).timeout(Duration::from_millis(1)).retry(0);
    assert_eq!(reason(hangs).await, "timed_out");
    let run = testing::run(shop::note::call("hello".into())).await;
    assert!(run.error().unwrap().starts_with("the task `shop.note` needs State<"), "{run}");
}

#[tokio::test]
async fn a_task_that_enqueues_calls_takes_a_client() {
    let redis = Redis::start().await;
    let run = testing::run(shop::order::call(7)).state(redis.client()).await;
    assert!(run.succeeded(), "{run}");
    assert_enqueued!(redis, shop::note, args: ["order 7"]);
}

#[tokio::test]
async fn a_call_runs_while_async_code_waits() {
    assert!(testing::run(shop::end::call("well".into())).blocking().succeeded());
}

#[test]
fn a_call_runs_without_a_runtime() {
    assert!(testing::run(shop::isolated::call(std::process::id())).blocking().succeeded());
    assert!(testing::run(shop::end::call("well".into())).blocking().succeeded());
}

#[tokio::test]
#[should_panic = "delayed::testing::run: "]
async fn a_call_to_an_invalid_queue_is_refused() {
    let _ = testing::run(shop::end::call("well".into()).queue("")).await;
}
