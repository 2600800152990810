//! How a process ended, and the resources that it used.

use std::time::Duration;

use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::sys::system;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Status {
    /// It exited with this code.
    Code(i32),
    /// It was ended by this signal.
    Signal(i32),
}

/// The resources that a process had used when it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct ResourceUsage {
    /// CPU time in microseconds, including the system's.
    pub(crate) cpu_us: u64,
    /// Peak resident memory in bytes.
    pub(crate) peak_memory: u64,
}

impl ResourceUsage {
    /// CPU time.
    pub(crate) fn cpu(&self) -> Duration {
        Duration::from_micros(self.cpu_us)
    }
}

/// The state of the children with regard to ended ones.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "there are no children elsewhere"))]
pub(crate) enum Ended {
    /// This child has ended and was not reaped yet, so no other process can have its id.
    One(Pid),
    /// No child has ended, but some are alive.
    NoneYet,
    /// There are no children.
    NoChildren,
}

/// Finds a child that has ended, without reaping it.
pub(crate) fn peek_ended() -> Ended {
    system::peek_ended()
}

/// Reaps a child that has ended. `None` if it has not.
#[expect(unsafe_code, reason = "wait4: nothing else tells the usage of one child")]
pub(crate) fn reap(pid: Pid) -> Option<(Status, ResourceUsage)> {
    let mut status = 0;
    // SAFETY: All-zero bytes are a valid `rusage`, a struct of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: Both pointers are to locals that outlive the call.
    let reaped = unsafe { libc::wait4(pid.as_raw(), &raw mut status, libc::WNOHANG, &raw mut usage) };
    if reaped <= 0 {
        return None;
    }
    let status = if libc::WIFSIGNALED(status) {
        Status::Signal(libc::WTERMSIG(status))
    } else {
        Status::Code(libc::WEXITSTATUS(status))
    };
    let microseconds = |time: libc::timeval| {
        u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(time.tv_usec).unwrap_or(0)
    };
    let used = ResourceUsage {
        cpu_us: microseconds(usage.ru_utime) + microseconds(usage.ru_stime),
        // In kilobytes on Linux, see getrusage(2).
        peak_memory: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
    };
    Some((status, used))
}
