//! Runs calls in a child: sets it up, runs one request after another, reports each run, and exits.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::unistd::{Pid, getpid, setpgid};

use crate::crash;
use crate::excerpt::{LONGEST, excerpt};
use crate::isolation::Limits;
use crate::otel;
use crate::protocol::message::Message;
use crate::protocol::names::{QueueName, WorkerId};
use crate::runner::forward::Forwarder;
use crate::runner::frame::{Answer, Report, Request, Reuse, decode, encode};
use crate::runner::inline::{make_states, run_blocking, start};
use crate::runner::leftovers::{KEEP_ALIVE, Leftovers};
use crate::runner::outcome::Outcome;
use crate::runner::output::MARK;
use crate::runner::sigterm::SigtermHandler;
use crate::sys::descriptors::OutputPipe;
use crate::sys::fork::{exit_now, name_process};
use crate::sys::limits::{self, InheritedLimits};
use crate::sys::packets;
use crate::sys::wait::{Ended, peek_ended};
use crate::sys::{descriptors, memory, signals};
use crate::task::handler::Handler;
use crate::task::progress::Reporter;
use crate::task::{Cancellation, FailedItem, FailedItems, Layers, Registration, Registry, Scope, States};

/// The exit code of a child that could not be set up, or whose worker is gone.
const UNFIT: i32 = 70;

/// The process name of a child, except while it waits for its only run.
const BUSY: &CStr = c"delayed-child";

/// A message that calls `-`, which is not a valid task path.
const NO_CALL: &[u8] = b"\x92\xa1-\x90";

/// What the zygote prepares, so that no child has to.
#[derive(Debug)]
pub(super) struct ChildEnvironment {
    registry: Registry,
    states: Arc<States>,
    layers: Layers,
    forwarder: Forwarder,
}

/// The parts of a child.
pub(super) struct ChildParts {
    pub(super) zygote: Pid,
    pub(super) requests: OwnedFd,
    pub(super) reports: OwnedFd,
    pub(super) output: OwnedFd,
    /// The buffer for received packets.
    pub(super) buffer: Vec<u8>,
    pub(super) lasting: Limits,
    pub(super) reuse: Reuse,
}

/// A child that is set up.
struct Child<'a> {
    environment: &'a ChildEnvironment,
    requests: OwnedFd,
    reports: Arc<OwnedFd>,
    output: OutputPipe,
    /// Created when a task first needs it.
    runtime: Option<tokio::runtime::Runtime>,
    terminator: SigtermHandler,
    /// The limits for a task without its own.
    inherited: InheritedLimits,
    /// The limits that were set last.
    limits: Limits,
    /// For a child that is reused.
    leftovers: Option<Leftovers>,
}

/// How much more memory than before its first run a child may use, as a fraction of the limit of the next run.
const MOST_KEPT: u64 = 8;

impl ChildEnvironment {
    /// Takes over the logging of this process.
    pub(super) fn new(registry: Registry, states: States, layers: Layers) -> Self {
        // The worker makes the spans of runs; nothing here would export them.
        otel::disable();
        Forwarder::shorten_panics();
        Self { registry, states: Arc::new(states), layers, forwarder: Forwarder::install() }
    }
}

/// Does in the zygote what would otherwise happen for the first time in each child, which then inherits the results.
pub(super) fn prepare(environment: &ChildEnvironment, buffer: &mut [u8]) -> nix::Result<()> {
    let (requests, reports) = packets::pair()?;
    let mut child = Child {
        environment,
        requests,
        reports: Arc::new(reports),
        output: OutputPipe::of_standard_output()?,
        runtime: None,
        terminator: SigtermHandler::default(),
        inherited: InheritedLimits::now()?,
        limits: Limits::NONE,
        leftovers: None,
    };
    child.rehearse(buffer);
    Ok(())
}

