//! The functions of `linux.rs` on other systems. Functions without a counterpart return errors, so tasks run inline there.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::Signal;
use nix::sys::socket::MsgFlags;
use nix::unistd::Pid;

use crate::sys::wait::Ended;

/// Whether a process can have children that run tasks.
pub(super) const HAS_ZYGOTE: bool = false;
pub(super) const NO_SIGNAL: MsgFlags = MsgFlags::empty();
pub(super) const CLOSE_ON_EXEC: MsgFlags = MsgFlags::empty();

pub(super) fn pipe() -> nix::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = nix::unistd::pipe()?;
    for end in [&read, &write] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    Ok((read, write))
}

pub(super) fn packet_sockets() -> nix::Result<(OwnedFd, OwnedFd)> {
    refused()
}

pub(super) fn duplicate_onto(_: RawFd, _: RawFd) -> nix::Result<()> {
    refused()
}

pub(super) fn close_from(_: RawFd) -> bool {
    false
}

pub(super) fn memory_file(_: &CStr) -> nix::Result<File> {
    refused()
}

pub(super) fn name_process(_: &CStr) -> nix::Result<()> {
    refused()
}

pub(super) fn die_with_parent(_: Signal) -> nix::Result<()> {
    refused()
}

pub(super) fn adopt_orphans() -> nix::Result<()> {
    refused()
}

pub(super) fn forbid_new_privileges() -> nix::Result<()> {
    refused()
}

/// Never constructed.
pub(crate) enum ChildSignals {}

impl ChildSignals {
    pub(crate) fn new() -> nix::Result<Self> {
        refused()
    }

    pub(crate) fn clear(&self) {
        match *self {}
    }
}

impl AsFd for ChildSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }
}

pub(super) fn timer(_: Duration) -> nix::Result<OwnedFd> {
    refused()
}

pub(super) fn peek_ended() -> Ended {
    Ended::NoChildren
}

pub(super) fn threads() -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn children() -> io::Result<Vec<Pid>> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(super) fn enter_namespaces(_: bool, _: bool) -> nix::Result<()> {
    refused()
}

pub(super) fn make_mounts_private() -> nix::Result<()> {
    refused()
}

pub(super) fn bring_up_loopback() -> nix::Result<()> {
    refused()
}

fn refused<T>() -> nix::Result<T> {
    Err(nix::Error::ENOSYS)
}
