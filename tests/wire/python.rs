//! The bytes of the Python package.

use delayed::__private::protocol::encode::{go_task, py_task};
use delayed::__private::protocol::message::{Form, Message};
use rmpv::Value;

use super::vectors::{Case, encode, load, pairs, params, read, value};

const VECTORS: &str = include_str!("python-delayed.json");

#[test]
fn every_message_is_read_and_written() {
    let cases = load(VECTORS);
    for case in &cases {
        let message = Message::decode(&case.bytes).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        assert_eq!(message.task(), case.path, "{}", case.name);
        let retried = message.retried();
        let retried = Message::decode(&retried).unwrap();
        match case.json["class"].as_str() {
            Some("GoTask") => go_task_case(case, &message, &retried),
            Some("PyTask") => py_task_case(case, &message, &retried),
            other => panic!("{}: no class {other:?}", case.name),
        }
    }
    let count = |class| cases.iter().filter(|case| case.json["class"] == class).count();
    assert_eq!((count("GoTask"), count("PyTask")), (23, 8));
}

fn go_task_case(case: &Case, message: &Message<'_>, retried: &Message<'_>) {
    // One parameter of any type takes the payload as it is.
    let whole = params(["value".to_owned()]);
    let expected = value(&case.json["args"]);
    assert_eq!(read(message, whole), std::slice::from_ref(&expected), "{}", case.name);
    assert_eq!(read(retried, whole), std::slice::from_ref(&expected), "{}", case.name);
    if let Value::Array(list) = &expected {
        let names = params((0..list.len()).map(|place| format!("p{place}")));
        if list.len() != 1 {
            assert_eq!(&read(message, names), list, "{}", case.name);
            assert_eq!(&read(retried, names), list, "{}", case.name);
        }
    }
    if case.json["args"].is_null() {
        // The path alone: we write `[path, payload]` instead, which all of them read.
        assert_eq!(message.form(), Form::Bare);
        return;
    }
    assert_eq!(message.form(), Form::Payload);
    assert_eq!(go_task(&case.path, &encode([&expected].into_iter())), case.bytes, "{}", case.name);
}

fn py_task_case(case: &Case, message: &Message<'_>, retried: &Message<'_>) {
    assert_eq!(message.form(), Form::Python);
    let args = case.json["args"].as_array().cloned().unwrap_or_default();
    let args: Vec<Value> = args.iter().map(value).collect();
    let kwargs = pairs(&case.json["kwargs"]["$map"]);
    let retry = case.json["retry"].as_i64().unwrap();

    let places = (0..args.len()).map(|place| format!("p{place}"));
    let names = params(places.chain(kwargs.iter().map(|(name, _)| name.clone())));
    let expected: Vec<Value> =
        args.iter().cloned().chain(kwargs.iter().map(|(_, value)| value.clone())).collect();
    for message in [message, retried] {
        assert_eq!(read(message, names), expected, "{}", case.name);
        assert_eq!(message.retry().unwrap_or(0), retry, "{}", case.name);
    }

    let kwargs = kwargs.into_iter().map(|(name, value)| (name.into(), value)).collect();
    let (args, kwargs) =
        (encode([&Value::Array(args)].into_iter()), encode([&Value::Map(kwargs)].into_iter()));
    assert_eq!(py_task(&case.path, &args, &kwargs, retry), case.bytes, "{}", case.name);
}
