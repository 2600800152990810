//! How does a worker that is measured live and end?

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::processes;
use crate::sender::last_word;

/// How long it may take to stop, and what it has started to be gone.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A variable by which all processes of a worker are known: what it is called, and the file that it names.
pub type Mark = (&'static str, PathBuf);

/// A worker of some system.
pub struct Worker {
    process: Child,
    mark: Mark,
    log: PathBuf,
}

impl Worker {
    pub fn start(mut command: Command, mark: Mark, log: &Path) -> Result<Self, String> {
        let said = File::create(log).map_err(|error| format!("no log: {error}"))?;
        let also = said.try_clone().map_err(|error| format!("no log: {error}"))?;
        let process = command
            .env(mark.0, &mark.1)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(said)
            .stderr(also)
            .spawn()
            .map_err(|error| format!("its worker does not start: {error}"))?;
        Ok(Self { process, mark, log: log.into() })
    }

    /// An error when it has ended, with what it said last.
    pub fn check(&mut self) -> Result<(), String> {
        match self.process.try_wait() {
            Ok(Some(status)) => Err(self.ended(status)),
            _ => Ok(()),
        }
    }

    fn ended(&self, status: ExitStatus) -> String {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        format!("its worker ended, {status}: {}", last_word(&said))
    }

    /// It and all that it has started, the oldest first.
    pub fn processes(&self) -> Vec<u32> {
        processes::marked(&self.mark)
    }

    /// Tells it to stop, and waits until it has. Gives how many processes it left behind, which are ended.
    pub fn stop(mut self) -> Result<usize, String> {
        self.check()?;
        self.signal(Signal::SIGTERM);
        let end = Instant::now() + PATIENCE;
        while self.process.try_wait().is_ok_and(|ended| ended.is_none()) {
            if Instant::now() > end {
                return Err("its worker does not stop".into());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        // What ends with it may do so a moment later.
        let end = Instant::now() + Duration::from_millis(500);
        while !self.processes().is_empty() && Instant::now() < end {
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(self.processes().len())
    }

    fn signal(&self, signal: Signal) {
        // It may have ended.
        let _ = kill(Pid::from_raw(self.process.id() as i32), signal);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let end = Instant::now() + PATIENCE;
        loop {
            let left = self.processes();
            if left.is_empty() || Instant::now() > end {
                return;
            }
            for pid in left {
                let _ = kill(Pid::from_raw(pid as i32), Signal::SIGKILL);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
