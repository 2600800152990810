use std::process::Command;

use serde_json::json;

use super::Site;
use crate::support::process::Program;
use crate::support::python::interpreter;
use crate::support::root;
use crate::support::trial::{PATIENCE, at_gate, call, marks, open, ready};
use crate::support::wait;

/// How long all pages in all sizes may take on a machine that is busy.
const LONG: std::time::Duration = std::time::Duration::from_secs(600);

/// A real browser looks at every page, in both themes, on a phone and on a large screen, uses the keyboard, and does what an
/// operator does: see `browser.py`.
#[test]
fn browser_shows_every_page_and_acts() {
    let mut site = Site::new(&["--allow-actions"]);
    let gate = site.trial.gate("gate");
    let mut worker = site.trial.worker(&["--concurrency", "2", "--prefetch", "0"]);
    ready(&worker);
    fill(&mut site, &gate);
    let mut command = Command::new(interpreter());
    command.arg(root().join("tests/web/browser.py"));
    command
        .args(["--dashboard", &format!("http://{}", site.address), "--redis"])
        .arg(site.trial.server.socket());
    if let Some(directory) = std::env::var_os("DELAYED_TEST_SCREENSHOTS") {
        command.arg("--screenshots").arg(directory);
    }
    let mut browser = Program::spawn(&mut command);
    let status = browser.wait_exit(LONG);
    assert!(status.success(), "{}", browser.printed());
    open(&gate);
    site.trial.stop(&mut worker);
}

/// Something for each page to show.
fn fill(site: &mut Site, gate: &std::path::Path) {
    site.cli(&["periodic", "add", "nightly", "0 3 * * *", "trial.mark", "[\"x\"]", "--queue", "q", "--json"]);
    site.run(&["limits", "set", "github", "--concurrency", "4", "--rate", "100/1m"]);
    for id in ["order:1", "order:2"] {
        site.cli(&["enqueue", "followed.charge", "[7]", "--after", "1h", "--id", id, "--json"]);
    }
    let failing: Vec<Vec<u8>> = (0..4).map(|n: u64| call("trial.fails", &[n.to_string().into()])).collect();
    site.trial.push(&failing);
    site.trial.push(&[call("trial.panic", &[json!("<b>x</b>")])]);
    wait::until("all to be buried", PATIENCE, || site.trial.dead() == 5);
    let before = site.trial.ledger.lines().len();
    site.trial.push(&[at_gate("trial.gated", "one", gate), at_gate("trial.gated", "two", gate)]);
    site.trial.wait_runs(before + 2);
    site.trial.push(&marks(60));
}
