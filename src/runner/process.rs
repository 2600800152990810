//! A child process: delivers its reports, its output, and the zygote's events about it, in order.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use futures_util::FutureExt;
use nix::sys::signal::Signal;
use nix::unistd::read;
use tokio::io::Interest;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::isolation::Limits;
use crate::runner::frame::{Answer, MAX_REPORT, Report, Request, Reuse, ZygoteEvent, decode};
use crate::runner::link::Link;
use crate::runner::output::Output;
use crate::sys::async_descriptor::AsyncDescriptor;
use crate::sys::descriptors::{self, read_file};
use crate::sys::packets::{self, MAX_PACKET, Packet};
use crate::sys::wait::{ResourceUsage, Status};

/// How many bytes of output are read at a time.
const READ: usize = 8 << 10;

/// Both ends of the socket for a child's requests. The worker keeps the child's end too, to take back unread requests.
pub(super) struct Requests {
    ours: OwnedFd,
    theirs: OwnedFd,
}

impl Requests {
    /// Sends a request. False if the socket is full of unread ones.
    pub(super) fn send(&self, packet: &[u8], file: Option<&File>) -> nix::Result<bool> {
        let descriptors: Vec<_> = file.map(AsRawFd::as_raw_fd).into_iter().collect();
        match packets::send(&self.ours, packet, &descriptors) {
            Err(nix::Error::EAGAIN) => Ok(false),
            sent => sent.map(|()| true),
        }
    }

    /// Takes back all unread requests. Returns their runs.
    pub(super) fn unread(&self) -> HashSet<u64> {
        let mut buffer = vec![0; MAX_PACKET];
        let mut unread = HashSet::new();
        while let Some(packet) = self.take_back(&mut buffer) {
            unread.extend(decode::<Request<'_>>(packet).map(|request| request.run));
        }
        unread
    }

    /// Takes back one unread request; `None` if there is none.
    fn take_back<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
        let packet = packets::receive_now(&self.theirs, buffer).ok()?;
        (packet.length > 0).then_some(&buffer[..packet.length])
    }
}

/// A child, as its worker sees it. Dropping it kills the child.
pub(super) struct Process {
    child: u64,
    link: Link,
    reports: AsyncDescriptor,
    output: AsyncDescriptor,
    zygote_events: UnboundedReceiver<ZygoteEvent>,
    pid: i32,
    written: Output,
    buffer: Vec<u8>,
    piece: Vec<u8>,
    /// Events that were received but not returned yet.
    pending: VecDeque<Event>,
    hung_up: bool,
    silent: bool,
    ended: bool,
}

/// An event of a child.
#[derive(Debug)]
pub(super) enum Event {
    /// It sent a report.
    Report(Report),
    /// It sent something that is no report.
    Garbage,
    /// It closed its reports connection, and may still be alive.
    HungUp,
    /// It has written output.
    Wrote,
    /// It could not be forked; the error number.
    Refused(i32),
    /// It has ended. All of its reports were returned before.
    Ended(Status, ResourceUsage),
    /// The zygote is dead, and the child with it.
    Orphaned,
}

impl Process {
    /// Forks a child.
    ///
    /// # Errors
    /// There are no more descriptors, or the zygote is dead.
    pub(super) async fn fork(link: &Link, lasting: Limits, reuse: Reuse) -> io::Result<(Self, Requests)> {
        let (requests, their_requests) = packets::pair()?;
        let (reports, their_reports) = packets::pair()?;
        let (output, their_output) = descriptors::pipe()?;
        for end in [&their_requests, &their_reports] {
            descriptors::set_blocking(end)?;
        }
        let reports = AsyncDescriptor::new(reports, Interest::READABLE)?;
        let output = AsyncDescriptor::new(output, Interest::READABLE)?;
        let theirs = [their_requests.as_raw_fd(), their_reports.as_raw_fd(), their_output.as_raw_fd()];
        let (child, zygote_events) = link.fork(lasting, reuse, theirs).await?;
        let process = Self {
            child,
            link: link.clone(),
            reports,
            output,
            zygote_events,
            pid: 0,
            written: Output::default(),
            buffer: vec![0; MAX_REPORT],
            piece: vec![0; READ],
            pending: VecDeque::new(),
            hung_up: false,
            silent: false,
            ended: false,
        };
        Ok((process, Requests { ours: requests, theirs: their_requests }))
    }

    /// Whether it is alive, as far as is known, and can get its first run.
    pub(super) fn waits(&mut self) -> bool {
        while let Ok(event) = self.zygote_events.try_recv() {
            let event = self.learn(Some(event));
            self.pending.extend(event);
        }
        !self.ended
    }

    /// Its process id; 0 until it is known.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Sends a signal to its group.
    pub(super) fn signal(&self, signal: Signal) {
        if !self.ended {
            self.link.signal(self.child, signal);
        }
    }

    /// Its output in this run.
    pub(super) fn written(&mut self) -> &mut Output {
        &mut self.written
    }

