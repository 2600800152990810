//! Runs messages: polled in place, spawned, on blocking threads, or in processes of their own.
//!
//! [`Executor`] holds the message of each slot, with its deadline, from its claim to the end of its run. It knows nothing
//! of Redis: it reports how a run ended as a [`RunEnd`], and the event loop decides what follows.

mod batch;
mod blocking;
mod deadline;
mod permit;
mod prefetched;
mod runs;
mod start;
pub(crate) mod task_table;
mod timers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::broker::Started;
use crate::isolation::Timeouts;
use crate::protocol::call_id::CallId;
use crate::protocol::limit::LimitName;
use crate::protocol::message::Message;
use crate::runner::{Done, Outcome, Processes};
use crate::worker::executor::blocking::{BlockingRun, BlockingRuns};
use crate::worker::executor::permit::Permit;
use crate::worker::executor::prefetched::PrefetchedMessages;
use crate::worker::executor::runs::{Runs, Stop, TimerResult};
use crate::worker::executor::task_table::{TaskEntry, TaskId, TaskTable};
use crate::worker::executor::timers::Timers;
use crate::worker::prefetch_limiter::PrefetchLimiter;
use crate::worker::queue::served::ServedQueue;

pub(super) use self::batch::Batch;
pub(super) use self::blocking::Shared;
#[cfg(test)]
pub(super) use self::deadline::RunDeadline;
pub(super) use self::prefetched::NextPrefetched;
pub(super) use self::runs::{FinishedRun, LongRun, RunEnd};
pub(super) use self::start::Begun;

/// How long runs of quick blocking tasks wait before they get threads of their own.
const HELP_AFTER: Duration = Duration::from_millis(2);
/// How many blocking runs may be handed over beyond the concurrency. A thread that receives runs one by one sleeps in
/// between, and waking it takes longer than a quick run.
const JOINED: usize = 256;

/// How many long runs a worker reports: each adds about 80 bytes to every heartbeat.
const MOST_LONG_RUNS: usize = 256;

/// The parts of an executor.
pub(super) struct ExecutorParts {
    pub(super) queues: Vec<Arc<ServedQueue>>,
    pub(super) lease: Duration,
    pub(super) concurrency: usize,
    pub(super) limiter: PrefetchLimiter,
    pub(super) tasks: TaskTable,
    pub(super) shared: Shared,
    /// Runs isolated tasks.
    pub(super) processes: Option<Processes>,
    pub(super) done: UnboundedSender<Done>,
    pub(super) ended: UnboundedReceiver<Done>,
}

/// All runs of a worker.
pub(super) struct Executor {
    queues: Vec<Arc<ServedQueue>>,
    lease: Duration,
    /// Maximum number of concurrent runs.
    concurrency: usize,
    limiter: PrefetchLimiter,
    tasks: TaskTable,
    shared: Shared,
    processes: Option<Processes>,
    done: UnboundedSender<Done>,
    ended: UnboundedReceiver<Done>,
    runs: Runs,
    prefetched: PrefetchedMessages,
    blocking: BlockingRuns,
    /// Blocking runs that are handed over together.
    to_hand_over: Vec<BlockingRun>,
    /// When waiting blocking runs get threads of their own.
    help_at: Option<Instant>,
    /// Whether blocking runs may be queued behind others.
    joins: bool,
    timers: Timers,
    /// When all runs are given up, once the worker stops.
    stop_at: Option<Instant>,
}

/// A run that continues past its deadline and cannot be stopped.
pub(super) struct Overdue {
    pub(super) slot: usize,
    pub(super) queue: usize,
    pub(super) task: &'static str,
    pub(super) call_id: Option<CallId>,
    pub(super) why: &'static str,
    pub(super) elapsed: Duration,
}

/// The result of killing a run.
pub(super) enum Killed {
    /// The run had not begun, and never will.
    NotBegun,
    /// The run ends within that time, or is reported as overdue.
    Ends(Duration),
}

impl Executor {
    pub(super) fn new(parts: ExecutorParts) -> Self {
        Self {
            blocking: BlockingRuns::new(parts.done.clone(), parts.shared.clone()),
            queues: parts.queues,
            lease: parts.lease,
            concurrency: parts.concurrency,
            limiter: parts.limiter,
            tasks: parts.tasks,
            shared: parts.shared,
            processes: parts.processes,
            done: parts.done,
            ended: parts.ended,
            runs: Runs::default(),
            prefetched: PrefetchedMessages::default(),
            to_hand_over: Vec::new(),
            help_at: None,
            joins: true,
            timers: Timers::default(),
            stop_at: None,
        }
    }

