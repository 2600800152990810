//! Blocks, handles and sends signals.

use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

use nix::errno::Errno;
use nix::sys::signal::{
    SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, kill, killpg, sigaction, sigprocmask,
};
use nix::unistd::{Pid, getpgid};

use crate::sys::system;
pub(crate) use crate::sys::system::ChildSignals;

/// Blocks all signals, which then stay pending. Children begin with all of them blocked.
pub(crate) fn block_all() -> nix::Result<()> {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)
}

/// Blocks none.
pub(crate) fn unblock_all() -> nix::Result<()> {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
}

/// Gives every signal the meaning that it has in a Rust program that has just started: SIGPIPE is ignored, all others
/// do what they do by default.
#[expect(unsafe_code, reason = "sigaction")]
pub(crate) fn restore_defaults() {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    for signal in Signal::iterator() {
        let action = if signal == Signal::SIGPIPE { &ignore } else { &default };
        // SIGKILL and SIGSTOP refuse, which is as well.
        // SAFETY: No handler is installed that could run code.
        let _ = unsafe { sigaction(signal, action) };
    }
}

/// Asks for SIGKILL when the thread that forked this process ends.
///
/// # Errors
/// The parent is gone already: it is not `parent` any more.
pub(crate) fn die_with(parent: Pid) -> nix::Result<()> {
    system::die_with_parent(Signal::SIGKILL)?;
    if nix::unistd::getppid() == parent { Ok(()) } else { Err(nix::Error::ESRCH) }
}

/// Makes orphans among the descendants of this process its own children.
pub(crate) fn adopt_orphans() -> nix::Result<()> {
    system::adopt_orphans()
}

/// Sends a signal to a process that was made the leader of a group, and to all of that group. It may have gone over into
/// another one, and the group may be empty.
pub(crate) fn signal_group(leader: Pid, signal: Signal) {
    let _ = killpg(leader, signal);
    if getpgid(Some(leader)) != Ok(leader) {
        let _ = kill(leader, signal);
    }
}

/// Sends SIGKILL to one process.
pub(crate) fn kill_process(pid: Pid) {
    let _ = kill(pid, Signal::SIGKILL);
}

/// Where the handler of SIGTERM writes.
static TERM_PIPE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn on_term(_: libc::c_int) {
    let pipe: RawFd = TERM_PIPE.load(Ordering::Relaxed);
    tell(pipe);
}

#[expect(unsafe_code, reason = "write, in a signal handler")]
fn tell(pipe: RawFd) {
    // It may change `errno`, which is put back.
    let saved = Errno::last_raw();
    // SAFETY: `write` may be called in a signal handler, and the byte is static.
    unsafe { libc::write(pipe, [1_u8].as_ptr().cast(), 1) };
    Errno::set_raw(saved);
}

/// From now on SIGTERM does not end the process, but writes a byte into `pipe`, which should not block.
pub(crate) fn on_term_write(pipe: OwnedFd) -> nix::Result<()> {
    // The one that was there before, if any, is left open: a handler may be at it.
    TERM_PIPE.store(pipe.into_raw_fd(), Ordering::Relaxed);
    hear_term()
}

/// Restores the handler of SIGTERM that [`on_term_write`] installed.
#[expect(unsafe_code, reason = "sigaction")]
pub(crate) fn hear_term() -> nix::Result<()> {
    let action = SigAction::new(SigHandler::Handler(on_term), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: The handler calls nothing but `write`, and touches nothing but an atomic number and `errno`.
    unsafe { sigaction(Signal::SIGTERM, &action) }.map(drop)
}

/// SIGTERM ends the process again.
#[expect(unsafe_code, reason = "sigaction")]
pub(crate) fn obey_term() -> nix::Result<()> {
    let action = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: No handler is installed.
    unsafe { sigaction(Signal::SIGTERM, &action) }.map(drop)
}
