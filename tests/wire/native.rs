//! The bytes of our own forms.

use delayed::__private::protocol::annotations::Annotations;
use delayed::__private::protocol::encode::{Meta, annotated, by_keyword};
use delayed::__private::protocol::message::{Form, Message};
use delayed::__private::protocol::tracking::{Lock, LockMode, Tracking};
use delayed::CallId;
use delayed::LimitName;
use rmpv::Value;
use serde_json::{Value as Json, json};

use super::vectors::{bytes, encode, load, pairs, params, read, string, value};

const VECTORS: &str = include_str!("native.json");

#[test]
fn every_message_is_read_and_written() {
    for case in load(VECTORS) {
        let json = &case.json;
        let message = Message::decode(&case.bytes).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let form = match message.form() {
            Form::Bare => "bare",
            Form::Payload => "payload",
            Form::Python => "python",
            Form::Native => "native",
        };
        assert_eq!((message.task(), form), (&*case.path, &*string(&json["form"])), "{}", case.name);
        let id = json["id"].as_str().map(|id| CallId::parse(id).unwrap());
        let retry = json["retry"].as_i64();
        let (expires_ms, timeout_ms) = (json["expires_ms"].as_u64(), json["timeout_ms"].as_u64());
        let attempts = u32::try_from(json["attempts"].as_u64().unwrap()).unwrap();
        let said = (message.attempts(), message.retry(), message.id());
        assert_eq!(said, (attempts, retry, id), "{}", case.name);
        let times = (message.expires_ms(), message.timeout_ms());
        assert_eq!(times, (expires_ms, timeout_ms), "{}", case.name);
        let retry_for_ms = json["retry_for_ms"].as_u64();
        assert_eq!(message.retry_for_ms(), retry_for_ms, "{}", case.name);
        let backoff = json["backoff"].as_str().map(|text| text.parse().unwrap());
        assert_eq!(message.backoff(), backoff, "{}", case.name);
        let annotations = annotations(json);
        assert_eq!(message.annotations(), annotations, "{}", case.name);
        let errors: Vec<_> = message
            .errors()
            .into_iter()
            .map(|error| json!([error.at_ms, error.reason, error.detail]))
            .collect();
        assert_eq!(json!(errors), json.get("errors").cloned().unwrap_or(json!([])), "{}", case.name);
        let given = arguments(json);
        read_all(&message, &given, &case.name);

        let lock = lock(json, &case.path, &given);
        let tracking = json["keep_ms"].as_u64().zip(id);
        let tracking = tracking.map(|(keep_ms, id)| Tracking { id, keep_ms: Some(keep_ms), lock });
        assert_eq!(message.tracking(), tracking, "{}", case.name);
        assert_eq!(message.retried(), bytes(&json["next_attempt"]), "{}", case.name);
        let retried = message.retried();
        let retried = Message::decode(&retried).unwrap();
        let said = (retried.attempts(), retried.retry(), retried.id());
        assert_eq!(said, (attempts + 1, retry, id), "{}", case.name);
        assert_eq!(retried.retry_for_ms(), retry_for_ms, "{}", case.name);
        assert_eq!((retried.expires_ms(), retried.timeout_ms()), times, "{}", case.name);
        assert_eq!(retried.annotations(), annotations, "{}", case.name);
        read_all(&retried, &given, &case.name);

        assert_eq!(message.revived(), bytes(&json["revived"]), "{}", case.name);
        let revived = message.revived();
        let revived = Message::decode(&revived).unwrap();
        assert_eq!((revived.attempts(), revived.retry(), revived.id()), (0, retry, id), "{}", case.name);
        assert_eq!(revived.retry_for_ms(), retry_for_ms, "{}", case.name);
        assert_eq!((revived.expires_ms(), revived.timeout_ms()), (None, timeout_ms), "{}", case.name);
        assert_eq!(revived.annotations(), annotations, "{}", case.name);
        read_all(&revived, &given, &case.name);

        if json["encoded"] == true {
            let by_place = json["kwargs"].is_object();
            let (keep_ms, lock) = (json["keep_ms"].as_u64(), lock);
            let meta = Meta {
                attempts,
                backoff,
                expires_ms,
                id,
                by_place,
                retry,
                retry_for_ms,
                keep_ms,
                timeout_ms,
                lock,
            };
            assert_eq!(written(json, &case.path, &given, &meta, &annotations), case.bytes, "{}", case.name);
        }
    }
}

/// The lock of a unique call, or of an ordered one.
fn lock(json: &Json, path: &str, given: &[(String, Value)]) -> Option<Lock> {
    let mode = match json["unique"]["mode"].as_str()? {
        "ordered" => return Some(Lock::of_order(&string(&json["unique"]["key"]))),
        "until_started" => LockMode::UntilStarted,
        "until_done" => LockMode::UntilDone,
        "period" => LockMode::Period,
        "replace" => LockMode::Replace,
        other => panic!("expected a mode, not {other}"),
    };
    let places = given.iter().map(|(_, value)| value);
    Some(match json["unique"]["key"].as_str() {
        Some(key) => Lock::of_key(mode, path, key),
        None => Lock::of_arguments(mode, path, &encode(places)),
    })
}

/// The bytes that a client makes of a call.
fn written(
    json: &Json,
    path: &str,
    given: &[(String, Value)],
    meta: &Meta,
    annotations: &Annotations,
) -> Vec<u8> {
    let places: Vec<Value> = given.iter().map(|(_, value)| value.clone()).collect();
    match pairs(&json["kwargs"]["$map"]) {
        _ if !meta.by_place => annotated(path, &encode(places.iter()), meta, annotations),
        keywords if keywords.is_empty() => {
            annotated(path, &encode([&Value::Array(places)].into_iter()), meta, annotations)
        }
        keywords => {
            let keywords = keywords.into_iter().map(|(name, value)| (name.into(), value)).collect();
            by_keyword(path, &encode([&Value::Map(keywords)].into_iter()), meta, annotations)
        }
    }
}

/// What it carries for its program.
fn annotations(json: &Json) -> Annotations {
    let mut annotations = Annotations::default();
    for (name, value) in json["headers"].as_object().into_iter().flatten() {
        annotations.headers.insert(name, string(value));
    }
    annotations.trace.parent = json["traceparent"].as_str().unwrap_or_default().to_owned();
    let limits = json["limits"].as_array().into_iter().flatten();
    annotations.limits = limits.map(|name| LimitName::parse(&string(name)).unwrap()).collect();
    annotations.trace.state = json["tracestate"].as_str().unwrap_or_default().to_owned();
    annotations
}

/// What was given, by place (under a name of our own) and by keyword.
fn arguments(json: &Json) -> Vec<(String, Value)> {
    let args = json["args"].as_array().cloned().unwrap_or_default();
    let places = args.iter().enumerate().map(|(place, json)| (format!("p{place}"), value(json)));
    places.chain(pairs(&json["kwargs"]["$map"])).collect()
}

fn read_all(message: &Message<'_>, given: &[(String, Value)], name: &str) {
    let params = params(given.iter().map(|(name, _)| name.clone()));
    let values: Vec<Value> = given.iter().map(|(_, value)| value.clone()).collect();
    assert_eq!(read(message, params), values, "{name}");
}
