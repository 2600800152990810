//! Describes a worker: what it writes into the field `info` of its hash.

use serde::{Deserialize, Serialize};

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
    /// The version of `docs/protocol.md` that it speaks.
    pub protocol: u32,
    /// When it started, in milliseconds since 1970.
    pub started_ms: u64,
    /// How many calls it runs at a time.
    pub concurrency: u64,
    /// How many more it claims ahead at the most. Not there: none.
    #[serde(default)]
    pub prefetch: u64,
    /// The queues that it serves, in order of preference.
    pub queues: Vec<String>,
    /// The lease of its slots in milliseconds.
    pub lease_ms: u64,
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
