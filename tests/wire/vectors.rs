//! The files of golden bytes, and how arguments are read without knowing their types.

use delayed::__private::protocol::arguments::{Param, Presence};
use delayed::__private::protocol::message::Message;
use rmpv::Value;
use serde_json::Value as Json;

/// One message with its meaning.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
    pub(super) json: Json,
}

/// The cases of a file.
pub(super) fn load(text: &str) -> Vec<Case> {
    let file: Json = serde_json::from_str(text).expect("a file of vectors is JSON");
    let cases = file["cases"].as_array().expect("a file of vectors has cases");
    assert!(!cases.is_empty());
    cases
        .iter()
        .map(|case| Case {
            name: string(&case["name"]),
            path: string(&case["func_path"]),
            bytes: bytes(&case["hex"]),
            json: case.clone(),
        })
        .collect()
}

pub(super) fn string(json: &Json) -> String {
    json.as_str().expect("a text").to_owned()
}

/// Hexadecimal digits.
pub(super) fn bytes(json: &Json) -> Vec<u8> {
    let digits = json.as_str().expect("hexadecimal digits").as_bytes();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// The meaning of a JSON value: `$bin` is bytes, `$map` a map that may have any keys.
pub(super) fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(value) => Value::Boolean(*value),
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => number.into(),
            (None, Some(number)) => number.into(),
            (None, None) => number.as_f64().expect("a number is a float").into(),
        },
        Json::String(text) => text.as_str().into(),
        Json::Array(list) => list.iter().map(value).collect::<Vec<_>>().into(),
        Json::Object(object) if object.contains_key("$bin") => Value::Binary(bytes(&object["$bin"])),
        Json::Object(object) => {
            Value::Map(pairs(&object["$map"]).into_iter().map(|(key, value)| (key.into(), value)).collect())
        }
    }
}

/// The pairs of a `$map` whose keys are texts.
pub(super) fn pairs(json: &Json) -> Vec<(String, Value)> {
    let pairs = json.as_array().map(Vec::as_slice).unwrap_or_default();
    pairs.iter().map(|pair| (string(&pair[0]), value(&pair[1]))).collect()
}

/// Required parameters of these names.
pub(super) fn params(names: impl IntoIterator<Item = String>) -> &'static [Param] {
    let param = |name: String| Param { name: name.leak(), ty: "Value", presence: Presence::Required };
    Vec::leak(names.into_iter().map(param).collect())
}

/// Reads as many arguments as there are `params`.
pub(super) fn read(message: &Message<'_>, params: &'static [Param]) -> Vec<Value> {
    let mut reader = message.arguments().reader(params).unwrap_or_else(|error| panic!("{error}"));
    let read = |_: &Param| reader.required().unwrap_or_else(|error| panic!("{error}"));
    let values = params.iter().map(read).collect();
    reader.finish().unwrap_or_else(|error| panic!("{error}"));
    values
}

/// Encodes values as the arguments of a call.
pub(super) fn encode<'a>(values: impl ExactSizeIterator<Item = &'a Value>) -> Vec<u8> {
    let mut encoder = delayed::__private::protocol::encode::Encoder::new(values.len());
    values.for_each(|value| encoder.argument("value", value));
    encoder.finish().expect("a value can be written")
}
