//! Standard output or error that cannot be written is reported once, and fails no call.

use std::io::Read;
use std::process::{Child, Stdio};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::support::process::Program;
use crate::support::trial::{PATIENCE, QUEUE, Trial, WORKER, call, count};
use crate::support::wait;

const REPORT: &str = "its output is discarded";
const TASKS: [&str; 4] = ["prints.blocking", "prints.async", "prints.later", "prints.dropped"];

/// What a worker that drains `calls` said when all of them have run to their ends, once. Its streams go where a shell is told.
#[track_caller]
fn drained(script: &str, calls: &[(&str, usize)], words: &[&str]) -> (Trial, String) {
    let mut trial = Trial::new();
    let mut names = Vec::new();
    for (task, number) in calls {
        names.extend((0..*number).map(|n| (*task, format!("{task} {n}"))));
    }
    trial.push(&names.iter().map(|(task, n)| call(task, &[n.as_str().into()])).collect::<Vec<_>>());
    let mut command = trial.command("bash");
    command.args([
        "-c",
        &format!("set -o pipefail; {script}"),
        WORKER,
        "worker",
        "--burst",
        "--queue",
        QUEUE,
    ]);
    command.args(["--redis", &trial.server.url()]).args(words);
    let mut program = Program::spawn(&mut command);
    assert_eq!(program.wait_exit(PATIENCE).code(), Some(0), "{script}: {}", program.printed());
    let printed = program.last_words();
    assert_eq!(trial.dead(), 0, "{script}: {printed}");
    trial.ledger.assert_each_once(names.iter().map(|(_, n)| n.as_str()));
    trial.assert_only(&[]);
    (trial, printed)
}

#[test]
fn output_that_nobody_reads_fails_no_call_and_is_reported_once() {
    for task in TASKS {
        for words in [&["--concurrency", "1"][..], &[]] {
            let (_trial, printed) = drained("\"$0\" \"$@\" | head -n 1", &[(task, 20)], words);
            assert!(printed.matches(REPORT).count() <= 1, "{task}: {printed}");
            assert_eq!(printed.matches("panicked").count(), 0, "{task}: {printed}");
        }
    }
    // Nobody has read it from the start.
    let (_trial, printed) = drained(
        "exec 3> >(exec true); wait $!; exec \"$0\" \"$@\" >&3 3>&-",
        &TASKS.map(|task| (task, 5)),
        &[],
    );
    assert_eq!(printed.matches(REPORT).count(), 1, "{printed}");
}

#[test]
fn a_full_disk_fails_no_call_and_is_reported_once() {
    for isolation in ["inline", "fork", "prefork"] {
        let words = ["--isolation", isolation];
        let (_trial, printed) =
            drained("exec \"$0\" \"$@\" >/dev/full", &TASKS.map(|task| (task, 5)), &words);
        let inline = usize::from(isolation == "inline");
        assert_eq!(printed.matches(REPORT).count(), inline, "{isolation}: {printed}");
        assert_eq!(printed.matches("panicked").count(), 0, "{isolation}: {printed}");
    }
}

#[test]
fn errors_and_a_log_that_cannot_be_written_fail_no_call() {
    let calls = [("prints.errors", 10), ("prints.dropped", 10)];
    for script in [
        "exec \"$0\" \"$@\" 2>/dev/full",
        "\"$0\" \"$@\" 2>&1 >/dev/full | head -n 1",
        "exec \"$0\" \"$@\" >/dev/full 2>&1",
    ] {
        for words in [&["--log-format", "pretty"][..], &["--log-format", "json"]] {
            drained(script, &calls, words);
        }
    }
}

/// A process that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// As a parent does that shares its pipe with the worker, and wants not to wait for it itself.
#[test]
fn output_that_does_not_wait_for_its_reader_is_made_to() {
    let mut trial = Trial::new();
    let (mut reader, writer) = std::io::pipe().unwrap();
    let log = trial.gate("log");
    let mut command = trial.command(WORKER);
    command.args(["worker", "--queue", QUEUE, "--redis", &trial.server.url()]).stdin(Stdio::null());
    command.stdout(writer.try_clone().unwrap()).stderr(std::fs::File::create(&log).unwrap());
    let mut worker = Running(command.spawn().unwrap());
    drop(command);
    let log = || std::fs::read_to_string(&log).unwrap();
    wait::until("the worker to serve", PATIENCE, || log().contains("\"serving\""));
    let flags = || OFlag::from_bits_retain(fcntl(&writer, FcntlArg::F_GETFL).unwrap());
    fcntl(&writer, FcntlArg::F_SETFL(flags() | OFlag::O_NONBLOCK)).unwrap();
    trial.push(&[call("prints.much", &["much".into()])]);
    wait::until("it to wait", PATIENCE, || !flags().contains(OFlag::O_NONBLOCK));
    drop(writer);
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    });
    trial.wait_settled();
    trial.ledger.assert_each_once(["much"]);
    let pid = nix::unistd::Pid::from_raw(i32::try_from(worker.0.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let ended = wait::until_some("its end", PATIENCE, || worker.0.try_wait().unwrap());
    assert_eq!(ended.code(), Some(0), "{}", log());
    assert!(!log().contains(REPORT), "{}", log());
    // It ran once more from its beginning.
    assert!(reading.join().unwrap().lines().count() >= 2_000, "expected all of the output");
    let stopped = log().lines().last().map(|line| serde_json::from_str(line).unwrap()).unwrap();
    assert_eq!(count(&stopped, "failed"), 0, "{stopped}");
}
