//! A run in its own process: its call, the commands that end it, and the report of its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tracing::Span;

use crate::excerpt::shortened;
use crate::isolation::Limits;
use crate::otel::RunSpan;
use crate::protocol::message::Message;
use crate::protocol::names::{QueueName, WorkerId};
use crate::runner::forward::Origin;
use crate::runner::frame::{Answer, Request, encode};
use crate::runner::outcome::{Outcome, ProcessStats, Resource};
use crate::runner::span;
use crate::runner::speed::Speed;
use crate::sys::descriptors;
use crate::sys::packets::MAX_PACKET;
use crate::task::progress::{Note, Reporter, RunNote};
use crate::task::return_value::ReturnValue;
use crate::task::{FailedItems, TaskError};

/// A run that ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) slot: usize,
    /// `None`: the run was dropped before it ended.
    pub(crate) outcome: Option<Outcome>,
    /// Set for a run in its own process that did not succeed.
    pub(crate) stats: Option<Box<ProcessStats>>,
    /// That of a blocking run, which begins when it has a thread; the worker has those of others.
    pub(crate) span: RunSpan,
}

/// A call to run in its own process.
#[derive(Debug)]
pub(crate) struct Job {
    /// The slot of its message.
    pub(crate) slot: usize,
    pub(crate) task: &'static str,
    pub(crate) queue: QueueName,
    /// The worker that runs it.
    pub(crate) worker: WorkerId,
    pub(crate) message: Bytes,
    /// How long it may run.
    pub(crate) timeout: Option<Duration>,
    /// When its call expires.
    pub(crate) expires: Option<Instant>,
    pub(crate) grace: Duration,
    pub(crate) limits: Limits,
    /// How quick the task is: runs of quick tasks are sent to a child a few at a time.
    pub(crate) speed: Arc<Speed>,
    /// Where the run of a call with a record reports its progress.
    pub(crate) reporter: Option<Reporter>,
}

impl Job {
    /// Passes on the progress of its run.
    pub(super) fn note(&self, note: Note) {
        let id = Message::decode(&self.message).ok().and_then(|message| message.id());
        if let (Some(reporter), Some(id)) = (&self.reporter, id) {
            reporter.report(RunNote { queue: self.queue.clone(), slot: self.slot, id, note });
        }
    }

    /// When the run is asked to end, if it starts now.
    pub(super) fn until(&self) -> Option<Instant> {
        let timeout = self.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        timeout.into_iter().chain(self.expires).min()
    }

    /// Encodes the request for a child. A large message goes into a file beside the packet.
    pub(super) fn encode(&self, run: u64, level: u8) -> std::io::Result<(Vec<u8>, Option<std::fs::File>)> {
        let until = self.until().map(|until| until.saturating_duration_since(Instant::now()));
        let request = |message| Request {
            run,
            queue: self.queue.as_str().into(),
            worker: self.worker.as_str().into(),
            slot: self.slot,
            limits: self.limits,
            timeout_ms: until.map(|until| u64::try_from(until.as_millis()).unwrap_or(u64::MAX)),
            level,
            message,
        };
        // The rest is room for the other fields.
        if self.message.len() <= MAX_PACKET / 2 {
            return Ok((encode(&request(Some(serde_bytes::Bytes::new(&self.message)))), None));
        }
        let file = descriptors::file_of(&self.message)?;
        Ok((encode(&request(None)), Some(file)))
    }

