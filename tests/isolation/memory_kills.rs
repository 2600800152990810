//! What the kernel kills for want of memory is told apart from what others kill, here or elsewhere on the host.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;

use super::{Case, family, task, task_with};
use crate::support::process::Program;
use crate::support::trial::{PATIENCE, QUEUE, Trial, WORKER, ready};
use crate::support::wait;

both! {
    a_kill_by_others_is_not_called_want_of_memory
    out_of_memory_is_told_apart_from_other_kills
}

/// A control group that may use so much memory. Removed when it is dropped; by then it is empty.
struct Group(PathBuf);

impl Group {
    /// Panics where this user may make none: `scripts/test` finds that out beforehand, and says what is left out.
    fn with_bytes(bytes: u64) -> Self {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
        let of = |controllers: &str, mount: &str| {
            let line = groups
                .lines()
                .find_map(|line| line.split_once(':')?.1.strip_prefix(controllers)?.strip_prefix(':'));
            line.map(|path| Path::new(mount).join(path.trim_start_matches('/')))
        };
        let old = of("memory", "/sys/fs/cgroup/memory");
        // Beside its own: one with processes in it has no others below it.
        let new = of("", "/sys/fs/cgroup").map(|own| own.parent().map(Path::to_owned).unwrap_or(own));
        let name = format!("delayed-test-{}", uuid::Uuid::new_v4());
        let made =
            [(old, "memory.limit_in_bytes"), (new, "memory.max")].into_iter().find_map(|(above, limit)| {
                let group = above?.join(&name);
                fs::create_dir(&group).ok()?;
                let group = Self(group);
                fs::write(group.0.join(limit), bytes.to_string()).ok()?;
                Some(group)
            });
        made.expect("expected a right to make control groups that limit memory, as root has it")
    }

    /// A command that runs in it; what is to run follows.
    fn enter(&self, command: &mut Command) {
        command.args(["-c", r#"echo $$ > "$0/cgroup.procs" && exec "$@""#]).arg(&self.0);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // It may take a moment until the last process is out of it.
        wait::until("a control group to be empty", PATIENCE, || fs::remove_dir(&self.0).is_ok());
    }
}

/// A worker in a control group of its own, or in that of this process.
fn worker(mode: &'static str, group: Option<&Group>) -> Case {
    let trial = Trial::new();
    let mut command = trial.command("sh");
    match group {
        Some(group) => group.enter(&mut command),
        None => drop(command.args(["-c", r#"exec "$@""#, "sh"])),
    }
    command.args([WORKER, "worker", "--redis", &trial.server.url(), "--queue", QUEUE, "--isolation", mode]);
    let worker = Program::spawn(&mut command);
    ready(&worker);
    let family = family(&trial, &worker);
    Case { trial, worker, family, mode }
}

/// Kills the processes of a run: its dead letter says nothing of memory. `dead` were buried before.
fn kill_a_run(case: &mut Case, dead: usize) {
    case.trial.push(&[task("sleep", "b")]);
    wait::until("a run that hangs", PATIENCE, || case.trial.ledger.lines().iter().any(|line| line == "b"));
    case.children().iter().for_each(|child| child.signal(Signal::SIGKILL));
    case.wait_dead(dead + 1);
    let letter = case.letters().remove(dead);
    assert_eq!(letter.reason, "crashed", "{letter:?}");
    assert!(!letter.detail.contains("because memory was short"), "expected another reason: {letter:?}");
}

fn a_kill_by_others_is_not_called_want_of_memory(mode: &'static str) {
    let mut case = worker(mode, None);
    kill_a_run(&mut case, 0);
    case.goes_on();
    case.end_with(&["q_dead"]);
}

fn out_of_memory_is_told_apart_from_other_kills(mode: &'static str) {
    let (own, other) = (Group::with_bytes(300 << 20), Group::with_bytes(20 << 20));
    let mut case = worker(mode, Some(&own));
    case.trial.push(&[task_with("tastes", &["a".into(), 2000.into()])]);
    case.wait_dead(1);
    let letter = case.letter();
    assert_eq!(letter.reason, "crashed", "{letter:?}");
    assert!(letter.detail.contains("because memory was short"), "expected it to say why: {letter:?}");
    // Elsewhere on the host.
    let mut greedy = Command::new("sh");
    other.enter(&mut greedy);
    let ended = greedy.args(["tail", "/dev/zero"]).status().unwrap();
    assert_eq!(ended.signal(), Some(Signal::SIGKILL as i32), "expected the kernel to kill it");
    kill_a_run(&mut case, 1);
    case.goes_on();
    case.end_with(&["q_dead"]);
}
