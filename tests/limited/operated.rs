//! What an operator sees of limits, and does with calls that wait for them.

use delayed::{CallId, CallState, Cancelled, Inspector, Limit};

use super::{KEYS, Site, tasks};
use crate::support::process::{DELAYED, Program};
use crate::support::trial::open;

fn inspector(site: &Site) -> Inspector {
    site.runtime.block_on(Inspector::connect(&site.trial.server.url())).unwrap()
}

/// Runs `limits` with these words.
fn limits(site: &Site, words: &[&str]) -> String {
    let mut command = site.trial.command(DELAYED);
    let mut program =
        Program::spawn(command.args(["limits"]).args(words).args(["--redis", &site.trial.server.url()]));
    program.last_words()
}

#[test]
fn parked_call_is_shown_with_its_limit_and_can_be_cancelled() {
    let mut site = Site::new();
    site.set("few", Limit::concurrent(1));
    let (queue, gate, inspector) = ("q".parse().unwrap(), site.trial.gate("gate"), inspector(&site));
    let mut worker = site.trial.worker(&[]);
    site.enqueue([tasks::gated::call("first".into(), gate.clone())]);
    site.trial.wait_runs(1);
    let ids = [CallId::new(), CallId::new()];
    site.enqueue([tasks::span::call("second".into(), 0).id(ids[0])]);
    site.enqueue([tasks::plain::call("third".into()).limit("few").id(ids[1]).untyped()]);
    site.enqueue([tasks::span::call("fourth".into(), 0)]);
    site.wait_parked("few", 3);
    for id in ids {
        let call = site.runtime.block_on(inspector.call(&queue, id, 100)).unwrap().unwrap();
        assert_eq!((call.state, call.limit.as_deref()), (CallState::Waiting, Some("few")));
        let found = site.runtime.block_on(inspector.cancel(&queue, &[id], "anna")).unwrap();
        assert_eq!(found, [Cancelled::Waiting]);
    }
    open(&gate);
    // Without a pause for those that do not come.
    site.trial.wait_runs(4);
    site.assert_free("few");
    site.trial.wait_settled();
    assert_eq!(site.trial.ledger.lines()[2..], ["+fourth", "-fourth"]);
    site.trial.stop(&mut worker);
}

#[test]
fn purge_drops_calls_that_wait_for_a_limit() {
    let mut site = Site::new();
    site.set("few", Limit::concurrent(1));
    let (gate, inspector) = (site.trial.gate("gate"), inspector(&site));
    let mut worker = site.trial.worker(&[]);
    site.enqueue([tasks::gated::call("first".into(), gate.clone())]);
    site.trial.wait_runs(1);
    site.enqueue((0..20).map(|n| tasks::span::call(n.to_string(), 0)));
    site.wait_parked("few", 20);
    let dropped = site.runtime.block_on(inspector.purge(&"q".parse().unwrap(), &mut |_, _| {})).unwrap();
    assert_eq!(dropped, 20);
    open(&gate);
    site.trial.wait_runs(2);
    site.assert_free("few");
    site.trial.stop(&mut worker);
}

#[test]
fn parked_calls_of_a_free_limit_are_found() {
    let mut site = Site::new();
    let inspector = inspector(&site);
    // More than one page.
    for n in 0..250 {
        site.set(&format!("limit:{n}"), Limit::concurrent(n + 1));
    }
    site.set("few", Limit::concurrent(1));
    let gate = site.trial.gate("gate");
    let mut worker = site.trial.worker(&[]);
    site.enqueue((0..4).map(|n| tasks::gated::call(n.to_string(), gate.clone())));
    site.wait_parked("few", 3);
    let limits = site.runtime.block_on(inspector.limits()).unwrap();
    assert_eq!(limits.len(), 251);
    assert!(limits.windows(2).all(|pair| pair[0].name < pair[1].name), "expected them to be sorted");
    for limit in &limits {
        let (concurrency, held, waiting) = match limit.name.strip_prefix("limit:") {
            Some(n) => (n.parse::<u64>().unwrap() + 1, 0, 0),
            None => (1, 1, 3),
        };
        assert_eq!((limit.concurrency, limit.held, limit.waiting), (Some(concurrency), held, waiting));
    }
    let found = |site: &Site| {
        let findings = site.runtime.block_on(inspector.check()).unwrap();
        findings.into_iter().find(|finding| finding.check == "limits").expect("a finding about limits").text
    };
    assert_eq!(found(&site), "251 set; 1 calls hold them, 3 wait");
    worker.kill9();
    let () = redis::Commands::del(&mut site.trial.redis, "{delayed:few}:holders").unwrap();
    assert_eq!(found(&site), "nobody holds the limit few, but 3 calls wait for it");
    site.set("few", Limit::concurrent(1));
    assert_eq!(found(&site), "251 set; 0 calls hold them, 3 wait", "expected one to be on its way");
}

#[test]
fn limits_are_listed_set_and_removed() {
    let mut site = Site::new();
    assert!(limits(&site, &["list"]).contains("no limits are set"));
    limits(&site, &["set", "few", "--concurrency", "1", "--rate", "100/1m", "--burst", "5"]);
    let (gate, inspector) = (site.trial.gate("gate"), inspector(&site));
    let mut worker = site.trial.worker(&[]);
    site.enqueue((0..3).map(|n| tasks::gated::call(n.to_string(), gate.clone())));
    site.wait_parked("few", 2);
    let listed: serde_json::Value = serde_json::from_str(&limits(&site, &["list", "--json"])).unwrap();
    let few = &listed[0];
    let numbers =
        ["concurrency", "rate", "period_ms", "burst", "held", "waiting"].map(|name| few[name].as_u64());
    assert_eq!(numbers, [1, 100, 60_000, 5, 1, 2].map(Some));
    assert_eq!(few["waiters"], serde_json::json!(["q", "q"]));
    assert!(few["holders"][0].as_str().unwrap().starts_with("q:"), "{few}");
    let table = limits(&site, &["list"]);
    assert!(table.contains("100/1m") && table.contains("few"), "{table}");

    assert!(limits(&site, &["set", "few", "--concurrency", "0"]).contains("no call to run"));
    assert!(limits(&site, &["remove", "few"]).contains("removed few"));
    site.trial.wait_runs(3);
    open(&gate);
    site.trial.wait_settled();
    site.trial.stop(&mut worker);
    site.trial.assert_only(&[]);
    assert!(limits(&site, &["remove", "few"]).contains("few is no limit"));

    let () = redis::Commands::sadd(&mut site.trial.redis, KEYS[0], "shut").unwrap();
    let policies: [&[(&str, u64)]; 4] = [
        &[("concurrency", 0)],
        &[("rate", 0), ("period", 1000)],
        &[("concurrency", 1), ("rate", 1), ("period", 1000), ("burst", 0)],
        &[("rate", 1)],
    ];
    for policy in policies {
        let () = redis::Commands::del(&mut site.trial.redis, "{delayed:shut}:policy").unwrap();
        let () =
            redis::Commands::hset_multiple(&mut site.trial.redis, "{delayed:shut}:policy", policy).unwrap();
        let findings = site.runtime.block_on(inspector.check()).unwrap();
        let found =
            findings.iter().find(|finding| finding.check == "limits").expect("a finding about limits");
        assert!(found.text.contains("nothing can run under the limit shut"), "{policy:?}: {}", found.text);
    }
}
