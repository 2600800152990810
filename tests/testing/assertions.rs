//! `assert_enqueued!` and `refute_enqueued!`: partial matches, and what a test is told when there is none.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, SystemTime};

use delayed::testing::{Redis, assert_enqueued, refute_enqueued};
use delayed::{CallId, GoTask, PyTask};

use super::shop::{self, Item};

const MINUTE: Duration = Duration::from_secs(60);

/// The text of the panic of an assertion.
fn panic_of<T>(assertion: impl FnOnce() -> T) -> String {
    match catch_unwind(AssertUnwindSafe(assertion)) {
        Ok(_) => panic!("expected a panic"),
        Err(payload) => *payload.downcast::<String>().unwrap(),
    }
}

#[tokio::test]
async fn a_call_is_matched_by_task_queue_and_number() {
    let redis = Redis::start().await;
    refute_enqueued!(redis);
    let client = redis.client();
    client.enqueue(shop::send::call("ann".into(), None)).await.unwrap();
    client.enqueue(shop::send::call("bob".into(), None).queue("other")).await.unwrap();
    assert_enqueued!(redis);
    assert_enqueued!(redis, shop::send);
    assert_enqueued!(redis, super::shop::send, queue: "mail");
    assert_enqueued!(redis, "shop.send", queue: "other".to_owned(), times: 1,);
    assert_enqueued!(redis, times: 2);
    let call = assert_enqueued!(&redis, queue: "other");
    assert_eq!((call.task(), call.queue(), call.attempt(), call.after()), ("shop.send", "other", 1, None));
    assert_eq!((call.argument::<String>(0), call.argument::<Option<String>>(1)), ("bob".into(), None));
    refute_enqueued!(redis, shop::pack);
    refute_enqueued!(redis, shop::send, queue: "default");
    refute_enqueued!(redis, shop::send, args: ["ann", _], queue: "other");
}

#[tokio::test]
async fn arguments_are_matched_by_value_any_and_closure() {
    let redis = Redis::start().await;
    let (client, item) = (redis.client(), Item { name: "pen".into(), count: 3 });
    let notes = vec!["fragile".to_owned(), "blue".to_owned()];
    client.enqueue(shop::pack::call(vec![item.clone()], 1.5, notes)).await.unwrap();
    client.enqueue(shop::send::call("ann".into(), Some("hi".into()))).await.unwrap();

    assert_enqueued!(redis, shop::pack, args: [vec![item.clone()], 1.5, ["fragile", "blue"]]);
    assert_enqueued!(redis, shop::pack, args: [_, 1.5_f32, _]);
    assert_enqueued!(redis, shop::pack, args: [..]);
    assert_enqueued!(redis, shop::pack, args: [|items: Vec<Item>| items[0].count == item.count, ..]);
    assert_enqueued!(redis, shop::send, args: ["ann", Some("hi")]);
    assert_enqueued!(redis, shop::send, args: [|to: &str| to.starts_with('a'), |text: Option<&str>| text.is_some()]);
    assert_enqueued!(redis, shop::send, args: |to: &str, text: Option<String>| text.is_some_and(|text| text.len() < to.len()));
    refute_enqueued!(redis, shop::pack, args: [_, 2, _]);
    refute_enqueued!(redis, shop::pack, args: [_, "1.5", _]);
    refute_enqueued!(redis, shop::send, args: ["ann", None]);
    refute_enqueued!(redis, shop::send, args: ["ann"]);
    refute_enqueued!(redis, shop::send, args: |to: u64, text: Option<String>| to > 0 || text.is_none());
    // Of any task.
    assert_enqueued!(redis, args: ["ann", "hi"]);
}

#[tokio::test]
async fn calls_of_python_and_go_are_matched_by_their_path() {
    let redis = Redis::start().await;
    let client = redis.client();
    let python = PyTask::new("mails:send").arg("ann").arg(7).kwarg("urgent", true);
    client.enqueue(python.queue("python")).await.unwrap();
    client.enqueue(GoTask::new("mails.Send").arg("bob")).await.unwrap();
    client.enqueue(GoTask::new("mails.Purge")).await.unwrap();
    // `PyTask("shop.send", (), {"to": "eve"})`.
    let by_keyword = b"\x93\xa9shop.send\x90\x81\xa2to\xa3eve";
    let mut connection = redis::Client::open(redis.url()).unwrap().get_connection().unwrap();
    let () = redis::pipe().rpush("q", by_keyword).rpush("q_noti", "1").query(&mut connection).unwrap();
    assert_enqueued!(redis, "mails:send", args: ["ann", 7], queue: "python");
    assert_enqueued!(redis, "mails:send", args: [_, ..]);
    assert_enqueued!(redis, "mails.Send", args: ["bob"]);
    assert_enqueued!(redis, "mails.Purge", args: []);
    assert_enqueued!(redis, shop::send, args: ["eve", None], queue: "q");
    refute_enqueued!(redis, "mails.Send", args: ["ann"]);
    refute_enqueued!(redis, "mails.Send", args: ["bob", 7]);
}

