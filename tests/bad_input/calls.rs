//! Calls whose arguments do not fit are buried with a sentence that says which argument, what was expected and what
//! came.

use serde_json::{Value, json};

use crate::support::trial::{Trial, call, count};

/// `[path, args, kwargs]` as Python sends it.
fn python(path: &str, args: &Value, kwargs: &Value) -> Vec<u8> {
    let value = (path, args, kwargs);
    rmp_serde::to_vec(&value).unwrap()
}

#[test]
fn arguments_that_do_not_fit_are_buried_with_what_is_wrong() {
    let mut trial = Trial::new();
    let cases: Vec<(Vec<u8>, &[&str])> = vec![
        (call("trial.pair", &[json!("one"), json!("x")]), &["`trial.pair`", "`number`", "i64", "one"]),
        (call("trial.pair", &[json!(1), json!(2)]), &["`trial.pair`", "`text`", "String", "2"]),
        (call("trial.pair", &[json!(1)]), &["`trial.pair`", "2"]),
        (call("trial.pair", &[]), &["`trial.pair`", "2"]),
        (call("trial.pair", &[json!(1), json!("x"), json!(3)]), &["`trial.pair`", "3"]),
        (call("trial.pair", &[json!(u64::MAX), json!("x")]), &["`number`", "18446744073709551615"]),
        (call("trial.pair", &[json!(1.5), json!("x")]), &["`number`", "1.5"]),
        (call("trial.mark", &[json!({"n": 1})]), &["`trial.mark`", "`n`", "String"]),
        (python("trial.pair", &json!([1, "x"]), &json!({"nunber": 1})), &["`trial.pair`", "nunber"]),
        (python("trial.pair", &json!([1]), &json!({"txet": "x"})), &["`trial.pair`", "txet"]),
        (python("trial.pair", &json!([1, "x"]), &json!({"text": "y"})), &["`trial.pair`", "text"]),
        (python("trial.pair", &json!([]), &json!({"text": "y"})), &["`trial.pair`", "number"]),
    ];
    let mut worker = trial.worker(&[]);
    let messages: Vec<&Vec<u8>> = cases.iter().map(|(message, _)| message).collect();
    trial.push(&messages);
    trial.push(&[
        call("trial.pair", &[json!(1), json!("place")]),
        python("trial.pair", &json!([2]), &json!({"text": "keyword"})),
        python("trial.pair", &json!(null), &json!({"text": "keywords", "number": 3})),
    ]);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!((count(&stopped, "buried"), count(&stopped, "failed")), (cases.len() as u64, 0), "{stopped}");
    trial.ledger.assert_each_once(["1 place", "2 keyword", "3 keywords"]);
    let state = trial.state();
    for (message, words) in &cases {
        let letter = state.dead.iter().find(|letter| letter["message"] == *message).expect("it is dead");
        let field = |name: &str| String::from_utf8(letter[name].clone()).unwrap();
        assert_eq!((field("reason").as_str(), field("attempt").as_str()), ("arguments", "1"), "{letter:?}");
        let detail = field("detail");
        let missing: Vec<_> = words.iter().filter(|word| !detail.contains(**word)).collect();
        assert!(missing.is_empty(), "expected {missing:?} in {detail:?}");
    }
    trial.assert_only(&["q_dead"]);
}

#[test]
fn keywords_sent_by_go_as_an_array_are_buried_with_a_reason() {
    let vectors: Value = serde_json::from_str(include_str!("../wire/go-delayed.json")).unwrap();
    let cases = vectors["cases"].as_array().unwrap();
    let case = cases.iter().find(|case| case["name"] == "kwargs struct").expect("the vectors have it");
    let hex = case["hex"].as_str().unwrap();
    let bytes = (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap());
    // With the path of a task that is here: behind it stand no arguments, and the struct.
    let path = case["func_path"].as_str().unwrap().len();
    let rest: Vec<u8> = bytes.skip(2 + path).collect();
    assert_eq!(rest[..2], [0xc0, 0x92], "expected nil and an array in the vector");
    let message = [&[0x93, 0xaa][..], b"trial.pair", &rest].concat();
    let mut trial = Trial::new();
    let mut worker = trial.worker(&["--unknown", "ignore"]);
    trial.push(&[&message]);
    trial.wait_settled();
    trial.stop(&mut worker);
    let state = trial.state();
    assert_eq!(state.dead.len(), 1, "{state:#?}");
    assert_eq!(state.dead[0]["message"], message, "expected it to the byte");
    let detail = String::from_utf8(state.dead[0]["detail"].clone()).unwrap();
    assert!(detail.contains("map") && detail.contains("array"), "expected what is wrong with it: {detail}");
    trial.assert_only(&["q_dead"]);
}
