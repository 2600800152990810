//! What happens in a child? It is set up, takes one request after another, runs it, reports, and ends.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::unistd::{Pid, getpid, setpgid};

use crate::crash;
use crate::isolation::Limits;
use crate::protocol::message::Message;
use crate::protocol::names::QueueName;
use crate::runner::forward::Forwarder;
use crate::runner::frame::{Answer, MAX_TEXT, Report, Request, Reuse, cut, decode, encode};
use crate::runner::inline::{run_blocking, start};
use crate::runner::outcome::Outcome;
use crate::runner::output::MARK;
use crate::runner::term::Terminator;
use crate::sys::descriptors::OutputPipe;
use crate::sys::fork::{exit_now, name_process};
use crate::sys::limits::{self, Usual};
use crate::sys::packets;
use crate::sys::wait::{Ended, peek_ended};
use crate::sys::{descriptors, resident_memory, signals};
use crate::task::handler::Handler;
use crate::task::{Cancellation, Registration, Registry, Scope, States};

/// With what a child ends that could not be set up, or whose worker is gone.
const UNFIT: i32 = 70;

/// What a child is called, but for one that waits for its only run.
const BUSY: &CStr = c"delayed-child";

/// A message that calls `-`: no path of a task is that.
const NO_CALL: &[u8] = b"\x92\xa1-\x90";

/// What a child finds ready. What the zygote has made, no child has to make.
#[derive(Debug)]
pub(super) struct Household {
    registry: Registry,
    states: Arc<States>,
    forwarder: Forwarder,
}

/// Where a child finds itself.
pub(super) struct Place {
    pub(super) zygote: Pid,
    pub(super) requests: OwnedFd,
    pub(super) reports: OwnedFd,
    pub(super) output: OwnedFd,
    /// Where it can receive a packet.
    pub(super) buffer: Vec<u8>,
    pub(super) lasting: Limits,
    pub(super) reuse: Reuse,
}

/// A child that is set up.
struct Child<'a> {
    household: &'a Household,
    requests: OwnedFd,
    reports: Arc<OwnedFd>,
    output: OutputPipe,
    /// Made when a task first needs it.
    runtime: Option<tokio::runtime::Runtime>,
    terminator: Terminator,
    /// What holds for a task without limits.
    usual: Usual,
    /// What was asked of the kernel last.
    limits: Limits,
}

impl Household {
    /// Takes over what is logged in this process.
    pub(super) fn new(registry: Registry, states: States) -> Self {
        Self { registry, states: Arc::new(states), forwarder: Forwarder::install() }
    }
}

/// Does once in the zygote what would be a first time in each child: what is made then, they find.
pub(super) fn prepare(household: &Household, buffer: &mut [u8]) -> nix::Result<()> {
    let (requests, reports) = packets::pair()?;
    let mut child = Child {
        household,
        requests,
        reports: Arc::new(reports),
        output: OutputPipe::of_standard_output()?,
        runtime: None,
        terminator: Terminator::default(),
        usual: Usual::now()?,
        limits: Limits::NONE,
    };
    child.rehearse(buffer);
    Ok(())
}

/// Serves until its last run, or until the worker is gone.
pub(super) fn run(household: &Household, place: Place) -> ! {
    name_process(if place.reuse.runs == 1 { c"delayed-spare" } else { BUSY });
    let me = Pid::from_raw(0);
    let prepared = setpgid(me, me)
        .and_then(|()| signals::die_with(place.zygote))
        .and_then(|()| signals::adopt_orphans())
        .and_then(|()| descriptors::redirect_output(&place.output))
        .and_then(|()| descriptors::keep_only(vec![place.requests, place.reports]))
        .and_then(|kept| <[OwnedFd; 2]>::try_from(kept).map_err(|_| nix::Error::EBADF))
        .and_then(|kept| kept.iter().try_for_each(descriptors::set_blocking).map(|()| kept))
        .and_then(|kept| signals::unblock_all().map(|()| kept));
    // Owned by nobody any more: it was closed above.
    std::mem::forget(place.output);
    let known = (prepared, OutputPipe::of_standard_output(), Usual::now());
    let (Ok([requests, reports]), Ok(output), Ok(usual)) = known else { exit_now(UNFIT) };
    let reports = Arc::new(reports);
    household.forwarder.connect(Arc::clone(&reports));
    let mut child = Child {
        household,
        requests,
        reports,
        output,
        runtime: None,
        terminator: Terminator::default(),
        usual,
        limits: Limits::NONE,
    };
    let refused = limits::set_lasting(&place.lasting).err();
    child.serve(place.buffer, place.reuse, refused);
    exit_now(0)
}

