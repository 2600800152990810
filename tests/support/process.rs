//! A program under test: what it prints is collected, its end can be waited for, and it does not outlive the test.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::wait;

/// The `delayed` command.
pub(crate) const DELAYED: &str = env!("CARGO_BIN_EXE_delayed");

/// How long a line may keep us waiting, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a program that has ended may take to be read to its end.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// A running program, in a process group of its own.
#[derive(Debug)]
pub(crate) struct Program {
    name: String,
    child: Child,
    output: Arc<Output>,
    ended: Option<ExitStatus>,
}

/// What it printed so far, on both of its streams.
#[derive(Debug, Default)]
struct Output {
    lines: Mutex<Vec<String>>,
    more: Condvar,
    /// How many of its streams have ended.
    over: AtomicUsize,
}

impl Program {
    /// Starts `program`.
    pub(crate) fn start<I: IntoIterator<Item: AsRef<OsStr>>>(program: &str, arguments: I) -> Self {
        Self::spawn(Command::new(program).args(arguments))
    }

    /// Starts a command: with an environment, in a directory.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self::fed(command, Stdio::null())
    }

    /// Starts a command that reads `input`.
    pub(crate) fn fed(command: &mut Command, input: impl Into<Stdio>) -> Self {
        let name = command.get_program().to_string_lossy().into_owned();
        // Tests that are not about back-off do not wait for it.
        if !command.get_envs().any(|(name, _)| name == "DELAYED_BACKOFF") {
            command.env("DELAYED_BACKOFF", "none");
        }
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("expected to start {name}: {error}"));
        let output = Arc::new(Output::default());
        collect(child.stdout.take().expect("it is piped"), &output);
        collect(child.stderr.take().expect("it is piped"), &output);
        Self { name, child, output, ended: None }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    /// All that it printed so far.
    pub(crate) fn printed(&self) -> String {
        self.output.lines.lock().unwrap().join("\n")
    }

    /// All that it and what it started printed, when they have ended.
    pub(crate) fn last_words(&mut self) -> String {
        self.wait_exit(PATIENCE);
        wait::until("the end of what it prints", PATIENCE, || self.output.over.load(SeqCst) == 2);
        self.printed()
    }

    /// Waits for a line with `pattern` in it and gives the first one.
    #[track_caller]
    pub(crate) fn wait_for_line(&self, pattern: &str) -> String {
        self.wait_for_lines(pattern, 1).remove(0)
    }

    /// Waits for `count` lines with `pattern` in them.
    #[track_caller]
    pub(crate) fn wait_for_lines(&self, pattern: &str, count: usize) -> Vec<String> {
        let end = Instant::now() + PATIENCE;
        let mut lines = self.output.lines.lock().unwrap();
        loop {
            let found: Vec<String> = lines.iter().filter(|line| line.contains(pattern)).cloned().collect();
            if found.len() >= count {
                return found;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let printed = lines.join("\n");
                drop(lines);
                panic!("expected {} to print {count} lines with {pattern:?}:\n{printed}", self.name);
            }
            lines = self.output.more.wait_timeout(lines, left).unwrap().0;
        }
    }

    /// Its threads and what each of them does, as the kernel says: `S` sleeps, `T` is stopped, `Z` has ended.
    pub(crate) fn threads(&self) -> String {
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid()));
        let threads = threads.into_iter().flatten().flatten().map(|thread| {
            let stat = read(thread.path().join("stat"));
            let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
            let (name, waits) = (read(thread.path().join("comm")), read(thread.path().join("wchan")));
            format!("{} {} {waits}", name.trim_end(), state.unwrap_or("?"))
        });
        threads.collect::<Vec<_>>().join(", ")
    }

    /// Kills it, as the kernel does when memory runs out.
    pub(crate) fn kill9(&mut self) {
        self.signal(Signal::SIGKILL);
        self.wait_exit(PATIENCE);
    }

    /// Sends it a signal.
    #[track_caller]
    pub(crate) fn signal(&self, signal: Signal) {
        assert!(self.ended.is_none(), "expected {} to run when it is sent {signal}", self.name);
        kill(self.pid(), signal).unwrap_or_else(|error| panic!("expected {} to run: {error}", self.name));
    }

    /// Whether it ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.ended = self.ended.or_else(|| self.child.try_wait().unwrap());
        self.ended.is_some()
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn wait_exit(&mut self, deadline: Duration) -> ExitStatus {
        let status = wait::until_ok(deadline, || {
            let ended = self.has_ended();
            self.ended.filter(|_| ended).ok_or_else(|| {
                format!("the end of {} (pid {}), which printed:\n{}", self.name, self.pid(), self.printed())
            })
        });
        // What it printed last may still be read. What it started may hold the pipes for longer.
        let _ = wait::or_last(LAST_WORDS, || (self.output.over.load(SeqCst) == 2).then_some(()).ok_or(()));
        status
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.has_ended() {
            let _ = killpg(self.pid(), Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

fn collect(stream: impl Read + Send + 'static, output: &Arc<Output>) {
    let output = Arc::clone(output);
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while stream.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            output.lines.lock().unwrap().push(text);
            output.more.notify_all();
            line.clear();
        }
        output.over.fetch_add(1, SeqCst);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn collects_lines_and_waits_for_the_end() {
        let mut program = Program::start("sh", ["-c", "echo one; echo two >&2; read x; exit 3"]);
        assert_eq!(program.wait_for_line("tw"), "two", "expected the line of the second stream");
        assert_eq!(program.wait_for_line("one"), "one", "expected lines that came before to be found");
        assert_eq!(program.wait_exit(PATIENCE).code(), Some(3), "expected the program's own exit code");
        assert_eq!(program.last_words().len(), "one\ntwo".len(), "expected all that it printed");
    }

    #[test]
    fn signals_and_kills() {
        let mut program =
            Program::start("sh", ["-c", "trap 'echo caught' TERM; echo up; while :; do :; done"]);
        program.wait_for_line("up");
        program.signal(Signal::SIGTERM);
        program.wait_for_line("caught");
        program.kill9();
        assert_eq!(program.wait_exit(PATIENCE).signal(), Some(9), "expected it to have been killed");
    }
}