/// Serves until the last run, or until the worker is gone.
pub(super) fn run(environment: &ChildEnvironment, parts: ChildParts) -> ! {
    name_process(if parts.reuse.runs == 1 { c"delayed-spare" } else { BUSY });
    let me = Pid::from_raw(0);
    let prepared = setpgid(me, me)
        .and_then(|()| signals::die_with(parts.zygote))
        .and_then(|()| signals::adopt_orphans())
        .and_then(|()| descriptors::redirect_output(&parts.output))
        .and_then(|()| descriptors::keep_only(vec![parts.requests, parts.reports]))
        .and_then(|kept| <[OwnedFd; 2]>::try_from(kept).map_err(|_| nix::Error::EBADF))
        .and_then(|kept| kept.iter().try_for_each(descriptors::set_blocking).map(|()| kept))
        .and_then(|kept| signals::unblock_all().map(|()| kept));
    // Nothing owns it any more: it was closed above.
    std::mem::forget(parts.output);
    let known = (prepared, OutputPipe::of_standard_output(), InheritedLimits::now());
    let (Ok([requests, reports]), Ok(output), Ok(inherited)) = known else { exit_now(UNFIT) };
    let reports = Arc::new(reports);
    environment.forwarder.connect(Arc::clone(&reports));
    let mut child = Child {
        environment,
        requests,
        reports,
        output,
        runtime: None,
        terminator: SigtermHandler::default(),
        inherited,
        limits: Limits::NONE,
        leftovers: None,
    };
    let refused = limits::set_lasting(&parts.lasting).err();
    child.serve(parts.buffer, parts.reuse, refused);
    exit_now(0)
}

