//! Starts the run of a message: decodes it, finds its task, and polls, spawns or hands over the run.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::mpsc::UnboundedSender;

use crate::excerpt::excerpt;
use crate::isolation::Isolation;
use crate::otel::RunSpan;
use crate::protocol::limit::LimitName;
use crate::protocol::message::Message;
use crate::protocol::tracking::Tracking;
use crate::runner::{Done, Job, Outcome, Run, Speed, start, start_with_states};
use crate::task::handler::Handler;
use crate::task::{Cancellation, Scope};
use crate::worker::executor::Executor;
use crate::worker::executor::batch::Batch;
use crate::worker::executor::blocking::{BlockingRun, Shared};
use crate::worker::executor::deadline::{Allotment, RunDeadline};
use crate::worker::executor::permit::Permit;
use crate::worker::executor::runs::{Control, RunEnd, Stop};
use crate::worker::executor::task_table::{TaskEntry, TaskId};
use crate::worker::queue::served::ServedQueue;

/// Messages of up to this many bytes are copied for a run that may last long. Longer messages seldom share their memory
/// with others, and keep less than 40 KB of it.
const COPIED: usize = 1024;

/// The result of starting a run.
enum Started {
    /// The run has already ended, or did not begin.
    Ended(Outcome),
    /// The run continues: in the runtime, in its own process, or on a blocking thread.
    GoesOn { message: Bytes, stop: Stop, control: Control },
    /// These limits must be asked first.
    Limited(Vec<LimitName>),
    /// The run is to be handed over to a blocking thread.
    Blocking { run: BlockingRun, control: Control },
}

/// The result of beginning a run.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub(in crate::worker) enum Begun {
    /// The run continues.
    GoesOn,
    /// The run has already ended.
    Ended(RunEnd),
    /// The run has not begun: these limits must be asked first, in this order.
    Limited(Vec<LimitName>),
}

/// A message whose task was found.
struct ClaimedCall<'a> {
    slot: usize,
    queue: usize,
    entry: &'a TaskEntry,
    bytes: &'a Bytes,
    message: Message<'a>,
}

impl Executor {
    /// Begins the run of the message in a slot.
    pub(in crate::worker) fn begin(&mut self, slot: usize, batch: &mut Batch) -> Begun {
        let Some(running) = self.runs.get(slot) else { return Begun::GoesOn };
        let (queue, bytes, before) = (running.queue(), running.message(), batch.last());
        let is_permitted = running.permit() == Permit::Granted;
        let mut span = RunSpan::default();
        let (task, tracking, started) = self.start(slot, queue, bytes, is_permitted, batch, &mut span);
        if let Some(running) = self.runs.get_mut(slot) {
            running.set_task(task, tracking, span);
        }
        match started {
            Started::Ended(outcome) => {
                let ran = (batch.last() > before).then(|| batch.last() - before);
                if let Some(ran) = ran {
                    self.limiter.learn(ran, batch.last(), self.has_prefetched());
                }
                let Some(mut end) = self.end_as(slot, outcome) else { return Begun::GoesOn };
                end.run.took = ran;
                return Begun::Ended(end);
            }
            Started::Limited(limits) => return Begun::Limited(limits),
            Started::GoesOn { message, stop, control } => {
                self.runs.begin(slot, message, stop, control, false)
            }
            Started::Blocking { run, control } => {
                let has_joined = self.is_busy();
                self.runs.begin(slot, run.message.clone(), Stop::Impossible, control, has_joined);
                self.to_hand_over.push(run);
            }
        }
        if let Some(until) =
            self.runs.get(slot).and_then(|running| running.deadline()).map(RunDeadline::until)
        {
            self.timers.set(until, slot, &self.runs);
        }
        Begun::GoesOn
    }

