//! What becomes of the items of a batch of which some failed.

use super::{Site, items_of, tasks};
use crate::support::trial::{PATIENCE, count};
use crate::support::wait;

/// The items of five, and what becomes of them, in each way to run them.
fn split(enqueue: impl Fn(&Site, [&str; 5])) {
    let mut site = Site::new();
    let mut worker = site.trial.worker(&["--concurrency", "1"]);
    enqueue(&site, ["ok:1", "flaky:2", "bad:3", "fails:4", "ok:5"]);
    site.trial.wait_runs(3);
    site.wait_done();
    let mut lines = site.trial.ledger.lines();
    assert_eq!(lines.remove(0), "ok:1 flaky:2 bad:3 fails:4 ok:5");
    lines.sort_unstable();
    assert_eq!(lines, ["fails:4", "flaky:2"], "expected those to be tried again, each by itself");
    let state = site.trial.state();
    let mut letters: Vec<_> = (state.dead.iter())
        .map(|letter| {
            let text = |field: &str| String::from_utf8(letter[field].clone()).unwrap();
            let message = delayed::__private::protocol::message::Message::decode(&letter["message"]).unwrap();
            let errors: Vec<String> = message.errors().into_iter().map(|error| error.detail).collect();
            (text("reason"), text("detail"), text("attempt"), errors)
        })
        .collect();
    letters.sort_unstable();
    let expected = [
        ("failed".into(), "never".into(), "1".into(), vec![]),
        ("failed".into(), "no fails:4".into(), "2".into(), vec!["no fails:4".to_owned()]),
    ];
    assert_eq!(letters, expected);
    let bad = state.dead.iter().find(|letter| letter["detail"] == b"never").unwrap();
    assert_eq!(items_of(&bad["message"]), ["bad:3"], "expected the letter to have its own item alone");
    let said = worker.printed();
    assert!(said.contains("items of a batch failed"), "{said}");
    site.trial.stop(&mut worker);
}

#[test]
fn each_item_that_failed_goes_on_by_itself() {
    split(|site, items| site.enqueue(items.map(|item| tasks::collect::call(item.into()))));
}

#[test]
fn each_item_of_a_plain_function_goes_on_at_once() {
    split(|site, items| site.enqueue(items.map(|item| tasks::collect_at_once::call(item.into()))));
}

#[test]
fn each_item_of_a_child_goes_on_by_itself() {
    split(|site, items| site.enqueue(items.map(|item| tasks::collect_apart::call(item.into()))));
}

#[test]
fn long_errors_of_a_child_are_shortened() {
    let mut site = Site::new();
    site.enqueue((0..5).map(|n| tasks::collect_apart::call(format!("long:{n}"))));
    let mut worker = site.trial.worker(&[]);
    wait::until("all to be buried", PATIENCE, || site.trial.dead() == 5);
    for letter in &site.trial.state().dead {
        assert!((15_000..20_000).contains(&letter["detail"].len()), "{} bytes", letter["detail"].len());
    }
    site.trial.stop(&mut worker);
}

#[test]
fn revived_item_runs_by_itself() {
    let mut site = Site::new();
    site.enqueue(["bad:1", "ok:2", "ok:3", "ok:4", "ok:5"].map(|item| tasks::collect::call(item.into())));
    let worker = site.trial.worker(&[]);
    wait::until("one to be buried", PATIENCE, || site.trial.dead() == 1);
    let status = site
        .trial
        .command(crate::support::trial::WORKER)
        .args(["dead", "requeue", "--redis", &site.trial.server.url(), "--queue", "q", "--all"])
        .status()
        .unwrap();
    assert!(status.success());
    site.trial.wait_runs(2);
    assert_eq!(site.trial.ledger.lines()[1], "bad:1");
    drop(worker);
}

#[test]
fn batch_that_fails_as_a_whole_is_retried_as_a_whole() {
    let mut site = Site::new();
    site.enqueue((0..3).map(tasks::whole::call));
    let worker = site.trial.worker(&[]);
    site.trial.wait_runs(2);
    site.wait_done();
    assert_eq!(site.trial.ledger.lines(), ["[0, 1, 2]"; 2]);
    drop(worker);
}

#[test]
fn item_of_a_batch_that_was_retried_goes_on_by_itself() {
    let mut site = Site::new();
    site.enqueue(["ok", "a", "b"].map(|item| tasks::late::call(item.into())));
    let worker = site.trial.worker(&[]);
    wait::until("the others to be buried", PATIENCE, || site.trial.dead() == 2);
    site.wait_done();
    let mut lines = site.trial.ledger.lines();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["a", "b", "ok a b", "ok a b"],
        "expected three attempts of each, the first two together"
    );
    drop(worker);
}

#[test]
fn item_that_is_snoozed_counts_no_attempt() {
    let mut site = Site::new();
    site.enqueue(["ok:1", "snoozed:2", "ok:3", "ok:4", "ok:5"].map(|item| tasks::collect::call(item.into())));
    let mut worker = site.trial.worker(&[]);
    site.trial.wait_runs(2);
    site.wait_done();
    assert_eq!(site.trial.ledger.lines()[1], "snoozed:2");
    let said = worker.printed();
    assert!(!said.contains("items of a batch failed"), "{said}");
    let stopped = site.trial.stop(&mut worker);
    assert_eq!(
        (count(&stopped, "snoozed"), count(&stopped, "retried"), count(&stopped, "buried")),
        (1, 0, 0)
    );
}

#[test]
fn too_few_results_bury_the_batch() {
    let mut site = Site::new();
    site.enqueue((0..3).map(tasks::short::call));
    let worker = site.trial.worker(&[]);
    wait::until("it to be buried", PATIENCE, || site.trial.dead() == 1);
    let detail = String::from_utf8(site.trial.state().dead[0]["detail"].clone()).unwrap();
    assert_eq!(detail, "it returned 1 results for 3 items: return one for each, in their order");
    drop(worker);
}

#[test]
fn list_is_asked_for_where_an_item_is_given() {
    let site = Site::new();
    let output = site
        .trial
        .command(crate::support::trial::WORKER)
        .args(["enqueue", "--redis", &site.trial.server.url(), "batches.collect", "[\"ok:1\"]"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("items"), "expected a list to be asked for: {said}");
}
