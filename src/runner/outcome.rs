//! The outcome of one run. It is data, not an error.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::task::TaskError;
use crate::task::return_value::ReturnValue;

/// What happened to one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The run ended and returned this value.
    Succeeded(ReturnValue),
    /// The task returned an error.
    Failed(TaskError),
    /// The task panicked.
    Panicked {
        /// The panic's message, if it was text.
        message: String,
    },
    /// The run exceeded its time and was made to end.
    TimedOut {
        /// Whether it ended when asked, or was killed.
        limit: TimeLimit,
        /// How long it had run when it ended.
        after: Duration,
        /// The signal that ended its process; `None` if it ran inline.
        signal: Option<i32>,
    },
    /// The call expired before it could begin; it did not run.
    Expired {
        /// How late it was.
        late: Duration,
    },
    /// The call was cancelled.
    Cancelled {
        /// Who cancelled it; empty if unknown.
        by: String,
    },
    /// The run was killed on request.
    Killed {
        /// Who killed it.
        by: String,
    },
    /// The process exceeded a limit.
    Exceeded {
        /// The resource that it exceeded.
        resource: Resource,
        /// The limit, in the unit of the resource.
        limit: u64,
    },
    /// The process ended without a report.
    Crashed(Exit),
    /// The arguments do not fit the task; it did not run.
    Arguments {
        /// The argument, what was expected, and what was found.
        problem: String,
    },
    /// This worker has no task of that name; nothing ran.
    Unknown,
    /// The bytes are not a message; nothing ran.
    Malformed {
        /// What is wrong with the bytes.
        problem: String,
    },
    /// The zygote was killed, and with it the process of the run. The cause is unknown.
    Orphaned,
    /// The run could not begin, through no fault of the task.
    Lost {
        /// The reason.
        problem: String,
    },
}

/// The time limit that was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeLimit {
    /// The run ended after it was asked to.
    Soft,
    /// The run did not end when asked, and was killed.
    Hard,
}

/// A resource of which a process can use too much.
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
    /// Output on the standard streams, in bytes.
    Output,
}

/// How a process ended that sent no report of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It exited with this code.
    Code(i32),
    /// It was ended by this signal.
    Signal(i32),
    /// The kernel killed it for lack of memory.
    OutOfMemory,
    /// It sent something other than a report, and was killed.
    Garbage,
    /// It closed its connection, continued, and was killed.
    HungUp,
}

/// What is known of the process of a run, besides the outcome.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ProcessStats {
    /// The resources that it used, once known.
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
            Self::Signal(signal) => write!(f, "its process was killed by {}", signal_name(*signal)),
            Self::OutOfMemory => f.write_str("the kernel killed its process because memory was short"),
            Self::Garbage => f.write_str("its process wrote an invalid report, and was killed"),
            Self::HungUp => {
                f.write_str("its process closed its pipe to the worker without exiting, and was killed")
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
