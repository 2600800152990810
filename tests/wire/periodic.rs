//! Definitions of periodic tasks, as Python writes them.

use delayed::__private::protocol::annotations::Annotations;
use delayed::__private::protocol::encode::{self, Meta};
use delayed::__private::protocol::periodic::{Definition, overlap_key, overlap_limit, tick_id};
use delayed::__private::protocol::tracking::{Lock, LockMode};
use delayed::{CallId, Missed, Overlap, QueueName};
use serde_json::Value as Json;

use super::vectors::{bytes, string};

const VECTORS: &str = include_str!("periodic.json");

#[test]
fn definition_of_python_is_written_again_as_the_same_bytes() {
    let file: Json = serde_json::from_str(VECTORS).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 8);
    for case in cases {
        let (given, hex) = (&case["definition"], bytes(&case["hex"]));
        let found = Definition::decode(&hex).unwrap_or_else(|| panic!("expected a definition: {case}"));
        assert_eq!(found.encode(), hex, "{case}");
        let text = |name: &str, usual: &str| given[name].as_str().unwrap_or(usual).trim().to_owned();
        assert_eq!((&found.cron, found.tz.as_deref()), (&text("cron", ""), given["tz"].as_str()));
        assert_eq!(found.overlap, text("overlap", "allow").parse::<Overlap>().unwrap());
        assert_eq!(found.missed, text("missed", "once").parse::<Missed>().unwrap());
        let is_ours = case["language"] != "python" && case["language"] != "go";
        assert_eq!((found.ours, found.code), (is_ours, false));
        assert_eq!(found.expires_ms, given["expires"].as_u64().map(|seconds| seconds * 1000));
    }
}

#[test]
fn overlap_is_written_as_in_python() {
    let file: Json = serde_json::from_str(VECTORS).unwrap();
    let definition = |what: &str| {
        let case =
            file["cases"].as_array().unwrap().iter().find(|case| string(&case["name"]) == what).unwrap();
        Definition::decode(&bytes(&case["hex"])).unwrap()
    };
    let by_place = Meta { by_place: true, ..Meta::default() };
    let lock = Lock::of_key(LockMode::UntilDone, "poll", &overlap_key("poll"));
    let meta = Meta { keep_ms: Some(0), lock: Some(lock), ..by_place };
    assert_eq!(definition("skips while it runs").message, encode::native("poll", b"\x90", &meta));
    let limits = ["github".parse().unwrap(), overlap_limit(&QueueName::parse("q").unwrap(), "sync").unwrap()];
    let annotations = Annotations { limits: limits.to_vec(), ..Annotations::default() };
    let message = encode::annotated("sync", b"\x91\x01", &by_place, &annotations);
    assert_eq!(definition("one behind the other").message, message);
}

#[test]
fn id_of_a_tick_is_that_of_a_text() {
    assert_eq!(tick_id("nightly", 1_764_115_200_000), CallId::from("nightly@1764115200000"));
}
