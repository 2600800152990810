//! Limits of the processes of isolated runs: the section `worker.limits`, with the names of the attribute.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::{ConfigError, text};
use crate::isolation::Limits;

/// The fewest descriptors that a process can work with: its streams, its pipes, and those of its runtime.
const LEAST_FILES: u64 = 16;
/// The kernel counts them in an `int`.
const MOST_FILES: u64 = i32::MAX as u64;

/// The section as written in a file.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Section {
    #[serde(deserialize_with = "text::some_size")]
    memory: Option<u64>,
    #[serde(deserialize_with = "text::some_size")]
    address_space: Option<u64>,
    #[serde(deserialize_with = "text::some_time")]
    cpu: Option<Duration>,
    open_files: Option<u64>,
    #[serde(deserialize_with = "text::some_size")]
    output: Option<u64>,
    nice: Option<i32>,
    no_new_privileges: Option<bool>,
    private_network: Option<bool>,
    private_mounts: Option<bool>,
}

/// Reads the section.
pub(super) fn limits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Limits, D::Error> {
    let section = Section::deserialize(deserializer)?;
    let cpu_seconds = match section.cpu {
        Some(cpu) if cpu.subsec_nanos() != 0 => {
            return Err(serde::de::Error::custom(format!("{cpu:?} of CPU time is not whole seconds")));
        }
        cpu => cpu.map(|cpu| cpu.as_secs()),
    };
    Ok(Limits {
        memory: section.memory,
        address_space: section.address_space,
        cpu_seconds,
        open_files: section.open_files,
        output: section.output,
        nice: section.nice,
        no_new_privileges: section.no_new_privileges,
        private_network: section.private_network,
        private_mounts: section.private_mounts,
    })
}

/// Checks the section.
pub(super) fn validate(limits: &Limits) -> Result<(), ConfigError> {
    let refuse = |field, problem: &str| Err(ConfigError { field, problem: problem.into() });
    for (field, amount) in [
        ("worker.limits.memory", limits.memory),
        ("worker.limits.address_space", limits.address_space),
        ("worker.limits.cpu", limits.cpu_seconds),
        ("worker.limits.output", limits.output),
    ] {
        if amount == Some(0) {
            return refuse(field, "no task can run with a limit of 0: leave it out");
        }
    }
    if let Some(count) = limits.open_files.filter(|count| !(LEAST_FILES..=MOST_FILES).contains(count)) {
        let problem = match count {
            ..LEAST_FILES => format!("a process needs at least {LEAST_FILES} descriptors"),
            _ => format!("{count} is too large: a process has at most {MOST_FILES} descriptors"),
        };
        return refuse("worker.limits.open_files", &problem);
    }
    if limits.nice.is_some_and(|nice| !(0..=19).contains(&nice)) {
        return refuse("worker.limits.nice", "it is not from 0 to 19");
    }
    Ok(())
}
