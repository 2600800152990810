//! Where a task runs, for how long, and what its process may use.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

/// Where a task runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Isolation {
    /// In the worker's own process. It can be asked to end, but not forced to.
    Inline,
    /// In a fresh process, which is killed at the timeout.
    Fork,
    /// In a process of a pool, which runs one call at a time and is reused. It is killed at the timeout.
    Prefork,
}

impl Isolation {
    /// The name in the attribute and in settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Fork => "fork",
            Self::Prefork => "prefork",
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error of a word that is no [`Isolation`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not one of inline, fork, prefork")]
pub struct IsolationError(String);

impl FromStr for Isolation {
    type Err = IsolationError;

    fn from_str(text: &str) -> Result<Self, IsolationError> {
        match text {
            "inline" => Ok(Self::Inline),
            "fork" => Ok(Self::Fork),
            "prefork" => Ok(Self::Prefork),
            _ => Err(IsolationError(text.to_owned())),
        }
    }
}

impl<'de> Deserialize<'de> for Isolation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// How long a run may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Timeouts {
    /// After this time the run is asked to end: its context is cancelled, and its process group gets SIGTERM. `None`: never.
    pub timeout: Option<Duration>,
    /// How long it may continue then, before it is dropped or gets SIGKILL. `None`: [`Timeouts::GRACE`].
    pub grace: Option<Duration>,
}

impl Timeouts {
    /// The default grace.
    pub const GRACE: Duration = Duration::from_secs(1);

    /// No timeout.
    pub const NONE: Self = Self { timeout: None, grace: None };

    /// Sets the timeout.
    #[must_use]
    pub const fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Sets the grace.
    #[must_use]
    pub const fn with_grace(self, grace: Duration) -> Self {
        Self { grace: Some(grace), ..self }
    }

    /// These values, and those of `other` where they are `None`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { timeout: self.timeout.or(other.timeout), grace: self.grace.or(other.grace) }
    }

    /// The grace, or its default.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.grace.unwrap_or(Self::GRACE)
    }
}

/// Limits of the process of an isolated run. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Limits {
    /// Anonymous and shared memory in bytes, of all processes of the run, beyond what the process had before. Checked every few
    /// milliseconds; a run that uses more is killed. Pages of files do not count.
    pub memory: Option<u64>,
    /// Address space in bytes, beyond what the process had before. An allocation that exceeds it fails, and aborts the process.
    pub address_space: Option<u64>,
    /// Seconds of CPU time of all threads of the process together.
    pub cpu_seconds: Option<u64>,
    /// The number of file descriptors that the process may have open.
    pub open_files: Option<u64>,
    /// The number of bytes that a run may write to standard output and standard error together.
    pub output: Option<u64>,
    /// The nice value, 0 to 19, by which its priority is lowered.
    pub nice: Option<i32>,
    /// Whether the process and its children cannot gain privileges, for example through a set-user-id program.
    pub no_new_privileges: Option<bool>,
    /// Whether it has no network except a loopback interface of its own. The call fails if the kernel does not allow that.
    pub private_network: Option<bool>,
    /// Whether its mounts are its own. The call fails if the kernel does not allow that.
    pub private_mounts: Option<bool>,
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self {
        memory: None,
        address_space: None,
        cpu_seconds: None,
        open_files: None,
        output: None,
        nice: None,
        no_new_privileges: None,
        private_network: None,
        private_mounts: None,
    };

    /// Sets [`memory`](Self::memory).
    #[must_use]
    pub const fn with_memory(self, bytes: u64) -> Self {
        Self { memory: Some(bytes), ..self }
    }

    /// Sets [`address_space`](Self::address_space).
    #[must_use]
    pub const fn with_address_space(self, bytes: u64) -> Self {
        Self { address_space: Some(bytes), ..self }
    }

    /// Sets [`cpu_seconds`](Self::cpu_seconds).
    #[must_use]
    pub const fn with_cpu(self, seconds: u64) -> Self {
        Self { cpu_seconds: Some(seconds), ..self }
    }

    /// Sets [`open_files`](Self::open_files).
    #[must_use]
    pub const fn with_open_files(self, count: u64) -> Self {
        Self { open_files: Some(count), ..self }
    }

    /// Sets [`output`](Self::output).
    #[must_use]
    pub const fn with_output(self, bytes: u64) -> Self {
        Self { output: Some(bytes), ..self }
    }

    /// Sets [`nice`](Self::nice).
    #[must_use]
    pub const fn with_nice(self, nice: i32) -> Self {
        Self { nice: Some(nice), ..self }
    }

    /// Sets [`no_new_privileges`](Self::no_new_privileges).
    #[must_use]
    pub const fn with_no_new_privileges(self, yes: bool) -> Self {
        Self { no_new_privileges: Some(yes), ..self }
    }

    /// Sets [`private_network`](Self::private_network).
    #[must_use]
    pub const fn with_private_network(self, yes: bool) -> Self {
        Self { private_network: Some(yes), ..self }
    }

    /// Sets [`private_mounts`](Self::private_mounts).
    #[must_use]
    pub const fn with_private_mounts(self, yes: bool) -> Self {
        Self { private_mounts: Some(yes), ..self }
    }

    /// These values, and those of `other` where they are `None`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            memory: self.memory.or(other.memory),
            address_space: self.address_space.or(other.address_space),
            cpu_seconds: self.cpu_seconds.or(other.cpu_seconds),
            open_files: self.open_files.or(other.open_files),
            output: self.output.or(other.output),
            nice: self.nice.or(other.nice),
            no_new_privileges: self.no_new_privileges.or(other.no_new_privileges),
            private_network: self.private_network.or(other.private_network),
            private_mounts: self.private_mounts.or(other.private_mounts),
        }
    }

    /// The limits that last as long as the process: they cannot be lifted for another task.
    #[must_use]
    pub fn lasting(&self) -> Self {
        Self {
            nice: self.nice,
            no_new_privileges: self.no_new_privileges,
            private_network: self.private_network,
            private_mounts: self.private_mounts,
            ..Self::NONE
        }
    }
}