    /// Reads its unread output. The report of a run comes after the output of the run.
    pub(super) fn drain_output(&mut self) {
        // At most the contents of a pipe: this does not wait for a process that keeps writing.
        for _ in 0..64 {
            match read(self.output.as_fd(), &mut self.piece) {
                Ok(length) if length > 0 && !self.silent => self.written.push(&self.piece[..length]),
                _ => return,
            }
        }
    }

    /// Reads the output up to the mark of an ended run.
    pub(super) fn read_to_mark(&mut self) {
        // The mark was written before the end was reported, so if a read finds nothing, there is no mark.
        while !self.written.is_marked() && !self.silent {
            match read(self.output.as_fd(), &mut self.piece) {
                Ok(length) if length > 0 => self.written.push(&self.piece[..length]),
                _ => return,
            }
        }
    }

    /// Reads some output. Reports that have arrived come first, because the output of another run may follow them.
    fn read_output(&mut self) -> Option<Event> {
        if !self.hung_up {
            let received = packets::receive_now(&self.reports, &mut self.buffer);
            if !matches!(received, Err(nix::Error::EAGAIN)) {
                return Some(self.understand(received.map_err(io::Error::from)));
            }
        }
        match read_piece(&self.output, &mut self.piece).now_or_never()? {
            Ok(length) if length > 0 => self.written.push(&self.piece[..length]),
            _ => self.silent = true,
        }
        Some(Event::Wrote)
    }

    /// Returns an event to the front: [`Self::next`] returns it again.
    pub(super) fn push_front(&mut self, event: Event) {
        self.pending.push_front(event);
    }

    /// Waits for the next event. Cancel-safe.
    ///
    /// Until its process id is known, which takes no time, no event is returned that would be logged without the id.
    pub(super) async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return event;
            }
            tokio::select! {
                packet = receive(&self.reports, &mut self.buffer), if !self.hung_up && self.pid != 0 => {
                    return self.understand(packet);
                }
                () = self.output.readable(), if !self.silent && self.pid != 0 => {
                    if let Some(event) = self.read_output() {
                        return event;
                    }
                }
                event = self.zygote_events.recv(), if !self.ended => {
                    if let Some(event) = self.learn(event) {
                        self.pending.push_back(event);
                    }
                }
                else => return Event::Orphaned,
            }
        }
    }

    fn understand(&mut self, packet: io::Result<Packet>) -> Event {
        match packet {
            Ok(packet) if packet.length == 0 => {
                self.hung_up = true;
                Event::HungUp
            }
            Err(_) => {
                self.hung_up = true;
                Event::HungUp
            }
            Ok(packet) if packet.is_cut => Event::Garbage,
            Ok(packet) => {
                let report = decode::<Report>(&self.buffer[..packet.length]);
                report.and_then(|report| with_file(report, packet)).map_or(Event::Garbage, Event::Report)
            }
        }
    }

    fn learn(&mut self, event: Option<ZygoteEvent>) -> Option<Event> {
        match event {
            Some(ZygoteEvent::Forked { pid, .. }) => {
                self.pid = pid;
                None
            }
            Some(ZygoteEvent::Refused { errno, .. }) => {
                self.ended = true;
                Some(Event::Refused(errno))
            }
            Some(ZygoteEvent::Ended { status, used, .. }) => {
                self.ended = true;
                self.read_last();
                Some(Event::Ended(status, used))
            }
            None => {
                self.ended = true;
                self.read_last();
                Some(Event::Orphaned)
            }
        }
    }

    /// Reads the reports that it sent before it ended; they come first.
    fn read_last(&mut self) {
        while !self.hung_up {
            let received = packets::receive_now(&self.reports, &mut self.buffer);
            if matches!(received, Err(nix::Error::EAGAIN)) {
                break;
            }
            let event = self.understand(received.map_err(io::Error::from));
            if !matches!(event, Event::HungUp) {
                self.pending.push_back(event);
            }
        }
        self.hung_up = true;
        self.drain_output();
        self.silent = true;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        if !self.ended {
            self.link.forget(self.child);
        }
    }
}

/// Adds the result that came in a file beside a report; `None` if the file is missing.
fn with_file(mut report: Report, packet: Packet) -> Option<Report> {
    if let Report::Ended { answer: answer @ Answer::InFile, .. } = &mut report {
        let bytes = read_file(packet.descriptors.into_iter().next()?).ok()?;
        *answer = decode(&bytes)?;
    }
    Some(report)
}

async fn receive(socket: &AsyncDescriptor, buffer: &mut [u8]) -> io::Result<Packet> {
    let receive = |socket: BorrowedFd<'_>| Ok(packets::receive_now(socket, buffer)?);
    socket.when_ready(Interest::READABLE, receive).await
}

async fn read_piece(output: &AsyncDescriptor, piece: &mut [u8]) -> io::Result<usize> {
    output.when_ready(Interest::READABLE, |output| Ok(read(output, piece)?)).await
}