impl Child<'_> {
    fn serve(&mut self, mut buffer: Vec<u8>, reuse: Reuse, refused: Option<String>) {
        if !packets::is_waiting(&self.requests) {
            self.rehearse(&mut buffer);
        }
        for runs in 1..=reuse.runs {
            let Some((packet, file)) = self.next_request(&mut buffer) else { return };
            if reuse.runs == 1 {
                name_process(BUSY);
            }
            let Some(request) = decode::<Request<'_>>(packet) else { exit_now(UNFIT) };
            let message = match (request.message, file) {
                (Some(message), _) => Ok(std::borrow::Cow::Borrowed(&**message)),
                (None, Some(file)) => descriptors::read_file(file).map(std::borrow::Cow::Owned),
                (None, None) => Err(io::ErrorKind::InvalidData.into()),
            };
            let answer = match (&refused, message) {
                (Some(problem), _) => Answer::Refused { problem: problem.clone() },
                (None, Err(error)) => {
                    Answer::Refused { problem: format!("the message could not be read: {error}") }
                }
                (None, Ok(message)) => self.answer(&request, &message),
            };
            // A line that the task began is in a buffer of this process, which ends without looking, or runs another call.
            descriptors::flush_standard_output();
            let asked = self.terminator.has_fired();
            let retires = runs == reuse.runs
                || refused.is_some()
                || asked
                // Something that this run started lives on. It ends with this process.
                || !matches!(peek_ended(), Ended::NoChildren)
                || reuse.memory.is_some_and(|most| resident_memory(getpid().as_raw()).is_none_or(|now| now > most));
            let marked = !retires && self.output.mark_unread(MARK);
            let report = Report::Ended { run: request.run, answer, retires, asked, marked };
            crash::point("run", "report");
            let is_sent = packets::send(&*self.reports, &encode(&report), &[]).is_ok();
            crash::point("run", "reported");
            if !is_sent {
                return;
            }
            if retires {
                // To end takes a process longer than most of a run: who hears of that goes first.
                std::thread::yield_now();
                return;
            }
        }
    }

    /// Does what a run does around its task. A process that was just forked stops at each page that it touches for the
    /// first time; better now than when somebody waits.
    fn rehearse(&mut self, buffer: &mut [u8]) {
        let message = Some(serde_bytes::Bytes::new(NO_CALL));
        let (queue, limits) = ("rehearsal".into(), Limits::NONE);
        let packet = encode(&Request { run: 0, queue, limits, timeout_ms: Some(1), level: 0, message });
        // Where it would be received.
        buffer[..packet.len()].copy_from_slice(&packet);
        let Some(request) = decode::<Request<'_>>(&buffer[..packet.len()]) else { return };
        let answer = self.answer(&request, NO_CALL);
        descriptors::flush_standard_output();
        let _ = (QueueName::parse(&request.queue), ends_after(request.timeout_ms), peek_ended());
        std::hint::black_box(encode(&Report::Ended {
            run: 0,
            answer,
            retires: true,
            asked: false,
            marked: false,
        }));
    }

    /// Waits for a request. None when the worker is gone.
    fn next_request<'a>(&self, buffer: &'a mut [u8]) -> Option<(&'a [u8], Option<OwnedFd>)> {
        let packet = packets::receive(&self.requests, buffer).ok()?;
        let file = packet.descriptors.into_iter().next();
        (packet.length > 0 && !packet.is_cut).then_some((&buffer[..packet.length], file))
    }

    fn answer(&mut self, request: &Request<'_>, message: &[u8]) -> Answer {
        self.household.forwarder.set_level(request.level);
        // CPU time counts from now.
        if request.limits != self.limits || request.limits.cpu_seconds.is_some() {
            if let Err(error) = limits::set_liftable(&request.limits, &self.usual) {
                return Answer::Refused { problem: format!("a limit could not be set: {}", error.desc()) };
            }
            self.limits = request.limits;
        }
        let message = match Message::decode(message) {
            Ok(message) => message,
            Err(error) => return Answer::Malformed { problem: cut(error.to_string(), MAX_TEXT) },
        };
        let Some(task) = self.household.registry.get(message.task()) else { return Answer::Unknown };
        let Ok(queue) = QueueName::parse(&request.queue) else {
            return Answer::Refused { problem: "the queue's name is not one".into() };
        };
        match self.run(task, &message, &queue, request.timeout_ms) {
            Ok(outcome) => outcome.into(),
            Err(error) => {
                let problem = format!("the child could not be prepared: {error}");
                let Limits { address_space, open_files, .. } = request.limits;
                // A thread, memory or descriptors: what the task may not have, or what nobody has.
                if address_space.or(open_files).is_some() {
                    Answer::Refused { problem }
                } else {
                    Answer::Short { problem }
                }
            }
        }
    }

    fn run(
        &mut self,
        task: &'static Registration,
        message: &Message<'_>,
        queue: &QueueName,
        timeout_ms: Option<u64>,
    ) -> io::Result<Outcome> {
        let cancellation = ends_after(timeout_ms);
        // A task that cannot hear of it is ended by SIGTERM at once.
        let listens = task.context.then(|| cancellation.clone());
        self.terminator.listen(listens)?;
        let states = Arc::clone(&self.household.states);
        let scope = Scope::new(task.name, queue, &states, &cancellation)
            .attempt(message.attempts().saturating_add(1))
            .id(message.id());
        let outcome = match task.handler {
            Handler::Blocking(_) => run_blocking(task, message.arguments(), &scope),
            Handler::Async(_) => {
                let runtime = match self.runtime.take() {
                    Some(runtime) => runtime,
                    None => tokio::runtime::Builder::new_current_thread().enable_all().build()?,
                };
                let runtime = self.runtime.insert(runtime);
                runtime.block_on(async {
                    match start(task, message.arguments(), &scope) {
                        Ok(run) => run.await,
                        Err(outcome) => outcome,
                    }
                })
            }
        };
        // It has run: from here on nothing may say that it has not.
        let _ = self.terminator.listen(None);
        Ok(outcome)
    }
}

/// What tells a run that it should end, and when it will.
fn ends_after(timeout_ms: Option<u64>) -> Cancellation {
    let cancellation = Cancellation::new();
    if let Some(timeout) = timeout_ms {
        cancellation.set_deadline(Instant::now() + Duration::from_millis(timeout));
    }
    cancellation
}

impl From<Outcome> for Answer {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Succeeded => Self::Succeeded,
            Outcome::Failed(error) => {
                Self::Failed { retryable: error.is_retryable(), message: cut(error.to_string(), MAX_TEXT) }
            }
            Outcome::Panicked { message } => Self::Panicked { message: cut(message, MAX_TEXT) },
            Outcome::Arguments { problem } => Self::Arguments { problem: cut(problem, MAX_TEXT) },
            // The inline runner makes no others.
            other => Self::Refused { problem: cut(other.to_string(), MAX_TEXT) },
        }
    }
}
