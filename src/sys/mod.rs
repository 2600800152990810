//! What does the operating system know of us, and what do we ask of it? The only room with `unsafe` in it.

pub(crate) mod descriptors;
pub(crate) mod fork;
pub(crate) mod limits;
pub(crate) mod packets;
pub(crate) mod signals;
pub(crate) mod wait;
pub(crate) mod watched;

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

/// How often the kernel has killed a process for want of memory since it started; none when it does not say.
pub(crate) fn kernel_memory_kills() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/vmstat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}
