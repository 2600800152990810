//! What a run is given beside its arguments: its context, and what the program shares.

use delayed::__private::protocol::encode::{Meta, native};
use delayed::CallId;

use crate::support::trial::{Trial, call};

#[test]
fn context_and_state_are_given() {
    let mut trial = Trial::new();
    let id = CallId::new();
    let payload = rmp_serde::to_vec("native").unwrap();
    let meta = Meta { attempts: 4, id: Some(id), retry: Some(9), ..Meta::default() };
    trial.push(&[
        call("trial.injected", &["go".into()]),
        native("trial.injected", &payload, &meta),
        rmp_serde::to_vec(&("trial.injected", serde_json::json!([]), serde_json::json!({"n": "python"})))
            .unwrap(),
    ]);
    let mut worker = trial.worker(&["--burst"]);
    trial.ended(&mut worker);
    trial.ledger.assert_each_once([
        "go trial.injected q 1 none Hello".to_owned(),
        format!("native trial.injected q 5 {id} Hello"),
        "python trial.injected q 1 none Hello".to_owned(),
    ]);
    trial.assert_only(&[]);
}
