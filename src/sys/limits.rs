//! Sets the limits of a process. The process asks the kernel for them itself, before it runs a task.

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};

use crate::isolation::Limits;
use crate::sys::{memory, system};

/// The limits that can be lifted again, as they were before any was set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InheritedLimits {
    address_space: u64,
    open_files: u64,
    cpu_seconds: u64,
}

impl InheritedLimits {
    /// The current limits.
    pub(crate) fn now() -> nix::Result<Self> {
        let soft = |resource| getrlimit(resource).map(|(soft, _)| soft);
        Ok(Self {
            address_space: soft(Resource::RLIMIT_AS)?,
            open_files: soft(Resource::RLIMIT_NOFILE)?,
            cpu_seconds: soft(Resource::RLIMIT_CPU)?,
        })
    }
}

/// Sets the limits that can be lifted again: address space and CPU time from now on, open files. `None` restores the inherited limit.
pub(crate) fn set_liftable(limits: &Limits, inherited: &InheritedLimits) -> nix::Result<()> {
    let cpu_seconds = limits.cpu_seconds.map(|seconds| cpu_seconds_used().saturating_add(seconds));
    let address_space = limits.address_space.map(|bytes| memory::address_space().saturating_add(bytes));
    set_soft(Resource::RLIMIT_AS, address_space.unwrap_or(inherited.address_space))?;
    set_soft(Resource::RLIMIT_NOFILE, limits.open_files.unwrap_or(inherited.open_files))?;
    set_soft(Resource::RLIMIT_CPU, cpu_seconds.unwrap_or(inherited.cpu_seconds))
}

/// Sets the limits that last as long as the process.
///
/// # Errors
/// Which limit the kernel refused, and why.
pub(crate) fn set_lasting(limits: &Limits) -> Result<(), String> {
    let refused = |what: &str, error: nix::Error| format!("{what}: the kernel refuses it ({})", error.desc());
    let network = limits.private_network == Some(true);
    let mounts = limits.private_mounts == Some(true);
    if network || mounts {
        let name = match (network, mounts) {
            (true, true) => "private_network and private_mounts",
            (true, false) => "private_network",
            (false, _) => "private_mounts",
        };
        system::enter_namespaces(network, mounts).map_err(|error| refused(name, error))?;
        if mounts {
            system::make_mounts_private().map_err(|error| refused("private_mounts", error))?;
        }
        if network {
            system::bring_up_loopback().map_err(|error| refused("private_network", error))?;
        }
    }
    if limits.no_new_privileges == Some(true) {
        system::forbid_new_privileges().map_err(|error| refused("no_new_privileges", error))?;
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

#[expect(unsafe_code, reason = "nice")]
fn add_nice(nice: i32) -> nix::Result<()> {
    nix::Error::clear();
    // SAFETY: `nice` has no preconditions. It may return -1 without an error; `errno` tells the difference.
    if unsafe { libc::nice(nice) } == -1 && nix::Error::last_raw() != 0 {
        return Err(nix::Error::last());
    }
    Ok(())
}
