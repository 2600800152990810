//! The ids of calls that are given as texts.

use delayed::{Call, CallId, PyTask};
use serde_json::Value as Json;

use super::vectors::string;

const VECTORS: &str = include_str!("ids.json");

#[test]
fn text_becomes_the_same_id_as_in_python() {
    let file: Json = serde_json::from_str(VECTORS).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() >= 14, "{} cases", cases.len());
    for case in cases {
        let (text, id) = (string(&case["text"]), string(&case["id"]));
        assert_eq!(CallId::from(&text).to_string(), id, "{text:?}");
        let call: Call = PyTask::new("m:f").queue("q").id(text);
        assert_eq!(call.call_id().unwrap().to_string(), id);
    }
}

#[test]
fn only_what_an_id_is_displayed_as_is_parsed() {
    for text in
        ["{018bcfe5-687b-7b5c-8a3e-0123456789ab}", "urn:uuid:018bcfe5-687b-7b5c-8a3e-0123456789ab", "order:7"]
    {
        assert!(CallId::parse(text).is_err(), "{text}");
    }
}
