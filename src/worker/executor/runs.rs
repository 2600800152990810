//! The messages in the slots, from their claims to the ends of their runs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::AbortHandle;

use crate::otel::RunSpan;
use crate::protocol::message::Message;
use crate::protocol::tracking::Tracking;
use crate::runner::{Outcome, ProcessStats, RunHandle};
use crate::task::Cancellation;
use crate::worker::executor::deadline::{RunDeadline, Step};
use crate::worker::executor::permit::Permit;
use crate::worker::executor::task_table::TaskId;

/// A message that runs or is about to begin.
#[derive(Debug)]
pub(super) struct Running {
    queue: usize,
    message: Bytes,
    /// Set once it has begun.
    task: Option<TaskId>,
    /// Whether suspects existed when it was claimed, so that a success must clear it.
    is_suspect: bool,
    /// Whether nothing else is claimed while it runs.
    is_alone: bool,
    /// Whether Redis has recorded that it begins alone.
    is_noted: bool,
    permit: Permit,
    /// Its position in the order of claims.
    order: u64,
    stop: Stop,
    /// When it began; `None` if it has not, or ended at once.
    began: Option<Instant>,
    control: Control,
    /// How its call is tracked; set once it has begun.
    tracking: Option<Box<Tracking>>,
    span: RunSpan,
}

/// How a run is controlled while it goes on.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// Asks the run to end; `None` if the run cannot notice it.
    pub(super) cancellation: Option<Cancellation>,
    /// `None` if it may run without limit.
    pub(super) deadline: Option<RunDeadline>,
}

/// How a run can be stopped.
#[derive(Debug)]
pub(super) enum Stop {
    /// Nothing to stop: it has not begun.
    NotNeeded,
    /// At its next `await`.
    Abort(AbortHandle),
    /// Cannot be stopped: a blocking function.
    Impossible,
    /// By ending its process.
    Process(RunHandle),
}

/// A run that has ended, and its message, which is still owned.
#[derive(Debug)]
pub(in crate::worker) struct RunEnd {
    pub(in crate::worker) run: FinishedRun,
    /// `None` if the run was dropped before it ended.
    pub(in crate::worker) outcome: Option<Outcome>,
    /// Set if the run had its own process and did not succeed.
    pub(in crate::worker) stats: Option<Box<ProcessStats>>,
}

/// The message of a run that has ended.
#[derive(Debug)]
pub(in crate::worker) struct FinishedRun {
    pub(in crate::worker) slot: usize,
    pub(in crate::worker) queue: usize,
    pub(in crate::worker) message: Bytes,
    /// `None` if its task is unknown or was not looked up.
    pub(in crate::worker) task: Option<TaskId>,
    /// Whether suspects existed when it was claimed, so that a success must clear it.
    pub(in crate::worker) is_suspect: bool,
    /// Its position in the order of claims.
    pub(in crate::worker) order: u64,
    /// How long it took; `None` when it did not run.
    pub(in crate::worker) took: Option<Duration>,
    /// `None` if it might have run without limit.
    pub(in crate::worker) deadline: Option<RunDeadline>,
    /// Whether it could notice that it was asked to end.
    pub(in crate::worker) listens: bool,
    /// How its call is tracked, if it is.
    pub(in crate::worker) tracking: Option<Box<Tracking>>,
    /// Its span, if spans are made.
    pub(in crate::worker) span: RunSpan,
}

/// A run that has lasted long.
#[derive(Debug)]
pub(in crate::worker) struct LongRun {
    pub(in crate::worker) queue: usize,
    pub(in crate::worker) slot: usize,
    pub(in crate::worker) began: Instant,
    pub(in crate::worker) message: Bytes,
}

/// The effect of a run's timer.
#[derive(Debug)]
pub(super) enum TimerResult {
    /// The timer belonged to no run, or fired too early.
    Nothing,
    /// The run was told to end, and is checked again at this time.
    Asked(Option<Instant>),
    /// The run continues, and nothing can stop it.
    Overdue { queue: usize, task: Option<TaskId>, message: Bytes, why: &'static str, elapsed: Duration },
}

impl Stop {
    /// Whether there is a run.
    fn is_needed(&self) -> bool {
        !matches!(self, Self::NotNeeded)
    }

