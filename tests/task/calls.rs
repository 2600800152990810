//! Which bytes does a call become?

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use delayed::__private::protocol::message::{Form, Message};
use delayed::{Call, CallId, GoTask, PyTask};
use delayed::{NameError, QueueName};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Point {
    x: i64,
    y: i64,
}

mod tasks {
    use super::Point;

    #[delayed::task(name = "a", queue = "sums")]
    pub(super) fn add(a: i64, b: i64) -> i64 {
        a + b
    }

    #[delayed::task(name = "e", expires = "10m")]
    pub(super) fn expiring() {}

    #[delayed::task(name = "n")]
    pub(super) fn nothing() {}

    #[delayed::task(name = "p")]
    pub(super) fn point(point: Point) {
        assert!(point.x < point.y);
    }

    #[delayed::task(name = "m")]
    pub(super) fn map(map: std::collections::HashMap<String, Unwritable>) {
        drop(map);
    }

    #[derive(Debug, PartialEq, Eq, serde::Deserialize)]
    pub(super) struct Unwritable;

    impl serde::Serialize for Unwritable {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("never"))
        }
    }
}

#[test]
fn a_call_without_options_is_what_go_makes() {
    assert_eq!(tasks::add::call(1, 300).encode().unwrap(), b"\x92\xa1a\xc4\x05\x92\x01\xcd\x01\x2c");
    assert_eq!(tasks::nothing::call().encode().unwrap(), b"\x92\xa1n\xc4\x01\xc0");
    assert_eq!(tasks::point::call(Point { x: 1, y: 2 }).encode().unwrap(), b"\x92\xa1p\xc4\x03\x92\x01\x02");
}

#[test]
fn options_travel_in_the_meta() {
    let call = tasks::nothing::call().retry(-1);
    assert_eq!(call.encode().unwrap(), b"\x93\xa1n\xc4\x01\xc0\x81\xa1r\xff");
    let id = CallId::from_bytes([7; 16]);
    let call = tasks::nothing::call().id(id);
    assert_eq!(call.call_id(), Some(id));
    let bytes = call.encode().unwrap();
    assert_eq!(Message::decode(&bytes).unwrap().id(), Some(id));
    let call = tasks::nothing::call().timeout(Duration::from_micros(1_500_001));
    assert_eq!(call.encode().unwrap(), b"\x93\xa1n\xc4\x01\xc0\x81\xa1t\xcd\x05\xdd", "rounded up");
    assert_eq!(tasks::nothing::call().timeout(Duration::ZERO).encode().unwrap()[6..], *b"\x81\xa1t\x01");
    let call = tasks::nothing::call().retry_for(Duration::from_micros(1_500_001));
    assert_eq!(call.encode().unwrap(), b"\x93\xa1n\xc4\x01\xc0\x81\xa1g\xcd\x05\xdd", "rounded up");
    assert_eq!(tasks::nothing::call().retry_for(Duration::ZERO).encode().unwrap()[6..], *b"\x81\xa1g\x01");
    let expires = |moment| tasks::nothing::call().expires_at(moment).encode().unwrap();
    assert_eq!(expires(UNIX_EPOCH + Duration::from_secs(1))[6..], *b"\x81\xa1d\xcd\x03\xe8");
    assert_eq!(expires(UNIX_EPOCH - Duration::from_secs(1))[6..], *b"\x81\xa1d\0");
    let call = tasks::nothing::call().with_id();
    assert!(call.call_id().is_some());
}

#[test]
fn call_expires_after_its_enqueue_or_its_due_time() {
    const MINUTE: Duration = Duration::from_secs(60);
    let left = |call: Call| {
        let bytes = call.encode().unwrap();
        let expires = Message::decode(&bytes).unwrap().expires_ms().map(Duration::from_millis);
        expires
            .map(|expires| expires.saturating_sub(UNIX_EPOCH.elapsed().unwrap()).as_millis().div_ceil(60_000))
    };
    let (now, plain) = (SystemTime::now(), tasks::nothing::call);
    for (call, minutes) in [
        (plain(), None),
        (plain().expires(5 * MINUTE), Some(5)),
        (plain().expires(5 * MINUTE).after(60 * MINUTE), Some(65)),
        (plain().at(now + 60 * MINUTE).expires(5 * MINUTE), Some(65)),
        (plain().at(UNIX_EPOCH).expires(5 * MINUTE), Some(5)),
        (plain().expires(MINUTE).expires_at(now + 7 * MINUTE).after(60 * MINUTE), Some(7)),
        (tasks::expiring::call(), Some(10)),
        (tasks::expiring::call().expires(MINUTE), Some(1)),
    ] {
        let told = format!("{call:?}");
        assert_eq!(left(call), minutes, "{told}");
    }
}