#[tokio::test]
async fn scheduled_calls_are_matched_by_their_time() {
    let redis = Redis::start().await;
    let (client, call) = (redis.client(), || shop::send::call("ann".into(), None));
    client.enqueue(call().after(MINUTE)).await.unwrap();
    assert_enqueued!(redis, shop::send, after: MINUTE);
    assert_enqueued!(redis, shop::send, after: MINUTE..);
    assert_enqueued!(redis, shop::send, after: MINUTE / 2..2 * MINUTE, args: ["ann", _]);
    assert_enqueued!(redis, shop::send, after: ..=2 * MINUTE);
    assert_enqueued!(redis, shop::send, after: ..);
    refute_enqueued!(redis, shop::send, after: ..MINUTE);
    refute_enqueued!(redis, shop::send, after: 2 * MINUTE);
    assert_eq!(redis.advance(MINUTE / 2).await, 0);
    assert_enqueued!(redis, shop::send, after: MINUTE / 2);
    assert_eq!(redis.advance(MINUTE / 2).await, 1);
    refute_enqueued!(redis, shop::send, after: ..);
    assert_enqueued!(redis, shop::send);

    let moment = SystemTime::now() + 60 * MINUTE;
    client.enqueue(call().at(moment).queue("later")).await.unwrap();
    assert_enqueued!(redis, queue: "later", after: 60 * MINUTE..=61 * MINUTE);
    // An id that says nothing of time: then it is counted from now.
    client.enqueue(call().after(MINUTE).id(CallId::from_bytes([7; 16])).queue("own")).await.unwrap();
    assert_enqueued!(redis, queue: "own", after: MINUTE);
}

#[tokio::test]
async fn a_failed_assertion_lists_what_is_enqueued() {
    let redis = Redis::start().await;
    assert_eq!(
        panic_of(|| assert_enqueued!(redis, shop::send, args: ["ann", _], queue: "mail")),
        "expected an enqueued call: shop::send, args: [\"ann\", _], queue: \"mail\"\nnothing is enqueued"
    );
    let client = redis.client();
    client.enqueue(shop::send::call("bob".into(), Some("hi".into()))).await.unwrap();
    client.enqueue(shop::send::call("ann".into(), None).queue("other").after(90 * MINUTE)).await.unwrap();
    client.enqueue(GoTask::new("mails.Purge").arg(1).arg("a")).await.unwrap();
    assert_eq!(
        panic_of(|| assert_enqueued!(redis, shop::send, args: ["ann", _], queue: "mail")),
        "expected an enqueued call: shop::send, args: [\"ann\", _], queue: \"mail\"\n\
         enqueued:\n  \
           default: mails.Purge(1, \"a\")\n  \
           mail: shop.send(\"bob\", \"hi\") [argument 1 (`to`) differs]\n  \
           other: shop.send(\"ann\", nil), after 1h 30m [another queue]"
    );
    for (text, problem) in [
        (panic_of(|| assert_enqueued!(redis, shop::send, args: ["bob"])), "[the task has 2 arguments]"),
        (
            panic_of(|| assert_enqueued!(redis, shop::send, args: [|to: u8| to > 1, _])),
            "[argument 1 (`to`) has another type]",
        ),
        (
            panic_of(|| assert_enqueued!(redis, shop::send, args: |_to: &str, text: &str| text == "no")),
            "[an argument differs]",
        ),
        (panic_of(|| assert_enqueued!(redis, shop::send, after: MINUTE)), "[due at another time]"),
        (panic_of(|| assert_enqueued!(redis, shop::send, after: MINUTE)), "[it waits already]"),
        (panic_of(|| assert_enqueued!(redis, "mails.Purge", args: [2, ..])), "[argument 1 differs]"),
        (
            panic_of(|| assert_enqueued!(redis, shop::send, times: 1)),
            "expected 1 enqueued call, found 2: shop::send, times: 1\n",
        ),
    ] {
        assert!(text.contains(problem), "expected {problem:?}:\n{text}");
    }
    assert_eq!(
        panic_of(|| refute_enqueued!(redis, shop::send, queue: "mail")),
        "expected no enqueued call: shop::send, queue: \"mail\"\nenqueued:\n  mail: shop.send(\"bob\", \"hi\")"
    );
    assert!(
        panic_of(|| refute_enqueued!(redis))
            .starts_with("expected no enqueued call: any\nenqueued:\n  default: ")
    );
}

#[tokio::test]
async fn a_number_that_makes_no_sense_is_refused() {
    let redis = Redis::start().await;
    assert_eq!(
        panic_of(|| assert_enqueued!(redis, shop::send, times: 0)),
        "`refute_enqueued!` checks that there are no calls: shop::send, times: 0"
    );
    assert_eq!(
        panic_of(|| refute_enqueued!(redis, shop::send, times: 2)),
        "`assert_enqueued!` counts calls, `refute_enqueued!` expects none: shop::send, times: 2"
    );
}

#[tokio::test]
async fn arguments_of_a_found_call_are_decoded() {
    let redis = Redis::start().await;
    let call = GoTask::new("mails.Send").arg("bob").arg(vec![1, 2]);
    redis.client().enqueue(call).await.unwrap();
    let call = assert_enqueued!(redis);
    assert_eq!((call.argument::<String>(0), call.argument::<Vec<u8>>(1)), ("bob".into(), vec![1, 2]));
    assert_eq!(
        panic_of(|| call.argument::<u64>(0)),
        "expected argument 0 of default: mails.Send(\"bob\", [1, 2]) to be of type u64"
    );
}

#[tokio::test]
async fn bytes_that_are_no_message_are_listed() {
    let redis = Redis::start().await;
    let mut connection = redis::Client::open(redis.url()).unwrap().get_connection().unwrap();
    let () = redis::pipe().rpush("q", "x").rpush("q_noti", "1").query(&mut connection).unwrap();
    assert_eq!(
        panic_of(|| assert_enqueued!(redis, shop::send)),
        "expected an enqueued call: shop::send\nenqueued:\n  q: (no message)"
    );
    let runs = redis.drain().await;
    assert!(
        runs[0].is_dead() && runs[0].to_string().starts_with("(no message), attempt 1: malformed: "),
        "{runs}"
    );
}