    pub(super) fn concurrency(&self) -> usize {
        self.concurrency
    }

    pub(super) fn limiter(&self) -> &PrefetchLimiter {
        &self.limiter
    }

    /// Makes the limiter apply what it learned.
    pub(super) fn update_limiter(&mut self) {
        self.limiter.update();
    }

    pub(super) fn task(&self, id: TaskId) -> &TaskEntry {
        self.tasks.get(id)
    }

    /// Whether a task of that name is registered.
    pub(super) fn knows(&self, task: &str) -> bool {
        self.tasks.find(task).is_some()
    }

    /// Holds a message in a slot. One that is to run alone waits for [`Self::to_begin_alone`].
    pub(super) fn hold(
        &mut self,
        slot: usize,
        queue: usize,
        message: Bytes,
        is_suspect: bool,
        is_alone: bool,
    ) {
        self.runs.hold(slot, queue, message, is_suspect, is_alone);
    }

    /// How many messages run or are about to begin.
    pub(super) fn running(&self) -> usize {
        self.runs.running()
    }

    /// How many have begun and not ended.
    pub(super) fn begun(&self) -> usize {
        self.runs.begun()
    }

    /// Whether the maximum number of messages runs.
    pub(super) fn is_busy(&self) -> bool {
        self.runs.places() >= self.concurrency
    }

    /// How many blocking threads there may be.
    fn most_threads(&self) -> usize {
        let elsewhere = self.runs.begun() - self.runs.handed_over();
        self.concurrency.saturating_sub(elsewhere).max(1)
    }

    /// Whether a run of this message may be handed over behind others although the maximum number runs: its task is quick,
    /// and so are the tasks of the earlier runs.
    fn may_join(&self, message: &[u8]) -> bool {
        let has_place = (1..JOINED).contains(&self.runs.handed_over()) && self.joins;
        has_place
            && Message::decode(message)
                .ok()
                .and_then(|message| self.tasks.find(message.task()))
                .is_some_and(|task| self.tasks.get(task).is_quick_blocking())
    }

    /// Whether no more may begin now: the maximum number runs, or earlier claims wait.
    pub(super) fn is_full(&self) -> bool {
        self.has_prefetched() || self.is_busy()
    }

    /// Whether the executor holds a message that runs alone, or is to.
    pub(super) fn has_one_alone(&self) -> bool {
        self.runs.has_one_alone()
    }

    /// The message that is to run alone and has not begun: its queue, slot, bytes, and whether Redis has noted its start.
    pub(super) fn to_begin_alone(&self) -> Option<(usize, usize, &Bytes, bool)> {
        let (slot, running) = self.runs.to_begin_alone()?;
        Some((running.queue(), slot, running.message(), running.is_noted()))
    }

    /// Notes that Redis has recorded the start of a suspect.
    pub(super) fn note_begun(&mut self, slot: usize) {
        if let Some(running) = self.runs.get_mut(slot) {
            running.note_begun();
        }
    }

    /// The limits of a call.
    pub(super) fn limits_of(&self, queue: usize, message: &[u8]) -> Vec<LimitName> {
        let Ok(message) = Message::decode(message) else { return Vec::new() };
        let of_queue = &self.queues[queue].limits;
        let limits = |task| self.tasks.get(task).limits_of(&message, of_queue);
        self.tasks.find(message.task()).map_or(Vec::new(), limits)
    }

    /// Notes that the limits of the call in a slot are being asked. Returns its position in the order of claims, which
    /// identifies the message within its slot, and the time on the clock of its queue.
    pub(super) fn await_permit(&mut self, slot: usize) -> Option<(u64, u64)> {
        let running = self.runs.get_mut(slot)?;
        running.set_permit(Permit::Asked);
        Some((running.order(), self.queues[running.queue()].now()))
    }

