//! `drain` runs what waits, in order, and tells what became of each call; `advance` moves the timetable by hand.

use std::time::Duration;

use delayed::testing::{Redis, RunOutcome, assert_enqueued, refute_enqueued};
use delayed::{App, GoTask, PyTask, States};

use super::{Outbox, shop};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn calls_run_in_order_with_those_that_they_enqueue() {
    let redis = Redis::start().await;
    redis.client().enqueue_many([shop::order::call(1), shop::order::call(2)]).await.unwrap();
    let runs = redis.drain().state(Outbox::empty()).await.expect_success();
    let tasks: Vec<_> = runs.iter().map(|run| (run.task(), run.queue())).collect();
    let [order, note, send] = [("shop.order", "default"), ("shop.note", "default"), ("shop.send", "mail")];
    assert_eq!(tasks, [order, order, note, note, send, send]);
    assert_eq!(runs[2].to_string(), "shop.note(\"order 1\"), attempt 1: succeeded");
    refute_enqueued!(redis);
}

#[tokio::test]
async fn only_the_named_queues_are_drained() {
    let redis = Redis::start().await;
    for queue in ["a", "b", "c"] {
        redis.client().enqueue(shop::end::call("well".into()).queue(queue)).await.unwrap();
    }
    let runs = redis.drain().queue("c").queue("a").await;
    assert_eq!(runs.iter().map(|run| run.queue()).collect::<Vec<_>>(), ["a", "c"]);
    assert_enqueued!(redis, times: 1, queue: "b");
}

#[tokio::test]
async fn states_come_from_an_app_or_are_missed_by_their_tasks_alone() {
    let redis = Redis::start().await;
    let call = |line: &str| shop::note::call(line.into());
    redis.client().enqueue(call("one")).await.unwrap();
    redis.drain().app(App::new().state(Outbox::empty())).await.expect_success();
    let mut states = States::new();
    states.insert_with(Outbox::empty);
    redis.client().enqueue(call("two")).await.unwrap();
    redis.drain().states(states.clone()).await.expect_success();
    let outbox = states.get::<Outbox>().unwrap();
    assert_eq!(*outbox.0.lock().unwrap(), ["two"]);

    redis.client().enqueue_many([call("three")]).await.unwrap();
    redis.client().enqueue(shop::end::call("well".into())).await.unwrap();
    let runs = redis.drain().await;
    let error = "the task `shop.note` needs State<";
    assert!(runs[0].error().unwrap().starts_with(error) && runs[1].succeeded(), "{runs}");
}

#[tokio::test]
async fn each_end_of_a_run_is_told() {
    let redis = Redis::start().await;
    let ends = ["well", "fails", "named", "fatal", "snoozes", "panics"];
    redis.client().enqueue_many(ends.map(|how| shop::end::call(how.into()))).await.unwrap();
    let hangs = shop::end::call("hangs".into()).timeout(Duration::from_millis(1)).retry(0);
    redis.client().enqueue(hangs).await.unwrap();
    redis.client().enqueue(GoTask::new("shop.end").arg(7)).await.unwrap();
    let runs = redis.drain().await;
    let outcomes: Vec<_> = runs.iter().map(|run| run.outcome()).collect();
    let dead = |reason, error: &str| RunOutcome::Dead { reason, error: error.into() };
    assert!(
        matches!(outcomes[1], RunOutcome::Retried { reason: "failed", error, delay }
            if error == "attempt 1 failed" && (MINUTE..2 * MINUTE).contains(delay)),
        "{runs}"
    );
    let named = RunOutcome::Retried { reason: "failed", error: "busy".into(), delay: 3 * MINUTE / 2 };
    let snoozed = RunOutcome::Snoozed { delay: 60 * MINUTE };
    assert_eq!(
        [outcomes[0], outcomes[2], outcomes[3], outcomes[4]],
        [&RunOutcome::Succeeded, &named, &dead("failed", "no such card"), &snoozed]
    );
    assert!(
        matches!(outcomes[5], RunOutcome::Retried { reason: "panicked", error, .. } if error == "out of paper")
    );
    assert!(matches!(outcomes[6], RunOutcome::Dead { reason: "timed_out", .. }), "{runs}");
    assert!(matches!(outcomes[7], RunOutcome::Dead { reason: "arguments", .. }), "{runs}");
    assert_eq!((runs[2].delay(), runs[4].delay()), (Some(3 * MINUTE / 2), Some(60 * MINUTE)));
    assert!(runs[3].is_dead() && runs[1].error() == Some("attempt 1 failed") && runs[1].id().is_none());
    // What is retried later waits for its time.
    assert_enqueued!(redis, shop::end, times: 4, after: ..);
    assert_enqueued!(redis, shop::end, args: ["named"], after: 3 * MINUTE / 2);
    refute_enqueued!(redis, shop::end, args: ["fatal"]);
}

