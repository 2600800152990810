//! Each end of a run is an event that says which call it was, and how long it took.

use delayed::__private::protocol::call_id::CallId;
use delayed::__private::protocol::encode::{Meta, native};
use redis::Commands;
use serde_json::Value;

use super::{event, logged};
use crate::support::trial::{Trial, call, mark};

const ISOLATIONS: [&str; 3] = ["inline", "fork", "prefork"];

/// A call with an id that fails until it has used its one retry.
fn failing(id: CallId) -> Vec<u8> {
    let payload = rmp_serde::to_vec(&("a", 99)).unwrap();
    native("trial.mark_or_retry", &payload, &Meta { id: Some(id), retry: Some(1), ..Meta::default() })
}

fn dead_letters(trial: &mut Trial) -> Vec<String> {
    let letters: Vec<(String, redis::Value)> =
        redis::cmd("XRANGE").arg("q_dead").arg("-").arg("+").query(&mut trial.redis).unwrap();
    letters.into_iter().map(|(id, _)| id).collect()
}

#[track_caller]
fn assert_has_duration(line: &Value) {
    let text = line["duration"].as_str().unwrap_or_else(|| panic!("expected a duration: {line}"));
    assert!(text.ends_with('s') && text.starts_with(|c: char| c.is_ascii_digit()), "{line}");
}

#[test]
fn a_success_is_told_with_its_duration_at_the_level_debug() {
    for isolation in ISOLATIONS {
        let mut trial = Trial::new();
        let mut worker = trial.worker(&["--isolation", isolation, "--log-level", "info,delayed=debug"]);
        let id = CallId::new();
        let payload = rmp_serde::to_vec(&("a",)).unwrap();
        trial.push(&[native("trial.mark", &payload, &Meta { id: Some(id), ..Meta::default() })]);
        let line = event(&worker, "task succeeded");
        assert_eq!((&line["level"], &line["task"]), (&"DEBUG".into(), &"trial.mark".into()), "{line}");
        assert_eq!((&line["call_id"], &line["attempt"]), (&id.to_string().into(), &1.into()), "{line}");
        assert_has_duration(&line);
        trial.wait_settled();
        trial.stop(&mut worker);

        let mut worker = trial.worker(&["--isolation", isolation]);
        trial.push(&[mark("b")]);
        trial.wait_runs(2);
        trial.wait_settled();
        trial.stop(&mut worker);
        assert!(logged(&worker, "task succeeded").is_empty(), "{}", worker.printed());
    }
}

#[test]
fn failures_and_burials_name_call_duration_and_dead_letter() {
    for isolation in ISOLATIONS {
        let mut trial = Trial::new();
        let mut worker = trial.worker(&["--isolation", isolation]);
        let id = CallId::new();
        trial.push(&[failing(id)]);
        let retried = event(&worker, "task failed; retrying");
        let buried = event(&worker, "message buried");
        for line in [&retried, &buried] {
            assert_eq!(line["call_id"], id.to_string(), "{line}");
            assert_eq!(line["task"], "trial.mark_or_retry", "{line}");
            assert_has_duration(line);
        }
        assert_eq!((&retried["attempt"], &buried["attempt"]), (&1.into(), &2.into()));
        let letters = dead_letters(&mut trial);
        assert_eq!(letters.len(), 1, "{letters:?}");
        assert_eq!(buried["dead_letter"], letters[0], "{buried}");
        assert!(buried["error"].is_string() && buried["reason"] == "failed", "{buried}");
        trial.wait_settled();
        trial.stop(&mut worker);
    }
}

#[test]
fn a_burial_by_a_sweeper_names_the_dead_letter() {
    let mut trial = Trial::new();
    let digest = redis::Script::new("poison").get_hash().to_owned();
    let (now, _): (u64, u64) = redis::cmd("TIME").query(&mut trial.redis).unwrap();
    // It ran alone in both workers that died with it, and now in a third.
    let runs = format!("=;{}:0!2", "a".repeat(16));
    let () = trial.redis.hset("q_deaths", digest, format!("2 {}000 {runs} q:w q:v", now - 60)).unwrap();
    let () = trial.redis.hset("q_processing", format!("q:{}:0", "a".repeat(16)), "poison").unwrap();
    let sweeper = trial.sweeper(&[]);
    let line = event(&sweeper, "message buried");
    let letters = dead_letters(&mut trial);
    assert_eq!((letters.len(), &line["dead_letter"]), (1, &letters[0].as_str().into()), "{line}");
    assert_eq!((&line["queue"], &line["reason"]), (&"q".into(), &"lost".into()), "{line}");
}

#[test]
fn a_panic_is_told_with_its_location_in_the_span_of_its_run() {
    let mut trial = Trial::new();
    let worker = trial.worker(&["--log-level", "info,delayed::run=debug"]);
    trial.push(&[call("isolation.panics", &["a".into()])]);
    let line = event(&worker, "panicked");
    let location = line["location"].as_str().unwrap_or_default();
    let number = location.split(':').nth(1).and_then(|number| number.parse::<u32>().ok());
    assert!(location.starts_with("tests/programs/") && number.is_some(), "{line}");
    assert_eq!(line["span"]["task"], "isolation.panics", "{line}");
    assert!(event(&worker, "message buried")["dead_letter"].is_string());
}