    fn is_impossible(&self) -> bool {
        matches!(self, Self::Impossible)
    }
}

impl Running {
    pub(super) fn queue(&self) -> usize {
        self.queue
    }

    pub(super) fn message(&self) -> &Bytes {
        &self.message
    }

    pub(super) fn task(&self) -> Option<TaskId> {
        self.task
    }

    pub(super) fn order(&self) -> u64 {
        self.order
    }

    pub(super) fn is_alone(&self) -> bool {
        self.is_alone
    }

    pub(super) fn is_noted(&self) -> bool {
        self.is_noted
    }

    pub(super) fn permit(&self) -> Permit {
        self.permit
    }

    pub(super) fn set_permit(&mut self, permit: Permit) {
        self.permit = permit;
    }

    pub(super) fn note_begun(&mut self) {
        self.is_noted = true;
    }

    pub(super) fn stop(&self) -> &Stop {
        &self.stop
    }

    pub(super) fn deadline(&self) -> Option<&RunDeadline> {
        self.control.deadline.as_ref()
    }

    pub(super) fn tracking(&self) -> Option<&Tracking> {
        self.tracking.as_deref()
    }

    /// Notes what its message says, and the span of its run.
    pub(super) fn set_task(&mut self, task: Option<TaskId>, of: Option<Box<Tracking>>, span: RunSpan) {
        (self.task, self.tracking, self.span) = (task, of, span);
    }

    /// Whether it is in progress.
    fn is_underway(&self) -> bool {
        match &self.stop {
            Stop::NotNeeded => false,
            Stop::Abort(abort) => !abort.is_finished(),
            Stop::Impossible => true,
            Stop::Process(handle) => !handle.has_ended(),
        }
    }

    /// Lets its deadline pass now. Returns how long it has to end by itself, and when its timer fires.
    pub(super) fn end_now(&mut self, grace: Duration) -> (Duration, Option<Instant>) {
        let now = Instant::now();
        let deadline = self.control.deadline.get_or_insert_with(|| RunDeadline::endless(grace));
        deadline.end(now);
        let (grace, rings) = (deadline.grace(), deadline.next_timer());
        let grace = match &self.control.cancellation {
            Some(cancellation) => {
                cancellation.set_deadline(now);
                grace
            }
            None => Duration::ZERO,
        };
        (grace, rings)
    }

    /// Handles its timer: the run is asked to end, then dropped.
    pub(super) fn on_timer(&mut self, now: Instant) -> TimerResult {
        let Some(deadline) = &mut self.control.deadline else { return TimerResult::Nothing };
        if deadline.next_timer().is_none_or(|at| at > now) {
            return TimerResult::Nothing;
        }
        let abort = match &self.stop {
            Stop::Abort(abort) => Some(abort),
            Stop::NotNeeded | Stop::Impossible | Stop::Process(_) => None,
        };
        let cancellation = &self.control.cancellation;
        let (step, again) = deadline.on_timer(now, cancellation.is_some(), abort.is_some());
        match (step, cancellation, abort) {
            (Step::Ask, Some(cancellation), _) => cancellation.cancel(),
            (Step::Drop, _, Some(abort)) => abort.abort(),
            (Step::Ask | Step::Drop, ..) => {}
            (Step::Warn, _, abort) => {
                let why = match abort {
                    Some(_) => "it reaches no `await`",
                    None => "a function that blocks cannot be stopped",
                };
                let (queue, task, message) = (self.queue, self.task, self.message.clone());
                return TimerResult::Overdue { queue, task, message, why, elapsed: deadline.elapsed() };
            }
        }
        TimerResult::Asked(again)
    }

