//! What does the operating system know of us, and what do we ask of it? The only room with `unsafe` in it.

pub(crate) mod descriptors;
pub(crate) mod fork;
pub(crate) mod limits;
pub(crate) mod memory_kills;
pub(crate) mod packets;
pub(crate) mod signals;
pub(crate) mod timer;
pub(crate) mod wait;
pub(crate) mod watched;

use std::time::Duration;

/// The name of this host, or `unknown`.
#[must_use]
pub(crate) fn host() -> String {
    nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .unwrap_or_else(|| "unknown".into())
}

/// The size of a page in bytes.
pub(crate) fn page_size() -> u64 {
    nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .and_then(|size| u64::try_from(size).ok())
        .unwrap_or(4096)
}

/// The resident memory of a process in bytes; none when it is gone.
pub(crate) fn resident_memory(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_size())
}

/// The CPU time that a process has used, to a hundredth of a second; none when it is gone.
pub(crate) fn cpu_time(pid: i32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Its name, which comes before, may have spaces in it.
    let (_, fields) = text.rsplit_once(')')?;
    let ticks: u64 =
        fields.split_ascii_whitespace().skip(11).take(2).map(|field| field.parse().unwrap_or(0)).sum();
    let ticks_per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    Some(Duration::from_millis(ticks * 1000 / u64::try_from(ticks_per_second).ok()?.max(1)))
}
