//! Describes a worker: what it writes into the field `info` of its hash.

use serde::{Deserialize, Deserializer, Serialize};

/// A worker, as it presents itself to others: a MessagePack map in the field `info` of `Q:W`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WorkerInfo {
    /// The name of its host.
    pub host: String,
    /// Its process id there.
    pub pid: u32,
    /// The version of `delayed` that it was built with.
    pub version: String,
    /// The version of its program, if that states one.
    #[serde(default)]
    pub program_version: Option<String>,
    /// The version of `docs/protocol.md` that it speaks.
    pub protocol: u32,
    /// When it started, in milliseconds since 1970.
    pub started_ms: u64,
    /// How far it was on its way to its end at its last heartbeat. `None`: an older version, which does not say it.
    #[serde(default, deserialize_with = "known_phase")]
    pub phase: Option<WorkerPhase>,
    /// How many calls it runs at a time.
    pub concurrency: u64,
    /// How many more it claims ahead at the most. Not there: none.
    #[serde(default)]
    pub prefetch: u64,
    /// The queues that it serves, in order of preference.
    pub queues: Vec<String>,
    /// The lease of its slots in milliseconds.
    pub lease_ms: u64,
    /// The periodic tasks of this queue that its program declares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub periodic: Vec<String>,
    /// Its longest runs of this queue that have lasted for a heartbeat or longer. Empty in a
    /// [`WorkerStatus`](crate::inspect::WorkerStatus), whose running messages have these times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) runs: Vec<RunInfo>,
}

/// How far a worker is on its way to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum WorkerPhase {
    /// It claims calls and runs them.
    Running,
    /// It claims nothing more, and stays until it is told to stop.
    Quiet,
    /// It claims nothing more, and ends when its runs have ended or its time to stop is over.
    Draining,
}

/// What a worker is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerOrder {
    /// To claim nothing more, and to stay, as after SIGUSR1.
    Quiet,
    /// To stop as after SIGTERM: to claim nothing more, to end its runs and to exit.
    Stop,
}

/// A long run of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunInfo {
    /// The number of its slot: the last part of the wire id.
    pub(crate) slot: u64,
    /// When it began, in milliseconds since 1970 by the worker's clock.
    pub(crate) started_ms: u64,
    /// The SHA-1 of its message in hexadecimal: the slot may hold another by now.
    pub(crate) digest: String,
}

/// A phase, or none if a newer version calls it something else.
fn known_phase<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<WorkerPhase>, D::Error> {
    let name = Option::<String>::deserialize(deserializer)?;
    Ok(match name.as_deref() {
        Some("running") => Some(WorkerPhase::Running),
        Some("quiet") => Some(WorkerPhase::Quiet),
        Some("draining") => Some(WorkerPhase::Draining),
        _ => None,
    })
}

impl WorkerOrder {
    /// The order in one word: its field in the hash of orders, where no wire id is so short.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::Stop => "stop",
        }
    }
}

impl WorkerInfo {
    /// As it stands in Redis.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        rmp_serde::to_vec_named(self).unwrap_or_default()
    }

    /// Reads what stands in Redis; none when it is not a worker's.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        rmp_serde::from_slice(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description by an older version, and one by a newer version.
    #[derive(Serialize)]
    struct Other {
        host: &'static str,
        pid: u32,
        version: &'static str,
        protocol: u32,
        started_ms: u64,
        concurrency: u64,
        queues: [&'static str; 1],
        lease_ms: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        mood: Option<&'static str>,
    }

    const OLDER: Other = Other {
        host: "h",
        pid: 1,
        version: "0.1.0",
        protocol: 1,
        started_ms: 2,
        concurrency: 3,
        queues: ["q"],
        lease_ms: 4,
        phase: None,
        mood: None,
    };

    #[test]
    fn older_and_newer_descriptions_are_read() {
        for (other, phase) in [
            (OLDER, None),
            (Other { phase: Some("quiet"), ..OLDER }, Some(WorkerPhase::Quiet)),
            (Other { phase: Some("asleep"), mood: Some("good"), ..OLDER }, None),
        ] {
            let info = WorkerInfo::decode(&rmp_serde::to_vec_named(&other).unwrap()).unwrap();
            assert_eq!((info.phase, info.prefetch, &info.program_version), (phase, 0, &None));
            assert!(info.runs.is_empty());
            assert_eq!(WorkerInfo::decode(&info.encode()), Some(info));
        }
    }
}
