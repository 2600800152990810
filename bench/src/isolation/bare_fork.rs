//! What does the kernel take for a process that does nothing? A process with one thread forks, the child exits at once,
//! the parent waits: no less is to be had for a fork.

use std::io::Write;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};

use super::processes::{Size, own_size};

/// Runs so many loops at a time, each in a process of that size. Gives the times of one loop's rounds in milliseconds.
pub fn run(processes: usize, size: Size, seconds: f64) -> Result<Vec<f64>, String> {
    let failed = |error: std::io::Error| format!("the loop does not run: {error}");
    let program = std::env::current_exe().map_err(failed)?;
    let loops: Vec<_> = (0..processes)
        .map(|_| {
            Command::new(&program)
                .args(["fork-loop", &size.anonymous.to_string(), &seconds.to_string()])
                .stdout(Stdio::piped())
                .spawn()
        })
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    let mut times = Vec::new();
    for process in loops {
        let output = process.wait_with_output().map_err(failed)?;
        let text = String::from_utf8_lossy(&output.stdout);
        times.extend(text.lines().filter_map(|line| line.parse::<f64>().ok()).map(|nanos| nanos / 1e6));
    }
    if times.is_empty() { Err("the loop says nothing".into()) } else { Ok(times) }
}

/// The loop: with at least so much memory that no file backs, for so long. Prints the nanoseconds of each round.
pub fn fork_loop(words: &[String]) -> ExitCode {
    let [anonymous, seconds] = words else { return ExitCode::from(2) };
    let (Ok(anonymous), Ok(seconds)) = (anonymous.parse::<u64>(), seconds.parse()) else {
        return ExitCode::from(2);
    };
    let mut ballast = vec![0_u8; anonymous.saturating_sub(own_size().anonymous) as usize];
    for page in ballast.chunks_mut(4096) {
        page[0] = 1;
    }
    std::hint::black_box(&ballast);
    let mut times = Vec::with_capacity(1 << 16);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < end {
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
        times.push(began.elapsed().as_nanos());
    }
    let mut text = String::new();
    for nanos in times {
        text.push_str(&nanos.to_string());
        text.push('\n');
    }
    std::io::stdout().write_all(text.as_bytes()).expect("is read");
    ExitCode::SUCCESS
}
