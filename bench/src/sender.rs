//! How do calls get into the queue? By a program of the system, which enqueues what a line of its input says.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::clock;

/// A program that sends.
pub struct Sender {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// What it says besides.
    log: File,
}

/// What was sent, and by [`clock::now`] when.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    pub began: u64,
    ended: u64,
    count: u64,
}

impl Sent {
    /// Calls each second.
    pub fn rate(self) -> f64 {
        self.count as f64 / clock::seconds(self.began, self.ended)
    }
}

impl Sender {
    pub fn start(mut command: Command) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("its sender does not start: {error}");
        let log = tempfile::tempfile().map_err(failed)?;
        let said = log.try_clone().map_err(failed)?;
        let mut process = command
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(said)
            .spawn()
            .map_err(failed)?;
        let input = process.stdin.take().expect("piped");
        let output = BufReader::new(process.stdout.take().expect("piped"));
        Ok(Self { process, input, output, log })
    }

    /// Enqueues calls of `task` with the numbers from `first` on, all at once.
    pub fn bulk(&mut self, task: &str, first: u64, count: u64) -> Result<Sent, String> {
        self.say(&format!("bulk {task} {first} {count} 0"), count)
    }

    /// The same, each with so many bytes to carry.
    pub fn carry(&mut self, first: u64, count: u64, bytes: u64) -> Result<Sent, String> {
        self.say(&format!("bulk carry {first} {count} {bytes}"), count)
    }

    /// One by one, from so many tasks of the sender at a time.
    pub fn each(&mut self, task: &str, first: u64, count: u64, tasks: u64) -> Result<Sent, String> {
        self.say(&format!("each {task} {first} {count} {tasks}"), count)
    }

    /// So many each second.
    pub fn paced(&mut self, first: u64, count: u64, rate: u64) -> Result<Sent, String> {
        self.say(&format!("paced mark {first} {count} {rate}"), count)
    }

    fn say(&mut self, words: &str, count: u64) -> Result<Sent, String> {
        let mut line = String::new();
        writeln!(self.input, "{words}")
            .and_then(|()| self.output.read_line(&mut line))
            .map_err(|error| format!("its sender ended: {error}: {}", self.last_word()))?;
        let answer = || {
            let (began, ended) = line.trim().split_once(' ')?;
            Some(Sent { began: began.parse().ok()?, ended: ended.parse().ok()?, count })
        };
        answer().ok_or_else(|| format!("its sender ended at {words:?}: {}", self.last_word()))
    }

    fn last_word(&mut self) -> String {
        let mut said = String::new();
        let _ = self.log.rewind().and_then(|()| self.log.read_to_string(&mut said));
        last_word(&said)
    }
}

/// The last line that says something; below a panic stands how to get more of it.
pub fn last_word(said: &str) -> String {
    let mut lines = said.lines().map(str::trim);
    lines.rfind(|line| !line.is_empty() && !line.starts_with("note: ")).unwrap_or("it said nothing").into()
}

impl Drop for Sender {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
