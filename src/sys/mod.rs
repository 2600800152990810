//! The interface to the operating system. The only module with `unsafe` code.

pub(crate) mod async_descriptor;
pub(crate) mod descriptors;
pub(crate) mod exits;
#[cfg(not(target_os = "linux"))]
mod fallback;
pub(crate) mod fork;
#[cfg(feature = "client")]
pub(crate) mod forks;
pub(crate) mod limits;
#[cfg(target_os = "linux")]
mod linux;
pub(crate) mod memory;
pub(crate) mod memory_kills;
pub(crate) mod packets;
#[cfg(target_os = "linux")]
pub(crate) mod process_state;
#[cfg(not(target_os = "linux"))]
pub(crate) mod process_state_fallback;
pub(crate) mod sessions;
pub(crate) mod signals;
pub(crate) mod startup;
pub(crate) mod streams;
#[cfg(feature = "cli")]
pub(crate) mod terminal;
pub(crate) mod timer;
pub(crate) mod wait;

use std::time::Duration;

#[cfg(not(target_os = "linux"))]
use self::fallback as system;
#[cfg(target_os = "linux")]
use self::linux as system;
#[cfg(not(target_os = "linux"))]
pub(crate) use self::process_state_fallback as process_state;

/// Whether tasks can run in separate processes on this system.
pub(crate) const HAS_ZYGOTE: bool = system::HAS_ZYGOTE;

/// The name of this host, or `unknown`.
#[must_use]
pub(crate) fn host() -> String {
    nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .unwrap_or_else(|| "unknown".into())
}

/// The CPU time that a process has used, to a hundredth of a second; `None` if the process is gone.
pub(crate) fn cpu_time(pid: i32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The process name, which comes before, may contain spaces.
    let (_, fields) = text.rsplit_once(')')?;
    let ticks: u64 =
        fields.split_ascii_whitespace().skip(11).take(2).map(|field| field.parse().unwrap_or(0)).sum();
    let ticks_per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    Some(Duration::from_millis(ticks * 1000 / u64::try_from(ticks_per_second).ok()?.max(1)))
}