    /// Converts an answer of the child to an outcome, with the limits of this job.
    pub(super) fn outcome_of(&self, answer: Answer) -> Outcome {
        let files = |text: &str| {
            self.limits
                .open_files
                .filter(|_| text.contains("os error 24") || text.contains("Too many open files"))
        };
        let failed = |text: &String| {
            files(text).map(|limit| Outcome::Exceeded { resource: Resource::OpenFiles, limit })
        };
        match answer {
            Answer::Succeeded => Outcome::Succeeded(ReturnValue::default()),
            Answer::Returned { value } => Outcome::Succeeded(value),
            Answer::Failed { message, again } => {
                failed(&message).unwrap_or_else(|| Outcome::Failed(TaskError::of(message, again)))
            }
            Answer::ItemsFailed { message, of, items } => {
                let item = |(place, text, again)| (place, TaskError::of(text, again));
                let items = items.into_iter().map(item).collect();
                Outcome::Failed(TaskError::of_items(shortened(message), FailedItems { of, items }))
            }
            Answer::Panicked { message } => {
                failed(&message).unwrap_or_else(|| Outcome::Panicked { message: shortened(message) })
            }
            Answer::Arguments { problem } => Outcome::Arguments { problem: shortened(problem) },
            Answer::Malformed { problem } => Outcome::Malformed { problem: shortened(problem) },
            Answer::Unknown => Outcome::Unknown,
            Answer::Refused { problem } => {
                failed(&problem).unwrap_or_else(|| Outcome::Failed(TaskError::retry(problem)))
            }
            // A file that cannot be read is no report.
            Answer::InFile => Outcome::Lost { problem: "its report could not be read".into() },
            Answer::Short { problem } => Outcome::Lost { problem: shortened(problem) },
        }
    }
}

/// A command that ends a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// The run is asked to end: SIGTERM.
    Cancel,
    /// The run is killed on request.
    Kill { by: String },
    /// The run is killed without a report; its message is put back.
    Abandon,
}

/// The state of a run: its job, the command to end it, and where its end is reported.
#[derive(Debug)]
pub(super) struct RunState {
    pub(super) run: u64,
    pub(super) job: Job,
    /// The span for log events of its child.
    span: Span,
    command: Mutex<Option<Command>>,
    /// Notified of each command.
    pub(super) given: Notify,
    ended: AtomicBool,
    done: UnboundedSender<Done>,
}

impl RunState {
    pub(super) fn new(run: u64, job: Job, done: UnboundedSender<Done>) -> Self {
        let Job { task, message, queue, worker, slot, .. } = &job;
        let span = span::of_message(task, message, queue.as_str(), worker.as_str(), *slot);
        let (command, given) = (Mutex::default(), Notify::new());
        Self { run, job, span, command, given, ended: AtomicBool::new(false), done }
    }

    /// The origin of the output and log events of process `pid` during this run.
    pub(super) fn origin(&self, pid: i32) -> Origin<'_> {
        Origin { task: self.job.task, queue: self.job.queue.as_str(), pid, span: Some(&self.span) }
    }

    /// Sends a command to the run; it replaces an earlier one.
    pub(super) fn give(&self, command: Command) {
        *self.command.lock().unwrap_or_else(PoisonError::into_inner) = Some(command);
        self.given.notify_one();
    }

    /// Takes the last command.
    pub(super) fn take_command(&self) -> Option<Command> {
        self.command.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Reports its end; with `None`, reports nothing.
    pub(super) fn finish(&self, outcome: Option<Outcome>, stats: ProcessStats) {
        if !self.ended.swap(true, Ordering::AcqRel) && outcome.is_some() {
            let stats = (stats != ProcessStats::default()).then(|| Box::new(stats));
            // If the event loop is gone, it has put this message back.
            let _ = self.done.send(Done { slot: self.job.slot, outcome, stats, span: RunSpan::default() });
        }
    }

    /// Whether its call has expired. If so, reports that; the run does not begin.
    pub(super) fn has_expired(&self) -> bool {
        let late = self.job.expires.and_then(|expires| Instant::now().checked_duration_since(expires));
        if let Some(late) = late {
            self.finish(Some(Outcome::Expired { late }), ProcessStats::default());
        }
        late.is_some()
    }

    /// Ends a run that has not begun with this command.
    pub(super) fn end_by(&self, command: Command) {
        let outcome = match command {
            Command::Kill { by } => Some(Outcome::Killed { by }),
            Command::Cancel | Command::Abandon => None,
        };
        self.finish(outcome, ProcessStats::default());
    }

    /// Reports that the run was lost, which is not the task's fault.
    pub(super) fn lose(&self, problem: impl Into<String>) {
        self.finish(Some(Outcome::Lost { problem: problem.into() }), ProcessStats::default());
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}
