//! The bytes of our own forms.

use delayed::protocol::call_id::CallId;
use delayed::protocol::encode::{Meta, native};
use delayed::protocol::message::{Form, Message};
use rmpv::Value;
use serde_json::Value as Json;

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
        let (deadline_ms, timeout_ms) = (json["deadline_ms"].as_u64(), json["timeout_ms"].as_u64());
        let attempts = u32::try_from(json["attempts"].as_u64().unwrap()).unwrap();
        let said = (message.attempts(), message.retry(), message.id());
        assert_eq!(said, (attempts, retry, id), "{}", case.name);
        let times = (message.deadline_ms(), message.timeout_ms());
        assert_eq!(times, (deadline_ms, timeout_ms), "{}", case.name);
        let given = arguments(json);
        read_all(&message, &given, &case.name);

        assert_eq!(message.retried(), bytes(&json["next_attempt"]), "{}", case.name);
        let retried = message.retried();
        let retried = Message::decode(&retried).unwrap();
        let said = (retried.attempts(), retried.retry(), retried.id());
        assert_eq!(said, (attempts + 1, retry, id), "{}", case.name);
        assert_eq!((retried.deadline_ms(), retried.timeout_ms()), times, "{}", case.name);
        read_all(&retried, &given, &case.name);

        assert_eq!(message.revived(), bytes(&json["revived"]), "{}", case.name);
        let revived = message.revived();
        let revived = Message::decode(&revived).unwrap();
        assert_eq!((revived.attempts(), revived.retry(), revived.id()), (0, retry, id), "{}", case.name);
        assert_eq!((revived.deadline_ms(), revived.timeout_ms()), (None, timeout_ms), "{}", case.name);
        read_all(&revived, &given, &case.name);

        if json["encoded"] == true {
            let payload = encode(given.iter().map(|(_, value)| value));
            let meta = Meta { attempts, deadline_ms, id, by_place: false, retry, timeout_ms };
            assert_eq!(native(&case.path, &payload, &meta), case.bytes, "{}", case.name);
        }
    }
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
