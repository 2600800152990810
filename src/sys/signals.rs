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

/// Blocks all signals, which then stay pending. Children start with all signals blocked.
pub(crate) fn block_all() -> nix::Result<()> {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)
}

/// Unblocks all signals.
pub(crate) fn unblock_all() -> nix::Result<()> {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
}

/// Resets every signal to its disposition in a newly started Rust program: SIGPIPE is ignored, and all others have their
/// default action.
#[expect(unsafe_code, reason = "sigaction")]
pub(crate) fn restore_defaults() {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    for signal in Signal::iterator() {
        let action = if signal == Signal::SIGPIPE { &ignore } else { &default };
        // SIGKILL and SIGSTOP cannot be changed, which is fine.
        // SAFETY: No handler is installed that could run code.
        let _ = unsafe { sigaction(signal, action) };
    }
}

/// Asks for SIGKILL when the thread that forked this process ends.
///
/// # Errors
/// The parent has already exited: the parent is not `parent` any more.
pub(crate) fn die_with(parent: Pid) -> nix::Result<()> {
    system::die_with_parent(Signal::SIGKILL)?;
    if nix::unistd::getppid() == parent { Ok(()) } else { Err(nix::Error::ESRCH) }
}

/// Makes orphans among the descendants of this process its own children.
pub(crate) fn adopt_orphans() -> nix::Result<()> {
    system::adopt_orphans()
}

/// Sends a signal to a group leader and to its whole group. The leader may have joined another group, and the group may be
/// empty.
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

/// The descriptor to which the SIGTERM handler writes.
static TERM_PIPE: AtomicI32 = AtomicI32::new(-1);

extern "C" fn on_term(_: libc::c_int) {
    let pipe: RawFd = TERM_PIPE.load(Ordering::Relaxed);
    tell(pipe);
}

#[expect(unsafe_code, reason = "write, in a signal handler")]
fn tell(pipe: RawFd) {
    // `write` may change `errno`, which is restored.
    let saved = Errno::last_raw();
    // SAFETY: `write` may be called in a signal handler, and the byte is static.
    unsafe { libc::write(pipe, [1_u8].as_ptr().cast(), 1) };
    Errno::set_raw(saved);
}

/// From now on, SIGTERM does not end the process, but writes a byte to `pipe`, which should be nonblocking.
pub(crate) fn on_term_write(pipe: OwnedFd) -> nix::Result<()> {
    // A previous pipe stays open, because a handler may be using it.
    TERM_PIPE.store(pipe.into_raw_fd(), Ordering::Relaxed);
    hear_term()
}

/// Restores the handler of SIGTERM that [`on_term_write`] installed.
#[expect(unsafe_code, reason = "sigaction")]
pub(crate) fn hear_term() -> nix::Result<()> {
    let action = SigAction::new(SigHandler::Handler(on_term), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: The handler only calls `write`, and only accesses an atomic number and `errno`.
    unsafe { sigaction(Signal::SIGTERM, &action) }.map(drop)
}

/// Makes SIGTERM end the process again.
#[expect(unsafe_code, reason = "sigaction")]
pub(crate) fn obey_term() -> nix::Result<()> {
    let action = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: No handler is installed.
    unsafe { sigaction(Signal::SIGTERM, &action) }.map(drop)
}
