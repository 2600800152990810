//! Keys of scheduled, cancelled and paused calls that hold another type: the error names the key and both types, other
//! calls and queues go on, nothing is lost, and all is well again once the key is gone.

use std::time::Duration;

use delayed::{BrokerErrorKind, Call, CallId, Cancelled, Client, Error, GoTask, QueueName};
use redis::Commands;

use crate::support::trial::{QUEUE, Trial, marks};

fn queue() -> QueueName {
    QueueName::parse(QUEUE).unwrap()
}

fn client(trial: &Trial) -> Client {
    Client::connect_blocking(&trial.server.url()).unwrap()
}

fn later(n: &str, queue: &str) -> Call {
    GoTask::new("trial.mark").arg(n).queue(queue).after(Duration::from_millis(50))
}

/// Says which key it is, and what it is instead of what.
#[track_caller]
fn names(error: &Error, key: &str, found: &str, expected: &str) {
    assert_eq!(error.broker_kind(), Some(BrokerErrorKind::WrongType), "{error}");
    assert!(!error.may_have_been_applied(), "{error}");
    let text =
        format!("the key `{key}` has the wrong type, {found} instead of {expected}: rename or delete it");
    let said =
        format!("{error}: {}", std::error::Error::source(error).map(ToString::to_string).unwrap_or_default());
    assert!(said.contains(&text), "expected {text:?} in {said:?}");
}

#[test]
fn timetable_of_another_type_is_named_and_others_go_on() {
    for (key, kind) in [("q_due", "zset"), ("q_later", "hash")] {
        let mut trial = Trial::new();
        let client = client(&trial);
        let mut worker = trial.worker(&["--queue", "other"]);
        client.enqueue_blocking(later("first", QUEUE)).unwrap();
        trial.wait_runs(1);
        // A call is in the timetable already.
        client.enqueue_blocking(later("kept", QUEUE).after(Duration::from_millis(300))).unwrap();
        let () = redis::cmd("RENAME").arg(key).arg("aside").query(&mut trial.redis).unwrap();
        let () = trial.redis.set(key, "text").unwrap();
        let error = client.enqueue_blocking(later("refused", QUEUE)).unwrap_err();
        names(&error, key, "string", kind);
        let error = client.cancel_blocking(&client.handle_of::<()>(&queue(), CallId::new())).unwrap_err();
        names(&error, key, "string", kind);
        trial.push(&marks(3));
        client.enqueue_blocking(later("other", "other")).unwrap();
        trial.wait_runs(5);
        let line = worker.wait_for_line(&format!("the key `{key}` has the wrong type"));
        assert!(line.contains("\"queue\":\"q\""), "{line}");
        let () = redis::cmd("RENAME").arg("aside").arg(key).query(&mut trial.redis).unwrap();
        client.enqueue_blocking(later("last", QUEUE)).unwrap();
        trial.wait_runs(7);
        trial.wait_settled();
        trial.stop(&mut worker);
        trial.ledger.assert_each_once(["first", "kept", "other", "last", "0", "1", "2"]);
        trial.assert_only(&[]);
    }
}

#[test]
fn marks_of_another_type_are_named_and_calls_run() {
    let mut trial = Trial::new();
    let client = client(&trial);
    let () = trial.redis.set("q_cancelled", "text").unwrap();
    let () = trial.redis.rpush("q_paused", "text").unwrap();
    let mut worker = trial.worker(&[]);
    trial.push(&marks(20));
    trial.wait_runs(20);
    let kept = GoTask::new("trial.mark").arg("kept").queue(QUEUE).with_id();
    let handle = client.enqueue_blocking(kept.after(Duration::from_secs(3600))).unwrap();
    names(&client.cancel_blocking(&handle).unwrap_err(), "q_cancelled", "string", "zset");
    assert_eq!(trial.state().later.len(), 1, "expected it to be left");
    let () = trial.redis.del(&["q_cancelled", "q_paused"]).unwrap();
    assert_eq!(client.cancel_blocking(&handle).unwrap(), Cancelled::Scheduled);
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(0..20);
    trial.assert_only(&[]);
}