    fn finish(self, slot: usize) -> FinishedRun {
        FinishedRun {
            slot,
            queue: self.queue,
            message: self.message,
            task: self.task,
            is_suspect: self.is_suspect,
            order: self.order,
            took: self.began.map(|began| began.elapsed()),
            deadline: self.control.deadline,
            listens: self.control.cancellation.is_some(),
            tracking: self.tracking,
            span: self.span,
        }
    }
}

/// The messages of all slots.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// By slot, up to the highest one ever used: a worker with little to do uses few.
    slots: Vec<Option<Running>>,
    running: usize,
    begun: usize,
    /// Runs that were handed over to blocking threads.
    handed_over: usize,
    /// Those of them that were handed over although the maximum number ran: they wait behind others.
    joined: usize,
    alone: usize,
    claims: u64,
}

impl Runs {
    /// How many messages run or are about to begin.
    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// How many have begun and not ended.
    pub(super) fn begun(&self) -> usize {
        self.begun
    }

    /// How many were handed over to blocking threads and have not ended.
    pub(super) fn handed_over(&self) -> usize {
        self.handed_over
    }

    /// How many runs take up concurrency: all but those that wait behind others, which one thread runs one by one.
    pub(super) fn places(&self) -> usize {
        self.begun - self.joined
    }

