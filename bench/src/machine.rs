//! What is measured on? Without it no figure can be compared.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::server::Server;

/// The machine as it was when a run began; a run that is gone on with keeps what its first piece found.
#[derive(Serialize, Deserialize)]
pub struct Machine {
    cores: usize,
    processor: String,
    memory: String,
    kernel: String,
    /// The version of Redis.
    redis: String,
    /// Processes that wanted to run, on average of the minute before.
    load: String,
}

impl Machine {
    pub fn read() -> Self {
        let read = |path: &str| std::fs::read_to_string(Path::new("/proc").join(path)).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.trim_start_matches(['\t', ' ', ':']).to_owned()
        };
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: field(&read("cpuinfo"), "model name"),
            memory: field(&read("meminfo"), "MemTotal"),
            kernel: read("sys/kernel/osrelease").trim().into(),
            redis: Server::start().version(),
            load: read("loadavg").split(' ').next().unwrap_or_default().into(),
        }
    }

    /// Why figures of that one say nothing beside those of this.
    pub fn unlike(&self, other: &Self) -> Option<String> {
        let [was, is] = [self, other].map(|machine| {
            let Self { cores, processor, redis, .. } = machine;
            [format!("{cores} cores"), format!("the processor {processor}"), format!("Redis {redis}")]
        });
        let (was, is) = was.into_iter().zip(is).find(|(was, is)| was != is)?;
        Some(format!("the run began with {was}, not with {is}"))
    }
}
