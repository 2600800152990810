//! What does the kernel take for a process that does nothing? A process with one thread forks, the child exits at once,
//! the parent waits: no less is to be had for a fork.

use std::io::Write;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};

use super::trial::pause;
use crate::processes::{Size, own_size};

/// How the rounds of a loop follow each other.
#[derive(Clone, Copy)]
pub enum Pace {
    /// One at once after the other, for so many seconds.
    Full(f64),
    /// So many, after pauses.
    Paused(usize),
}

/// What a loop came to.
#[derive(Default)]
pub struct Bare {
    /// Of each round, in milliseconds.
    pub times: Vec<f64>,
    /// Memory of the process, in bytes.
    pub resident: u64,
}

/// Runs so many loops at a time, each in a process of that size.
pub fn run(processes: usize, size: Size, pace: Pace) -> Result<Bare, String> {
    let failed = |error: std::io::Error| format!("the loop does not run: {error}");
    let program = std::env::current_exe().map_err(failed)?;
    let (pace, much) = match pace {
        Pace::Full(seconds) => ("full", seconds.to_string()),
        Pace::Paused(rounds) => ("paused", rounds.to_string()),
    };
    let loops: Vec<_> = (0..processes)
        .map(|_| {
            Command::new(&program)
                .args(["fork-loop", &size.anonymous.to_string(), pace, &much])
                .stdout(Stdio::piped())
                .spawn()
        })
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    let mut bare = Bare::default();
    for process in loops {
        let output = process.wait_with_output().map_err(failed)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut numbers = text.lines().filter_map(|line| line.parse::<u64>().ok());
        bare.resident = numbers.next().unwrap_or_default();
        bare.times.extend(numbers.map(|nanos| nanos as f64 / 1e6));
    }
    if bare.times.is_empty() { Err("the loop says nothing".into()) } else { Ok(bare) }
}

/// The loop, with at least so much memory that no file backs. Prints its size, then the nanoseconds of each round.
pub fn fork_loop(words: &[String]) -> ExitCode {
    let [anonymous, pace, much] = words else { return ExitCode::from(2) };
    let (Ok(anonymous), Ok(much)) = (anonymous.parse::<u64>(), much.parse::<f64>()) else {
        return ExitCode::from(2);
    };
    let mut ballast = vec![0_u8; anonymous.saturating_sub(own_size().anonymous) as usize];
    for page in ballast.chunks_mut(4096) {
        page[0] = 1;
    }
    std::hint::black_box(&ballast);
    let mut text = format!("{}\n", own_size().resident);
    let mut times = Vec::with_capacity(1 << 16);
    let began = Instant::now();
    if pace == "full" {
        while began.elapsed().as_secs_f64() < much {
            times.push(fork_once());
        }
    } else {
        for round in 0..much as u64 {
            std::thread::sleep(pause(round));
            times.push(fork_once());
        }
    }
    for time in times {
        text.push_str(&format!("{}\n", time.as_nanos()));
    }
    std::io::stdout().write_all(text.as_bytes()).expect("is read");
    ExitCode::SUCCESS
}

fn fork_once() -> Duration {
    let began = Instant::now();
    // SAFETY: this process has one thread, so the child may do as it likes; it exits at once.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            // SAFETY: `_exit` runs nothing of this process.
            unsafe { nix::libc::_exit(0) }
        }
        Ok(ForkResult::Parent { child }) => {
            waitpid(child, None).expect("the child ends");
        }
        Err(error) => panic!("fork: {error}"),
    }
    began.elapsed()
}
