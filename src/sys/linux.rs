//! Linux features beyond POSIX that child processes need. `fallback.rs` has the same functions for other systems.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sched::{CloneFlags, unshare};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, socketpair};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::sys::wait::Ended;

/// Whether a process can have children that run tasks.
pub(super) const HAS_ZYGOTE: bool = true;
/// Flag for `send`: a closed socket is an error and not a signal.
pub(super) const NO_SIGNAL: MsgFlags = MsgFlags::MSG_NOSIGNAL;
/// Flag for `receive`: received descriptors are not inherited by executed programs.
pub(super) const CLOSE_ON_EXEC: MsgFlags = MsgFlags::MSG_CMSG_CLOEXEC;

/// Creates a pipe whose ends are not inherited by executed programs.
pub(super) fn pipe() -> nix::Result<(OwnedFd, OwnedFd)> {
    nix::unistd::pipe2(OFlag::O_CLOEXEC)
}

/// Creates two connected sockets that keep packet boundaries, are nonblocking, and are not inherited.
pub(super) fn packet_sockets() -> nix::Result<(OwnedFd, OwnedFd)> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)
}

/// Makes the descriptor `to` a copy of `from` that is not inherited. The previous `to` must have no owner.
#[expect(unsafe_code, reason = "dup3")]
pub(super) fn duplicate_onto(from: RawFd, to: RawFd) -> nix::Result<()> {
    // SAFETY: Both are numbers. The caller ensures that the overwritten descriptor is never used again.
    nix::Error::result(unsafe { libc::dup3(from, to, libc::O_CLOEXEC) }).map(drop)
}

/// Closes all descriptors from `first` on, regardless of their owners. Returns whether the kernel has this call.
#[expect(unsafe_code, reason = "close_range")]
pub(super) fn close_from(first: RawFd) -> bool {
    let Ok(first) = libc::c_uint::try_from(first) else { return false };
    // SAFETY: The caller ensures that no closed descriptor is used again.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) };
    closed == 0
}

/// Creates an empty unnamed file in memory.
pub(super) fn memory_file(name: &CStr) -> nix::Result<File> {
    memfd_create(name, MFdFlags::MFD_CLOEXEC).map(File::from)
}

pub(super) fn name_process(name: &CStr) -> nix::Result<()> {
    prctl::set_name(name)
}

/// Asks for a signal when the thread that forked this process ends.
pub(super) fn die_with_parent(signal: Signal) -> nix::Result<()> {
    prctl::set_pdeathsig(signal)
}

/// Makes orphans among the descendants of this process its own children.
pub(super) fn adopt_orphans() -> nix::Result<()> {
    prctl::set_child_subreaper(true)
}

pub(super) fn forbid_new_privileges() -> nix::Result<()> {
    prctl::set_no_new_privs()
}

/// Notifications of ended children, as a descriptor that becomes readable.
pub(crate) struct ChildSignals(SignalFd);

impl ChildSignals {
    /// SIGCHLD must be blocked.
    pub(crate) fn new() -> nix::Result<Self> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).map(Self)
    }

    /// Takes all pending signals.
    pub(crate) fn clear(&self) {
        while let Ok(Some(_)) = self.0.read_signal() {}
    }
}

impl AsFd for ChildSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Creates a nonblocking descriptor that becomes readable after this time.
pub(super) fn timer(after: Duration) -> nix::Result<OwnedFd> {
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC)?;
    timer.set(Expiration::OneShot(TimeSpec::from_duration(after)), TimerSetTimeFlags::empty())?;
    Ok(timer.into())
}

/// Checks for a child that has ended, without reaping it.
pub(super) fn peek_ended() -> Ended {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    loop {
        return match waitid(Id::All, flags) {
            Ok(WaitStatus::StillAlive) => Ended::NoneYet,
            Ok(status) => status.pid().map_or(Ended::NoneYet, Ended::One),
            Err(nix::Error::EINTR) => continue,
            Err(_) => Ended::NoChildren,
        };
    }
}

/// The number of threads of this process.
pub(super) fn threads() -> io::Result<usize> {
    fs::read_dir("/proc/self/task").map(Iterator::count)
}

/// The children of this process, including zombies, for a process with one thread.
pub(super) fn children() -> io::Result<Vec<Pid>> {
    let text = fs::read_to_string("/proc/thread-self/children")?;
    Ok(text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw).collect())
}

/// Enters new namespaces of these kinds; without the privilege for it, in a user namespace of its own.
pub(super) fn enter_namespaces(network: bool, mounts: bool) -> nix::Result<()> {
    let mut flags = CloneFlags::empty();
    flags.set(CloneFlags::CLONE_NEWNET, network);
    flags.set(CloneFlags::CLONE_NEWNS, mounts);
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    match unshare(flags) {
        Err(nix::Error::EPERM) => {}
        other => return other,
    }
    unshare(flags | CloneFlags::CLONE_NEWUSER)?;
    // The user has the same ids inside and outside.
    let map = |file: &str, text: String| fs::write(format!("/proc/self/{file}"), text);
    map("setgroups", "deny".into())
        .and_then(|()| map("uid_map", format!("{user} {user} 1")))
        .and_then(|()| map("gid_map", format!("{group} {group} 1")))
        .map_err(errno)
}

pub(super) fn make_mounts_private() -> nix::Result<()> {
    use nix::mount::{MsFlags, mount};
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
}

/// Brings up the loopback interface, which is down in a new network namespace.
#[expect(unsafe_code, reason = "ioctl SIOCSIFFLAGS")]
pub(super) fn bring_up_loopback() -> nix::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").map_err(errno)?;
    // SAFETY: All-zero bytes are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // The constant has the same type in glibc and in musl, but the parameter does not.
    let set_flags = libc::SIOCSIFFLAGS as libc::Ioctl;
    // SAFETY: The request outlives the call, and its name ends in a zero.
    nix::Error::result(unsafe { libc::ioctl(socket.as_raw_fd(), set_flags, &raw mut request) }).map(drop)
}

fn errno(error: io::Error) -> nix::Error {
    nix::Error::from_raw(error.raw_os_error().unwrap_or(libc::EINVAL))
}
