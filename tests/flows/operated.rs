//! What an operator sees of flows, and does with them.

use delayed::{CallState, WaitError, chain, group};
use serde_json::Value;

use super::{Site, tasks};
use crate::support::process::DELAYED;
use crate::support::trial::open;

/// Runs `flows` with these words: what it prints, and its exit code.
fn flows(site: &Site, words: &[&str]) -> (String, i32) {
    let mut command = site.trial.command(DELAYED);
    let url = site.trial.server.url();
    let output = command.arg("flows").args(words).args(["--redis", &url]).output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (String::from_utf8(printed).unwrap(), output.status.code().unwrap())
}

fn json(site: &Site, words: &[&str]) -> Value {
    let (printed, code) = flows(site, &[words, &["--json"]].concat());
    assert_eq!(code, 0, "{printed}");
    serde_json::from_str(&printed).unwrap()
}

#[test]
fn flows_are_listed_shown_and_retried() {
    let site = Site::new();
    assert_eq!(flows(&site, &["list"]), ("there are no flows\n".into(), 0));
    let mut worker = site.worker(&[]);
    let file = site.trial.gate("file");
    let flow = chain(group([1, 2].map(tasks::number::call))).then(tasks::needs::call(file.clone()));
    let handle = site.enqueue(flow);
    let id = handle.id().unwrap().to_string();
    assert!(matches!(site.try_wait(&handle), Err(WaitError::Dead { .. })));
    let listed = json(&site, &["list"]);
    assert_eq!(listed[0]["id"], id.as_str());
    assert_eq!(
        (&listed[0]["state"], &listed[0]["done"], &listed[0]["steps"]),
        (&"dead".into(), &3.into(), &3.into())
    );
    let (printed, _) = flows(&site, &["list"]);
    assert!(printed.contains("3/3") && printed.contains("dead"), "{printed}");
    let (printed, code) = flows(&site, &["show", &id]);
    assert_eq!(code, 0);
    assert!(printed.contains("└─ flows.needs  dead  (failed: no such file)"), "{printed}");
    let shown = json(&site, &["show", &id]);
    assert_eq!(shown["root"]["parts"][0]["kind"], "group");
    assert_eq!(shown["root"]["parts"][1]["task"], "flows.needs");
    assert!(flows(&site, &["show", &id, "--mermaid"]).0.starts_with("flowchart LR\n"));
    open(&file);
    assert_eq!(flows(&site, &["retry", &id]), (format!("{id} goes on: 1 step to run\n"), 0));
    assert_eq!(site.wait(&handle), 7);
    assert_eq!(flows(&site, &["retry", &id]), (format!("{id} has succeeded, or goes on\n"), 0));
    assert_eq!(json(&site, &["list"])[0]["done"], 3);
    site.trial.stop(&mut worker);
}

#[test]
fn flow_is_cancelled_by_its_id() {
    let site = Site::new();
    let mut worker = site.worker(&[]);
    let never = site.trial.gate("never");
    let handle = site.enqueue(group(["a", "b"].map(|n| tasks::gated::call(n.into(), never.clone()))));
    site.trial.wait_runs(2);
    let id = handle.id().unwrap().to_string();
    assert_eq!(flows(&site, &["cancel", &id, "--by", "anna"]), ("cancelled 1 flow\n".into(), 0));
    let WaitError::Cancelled { by } = site.try_wait(&handle).unwrap_err() else {
        panic!("expected it cancelled")
    };
    assert_eq!(by, "anna");
    site.wait_state(&handle, CallState::Cancelled);
    let (printed, code) = flows(&site, &["cancel", &id]);
    assert_eq!((printed, code), (format!("{id} had ended before\ncancelled 0 flows\n"), 0));
    let unknown = delayed::CallId::new().to_string();
    for verb in ["show", "cancel", "retry"] {
        let (printed, code) = flows(&site, &[verb, &unknown]);
        assert!(printed.contains(&format!("no flow {unknown} is known")) && code == 6, "{code}: {printed}");
    }
    site.trial.stop(&mut worker);
}
