//! How is a run kept apart from its worker, and what may it use?

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

/// Where a task runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Isolation {
    /// In the worker's own process. It can be asked to end, but not be made to.
    Inline,
    /// In a fresh process, which is killed when its time is up.
    Fork,
    /// In one of a pool of processes that are used again, one call at a time; killed when its time is up.
    Prefork,
}

impl Isolation {
    /// Its name, as it is written in the attribute and in settings.
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

/// A word that is no [`Isolation`].
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

/// How long a run may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Timeouts {
    /// After this time the run is asked to end: its context is cancelled, and its process group gets SIGTERM. None:
    /// never.
    pub timeout: Option<Duration>,
    /// How long it then has to end by itself, before it is dropped or gets SIGKILL. Without a value:
    /// [`Timeouts::GRACE`].
    pub grace: Option<Duration>,
}

impl Timeouts {
    /// The grace of a task that does not say.
    pub const GRACE: Duration = Duration::from_secs(1);

    /// No timeout.
    pub const NONE: Self = Self { timeout: None, grace: None };

    /// These with this timeout.
    #[must_use]
    pub const fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// These with this grace.
    #[must_use]
    pub const fn with_grace(self, grace: Duration) -> Self {
        Self { grace: Some(grace), ..self }
    }

    /// These where they say something, `other` where they do not.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { timeout: self.timeout.or(other.timeout), grace: self.grace.or(other.grace) }
    }

    /// The grace that holds.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.grace.unwrap_or(Self::GRACE)
    }
}

/// What the process of an isolated run may use, and may do. None is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Limits {
    /// Resident memory in bytes. It is looked at every few milliseconds; a process above it is killed.
    pub memory: Option<u64>,
    /// Address space in bytes: more cannot be reserved. An allocation that fails aborts the process.
    pub address_space: Option<u64>,
    /// Seconds of CPU time, all threads of the process together.
    pub cpu_seconds: Option<u64>,
    /// How many descriptors the process may have open.
    pub open_files: Option<u64>,
    /// Bytes that one run may write on its standard output and standard error together.
    pub output: Option<u64>,
    /// Added to the priority number, 0 to 19: more is nicer to others.
    pub nice: Option<i32>,
    /// The process and all that it starts cannot gain privileges, as through a set-user-id program.
    pub no_new_privileges: Option<bool>,
    /// No network but a loopback of its own, where the kernel allows that.
    pub private_network: Option<bool>,
    /// Mounts that it makes are its own, where the kernel allows that.
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

    /// These with another [`memory`](Self::memory).
    #[must_use]
    pub const fn with_memory(self, bytes: u64) -> Self {
        Self { memory: Some(bytes), ..self }
    }

    /// These with another [`address_space`](Self::address_space).
    #[must_use]
    pub const fn with_address_space(self, bytes: u64) -> Self {
        Self { address_space: Some(bytes), ..self }
    }

    /// These with another [`cpu_seconds`](Self::cpu_seconds).
    #[must_use]
    pub const fn with_cpu(self, seconds: u64) -> Self {
        Self { cpu_seconds: Some(seconds), ..self }
    }

    /// These with another [`open_files`](Self::open_files).
    #[must_use]
    pub const fn with_open_files(self, count: u64) -> Self {
        Self { open_files: Some(count), ..self }
    }

    /// These with another [`output`](Self::output).
    #[must_use]
    pub const fn with_output(self, bytes: u64) -> Self {
        Self { output: Some(bytes), ..self }
    }

    /// These with another [`nice`](Self::nice).
    #[must_use]
    pub const fn with_nice(self, nice: i32) -> Self {
        Self { nice: Some(nice), ..self }
    }

    /// These with another [`no_new_privileges`](Self::no_new_privileges).
    #[must_use]
    pub const fn with_no_new_privileges(self, yes: bool) -> Self {
        Self { no_new_privileges: Some(yes), ..self }
    }

    /// These with another [`private_network`](Self::private_network).
    #[must_use]
    pub const fn with_private_network(self, yes: bool) -> Self {
        Self { private_network: Some(yes), ..self }
    }

    /// These with another [`private_mounts`](Self::private_mounts).
    #[must_use]
    pub const fn with_private_mounts(self, yes: bool) -> Self {
        Self { private_mounts: Some(yes), ..self }
    }

    /// These where they say something, `other` where they do not.
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

    /// Those that last as long as the process: they cannot be lifted for another task.
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