    /// Notes that its limits permit the call in a slot. Returns whether it is to run alone; `None` if the slot is empty or
    /// holds another message by now.
    pub(super) fn permit(&mut self, slot: usize, order: u64) -> Option<bool> {
        let running = self.runs.get_mut(slot).filter(|running| running.order() == order)?;
        running.set_permit(Permit::Granted);
        Some(running.is_alone())
    }

    /// Whether a slot still holds the message with this position in the order of claims.
    pub(super) fn holds(&self, slot: usize, order: u64) -> bool {
        self.runs.get(slot).is_some_and(|running| running.order() == order)
    }

    /// Whether the lease of a slot has ended since then, so that others may run its message.
    pub(super) fn has_lapsed_since(&self, queue: usize, slot: usize, since: u64) -> bool {
        self.queues[queue].has_lapsed(slot, since, self.lease)
    }

    /// The contents of a slot: queue and bytes.
    pub(super) fn held(&self, slot: usize) -> Option<(usize, &Bytes)> {
        self.runs.get(slot).map(|running| (running.queue(), running.message()))
    }

    /// The queue and the task of what a slot runs.
    pub(super) fn task_of(&self, slot: usize) -> Option<(usize, Option<TaskId>)> {
        self.runs.get(slot).map(|running| (running.queue(), running.task()))
    }

    /// The call that a slot runs, to be recorded as begun, if it is tracked.
    pub(super) fn started(&self, slot: usize) -> Option<Started> {
        let running = self.runs.get(slot)?;
        let tracking = *running.tracking()?;
        let attempts = Message::decode(running.message()).map_or(0, |message| message.attempts());
        Some(Started { slot, tracking, attempt: attempts.saturating_add(1) })
    }

    /// Takes the message out of a slot; `None` if the slot was emptied before.
    pub(super) fn take(&mut self, slot: usize) -> Option<FinishedRun> {
        let run = self.runs.take(slot)?;
        if let Some(took) = run.took {
            self.limiter.learn(took, Instant::now(), self.has_prefetched());
        }
        Some(run)
    }

    /// Ends the run that a report is about; `None` if its slot was emptied before.
    pub(super) fn finish(&mut self, done: Done) -> Option<RunEnd> {
        let Done { slot, outcome, stats, span } = done;
        let handed_over = self.runs.handed_over();
        let mut run = self.take(slot)?;
        if span.is_made() {
            run.span = span;
        }
        self.joins |= self.runs.handed_over() < handed_over;
        Some(RunEnd { run, outcome, stats })
    }

    /// Ends the run of a slot with this outcome, whatever it is doing; `None` if the slot was emptied before.
    pub(super) fn end_as(&mut self, slot: usize, outcome: Outcome) -> Option<RunEnd> {
        Some(RunEnd { run: self.take(slot)?, outcome: Some(outcome), stats: None })
    }

    /// Takes reports of ended runs, up to `most` at once. Cancel-safe.
    pub(super) async fn ended(&mut self, reports: &mut Vec<Done>, most: usize) -> usize {
        self.ended.recv_many(reports, most).await
    }

    /// A report that has already arrived.
    pub(super) fn ended_now(&mut self) -> Option<Done> {
        self.ended.try_recv().ok()
    }

    /// Hands blocking runs that began together over to threads.
    pub(super) fn hand_over(&mut self) {
        if self.to_hand_over.is_empty() {
            return;
        }
        self.blocking.push(std::mem::take(&mut self.to_hand_over), self.most_threads());
        if self.runs.handed_over() > self.blocking.threads() {
            // Quick runs share a thread, and are checked a little later.
            self.help_at.get_or_insert_with(|| Instant::now() + HELP_AFTER);
        }
    }

    /// Gives waiting blocking runs threads of their own, because an earlier run is slower than expected. Runs that get no
    /// thread count as not begun, so that they can be put back for others.
    fn help_blocking(&mut self) {
        let left = self.blocking.help(self.most_threads());
        self.joins = left.is_empty();
        for slot in left.into_iter().rev() {
            self.runs.withdraw(slot);
            self.leave_prefetched_first(slot);
        }
    }

