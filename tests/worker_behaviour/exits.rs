//! A worker whose process is ended by a task says so, and does not look as if it had done its work.

use serde_json::Value;

use crate::support::process::Program;
use crate::support::trial::{PATIENCE, Trial, WORKER, call, count, marks};

/// What a worker said of its end, which came with the code for that.
#[track_caller]
fn last_line(worker: &mut Program) -> Value {
    assert_eq!(worker.wait_exit(PATIENCE).code(), Some(70), "{}", worker.printed());
    let line = worker.wait_for_line("process exits while its worker is running");
    assert_eq!(worker.last_words().matches("process exits").count(), 1, "{}", worker.printed());
    serde_json::from_str(&line).unwrap()
}

#[test]
fn a_task_that_exits_is_named_and_the_exit_code_tells_of_it() {
    for name in ["exits.blocking", "exits.async", "exits.later", "exits.libc"] {
        let mut trial = Trial::new();
        let exits = call(name, &["e".into()]);
        trial.push(&[vec![exits.clone()], marks(3)].concat());
        let mut worker = trial.start(&["--burst", "--concurrency", "1", "--prefetch", "0"]);
        let told = last_line(&mut worker);
        assert_eq!((&told["task"], &told["level"]), (&name.into(), &"ERROR".into()), "{told}");
        assert_eq!(count(&told, "owned"), 1, "{told}");
        let state = trial.state();
        assert_eq!((state.waiting, state.processing.len()), (marks(3), 1), "{name}");
        assert_eq!(trial.ledger.lines(), ["e"]);
    }
}

#[test]
fn what_runs_is_named_when_another_thread_exits() {
    let mut trial = Trial::new();
    let gate = trial.gate("gate");
    trial.push(&[crate::support::trial::gated("g", &gate), crate::support::trial::gated("h", &gate)]);
    let mut worker = trial.worker(&[]);
    trial.wait_runs(2);
    trial.push(&[call("exits.thread", &["e".into()])]);
    let told = last_line(&mut worker);
    assert_eq!(
        (&told["running"], &told["task"]),
        (&"exits.thread, trial.gated (2)".into(), &Value::Null),
        "{told}"
    );
    assert_eq!(count(&told, "owned"), 3, "{told}");
}

#[test]
fn a_process_that_a_task_has_forked_exits_as_it_likes() {
    let mut trial = Trial::new();
    trial.push(&[call("exits.forked", &["f".into()])]);
    let mut worker = trial.start(&["--burst"]);
    let stopped = trial.ended(&mut worker);
    assert_eq!((count(&stopped, "succeeded"), trial.ledger.lines()), (1, vec!["f 7".to_owned()]));
    assert!(!worker.printed().contains("process exits"), "{}", worker.printed());
}

#[test]
fn a_program_with_a_worker_may_exit_but_its_tasks_may_not() {
    for (kind, code) in [("exits", 3), ("is exited", 70)] {
        let mut trial = Trial::new();
        trial.push(&[call(
            if kind == "exits" { "trial.never_blocking" } else { "exits.async" },
            &["e".into()],
        )]);
        let mut command = trial.command(WORKER);
        let mut program = Program::spawn(command.env("EMBEDDER", kind).env("REDIS", trial.server.url()));
        assert_eq!(program.wait_exit(PATIENCE).code(), Some(code), "{kind}: {}", program.printed());
        assert_eq!(trial.ledger.lines(), ["e"]);
    }
}