    /// Puts a message into a slot.
    pub(super) fn hold(
        &mut self,
        slot: usize,
        queue: usize,
        message: Bytes,
        is_suspect: bool,
        is_alone: bool,
    ) {
        debug_assert!(self.get(slot).is_none(), "a slot holds one message");
        self.claims += 1;
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || None);
        }
        self.slots[slot] = Some(Running {
            queue,
            message,
            task: None,
            is_suspect,
            is_alone,
            is_noted: false,
            permit: Permit::Unasked,
            order: self.claims,
            stop: Stop::NotNeeded,
            began: None,
            control: Control::default(),
            tracking: None,
            span: RunSpan::default(),
        });
        self.running += 1;
        self.alone += usize::from(is_alone);
    }

    /// Whether a message runs alone, or is to.
    pub(super) fn has_one_alone(&self) -> bool {
        self.alone > 0
    }

    /// A message that is to run alone and has not begun, and its slot.
    pub(super) fn to_begin_alone(&self) -> Option<(usize, &Running)> {
        if self.alone == 0 {
            return None;
        }
        let waits = |running: &&Running| {
            running.is_alone && !running.stop.is_needed() && running.permit != Permit::Asked
        };
        (0..self.slots.len()).find_map(|slot| Some((slot, self.get(slot).filter(waits)?)))
    }

    /// Notes that the run of a slot has begun: how it is stopped and controlled, and which bytes of its message it keeps. A
    /// blocking run may have joined others and wait behind them.
    pub(super) fn begin(
        &mut self,
        slot: usize,
        message: Bytes,
        stop: Stop,
        control: Control,
        has_joined: bool,
    ) {
        if let Some(running) = self.get_mut(slot) {
            (running.message, running.control) = (message, control);
            running.began.get_or_insert_with(Instant::now);
            let is_handed_over = stop.is_impossible();
            running.stop = stop;
            self.begun += 1;
            self.handed_over += usize::from(is_handed_over);
            self.joined += usize::from(is_handed_over && has_joined);
        }
    }

    /// Notes that the run of a slot was withdrawn before it began.
    pub(super) fn withdraw(&mut self, slot: usize) {
        if let Some(running) = self.get_mut(slot) {
            let before = std::mem::replace(&mut running.stop, Stop::NotNeeded);
            (running.began, running.control) = (None, Control::default());
            self.note_end(&before);
        }
    }

    pub(super) fn get(&self, slot: usize) -> Option<&Running> {
        self.slots.get(slot)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut Running> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// Takes the message out of a slot; `None` if the slot was emptied before.
    pub(super) fn take(&mut self, slot: usize) -> Option<FinishedRun> {
        let running = self.slots.get_mut(slot)?.take()?;
        self.running -= 1;
        self.alone -= usize::from(running.is_alone);
        self.note_end(&running.stop);
        Some(running.finish(slot))
    }

    fn note_end(&mut self, stop: &Stop) {
        self.begun -= usize::from(stop.is_needed());
        if stop.is_impossible() {
            self.handed_over -= 1;
            // A waiting run now counts as one of the concurrent runs.
            self.joined = self.joined.saturating_sub(1);
        }
    }

    fn each(&self) -> impl Iterator<Item = &Running> {
        self.slots.iter().flatten()
    }

    /// How many runs are in progress.
    pub(super) fn underway(&self) -> usize {
        self.each().filter(|running| running.is_underway()).count()
    }

    /// The names of the tasks that are running.
    pub(super) fn names(&self) -> String {
        let mut counts = BTreeMap::new();
        for running in self.each().filter(|running| running.is_underway()) {
            let task =
                Message::decode(&running.message).map_or_else(|_| String::new(), |it| it.task().to_owned());
            *counts.entry(task).or_insert(0) += 1;
        }
        let name = |(task, count): (&String, &usize)| match count {
            1 => task.clone(),
            count => format!("{task} ({count})"),
        };
        counts.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    /// The runs that have lasted at least `least`, longest first, at most `most` of them.
    pub(super) fn long(&self, least: Duration, most: usize) -> Vec<LongRun> {
        let long = |(slot, running): (usize, &Option<Running>)| {
            let running = running.as_ref().filter(|running| running.is_underway())?;
            let began = running.began.filter(|began| began.elapsed() >= least)?;
            Some(LongRun { queue: running.queue, slot, began, message: running.message.clone() })
        };
        let mut runs: Vec<LongRun> = self.slots.iter().enumerate().filter_map(long).collect();
        runs.sort_unstable_by_key(|run| run.began);
        runs.truncate(most);
        runs
    }

    /// How many runs are in progress that only the end of this process can stop.
    pub(super) fn stuck(&self) -> usize {
        let is_stuck =
            |running: &&Running| !matches!(running.stop, Stop::Process(_)) && running.is_underway();
        self.each().filter(is_stuck).count()
    }

    /// Announces to the runs that they will be given up at `deadline`, or at their own deadlines if those are earlier.
    pub(super) fn announce(&self, deadline: Instant) {
        for control in self.each().map(|running| &running.control) {
            if let Some(cancellation) = &control.cancellation {
                let own = control.deadline.map(|own| own.until());
                cancellation.set_deadline(own.map_or(deadline, |own| own.min(deadline)));
            }
        }
    }

    /// Asks all runs to end.
    pub(super) fn cancel_all(&self) {
        for running in self.each() {
            if let Stop::Process(handle) = &running.stop {
                handle.cancel();
            }
            running.control.cancellation.as_ref().map(Cancellation::cancel);
        }
    }

    /// Stops every run that can be stopped: a future at its next `await`, a process at once.
    pub(super) fn abort_all(&self) {
        for running in self.each() {
            match &running.stop {
                Stop::Abort(abort) => abort.abort(),
                Stop::Process(handle) => handle.abandon(),
                Stop::NotNeeded | Stop::Impossible => {}
            }
        }
    }

    /// How many runs are in progress that can be stopped.
    pub(super) fn aborting(&self) -> usize {
        let can_be_stopped = |running: &&Running| {
            matches!(running.stop, Stop::Abort(_) | Stop::Process(_)) && running.is_underway()
        };
        self.each().filter(can_be_stopped).count()
    }

    /// The slots that hold messages.
    pub(super) fn held(&self) -> Vec<usize> {
        (0..self.slots.len()).filter(|slot| self.slots[*slot].is_some()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_that_was_never_used_holds_nothing() {
        let mut runs = Runs::default();
        assert!(runs.get(2).is_none() && runs.get_mut(2).is_none() && runs.take(2).is_none());
        runs.hold(1, 0, Bytes::new(), false, true);
        assert!(runs.get(1).is_some() && runs.get(0).is_none() && runs.take(2).is_none());
        assert_eq!((runs.held(), runs.has_one_alone(), runs.running()), (vec![1], true, 1));
        assert!(runs.take(1).is_some() && runs.take(1).is_none());
        assert_eq!((runs.has_one_alone(), runs.running(), runs.begun()), (false, 0, 0));
    }
}
