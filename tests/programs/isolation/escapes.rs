//! Tasks that change what their process is to others: its group, its signals, its program.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use delayed::Context;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, killpg, sigprocmask};
use nix::unistd::{Pid, getpgrp, setpgid};

use super::{hang, note};

/// Goes over into a group that a child of its own leads.
#[allow(clippy::zombie_processes, reason = "it is left to whoever cleans up after the task")]
fn leave_group() {
    let mut sleep = Command::new("sleep");
    sleep.arg("1010").process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let leader = sleep.spawn().expect("a program can be started");
    let leader = Pid::from_raw(leader.id().cast_signed());
    setpgid(Pid::from_raw(0), leader).expect("a process may join a group of its session");
}

#[delayed::task(name = "isolation.leaves_group")]
fn leaves_group(n: String) {
    leave_group();
    note(&n);
    hang()
}

/// Hears that it should end, in another group than it was made in.
#[delayed::task(name = "isolation.leaves_group_and_hears")]
async fn leaves_group_and_hears(n: String, ctx: Context) {
    leave_group();
    note(&format!("+{n}"));
    ctx.cancelled().await;
    note(&format!("-{n}"));
}

/// Does not want to die with its parent either.
#[delayed::task(name = "isolation.cuts_loose")]
fn cuts_loose(n: String) {
    prctl::set_pdeathsig(None::<Signal>).expect("a process may outlive its parent");
    leave_group();
    note(&n);
    hang()
}

#[delayed::task(name = "isolation.blocks_signals")]
fn blocks_signals(n: String) {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None).expect("a process may block signals");
    note(&n);
    hang()
}

#[delayed::task(name = "isolation.stops_group")]
fn stops_group(n: String) {
    note(&n);
    killpg(getpgrp(), Signal::SIGSTOP).expect("a process may stop its group");
    hang()
}

/// Becomes a shell that runs this.
#[delayed::task(name = "isolation.becomes")]
fn becomes(n: String, script: String) -> std::io::Result<()> {
    note(&n);
    Err(Command::new("sh").args(["-c", &script]).exec())
}

/// A thread of its own panics while another one still works.
#[delayed::task(name = "isolation.panics_in_thread")]
fn panics_in_thread(n: String) {
    note(&n);
    std::thread::spawn(|| hang());
    let joined = std::thread::spawn(|| panic!("a thread of the task's")).join();
    assert!(joined.is_err(), "it panicked");
}