    /// Kills the run of a slot.
    pub(super) fn kill(&mut self, slot: usize, by: &str) -> Killed {
        let has_begun = match self.runs.get(slot).map(|running| running.stop()) {
            None | Some(Stop::NotNeeded) => false,
            Some(Stop::Impossible) => !self.blocking.withdraw_one(slot),
            Some(Stop::Abort(_)) => true,
            Some(Stop::Process(handle)) => {
                handle.kill(by.to_owned());
                return Killed::Ends(Duration::ZERO);
            }
        };
        // As after its deadline: the run is asked to end, gets its grace, and is dropped, or is found overdue.
        if has_begun { Killed::Ends(self.end_now(slot)) } else { Killed::NotBegun }
    }

    /// Lets the deadline of the run in a slot pass now. Returns how long the run has to end by itself.
    fn end_now(&mut self, slot: usize) -> Duration {
        let Some(running) = self.runs.get_mut(slot) else { return Duration::ZERO };
        let grace = running.task().map_or(Timeouts::GRACE, |task| self.tasks.get(task).timeouts.grace());
        let (grace, rings) = running.end_now(grace);
        if let Some(rings) = rings {
            self.timers.set(rings, slot, &self.runs);
        }
        grace
    }

    /// When [`Self::on_timer`] or [`Self::overdue_prefetched`] is due.
    pub(super) fn next_timer(&mut self) -> Option<Instant> {
        let run = self.timers.next(&self.runs);
        run.into_iter().chain(self.help_at).chain(self.check_prefetched_at()).min()
    }

    /// Whether timers are due that a busy loop should not leave to the runtime alone.
    pub(super) fn has_timers(&self) -> bool {
        let is_due = |at: Instant| at <= Instant::now();
        self.help_at.is_some() || !self.timers.is_empty() || self.check_prefetched_at().is_some_and(is_due)
    }

    /// Asks runs to end whose deadlines have passed, and drops those that do not. Returns those that continue nevertheless.
    pub(super) fn on_timer(&mut self, now: Instant) -> Vec<Overdue> {
        let mut overdue = Vec::new();
        while let Some(slot) = self.timers.take(now, &self.runs) {
            let Some(running) = self.runs.get_mut(slot) else { continue };
            match running.on_timer(now) {
                TimerResult::Nothing | TimerResult::Asked(None) => {}
                TimerResult::Asked(Some(again)) => self.timers.set(again, slot, &self.runs),
                TimerResult::Overdue { queue, task, message, why, elapsed } => {
                    let call_id = Message::decode(&message).ok().and_then(|message| message.id());
                    let task = task.map_or("", |task| self.tasks.get(task).task.name);
                    overdue.push(Overdue { slot, queue, task, call_id, why, elapsed });
                }
            }
        }
        if self.help_at.take_if(|at| *at <= now).is_some() {
            self.help_blocking();
        }
        overdue
    }

    /// The names of the tasks that are running.
    pub(super) fn names_of_running(&self) -> String {
        self.runs.names()
    }

    /// The longest of the runs that have lasted at least one heartbeat.
    pub(super) fn long_runs(&self) -> Vec<LongRun> {
        self.runs.long(self.lease / 4, MOST_LONG_RUNS)
    }

    /// Announces to the runs that they will be given up at `deadline`.
    pub(super) fn announce(&mut self, deadline: Instant) {
        self.stop_at = Some(deadline);
        self.runs.announce(deadline);
    }

    /// Asks all runs to end, and takes back those that wait for a thread.
    pub(super) fn cancel_all(&mut self) {
        self.runs.cancel_all();
        for slot in self.blocking.withdraw() {
            self.runs.withdraw(slot);
        }
    }

    /// Stops every run that can be stopped: a future at its next `await`, a process at once.
    pub(super) fn abort_all(&self) {
        self.runs.abort_all();
    }

    /// How many runs are in progress.
    pub(super) fn underway(&self) -> usize {
        self.runs.underway()
    }

    /// How many runs are in progress that can be stopped.
    pub(super) fn aborting(&self) -> usize {
        self.runs.aborting()
    }

    /// How many runs are in progress that only the end of this process can stop.
    pub(super) fn stuck(&self) -> usize {
        self.runs.stuck()
    }

    /// Takes the messages out of all slots.
    pub(super) fn take_all(&mut self) -> Vec<FinishedRun> {
        self.runs.held().into_iter().filter_map(|slot| self.runs.take(slot)).collect()
    }
}

impl Drop for Executor {
    /// The worker's future was dropped, or the loop has ended: no run may continue.
    fn drop(&mut self) {
        self.cancel_all();
        self.abort_all();
    }
}