impl Child<'_> {
    fn serve(&mut self, mut buffer: Vec<u8>, reuse: Reuse, refused: Option<String>) {
        if !packets::is_waiting(&self.requests) {
            self.rehearse(&mut buffer);
        }
        let me = getpid().as_raw();
        let memory_at_first = memory::of_process(me).unwrap_or(0);
        if reuse.runs > 1 {
            let Ok(leftovers) = Leftovers::before_any() else { exit_now(UNFIT) };
            self.leftovers = Some(leftovers);
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
            if let Some(limit) = request.limits.memory {
                let memory = memory::of_process(me).unwrap_or(0);
                if runs > 1 && memory.saturating_sub(memory_at_first) > limit / MOST_KEPT {
                    return self.retire("memory");
                }
                let begun = Report::Began { run: request.run, memory };
                if packets::send(&*self.reports, &encode(&begun), &[]).is_err() {
                    return;
                }
            }
            let (answer, task) = match (&refused, message) {
                (Some(problem), _) => (Answer::Refused { problem: problem.clone() }, None),
                (None, Err(error)) => {
                    (Answer::Refused { problem: format!("the message could not be read: {error}") }, None)
                }
                (None, Ok(message)) => self.answer(&request, &message),
            };
            // A partial line of the task is in a buffer of this process, which exits without flushing or runs another call.
            descriptors::flush_standard_output();
            let asked = self.terminator.has_fired();
            let mut retires = runs == reuse.runs
                || refused.is_some()
                || asked
                // Something that this run started is still alive. It ends with this process.
                || !matches!(peek_ended(), Ended::NoChildren)
                || reuse.memory.is_some_and(|most| memory::of_process(me).is_none_or(|now| now > most));
            if let Some(task) = task.filter(|_| !retires)
                && let Some(leftovers) = &mut self.leftovers
                && let Some(left) = leftovers.after_run(task, &self.environment.states, self.runtime.as_ref())
            {
                tracing::debug!(left, "child replaced after its run");
                retires = true;
            }
            let marked = !retires && self.output.mark_unread(MARK);
            let (answer, file) = beside(answer);
            let report = Report::Ended { run: request.run, answer, retires, asked, marked };
            crash::point("run", "report");
            let descriptors: Vec<_> = file.iter().map(AsRawFd::as_raw_fd).collect();
            let is_sent = packets::send(&*self.reports, &encode(&report), &descriptors).is_ok();
            crash::point("run", "reported");
            if !is_sent {
                return;
            }
            if retires {
                // Exiting takes a process longer than most of a run, so the thread that waits for the report goes first.
                std::thread::yield_now();
                return;
            }
            if let Some(left) = task.and_then(|task| self.find_leftovers(task)) {
                return self.retire(left);
            }
        }
    }

    /// Looks for leftovers of the last run in a child that is reused. Returns what it found.
    fn find_leftovers(&mut self, task: &'static Registration) -> Option<&'static str> {
        self.leftovers.as_ref()?;
        // The limits of the last run are not leftovers. They are set again.
        if self.limits != Limits::NONE {
            if limits::set_liftable(&Limits::NONE, &self.inherited).is_err() {
                return Some("a limit that cannot be lifted");
            }
            self.limits = Limits::NONE;
        }
        self.leftovers.as_mut()?.before_next(task, &self.environment.states)
    }

    /// Reports that this child begins no further run, so that its pending runs go to others.
    fn retire(&self, left: &str) {
        // The worker may be gone.
        let _ = packets::send(&*self.reports, &encode(&Report::Retired { left: left.to_owned() }), &[]);
    }

    /// Does everything that a run does around its task. A newly forked process is slowed down when it first touches each
    /// page; better now than while a caller waits.
    fn rehearse(&mut self, buffer: &mut [u8]) {
        let message = Some(serde_bytes::Bytes::new(NO_CALL));
        let (queue, worker, limits) = ("rehearsal".into(), "".into(), Limits::NONE);
        let packet = encode(&Request {
            run: 0,
            queue,
            worker,
            slot: 0,
            limits,
            timeout_ms: Some(1),
            level: 0,
            message,
        });
        // Where it would be received.
        buffer[..packet.len()].copy_from_slice(&packet);
        let Some(request) = decode::<Request<'_>>(&buffer[..packet.len()]) else { return };
        let (answer, _) = self.answer(&request, NO_CALL);
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

    /// Waits for a request. `None` if the worker is gone.
    fn next_request<'a>(&self, buffer: &'a mut [u8]) -> Option<(&'a [u8], Option<OwnedFd>)> {
        let packet = packets::receive(&self.requests, buffer).ok()?;
        let file = packet.descriptors.into_iter().next();
        (packet.length > 0 && !packet.is_cut).then_some((&buffer[..packet.length], file))
    }

    /// Runs a call. Returns the task, unless it did not run at all.
    fn answer(&mut self, request: &Request<'_>, message: &[u8]) -> (Answer, Option<&'static Registration>) {
        self.environment.forwarder.set_level(request.level);
        // CPU time and address space count from here.
        let Limits { cpu_seconds, address_space, .. } = request.limits;
        if request.limits != self.limits || cpu_seconds.or(address_space).is_some() {
            if let Err(error) = limits::set_liftable(&request.limits, &self.inherited) {
                let problem = format!("a limit could not be set: {}", error.desc());
                return (Answer::Refused { problem }, None);
            }
            self.limits = request.limits;
        }
        let message = match Message::decode(message) {
            Ok(message) => message,
            Err(error) => return (Answer::Malformed { problem: excerpt(error) }, None),
        };
        let Some(task) = self.environment.registry.get(message.task()) else {
            return (Answer::Unknown, None);
        };
        let Ok(queue) = QueueName::parse(&request.queue) else {
            return (Answer::Refused { problem: "the queue's name is not one".into() }, None);
        };
        let worker = WorkerId::parse(&request.worker);
        let answer = match self.run(task, &message, &queue, worker.as_ref(), request) {
            Ok(outcome) => outcome.into(),
            Err(error) => {
                let problem = format!("the child could not be prepared: {error}");
                let Limits { address_space, open_files, .. } = request.limits;
                // Threads, memory or descriptors: exhausted for this task by its limits, or for the whole system.
                if address_space.or(open_files).is_some() {
                    Answer::Refused { problem }
                } else {
                    Answer::Short { problem }
                }
            }
        };
        (answer, Some(task))
    }

    fn run(
        &mut self,
        task: &'static Registration,
        message: &Message<'_>,
        queue: &QueueName,
        worker: Option<&WorkerId>,
        request: &Request<'_>,
    ) -> io::Result<Outcome> {
        let cancellation = ends_after(request.timeout_ms);
        // A task that cannot notice SIGTERM is ended by it at once.
        let listens = task.context.then(|| cancellation.clone());
        if listens.is_some() && !self.terminator.has_started() {
            Leftovers::keep(self.leftovers.as_mut(), 1, || self.terminator.listen(listens))?;
        } else {
            self.terminator.listen(listens)?;
        }
        let environment = self.environment;
        let states = Arc::clone(&environment.states);
        let reports = Arc::clone(&self.reports);
        let reporter = message.keeps_result().then(|| {
            Reporter::new(move |note| {
                // The worker may be gone.
                let _ = packets::send(&*reports, &encode(&Report::Note(note.note)), &[]);
            })
        });
        let scope =
            Scope::new(task.name, queue, &states, &cancellation).message(message).reporter(reporter.as_ref());
        let scope = worker.map_or(scope, |worker| scope.place(worker, request.slot));
        let outcome = match task.handler {
            Handler::Blocking(_) => {
                let runtime = if environment.layers.is_empty() { None } else { Some(self.runtime()?) };
                run_blocking(task, message.arguments(), &scope, &environment.layers, runtime)
            }
            Handler::Async(_) => self.runtime()?.block_on(async {
                if let Err(outcome) = make_states(task, &states).await {
                    return outcome;
                }
                match start(task, message.arguments(), &scope, &environment.layers) {
                    Ok(run) => run.await,
                    Err(outcome) => outcome,
                }
            }),
        };
        // The task has run: from here on, no report may say that it has not.
        let _ = self.terminator.listen(None);
        Ok(outcome)
    }

    /// The runtime of this child, created when a run first needs it.
    fn runtime(&mut self) -> io::Result<&tokio::runtime::Runtime> {
        let runtime = match self.runtime.take() {
            Some(runtime) => runtime,
            None => Leftovers::keep(self.leftovers.as_mut(), 0, || {
                let mut builder = tokio::runtime::Builder::new_current_thread();
                builder.enable_all().thread_keep_alive(KEEP_ALIVE).build()
            })?,
        };
        Ok(self.runtime.insert(runtime))
    }
}

