//! How do calls get into the queue? By a program of the system, which enqueues what a line of its input says.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};

use super::{ledger, tasks};

/// A program that sends.
pub struct Sender {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Sender {
    pub fn start(mut command: Command) -> Result<Self, String> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("its sender does not start: {error}"))?;
        let input = process.stdin.take().expect("piped");
        let output = BufReader::new(process.stdout.take().expect("piped"));
        Ok(Self { process, input, output })
    }

    /// Enqueues calls of `task` with the numbers from `first` on. Gives the time just before, by [`ledger::now`].
    pub fn send(&mut self, task: &str, first: u64, count: u64) -> Result<u64, String> {
        let mut line = String::new();
        writeln!(self.input, "{task} {first} {count}")
            .and_then(|()| self.output.read_line(&mut line))
            .map_err(|error| format!("its sender ended: {error}"))?;
        line.trim().parse().map_err(|_| format!("its sender said {line:?}"))
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The sender of `delayed`.
pub fn serve(words: &[String]) -> ExitCode {
    let [url, way] = words else { return ExitCode::from(2) };
    let client = delayed::Client::connect_blocking(url).expect("connects");
    for line in std::io::stdin().lines() {
        let line = line.expect("reads");
        let words: Vec<&str> = line.split(' ').collect();
        let [task, first, count] = words[..] else { panic!("task, first and count: {line}") };
        let (first, count): (u64, u64) = (first.parse().expect("a number"), count.parse().expect("a number"));
        let call = |number| -> delayed::Call {
            match (way.as_str(), task) {
                ("exec", task) => tasks::exec::call(task.into(), number),
                (_, "note") => tasks::note::call(number),
                (_, "sleep") => tasks::sleep::call(number),
                (_, "spin") => tasks::spin::call(number),
                (_, task) => panic!("no such task: {task}"),
            }
        };
        let began = ledger::now();
        if count == 1 {
            client.enqueue_blocking(call(first)).expect("enqueued");
        } else {
            client.enqueue_many_blocking((first..first + count).map(call)).expect("enqueued");
        }
        println!("{began}");
    }
    ExitCode::SUCCESS
}
