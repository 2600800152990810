//! What may a process use? Asked of the kernel by the process itself, before it runs a task.

use std::fs;
use std::io;

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};

use crate::isolation::Limits;

/// The limits that can be lifted again, as they were before any was set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usual {
    address_space: u64,
    open_files: u64,
    cpu_seconds: u64,
}

impl Usual {
    /// Those of now.
    pub(crate) fn now() -> nix::Result<Self> {
        let soft = |resource| getrlimit(resource).map(|(soft, _)| soft);
        Ok(Self {
            address_space: soft(Resource::RLIMIT_AS)?,
            open_files: soft(Resource::RLIMIT_NOFILE)?,
            cpu_seconds: soft(Resource::RLIMIT_CPU)?,
        })
    }
}

/// Sets the limits that can be lifted again: address space, open files, CPU time from now on. None is as usual.
pub(crate) fn set_liftable(limits: &Limits, usual: &Usual) -> nix::Result<()> {
    let cpu_seconds = limits.cpu_seconds.map(|seconds| cpu_seconds_used().saturating_add(seconds));
    set_soft(Resource::RLIMIT_AS, limits.address_space.unwrap_or(usual.address_space))?;
    set_soft(Resource::RLIMIT_NOFILE, limits.open_files.unwrap_or(usual.open_files))?;
    set_soft(Resource::RLIMIT_CPU, cpu_seconds.unwrap_or(usual.cpu_seconds))
}

/// Sets what lasts as long as the process.
///
/// # Errors
/// Which one the kernel refused, and why.
pub(crate) fn set_lasting(limits: &Limits) -> Result<(), String> {
    let refused = |what: &str, error: nix::Error| format!("{what}: the kernel refuses it ({})", error.desc());
    let network = limits.private_network == Some(true);
    let mounts = limits.private_mounts == Some(true);
    if network || mounts {
        let mut flags = CloneFlags::empty();
        flags.set(CloneFlags::CLONE_NEWNET, network);
        flags.set(CloneFlags::CLONE_NEWNS, mounts);
        let name = match (network, mounts) {
            (true, true) => "private_network and private_mounts",
            (true, false) => "private_network",
            (false, _) => "private_mounts",
        };
        enter(flags).map_err(|error| refused(name, error))?;
        if mounts {
            make_mounts_private().map_err(|error| refused("private_mounts", error))?;
        }
        if network {
            bring_up_loopback().map_err(|error| refused("private_network", error))?;
        }
    }
    if limits.no_new_privileges == Some(true) {
        prctl::set_no_new_privs().map_err(|error| refused("no_new_privileges", error))?;
    }
    if let Some(nice) = limits.nice {
        add_nice(nice).map_err(|error| refused("nice", error))?;
    }
    Ok(())
}

fn set_soft(resource: Resource, limit: u64) -> nix::Result<()> {
    let (soft, hard) = getrlimit(resource)?;
    let wanted = limit.min(hard);
    if wanted == soft { Ok(()) } else { setrlimit(resource, wanted, hard) }
}

/// The CPU time that this process has used, in seconds, rounded up.
fn cpu_seconds_used() -> u64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return 0 };
    let (user, system) = (usage.user_time(), usage.system_time());
    let seconds = user.tv_sec() + system.tv_sec();
    let microseconds = user.tv_usec() + system.tv_usec();
    u64::try_from(seconds).unwrap_or(0) + u64::try_from(microseconds).unwrap_or(0).div_ceil(1_000_000)
}

/// Enters new namespaces; without the privilege for it, in a user namespace of its own.
fn enter(flags: CloneFlags) -> nix::Result<()> {
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    match unshare(flags) {
        Err(nix::Error::EPERM) => {}
        other => return other,
    }
    unshare(flags | CloneFlags::CLONE_NEWUSER)?;
    // The same names for the user inside and outside.
    let map = |file: &str, text: String| fs::write(format!("/proc/self/{file}"), text);
    map("setgroups", "deny".into())
        .and_then(|()| map("uid_map", format!("{user} {user} 1")))
        .and_then(|()| map("gid_map", format!("{group} {group} 1")))
        .map_err(errno)
}

fn make_mounts_private() -> nix::Result<()> {
    use nix::mount::{MsFlags, mount};
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
}

/// A new network has a loopback that is down.
#[expect(unsafe_code, reason = "ioctl SIOCSIFFLAGS")]
fn bring_up_loopback() -> nix::Result<()> {
    use std::os::fd::AsRawFd;
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").map_err(errno)?;
    // SAFETY: All-zero bytes are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: The request lives through the call, and its name ends in a zero.
    nix::Error::result(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut request) })
        .map(drop)
}

#[expect(unsafe_code, reason = "nice")]
fn add_nice(nice: i32) -> nix::Result<()> {
    nix::Error::clear();
    // SAFETY: `nice` has no preconditions. It may answer -1 without an error, which `errno` tells.
    if unsafe { libc::nice(nice) } == -1 && nix::Error::last_raw() != 0 {
        return Err(nix::Error::last());
    }
    Ok(())
}

fn errno(error: io::Error) -> nix::Error {
    nix::Error::from_raw(error.raw_os_error().unwrap_or(libc::EINVAL))
}
