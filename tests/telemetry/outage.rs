//! While Redis is away, a process warns once, whatever it has: queues, threads, connections.

use super::logged;
use crate::support::trial::{PATIENCE, Trial};
use crate::support::wait;

#[test]
fn an_idle_worker_of_many_queues_warns_once_and_owns_nothing() {
    let mut trial = Trial::new();
    let words = ["--queue", "a", "--queue", "b", "--queue", "c", "--lease", "1s"];
    let mut worker = trial.worker(&[&words[..], &["--log-level", "info,delayed=debug"]].concat());
    trial.server.kill();
    // By then its lease has ended long ago.
    wait::until_ok(PATIENCE, || {
        let failed = logged(&worker, "request failed; retrying");
        let beats = failed.iter().filter(|line| line["request"] == "heartbeat").count();
        if beats >= 40 { Ok(()) } else { Err(format!("40 beats that failed; there are {beats}")) }
    });
    trial.server.restart();
    worker.wait_for_line("\"message\":\"requests succeed again\"");
    trial.redis = trial.server.connection();
    trial.stop(&mut worker);
    let failed = logged(&worker, "request failed; retrying");
    let warned: Vec<_> = failed.iter().filter(|line| line["level"] == "WARN").collect();
    assert_eq!(warned.len(), 1, "{warned:#?}");
    let back = logged(&worker, "requests succeed again");
    assert!(back.len() == 1 && back[0]["level"] == "INFO", "{back:#?}");
    assert!(!worker.printed().contains("lease ended"), "{}", worker.printed());
}
