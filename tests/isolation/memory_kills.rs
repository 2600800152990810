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
    only_a_kill_of_its_own_for_want_of_memory_is_called_so
}

/// A control group that may use so much memory. Removed when it is dropped; by then it is empty.
struct Group(PathBuf);

impl Group {
    /// None where this user may make none.
    fn with_bytes(bytes: u64) -> Option<Self> {
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
        [(old, "memory.limit_in_bytes"), (new, "memory.max")].into_iter().find_map(|(above, limit)| {
            let group = above?.join(&name);
            fs::create_dir(&group).ok()?;
            let group = Self(group);
            fs::write(group.0.join(limit), bytes.to_string()).ok()?;
            Some(group)
        })
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

fn only_a_kill_of_its_own_for_want_of_memory_is_called_so(mode: &'static str) {
    let groups = Group::with_bytes(300 << 20).zip(Group::with_bytes(20 << 20));
    let trial = Trial::new();
    let mut command = trial.command("sh");
    match &groups {
        Some((own, _)) => own.enter(&mut command),
        None => drop(command.args(["-c", r#"exec "$@""#, "sh"])),
    }
    command.args([WORKER, "worker", "--redis", &trial.server.url(), "--queue", QUEUE, "--isolation", mode]);
    let worker = Program::spawn(&mut command);
    ready(&worker);
    let family = family(&trial, &worker);
    let mut case = Case { trial, worker, family, mode };
    let mut dead = 0;
    if let Some((_, other)) = &groups {
        case.trial.push(&[task_with("tastes", &["a".into(), 2000.into()])]);
        case.wait_dead(1);
        let letter = case.letter();
        assert_eq!(letter.reason, "crashed", "{letter:?}");
        assert!(letter.detail.contains("want of memory"), "expected it to say why: {letter:?}");
        dead += 1;
        let mut greedy = Command::new("sh");
        other.enter(&mut greedy);
        let ended = greedy.args(["tail", "/dev/zero"]).status().unwrap();
        assert_eq!(ended.signal(), Some(Signal::SIGKILL as i32), "expected the kernel to kill it");
    }
    case.trial.push(&[task("sleep", "b")]);
    wait::until("a run that hangs", PATIENCE, || case.trial.ledger.lines().iter().any(|line| line == "b"));
    case.children().iter().for_each(|child| child.signal(Signal::SIGKILL));
    case.wait_dead(dead + 1);
    let letter = case.letters().remove(dead);
    assert_eq!(letter.reason, "crashed", "{letter:?}");
    assert!(!letter.detail.contains("want of memory"), "expected another reason: {letter:?}");
    case.goes_on();
    case.end_with(&["q_dead"]);
}