    fn start(
        &self,
        slot: usize,
        queue: usize,
        bytes: &Bytes,
        is_permitted: bool,
        batch: &mut Batch,
        span: &mut RunSpan,
    ) -> (Option<TaskId>, Option<Box<Tracking>>, Started) {
        let message = match Message::decode(bytes) {
            Ok(message) => message,
            Err(error) => {
                return (None, None, Started::Ended(Outcome::Malformed { problem: excerpt(error) }));
            }
        };
        let Some(task) = self.tasks.find(message.task()) else {
            return (None, None, Started::Ended(Outcome::Unknown));
        };
        let entry = self.tasks.get(task);
        let of_queue = &self.queues[queue].limits;
        if !is_permitted && (message.names_limits() || entry.limit.is_some() || !of_queue.is_empty()) {
            let limits = entry.limits_of(&message, of_queue);
            if !limits.is_empty() {
                return (Some(task), None, Started::Limited(limits));
            }
        }
        let found = ClaimedCall { slot, queue, entry, bytes, message };
        (Some(task), message.tracking().map(Box::new), self.start_found(&found, batch, span))
    }

    fn start_found(&self, found: &ClaimedCall<'_>, batch: &mut Batch, span: &mut RunSpan) -> Started {
        let entry = found.entry;
        let allotment = match Allotment::of(&found.message, entry.timeouts) {
            Ok(allotment) => allotment,
            Err(outcome) => return Started::Ended(outcome),
        };
        if let (Isolation::Fork | Isolation::Prefork, Some(processes)) = (entry.isolation, &self.processes) {
            let message = apart(found.bytes);
            *span = found.span(&self.queues[found.queue], entry.isolation);
            let job = Job {
                slot: found.slot,
                task: entry.task.name,
                queue: self.queues[found.queue].queue.clone(),
                worker: self.queues[found.queue].worker.clone(),
                message: span.message(&found.message).map_or_else(|| message.clone(), Bytes::from),
                timeout: allotment.timeout,
                expires: allotment.expires,
                grace: entry.timeouts.grace(),
                limits: entry.limits,
                speed: Arc::clone(&entry.speed),
                reporter: self.shared.reporter.clone().filter(|_| found.message.keeps_result()),
            };
            let stop = Stop::Process(processes.run(job, entry.isolation));
            return Started::GoesOn { message, stop, control: Control::default() };
        }
        let deadline = RunDeadline::start(allotment, entry.timeouts.grace());
        self.start_inline(found, deadline, batch, span)
    }

    /// Runs a task in this process.
    fn start_inline(
        &self,
        found: &ClaimedCall<'_>,
        deadline: Option<RunDeadline>,
        batch: &mut Batch,
        span: &mut RunSpan,
    ) -> Started {
        let ClaimedCall { slot, entry, bytes, message, .. } = found;
        let queue = &self.queues[found.queue];
        let cancellation = entry.task.context.then(|| self.cancellation(deadline));
        if let Handler::Blocking(_) = entry.task.handler {
            let message = if entry.speed.is_quick() { (*bytes).clone() } else { apart(bytes) };
            let run = BlockingRun {
                slot: *slot,
                task: entry.task,
                speed: Arc::clone(&entry.speed),
                queue: Arc::clone(queue),
                message,
                cancellation: cancellation.clone(),
            };
            return Started::Blocking { run, control: Control { cancellation, deadline } };
        }
        // A blocking run gets its span when it has a thread.
        *span = found.span(queue, Isolation::Inline);
        let own = span.message(message).map(Bytes::from);
        let own_message = own.as_ref().and_then(|own| Message::decode(own).ok());
        let heard = cancellation.as_ref().unwrap_or(&self.shared.unheard);
        if !entry.has_states(&self.shared.states) {
            let message = apart(bytes);
            let Shared { states, layers, reporter, .. } = &self.shared;
            let shared = (Arc::clone(states), layers.clone(), reporter.clone());
            let (name, place) = (queue.queue.clone(), (queue.worker.clone(), *slot));
            let own = own.clone().unwrap_or_else(|| message.clone());
            let run = start_with_states(entry.task, own, name, shared, heard.clone(), place);
            let stop = self.spawn(*slot, run, None);
            return Started::GoesOn { message, stop, control: Control { cancellation, deadline } };
        }
        let message = own_message.as_ref().unwrap_or(message);
        let scope = Scope::new(entry.task.name, &queue.queue, &self.shared.states, heard)
            .message(message)
            .reporter(self.shared.reporter.as_ref())
            .place(&queue.worker, *slot);
        let mut run = match start(entry.task, message.arguments(), &scope, &self.shared.layers) {
            Ok(run) => run,
            Err(outcome) => return Started::Ended(outcome),
        };
        if entry.speed.is_quick() && batch.has_time() {
            // A no-op waker is enough: a run that is not ready is spawned, and polled again there.
            let polled = run.poll_unpin(&mut Context::from_waker(Waker::noop()));
            entry.speed.learn(batch.ran());
            if let Poll::Ready(outcome) = polled {
                return Started::Ended(outcome);
            }
        }
        let (message, stop) = (apart(bytes), self.spawn(*slot, run, Some(Arc::clone(&entry.speed))));
        Started::GoesOn { message, stop, control: Control { cancellation, deadline } }
    }

