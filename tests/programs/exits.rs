//! Tasks that end the process in which they run, or one that they have forked.

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::ForkResult;

use super::trials::note;

#[delayed::task(name = "exits.blocking")]
fn blocking(n: String) {
    note(&n);
    std::process::exit(0)
}

#[delayed::task(name = "exits.async")]
async fn asynchronous(n: String) {
    note(&n);
    std::process::exit(0)
}

/// After it has waited for something.
#[delayed::task(name = "exits.later")]
async fn later(n: String) {
    note(&n);
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    std::process::exit(0)
}

/// By a thread that it has started.
#[delayed::task(name = "exits.thread")]
fn thread(n: String) {
    note(&n);
    let thread = std::thread::spawn(|| std::process::exit(0));
    let _ = thread.join();
}

/// As a library in C does.
#[delayed::task(name = "exits.libc")]
#[allow(unsafe_code, reason = "exit")]
fn by_libc(n: String) {
    note(&n);
    // SAFETY: it runs the exit handlers, which is what is tried.
    unsafe { nix::libc::exit(0) }
}

/// Exits a process that it has forked.
#[delayed::task(name = "exits.forked")]
#[allow(unsafe_code, reason = "fork and exit")]
fn forked(n: String) {
    // SAFETY: the child does nothing but exit.
    let child = match unsafe { nix::unistd::fork() }.expect("a process can be forked") {
        ForkResult::Child => unsafe { nix::libc::exit(7) },
        ForkResult::Parent { child } => child,
    };
    let code = match waitpid(child, None) {
        Ok(WaitStatus::Exited(_, code)) => code,
        other => panic!("expected an exit: {other:?}"),
    };
    note(&format!("{n} {code}"));
}
