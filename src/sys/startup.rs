//! Handles signals before a process serves: restores the dispositions on which it relies, whatever its parent left, and
//! ends the process at once if it is told to stop.

use std::sync::atomic::{AtomicI32, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, sigprocmask};
use nix::unistd::getpid;

use crate::sys::fork::exit_now;

/// The signals that stop a serving process.
const STOPS: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
/// SIGTERM, SIGINT and SIGHUP are handled elsewhere.
const LEAVE: i32 = -1;
/// A signal ends this process with 128 plus its number, the exit code that shells use.
const TOOL: i32 = -2;

/// The exit code when a signal ends this process at once, or one of the above.
static CODE: AtomicI32 = AtomicI32::new(LEAVE);

extern "C" fn on_stop(signal: libc::c_int) {
    match CODE.load(Ordering::Relaxed) {
        LEAVE => {}
        TOOL => exit_now(128 + signal),
        code => exit_now(code),
    }
}

/// Prepares this process, which has one thread. Until [`leave_signals`], a serving process that is told to stop ends at
/// once with 0: it owns nothing yet, and everything that it has started ends with it. A tool ends by the default action,
/// except as the first process of a container, for which the kernel has none.
#[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "for `delayed::main()`"))]
#[expect(unsafe_code, reason = "sigaction")]
pub(crate) fn prepare(serves: bool) {
    if is_ignored(Signal::SIGCHLD) {
        let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
        // Otherwise the kernel would not report how a child has ended.
        // SAFETY: No handler is installed.
        let _ = unsafe { sigaction(Signal::SIGCHLD, &default) };
    }
    if serves || getpid().as_raw() == 1 {
        CODE.store(if serves { 0 } else { TOOL }, Ordering::Relaxed);
        let action = SigAction::new(SigHandler::Handler(on_stop), SaFlags::SA_RESTART, SigSet::empty());
        for signal in STOPS.into_iter().filter(|signal| hears(*signal)) {
            // SAFETY: The handler calls nothing but `_exit`, and touches nothing but an atomic number.
            let _ = unsafe { sigaction(signal, &action) };
        }
    }
    // Pending signals are delivered now. The mask comes from the parent, which may have forgotten to empty it.
    let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None);
}

/// From now on, SIGTERM, SIGINT and SIGHUP are handled elsewhere.
pub(crate) fn leave_signals() {
    CODE.store(LEAVE, Ordering::Relaxed);
}

/// From now on, these signals end this process at once, because it has served and nothing handles them any more.
#[cfg_attr(not(feature = "cli"), expect(dead_code, reason = "for `delayed::main()`"))]
pub(crate) fn take_signals_back() {
    CODE.store(0, Ordering::Relaxed);
}

/// Whether a worker handles this signal. A signal that the parent ignores stays ignored, like SIGHUP under `nohup` and SIGINT in
/// a background job, except SIGTERM, by which a supervisor ends a worker.
pub(crate) fn hears(signal: Signal) -> bool {
    signal == Signal::SIGTERM || !is_ignored(signal)
}

/// Unblocks these signals for the calling thread; its parent may have blocked them.
pub(crate) fn unblock(signals: &[Signal]) {
    let mut set = SigSet::empty();
    signals.iter().for_each(|signal| set.add(*signal));
    let _ = set.thread_unblock();
}

#[expect(unsafe_code, reason = "sigaction that changes nothing")]
fn is_ignored(signal: Signal) -> bool {
    // SAFETY: All-zero bytes are a valid `sigaction`; the struct lives through the call, which writes it.
    let found = unsafe {
        let mut found: libc::sigaction = std::mem::zeroed();
        let told = libc::sigaction(signal as libc::c_int, std::ptr::null(), &raw mut found);
        (told == 0).then_some(found.sa_sigaction)
    };
    found == Some(libc::SIG_IGN)
}

/// Whether this process is in the foreground of a terminal, where Ctrl-Z sends SIGTSTP.
#[expect(unsafe_code, reason = "tcgetpgrp and getpgrp")]
pub(crate) fn is_in_foreground() -> bool {
    use std::os::fd::AsRawFd;
    let Ok(terminal) = std::fs::File::open("/dev/tty") else { return false };
    // SAFETY: The descriptor is open during the call; neither call accesses memory of this process.
    unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) == libc::getpgrp() }
}

/// Suspends this process as SIGTSTP does by default, until SIGCONT.
#[expect(unsafe_code, reason = "sigaction and raise")]
pub(crate) fn stop_until_continued() {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: No handler is installed, and the previous one is the responsibility of the code that installed it.
    unsafe {
        if let Ok(before) = sigaction(Signal::SIGTSTP, &default) {
            libc::raise(libc::SIGTSTP);
            let _ = sigaction(Signal::SIGTSTP, &before);
        }
    }
}
