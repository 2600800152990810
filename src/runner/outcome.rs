//! What happened to one run? Data, not an error.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::task::TaskError;
use crate::task::return_value::ReturnValue;

/// What happened to one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It came to its end, with what it returned.
    Succeeded(ReturnValue),
    /// The task said that it failed.
    Failed(TaskError),
    /// The task panicked.
    Panicked {
        /// The panic's message, where it was text.
        message: String,
    },
    /// Its time was up, and it was made to end.
    TimedOut {
        /// Whether it ended when it was asked, or was killed.
        limit: TimeLimit,
        /// How long it had run in the end.
        after: Duration,
        /// The signal of which its process died; none for one that ran inline.
        signal: Option<i32>,
    },
    /// The call expired before it could begin; it did not run.
    Expired {
        /// By how much.
        late: Duration,
    },
    /// Its call was cancelled.
    Cancelled {
        /// By whom; empty when that is not known.
        by: String,
    },
    /// Somebody ended it by hand.
    Killed {
        /// Who.
        by: String,
    },
    /// Its process used more than it may.
    Exceeded {
        /// What there was too much of.
        resource: Resource,
        /// The limit, in the resource's unit.
        limit: u64,
    },
    /// Its process ended without a word.
    Crashed(Exit),
    /// The arguments do not fit the task; it did not run.
    Arguments {
        /// Which argument, what was expected, and what came.
        problem: String,
    },
    /// There is no task of that name here; it did not run.
    Unknown,
    /// The bytes are not a message; nothing ran.
    Malformed {
        /// What is wrong with them.
        problem: String,
    },
    /// The zygote was killed, and with it the run's process. Nobody knows who is at fault.
    Orphaned,
    /// It could not begin, through no fault of the task's.
    Lost {
        /// Why.
        problem: String,
    },
}

/// Which time was up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeLimit {
    /// It ended after it was asked to.
    Soft,
    /// It did not, and was killed.
    Hard,
}

/// What a process can have too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Resource {
    /// Anonymous and shared memory, in bytes.
    Memory,
    /// Address space, in bytes.
    AddressSpace,
    /// CPU time, in seconds.
    Cpu,
    /// Open descriptors.
    OpenFiles,
    /// What it writes on its standard streams, in bytes.
    Output,
}

/// How a process ended that said nothing of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// With this code.
    Code(i32),
    /// Of this signal.
    Signal(i32),
    /// The kernel killed it for want of memory.
    OutOfMemory,
    /// It wrote what is no report; it was killed.
    Garbage,
    /// It closed its pipe and ran on; it was killed.
    HungUp,
}

/// What is known of the process in which a run took place, besides its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ProcessStats {
    /// What it used, once that is known.
    pub(crate) usage: Option<Usage>,
    /// What it wrote on its standard output and standard error.
    pub(crate) output: String,
    /// Whether somebody else than its worker asked it to end.
    pub(crate) asked: bool,
}

/// What a process used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// CPU time, its own and the system's for it.
    pub(crate) cpu: Duration,
    /// The most resident memory that it ever had, in bytes.
    pub(crate) peak_memory: u64,
}

impl Outcome {
    /// Whether it came to its end.
    pub(crate) fn is_success(&self) -> bool {
        matches!(self, Self::Succeeded(_))
    }

    /// One word, that of dead letters where there are some.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Succeeded(_) => "succeeded",
            Self::Failed(_) => "failed",
            Self::Panicked { .. } => "panicked",
            Self::TimedOut { .. } => "timed_out",
            Self::Expired { .. } => "expired",
            Self::Cancelled { .. } => "cancelled",
            Self::Killed { .. } => "killed",
            Self::Exceeded { .. } => "exceeded",
            Self::Crashed(_) => "crashed",
            Self::Arguments { .. } => "arguments",
            Self::Unknown => "unknown",
            Self::Malformed { .. } => "malformed",
            Self::Orphaned => "orphaned",
            Self::Lost { .. } => "lost",
        }
    }

    /// What was wrong, without the word before it that [`reason`](Self::reason) gives.
    pub(crate) fn detail(&self) -> String {
        match self {
            Self::Failed(error) => error.to_string(),
            Self::Panicked { message } => message.clone(),
            other => other.to_string(),
        }
    }

    /// The same, where the worker is stopping: a supervisor that sends SIGTERM to all processes of a service ends those of
    /// tasks too, or has them give up, which is no fault of theirs.
    pub(crate) fn while_stopping(self, stats: Option<&ProcessStats>) -> Self {
        match self {
            Self::Crashed(_) | Self::Failed(_) if stats.is_some_and(|stats| stats.asked) => {
                Self::Lost { problem: "its process was ended with the worker".into() }
            }
            other => other,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Succeeded(_) => f.write_str("succeeded"),
            Self::Failed(error) => write!(f, "failed: {error}"),
            Self::Panicked { message } => write!(f, "panicked: {message}"),
            Self::TimedOut { limit, after, signal } => {
                let limit = match limit {
                    TimeLimit::Soft => "soft",
                    TimeLimit::Hard => "hard",
                };
                write!(f, "timed out ({limit}) after {after:.1?}")?;
                signal.map_or(Ok(()), |signal| write!(f, ", ended by {}", signal_name(signal)))
            }
            Self::Expired { late } => write!(f, "it expired {late:.1?} before it could begin"),
            Self::Cancelled { by } if by.is_empty() => f.write_str("cancelled"),
            Self::Cancelled { by } => write!(f, "cancelled by {by}"),
            Self::Killed { by } => write!(f, "killed by {by}"),
            Self::Exceeded { resource, limit } => match resource {
                Resource::Memory => write!(f, "used more than {limit} bytes of memory"),
                Resource::AddressSpace => write!(f, "asked for more than {limit} bytes of address space"),
                Resource::Cpu => write!(f, "used more than {limit} s of CPU time"),
                Resource::OpenFiles => write!(f, "opened more than {limit} descriptors"),
                Resource::Output => write!(f, "wrote more than {limit} bytes of output"),
            },
            Self::Crashed(exit) => exit.fmt(f),
            Self::Arguments { problem } => write!(f, "arguments: {problem}"),
            Self::Unknown => f.write_str("unknown task"),
            Self::Malformed { problem } => write!(f, "malformed: {problem}"),
            Self::Orphaned => f.write_str("the zygote was killed, and with it its process"),
            Self::Lost { problem } => write!(f, "lost: {problem}"),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "its process ended with code {code} before the task did"),
            Self::Signal(signal) => write!(f, "its process died of {}", signal_name(*signal)),
            Self::OutOfMemory => f.write_str("the kernel killed its process for want of memory"),
            Self::Garbage => f.write_str("its process wrote what is no report, and was killed"),
            Self::HungUp => {
                f.write_str("its process closed its pipe to the worker and ran on, and was killed")
            }
        }
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.2} s of CPU, {} MB of memory at its peak",
            self.cpu.as_secs_f64(),
            self.peak_memory >> 20
        )
    }
}

/// `SIGKILL` for 9.
fn signal_name(signal: i32) -> String {
    nix::sys::signal::Signal::try_from(signal)
        .map_or_else(|_| format!("signal {signal}"), |signal| signal.as_str().to_owned())
}
