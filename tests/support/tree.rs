//! Processes of one test: whoever bears its mark in the environment, however far it went from its parents.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process, as it was when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    /// `R`, `S`, `T` for stopped, `Z` for one that has ended and was not waited for.
    pub(crate) state: char,
    pub(crate) name: String,
}

impl Process {
    /// The process of that id, when there is one.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        let text = String::from_utf8_lossy(&text);
        let (head, rest) = text.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let mut fields = rest.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let mut number = || fields.next()?.parse().ok();
        Some(Self { pid, parent: number()?, group: number()?, state, name: name.to_owned() })
    }

    /// Whether it runs or could: it is not merely waiting to be waited for.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }

    #[track_caller]
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid), signal)
            .unwrap_or_else(|error| panic!("expected {self} to be there for {signal}: {error}"));
    }

    /// How many descriptors it has open.
    #[track_caller]
    pub(crate) fn descriptors(&self) -> usize {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.pid));
        open.unwrap_or_else(|error| panic!("expected to see what {self} has open: {error}")).count()
    }

    /// How many threads it has.
    #[track_caller]
    pub(crate) fn threads(&self) -> usize {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid));
        tasks.unwrap_or_else(|error| panic!("expected {self} to run: {error}")).count()
    }

    /// A number of its status in kB, such as `VmHWM`.
    #[track_caller]
    pub(crate) fn kilobytes(&self, name: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let value = value.and_then(|value| value.trim().strip_suffix(" kB")?.parse().ok());
        value.unwrap_or_else(|| panic!("expected {self} to have a {name}"))
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = Self::of(self.parent).map_or_else(|| "nobody".to_owned(), |parent| parent.name);
        let Self { pid, state, group, .. } = self;
        let words =
            std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ");
        let name = if words.starts_with(&self.name) { words.trim_end() } else { &self.name };
        write!(f, "{name} {pid} ({state}, group {group}, child of {parent} {})", self.parent)
    }
}

/// Some processes, as text.
pub(crate) fn list(processes: &[Process]) -> String {
    processes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn pids() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// All processes that were started with the variable `mark` (`NAME=value`), and those that ended and that one of them
/// did not wait for.
pub(crate) fn marked(mark: &str) -> Vec<Process> {
    let bears = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let (ours, others): (Vec<i32>, Vec<i32>) = pids().into_iter().partition(bears);
    let known: HashSet<i32> = ours.iter().copied().collect();
    // What has ended has no environment to look into.
    let ended =
        others.into_iter().filter_map(Process::of).filter(|p| !p.is_alive() && known.contains(&p.parent));
    let ours = ours.into_iter().filter_map(Process::of);
    ours.chain(ended).collect()
}

/// The mark of what has this ledger.
pub(crate) fn mark(ledger: &Path) -> String {
    format!("LEDGER={}", ledger.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::process::Program;
    use crate::support::wait;
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn finds_daemons_and_what_nobody_waited_for() {
        let mark = format!("MARK=tree-{}", std::process::id());
        let (name, value) = mark.split_once('=').unwrap();
        // `exec` keeps the shell from waiting for its child.
        let script = "setsid sleep 1000 & (setsid sleep 1001 &); echo up; true & exec sleep 1002";
        let mut shell = Program::spawn(Command::new("sh").args(["-c", script]).env(name, value));
        shell.wait_for_line("up");
        let family = wait::until_ok(Duration::from_secs(30), || {
            let family = marked(&mark);
            let sleeping = family.iter().filter(|p| p.name == "sleep" && p.is_alive()).count();
            let ended = family.iter().filter(|p| p.state == 'Z').count();
            if (sleeping, ended) == (3, 1) { Ok(family) } else { Err(list(&family)) }
        });
        shell.kill9();
        for process in family.iter().filter(|p| p.name == "sleep" && p.pid != shell.pid().as_raw()) {
            process.signal(Signal::SIGKILL);
        }
        wait::until_ok(Duration::from_secs(30), || {
            let left = marked(&mark);
            if left.is_empty() { Ok(()) } else { Err(format!("nobody to be left: {}", list(&left))) }
        });
        assert_eq!(Process::of(shell.pid().as_raw()), None, "expected it to have been waited for");
    }
}