#[tokio::test]
async fn items_of_a_batch_are_enqueued_and_run_when_it_is_due() {
    let redis = Redis::start().await;
    redis.client().enqueue_many(["a", "bad"].map(|page| shop::index::call(page.into()))).await.unwrap();
    assert_enqueued!(redis, shop::index, times: 2, after: 60 * MINUTE);
    assert_enqueued!(redis, shop::index, args: [["bad"]], times: 1);
    assert_eq!((redis.advance(59 * MINUTE).await, redis.drain().await.len()), (0, 0));
    assert_eq!(redis.advance(MINUTE).await, 1);
    let runs = redis.drain().await;
    assert_eq!((runs.len(), runs[0].error()), (1, Some("no page")));
    assert!(runs[0].is_dead(), "{runs}");
    refute_enqueued!(redis);
}

#[tokio::test]
async fn retries_come_with_the_timetable_that_is_moved_by_hand() {
    let redis = Redis::start().await;
    redis.client().enqueue(shop::end::call("fails".into())).await.unwrap();
    assert!(!redis.drain().await[0].is_dead());
    assert_eq!((redis.advance(MINUTE / 2).await, redis.drain().await.len()), (0, 0));
    assert_eq!(redis.advance(MINUTE).await, 1);
    let runs = redis.drain().await;
    assert_eq!((runs.len(), runs[0].attempt(), runs[0].error()), (1, 2, Some("attempt 2 failed")));
    assert!(runs[0].is_dead(), "{runs}");

    // A call that is snoozed runs as often as its time comes.
    redis.client().enqueue(shop::end::call("snoozes".into())).await.unwrap();
    for _ in 0..3 {
        let runs = redis.drain().await;
        assert_eq!((runs.len(), runs[0].attempt(), runs[0].delay()), (1, 1, Some(60 * MINUTE)));
        assert_eq!(redis.advance(60 * MINUTE).await, 1);
    }
}

#[tokio::test]
async fn calls_become_due_in_the_order_of_their_times() {
    let redis = Redis::start().await;
    for minutes in [3, 1, 2, 9] {
        let call = shop::send::call(minutes.to_string(), None).after(minutes * MINUTE);
        redis.client().enqueue(call).await.unwrap();
    }
    assert_eq!(redis.advance(5 * MINUTE).await, 3);
    let calls = redis.enqueued().await;
    let order: Vec<_> =
        calls.iter().map(|call| (call.argument::<String>(0), call.after().is_some())).collect();
    assert_eq!(
        order,
        [("1", false), ("2", false), ("3", false), ("9", true)].map(|(to, is)| (to.to_owned(), is))
    );
}

#[tokio::test]
async fn many_scheduled_calls_become_due_together() {
    let redis = Redis::start().await;
    let calls = (0..1200).map(|number| shop::send::call(format!("{number}"), None).after(MINUTE));
    redis.client().enqueue_many(calls).await.unwrap();
    assert_eq!(redis.advance(MINUTE).await, 1200);
    assert_eq!(redis.drain().concurrency(10).await.expect_success().len(), 1200);
}

#[tokio::test]
async fn a_call_that_came_due_by_itself_runs() {
    let redis = Redis::start().await;
    redis.client().enqueue(shop::end::call("well".into()).after(Duration::from_millis(1))).await.unwrap();
    crate::support::wait::until("its time", MINUTE, || {
        redis.enqueued_blocking()[0].id().is_some() && redis.drain().blocking().len() == 1
    });
}

#[tokio::test]
async fn a_retry_without_back_off_is_a_part_of_the_drain() {
    let redis = Redis::start().await;
    redis.client().enqueue(shop::at_once::call()).await.unwrap();
    let runs = redis.drain().await;
    assert_eq!(
        runs.to_string(),
        "  shop.at_once(), attempt 1: failed: not in attempt 1; retried at once\n  \
           shop.at_once(), attempt 2: failed: not in attempt 2; retried at once\n  \
           shop.at_once(), attempt 3: succeeded"
    );
}

#[tokio::test]
async fn isolated_tasks_run_in_the_process_of_the_test() {
    let redis = Redis::start().await;
    redis.client().enqueue(shop::isolated::call(std::process::id())).await.unwrap();
    redis.drain().await.expect_success();
}

#[tokio::test]
async fn calls_of_others_stay_in_their_queues() {
    let redis = Redis::start().await;
    let client = redis.client();
    client.enqueue(PyTask::new("mails:send").arg("ann")).await.unwrap();
    client.enqueue(shop::end::call("well".into())).await.unwrap();
    client.enqueue(GoTask::new("mails.Send")).await.unwrap();
    let runs = redis.drain().await;
    assert_eq!(runs.to_string(), "  shop.end(\"well\"), attempt 1: succeeded");
    assert_enqueued!(redis, "mails:send", times: 1);
    assert_enqueued!(redis, "mails.Send", times: 1);
}

#[tokio::test]
#[should_panic = "delayed::testing::Drain: "]
async fn an_invalid_queue_is_refused() {
    let _ = Redis::start().await.drain().queue("").blocking();
}

#[tokio::test]
#[should_panic = "expected all runs to succeed:\n  shop.end(\"well\"), attempt 1: succeeded\n  \
                  shop.end(\"fatal\"), attempt 1: failed: no such card; dead"]
async fn a_run_that_was_to_succeed_is_listed_with_the_others() {
    let redis = Redis::start().await;
    redis.client().enqueue_many(["well", "fatal"].map(|how| shop::end::call(how.into()))).await.unwrap();
    redis.drain().await.expect_success();
}
