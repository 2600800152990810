//! The zygote: forks children on request, signals them, and reports which have ended.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getpid, setpgid};

use crate::isolation::Limits;
use crate::runner::child::{self, ChildEnvironment, ChildParts};
use crate::runner::frame::{Reuse, ZygoteEvent, ZygoteRequest, decode, encode};
use crate::runner::zygote::subreaper::sweep;
use crate::sys::descriptors;
use crate::sys::fork::{Forked, SingleThreaded, children, exit_now, name_process};
use crate::sys::packets::{self, MAX_PACKET};
use crate::sys::signals::{ChildSignals, adopt_orphans, kill_process, signal_group};
use crate::sys::wait::{Ended, peek_ended, reap};

/// The zygote, and its children by number.
///
/// Nothing here or in `child::prepare` may use a randomly seeded thread-local value, as a `HashMap` does, because each
/// child would inherit a copy.
struct ZygoteServer {
    alone: SingleThreaded,
    control: OwnedFd,
    environment: ChildEnvironment,
    by_pid: BTreeMap<i32, u64>,
    by_child: BTreeMap<u64, Pid>,
    buffer: Vec<u8>,
}

/// Serves until the worker or the subreaper is gone. Then kills all children and exits.
pub(super) fn run(
    alone: SingleThreaded,
    control: OwnedFd,
    lifeline: OwnedFd,
    environment: ChildEnvironment,
) -> Infallible {
    name_process(c"delayed-zygote");
    // A process group of its own: signals of a terminal go to the worker's group only.
    let _ = setpgid(Pid::from_raw(0), Pid::from_raw(0));
    let prepared = adopt_orphans()
        .and_then(|()| descriptors::set_blocking(&control))
        .and_then(|()| descriptors::empty_standard_input())
        .and_then(|()| ChildSignals::new());
    let Ok(ended) = prepared else { exit_now(1) };
    let mut server = ZygoteServer {
        alone,
        control,
        environment,
        by_pid: BTreeMap::new(),
        by_child: BTreeMap::new(),
        buffer: vec![0; MAX_PACKET],
    };
    // If this fails, children only take longer.
    let _ = child::prepare(&server.environment, &mut server.buffer);
    loop {
        let (orders, died, gone) = {
            let mut waiting = [
                PollFd::new(server.control.as_fd(), PollFlags::POLLIN),
                PollFd::new(ended.as_fd(), PollFlags::POLLIN),
                PollFd::new(lifeline.as_fd(), PollFlags::POLLIN),
            ];
            // All signals are blocked, so it is not interrupted; an error would be a bug, and ends in the sweep.
            if poll(&mut waiting, PollTimeout::NONE).is_err() {
                break;
            }
            let [orders, died, gone] = waiting.map(|descriptor| descriptor.any().unwrap_or(true));
            (orders, died, gone)
        };
        if gone {
            break;
        }
        if died {
            ended.clear();
            server.reap_all();
        }
        if orders && !server.obey() {
            break;
        }
    }
    server.by_child.values().for_each(|child| signal_group(*child, Signal::SIGKILL));
    sweep();
    exit_now(0)
}

impl ZygoteServer {
    /// Carries out one request. False if the worker is gone.
    fn obey(&mut self) -> bool {
        let Ok(packet) = packets::receive(&self.control, &mut self.buffer) else { return false };
        if packet.length == 0 {
            return false;
        }
        match decode(&self.buffer[..packet.length]) {
            Some(ZygoteRequest::Fork { child, lasting, reuse }) => {
                let Ok(descriptors) = <[OwnedFd; 3]>::try_from(packet.descriptors) else { return false };
                self.fork(child, lasting, reuse, descriptors)
            }
            Some(ZygoteRequest::Signal { child, signal }) => {
                // Children that have ended are removed, so no other process can get the signal.
                if let (Some(pid), Ok(signal)) = (self.by_child.get(&child), Signal::try_from(signal)) {
                    signal_group(*pid, signal);
                }
                true
            }
            None => false,
        }
    }

    fn fork(&mut self, child: u64, lasting: Limits, reuse: Reuse, descriptors: [OwnedFd; 3]) -> bool {
        let zygote = getpid();
        match self.alone.fork() {
            Ok(Forked::Child) => {
                let [requests, reports, output] = descriptors;
                let buffer = std::mem::take(&mut self.buffer);
                child::run(
                    &self.environment,
                    ChildParts { zygote, requests, reports, output, buffer, lasting, reuse },
                )
            }
            Ok(Forked::Parent(pid)) => {
                // Here too, so that a signal to the group that comes now finds it.
                let _ = setpgid(pid, pid);
                self.by_pid.insert(pid.as_raw(), child);
                self.by_child.insert(child, pid);
                self.report(ZygoteEvent::Forked { child, pid: pid.as_raw() })
            }
            Err(error) => self.report(ZygoteEvent::Refused { child, errno: error as i32 }),
        }
    }

    /// Reaps all children that have ended, and kills what they left behind.
    fn reap_all(&mut self) {
        let mut events = Vec::new();
        let mut reaped = false;
        loop {
            match peek_ended() {
                Ended::NoneYet | Ended::NoChildren => break,
                Ended::One(pid) => {
                    let child = self.by_pid.remove(&pid.as_raw());
                    if child.is_some() {
                        // Before it is reaped: until then no other group can have its number.
                        signal_group(pid, Signal::SIGKILL);
                    }
                    let ended = reap(pid);
                    reaped = true;
                    if let (Some(child), Some((status, used))) = (child, ended) {
                        self.by_child.remove(&child);
                        events.push(ZygoteEvent::Ended { child, status, used });
                    }
                }
            }
        }
        // Also after a stray: the kernel's list of children may have been incomplete while that one died.
        if reaped {
            self.kill_strays();
        }
        for ended in events {
            self.report(ended);
        }
    }

    /// Kills processes that ended children left behind outside of their groups. They are orphans and so became children of the
    /// zygote; those of a living child have that child as their parent.
    fn kill_strays(&mut self) {
        // Each round may make orphans of the children of those that it killed.
        for _ in 0..1000 {
            let strays: Vec<Pid> = children()
                .unwrap_or_default()
                .into_iter()
                .filter(|pid| !self.by_pid.contains_key(&pid.as_raw()))
                .collect();
            if strays.is_empty() {
                return;
            }
            for stray in strays {
                kill_process(stray);
                reap(stray);
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Reports an event. Returns false if the worker is gone.
    fn report(&self, event: ZygoteEvent) -> bool {
        packets::send(&self.control, &encode(&event), &[]).is_ok()
    }
}