#[test]
fn a_call_goes_to_its_queue() {
    let queue = |call: Call| call.queue_name().map(|name| name.to_string());
    assert_eq!(queue(tasks::add::call(1, 2).untyped()), Ok("sums".into()));
    assert_eq!(queue(tasks::nothing::call()), Ok("default".into()));
    assert_eq!(queue(tasks::add::call(1, 2).queue("other").untyped()), Ok("other".into()));
    assert_eq!(queue(tasks::add::call(1, 2).queue(QueueName::default()).untyped()), Ok("default".into()));
    assert_eq!(queue(GoTask::new("f").queue("go".to_owned())), Ok("go".into()));
    assert!(matches!(queue(tasks::nothing::call().queue("a b")), Err(NameError::Character { .. })));
}

#[test]
fn an_argument_that_cannot_be_written_is_named() {
    let error = tasks::map::call([("k".to_owned(), tasks::Unwritable)].into()).encode().unwrap_err();
    assert!(error.to_string().contains("`map`") && error.to_string().contains("never"), "{error}");
    let error = Call::from(PyTask::new("m:f").arg(1).arg(tasks::Unwritable)).encode().unwrap_err();
    assert!(error.to_string().contains("number 2: "), "{error}");
    let error = Call::from(GoTask::new("f").arg(tasks::Unwritable)).encode().unwrap_err();
    assert!(error.to_string().contains("number 1: "), "{error}");
}

#[test]
fn a_python_task_is_what_python_makes() {
    let bytes = |task: PyTask| Call::from(task).encode().unwrap();
    assert_eq!(bytes(PyTask::new("m:f")), b"\x91\xa3m:f");
    assert_eq!(bytes(PyTask::new("m:f").arg(1).arg("x")), b"\x92\xa3m:f\x92\x01\xa1x");
    assert_eq!(bytes(PyTask::new("m:f").kwarg("k", 1).kwarg("k", 2)), b"\x93\xa3m:f\x90\x81\xa1k\x02");
    assert_eq!(bytes(PyTask::new("m:f").retry(3)), b"\x94\xa3m:f\x90\x80\x03");
    // A struct is a map, at any depth, and a list of bytes is `bytes`.
    let points = vec![Point { x: 1, y: 2 }];
    assert_eq!(bytes(PyTask::new("m:f").arg(&points)), b"\x92\xa3m:f\x91\x91\x82\xa1x\x01\xa1y\x02");
    assert_eq!(bytes(PyTask::new("m:f").arg(vec![1_u8, 2])), b"\x92\xa3m:f\x91\xc4\x02\x01\x02");
    let call =
        Call::from(PyTask::new("m:f")).retry(-1).id("order:7").timeout(Duration::MAX).expires_at(UNIX_EPOCH);
    let call = call.retry_for(Duration::MAX);
    assert_eq!(call.encode().unwrap(), b"\x94\xa3m:f\x90\x80\xff");
    assert_eq!((call.task(), call.call_id()), ("m:f", Some("order:7".into())));
}

#[test]
fn a_go_task_is_what_go_makes() {
    let bytes = |task: GoTask| Call::from(task).encode().unwrap();
    assert_eq!(bytes(GoTask::new("f")), b"\x92\xa1f\xc4\x01\xc0");
    assert_eq!(bytes(GoTask::new("f").arg(1)), b"\x92\xa1f\xc4\x01\x01");
    assert_eq!(bytes(GoTask::new("f").arg(Point { x: 1, y: 2 })), b"\x92\xa1f\xc4\x03\x92\x01\x02");
    assert_eq!(bytes(GoTask::new("f").arg(1).arg("x")), b"\x92\xa1f\xc4\x04\x92\x01\xa1x");
    let call = Call::from(GoTask::new("f")).retry(3).with_id().timeout(Duration::MAX).expires_at(UNIX_EPOCH);
    let bytes = call.encode().unwrap();
    assert_eq!(Message::decode(&bytes).unwrap().form(), Form::Payload);
}
