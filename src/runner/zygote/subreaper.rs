//! The subreaper: the parent of the zygote, which waits for its end and kills what it left behind.

use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use crate::runner::child::ChildEnvironment;
use crate::runner::zygote::server;
use crate::sys::fork::{SingleThreaded, children, exit_now, name_process};
use crate::sys::signals::{adopt_orphans, block_all, die_with, kill_process, restore_defaults};
use crate::sys::wait::{Ended, peek_ended, reap};
use crate::sys::{descriptors, packets};

/// Forks the zygote, waits for its end, and kills what it left behind.
pub(super) fn run(alone: SingleThreaded, worker: Pid, control: OwnedFd, environment: ChildEnvironment) -> ! {
    name_process(c"delayed-reaper");
    restore_defaults();
    let prepared = block_all().and_then(|()| adopt_orphans()).and_then(|()| die_with(worker));
    // Of the worker's descriptors, only the standard streams stay open.
    let kept = prepared.and_then(|()| descriptors::keep_only(vec![control]));
    let Some(control) = kept.ok().and_then(|mut kept| kept.pop()) else { exit_now(1) };
    // The zygote sees the end of this when the subreaper is killed.
    let Ok((lifeline, held)) = packets::pair() else { exit_now(1) };
    // Thread-local values are copies of those of the program's first thread. No child must find them.
    let forked = alone.fork_untouched(move |alone| {
        let kept = descriptors::keep_only(vec![control, lifeline]).map(<[OwnedFd; 2]>::try_from);
        let Ok(Ok([control, lifeline])) = kept else { exit_now(1) };
        server::run(alone, control, lifeline, environment)
    });
    let (Ok(zygote), Ok(_held)) = (forked, descriptors::keep_only(vec![held])) else { exit_now(1) };
    while waitpid(zygote, None) == Err(nix::Error::EINTR) {}
    sweep();
    exit_now(0)
}

/// Kills all children, also those that come as orphans, until none is left.
pub(super) fn sweep() {
    for round in 0_u32.. {
        match children() {
            Ok(pids) => pids.into_iter().for_each(kill_process),
            // Without /proc nothing can be done.
            Err(_) => return,
        }
        loop {
            match peek_ended() {
                Ended::One(pid) => drop(reap(pid)),
                Ended::NoneYet => break,
                Ended::NoChildren => return,
            }
        }
        if round > 10_000 {
            return;
        }
        thread::sleep(Duration::from_micros(500));
    }
}