    fn spawn(&self, slot: usize, run: Run, speed: Option<Arc<Speed>>) -> Stop {
        let report = Report { done: self.done.clone(), slot, is_made: false };
        Stop::Abort(tokio::spawn(Spawned { run, speed, report }).abort_handle())
    }

    /// Creates the handle that asks a run to end, with its deadline.
    fn cancellation(&self, deadline: Option<RunDeadline>) -> Cancellation {
        let cancellation = Cancellation::new();
        let own = deadline.map(|deadline| deadline.until());
        if let Some(deadline) = own.into_iter().chain(self.stop_at).min() {
            cancellation.set_deadline(deadline);
        }
        cancellation
    }
}

impl ClaimedCall<'_> {
    /// The span of its run, which begins.
    #[inline]
    fn span(&self, queue: &ServedQueue, isolation: Isolation) -> RunSpan {
        RunSpan::start(&self.message, queue.queue.as_str(), queue.worker.as_str(), isolation.as_str())
    }
}

/// Copies the message for a run that may last long, so that it does not keep the rest of the reply in memory.
fn apart(bytes: &Bytes) -> Bytes {
    if bytes.len() > COPIED { bytes.clone() } else { Bytes::copy_from_slice(bytes) }
}

/// A run on the runtime. Its first poll is timed. It is reported exactly once, after it was dropped, however it ends.
struct Spawned {
    run: Run,
    speed: Option<Arc<Speed>>,
    report: Report,
}

impl Future for Spawned {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let polled = match self.speed.take() {
            None => self.run.poll_unpin(cx),
            Some(speed) => {
                let began = Instant::now();
                let polled = self.run.poll_unpin(cx);
                speed.learn(began.elapsed());
                polled
            }
        };
        polled.map(|outcome| self.report.make(Some(outcome)))
    }
}

/// Reports to the loop how a run ended. If it is dropped without an outcome, it reports that the run was dropped. So a run
/// that finishes while it is being stopped is reported with its real outcome.
struct Report {
    done: UnboundedSender<Done>,
    slot: usize,
    is_made: bool,
}

impl Report {
    fn make(&mut self, outcome: Option<Outcome>) {
        if !std::mem::replace(&mut self.is_made, true) {
            // The loop ends only after it has put this message back.
            let _ = self.done.send(Done { slot: self.slot, outcome, stats: None, span: RunSpan::default() });
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.make(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_message_is_copied_and_a_long_one_is_not() {
        let whole = Bytes::from(vec![7; 3 * COPIED]);
        for (length, is_copied) in [(1, true), (COPIED, true), (COPIED + 1, false)] {
            let message = whole.slice(COPIED..COPIED + length);
            let own = apart(&message);
            assert_eq!(own, message);
            let shares = whole.as_ptr_range().contains(&own.as_ptr());
            assert_eq!(shares, !is_copied, "{length} bytes");
        }
    }
}
