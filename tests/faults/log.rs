//! What must go on when nobody takes the log: its disk is full, or its reader is gone.

use nix::sys::signal::Signal;

use crate::support::process::Program;
use crate::support::trial::{PATIENCE, QUEUE, Trial, WORKER, call, mark};

/// A worker whose log goes where nothing can be written.
fn unheard(trial: &Trial, isolation: &str) -> Program {
    let script = r#"exec "$0" "$@" 2>/dev/full"#;
    let mut command = trial.command("sh");
    command.args(["-c", script, WORKER, "worker", "--redis", &trial.server.url(), "--queue", QUEUE]);
    Program::spawn(command.args(["--isolation", isolation]))
}

#[test]
fn a_worker_goes_on_that_cannot_log() {
    for isolation in ["inline", "fork", "prefork"] {
        let mut trial = Trial::new();
        let mut worker = unheard(&trial, isolation);
        // Each of them has a line in the log.
        let bad = call("isolation.prints_and_fails", &["a".into()]);
        trial.push(&[bad, call("isolation.panics", &["b".into()]), call("isolation.fails", &["c".into()])]);
        trial.wait_runs(4);
        trial.push(&[mark("one more")]);
        trial.wait_settled();
        worker.signal(Signal::SIGTERM);
        let code = worker.wait_exit(PATIENCE).code();
        assert_eq!(code, Some(0), "{isolation}: {}", worker.printed());
        assert_eq!(trial.dead(), 3);
        let executions = trial.ledger.executions();
        let runs = ["a", "b", "c", "one more"].map(|n| executions[n]);
        assert_eq!(runs, [1, 1, 2, 1], "{isolation}: {executions:?}");
        trial.assert_only(&["q_dead"]);
    }
}