/// Makes an answer fit into a packet: moves a large one into a file beside it.
fn beside(answer: Answer) -> (Answer, Option<File>) {
    if !matches!(answer, Answer::Returned { .. } | Answer::ItemsFailed { .. }) {
        return (answer, None);
    }
    let bytes = encode(&answer);
    if bytes.len() <= LONGEST {
        return (answer, None);
    }
    match descriptors::file_of(&bytes) {
        Ok(file) => (Answer::InFile, Some(file)),
        Err(error) => (Answer::Short { problem: format!("its result could not be sent: {error}") }, None),
    }
}

/// The cancellation of a run, with the time at which it will be asked to end.
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
            Outcome::Succeeded(value) => match value.kept() {
                None => Self::Succeeded,
                Some(_) => Self::Returned { value },
            },
            Outcome::Failed(error) => match error.items() {
                Some(FailedItems { of, items }) => {
                    let item = |(place, error): &FailedItem| (*place, error.to_string(), error.again());
                    Self::ItemsFailed {
                        message: error.to_string(),
                        of: *of,
                        items: items.iter().map(item).collect(),
                    }
                }
                None => Self::Failed { again: error.again(), message: error.to_string() },
            },
            Outcome::Panicked { message } => Self::Panicked { message },
            Outcome::Arguments { problem } => Self::Arguments { problem },
            // The inline runner creates no others.
            other => Self::Refused { problem: excerpt(other) },
        }
    }
}
