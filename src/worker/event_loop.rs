//! The event loop: waits for the next event and hands it to the owner that it concerns.
//!
//! [`Queues`] claims messages and settles them, [`Executor`] runs them, and [`decide`] decides what happens to each message
//! after its run. A message takes one path: a queue delivers it, the executor holds it, `decide` turns its [`RunEnd`] into
//! a settlement, and the settlement goes back to the queue.

mod drain;
mod kill;
mod limited;
mod settle;

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::yield_now;

use crate::broker::Place;
use crate::meter::Source;
use crate::protocol::message::Message;
use crate::runner::{Done, Outcome};
use crate::worker::busy_poll::BusyPoll;
use crate::worker::decide::Policy;
use crate::worker::event_loop::kill::Kills;
use crate::worker::executor::{Batch, Begun, Executor, ExecutorParts, FinishedRun, LongRun, NextPrefetched};
use crate::worker::failures::Failures;
use crate::worker::finished::FinishedCalls;
use crate::worker::hooks::Hooks;
use crate::worker::last_sweep::{LastSweep, SweptQueue};
use crate::worker::observe::EndedRun;
use crate::worker::permits::Permits;
use crate::worker::phase::{Phase, StopReason};
use crate::worker::question::Question;
use crate::worker::queue::{Demand, QueueEvent, QueueInput, QueueParts, Queues, Reply};
use crate::worker::stats::Counters;

pub(super) use self::kill::{KillChannels, answer_all};

/// Maximum number of reports of ended runs that are taken at once.
const REPORTS: usize = 256;

/// How the loop ended.
pub(super) struct Ended {
    pub(super) reason: StopReason,
    /// Runs of blocking functions, which cannot be stopped. Their messages were put back.
    pub(super) still_running: usize,
}

/// The parts of the loop.
pub(super) struct Parts {
    pub(super) queues: QueueParts,
    pub(super) executor: ExecutorParts,
    pub(super) permits: Permits,
    pub(super) kills: KillChannels,
    pub(super) policy: Policy,
    pub(super) counters: Arc<Counters>,
    pub(super) observer: Option<UnboundedSender<EndedRun>>,
    pub(super) hooks: Hooks,
    pub(super) source: Option<Arc<Source>>,
    pub(super) finished: Option<FinishedCalls>,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) questions: Questions,
    pub(super) is_burst: bool,
    pub(super) last_sweep: LastSweep,
}

/// Questions that other threads ask the loop.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// Which tasks are running; asked when the process exits.
    pub(super) running: Arc<Question<String>>,
    /// Which runs have lasted long; asked by the heartbeat.
    pub(super) long_runs: Arc<Question<Vec<LongRun>>>,
}

/// Connects the queues with the executor.
pub(super) struct EventLoop {
    queues: Queues,
    executor: Executor,
    permits: Permits,
    kills: Kills,
    policy: Policy,
    failures: Failures,
    counters: Arc<Counters>,
    /// For tests: receives each run.
    observer: Option<UnboundedSender<EndedRun>>,
    hooks: Hooks,
    /// Counts runs, if somebody shows the metrics of this worker.
    source: Option<Arc<Source>>,
    /// Lists finished calls, if that is enabled.
    finished: Option<FinishedCalls>,
    phase: watch::Receiver<Phase>,
    questions: Questions,
    busy_poll: BusyPoll,
    is_burst: bool,
    /// The sweep before a burst ends.
    last_sweep: LastSweep,
    /// The loop has ended; only the remaining messages are settled.
    is_draining: bool,
    /// Runs that failed after the loop ended. Their messages are put back together with those that still run.
    cancelled: Vec<FinishedRun>,
}

impl EventLoop {
    pub(super) fn new(parts: Parts) -> Self {
        Self {
            queues: Queues::new(parts.queues),
            executor: Executor::new(parts.executor),
            permits: parts.permits,
            kills: Kills::new(parts.kills),
            policy: parts.policy,
            failures: Failures::new(),
            counters: parts.counters,
            observer: parts.observer,
            hooks: parts.hooks,
            source: parts.source,
            finished: parts.finished,
            phase: parts.phase,
            questions: parts.questions,
            busy_poll: BusyPoll::new(),
            is_burst: parts.is_burst,
            last_sweep: parts.last_sweep,
            is_draining: false,
            cancelled: Vec::new(),
        }
    }

    /// Runs until the worker is told to stop and everything is settled or put back.
    pub(super) async fn run(mut self) -> Ended {
        let mut reports = Vec::with_capacity(REPORTS);
        let reason = loop {
            if self.executor.has_timers() {
                // The timer alone is not enough: a busy loop seldom polls it.
                self.on_timer();
            }
            self.flush();
            self.queues.hand_on().await;
            while let Some(reply) = self.queues.early_reply() {
                self.on_reply(reply);
                self.flush();
                self.queues.hand_on().await;
            }
            if let Some(reason) = self.is_over() {
                break reason;
            }
            let timer = self.next_timer();
            let polls = self.executor.can_begin_prefetched() || self.busy_poll.looks(self.only_waits());
            // Not biased: a queue of quick tasks always has the next reply ready.
            tokio::select! {
                Ok(()) = self.phase.changed() => self.on_phase(),
                input = self.queues.next() => self.on_queue_input(input),
                _ = self.executor.ended(&mut reports, REPORTS) => {
                    reports.drain(..).for_each(|done| self.on_end(done));
                }
                Some((queue, kill)) = self.kills.requested() => self.on_kill(queue, kill),
                answers = self.permits.answers(self.is_burst) => self.on_answers(answers),
                left = self.last_sweep.ended() => self.on_last_sweep(&left),
                () = sleep_until(timer), if timer.is_some() => self.on_timer(),
                () = yield_now(), if polls => continue,
            }
            self.busy_poll.on_input();
        };
        if let Some(source) = &self.source {
            source.end();
        }
        let still_running = self.drain().await;
        self.failures.print_all();
        Ended { reason, still_running }
    }

    fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Whether anything may be claimed now.
    fn accepts(&self) -> bool {
        !self.is_draining && self.phase() == Phase::Running && !self.executor.has_one_alone()
    }

    /// Why the loop may end, if it may: nothing runs and nothing is left to settle, or the time is up.
    fn is_over(&mut self) -> Option<StopReason> {
        let is_idle = self.executor.running() == 0 && !self.queues.have_work();
        match self.phase() {
            Phase::Now => Some(StopReason::Requested),
            Phase::Stopping { deadline } if is_idle || Instant::now() >= deadline => {
                Some(StopReason::Requested)
            }
            Phase::Running if self.is_burst && is_idle => {
                let is_drained = self.permits.are_idle() && self.queues.have_nothing() && self.has_swept();
                is_drained.then_some(StopReason::Drained)
            }
            _ => None,
        }
    }

    /// Whether a sweep found nothing in queues that were already drained. Starts one if necessary.
    fn has_swept(&mut self) -> bool {
        let claimed = self.counters.snapshot().claimed;
        self.last_sweep.is_done(claimed, self.queues.all_served())
    }

    /// The last sweep has ended: claims what it moved, and what others have enqueued meanwhile.
    fn on_last_sweep(&mut self, left: &[SweptQueue]) {
        let mut found_nothing = true;
        for (queue, SweptQueue { moved, waits }) in left.iter().enumerate() {
            let is_for_us = !self.queues.is_unknown(queue) && !self.queues.is_paused(queue);
            if *moved || (*waits && is_for_us) {
                found_nothing = false;
                self.queues.wake(queue);
            }
        }
        if found_nothing {
            self.last_sweep.note_nothing();
        }
    }

    /// Whether the loop can only wait for the reply to a claim that will probably bring messages.
    fn only_waits(&self) -> bool {
        self.executor.running() == 0 && self.queues.expect_messages()
    }

    fn next_timer(&mut self) -> Option<Instant> {
        let deadline = match self.phase() {
            Phase::Stopping { deadline } => Some(deadline),
            _ => None,
        };
        let timers = [self.queues.next_timer(), self.executor.next_timer(), self.failures.due(), deadline];
        timers.into_iter().flatten().min()
    }

    fn on_timer(&mut self) {
        let now = Instant::now();
        self.queues.on_timer(now);
        self.failures.print_due(now);
        for overdue in self.executor.on_timer(now) {
            self.on_overdue(overdue);
        }
        if let Some(queue) = self.executor.overdue_prefetched(now) {
            let put_back = self.put_back_prefetched();
            tracing::debug!(queue = %self.queues.name(queue), messages = put_back, "run takes long; prefetched messages put back");
        }
    }

    fn on_phase(&mut self) {
        self.questions.running.answer(|| self.executor.names_of_running());
        self.questions.long_runs.answer(|| self.executor.long_runs());
        if let Phase::Stopping { deadline } = self.phase() {
            self.executor.announce(deadline);
        }
    }

    fn on_queue_input(&mut self, input: QueueInput) {
        match input {
            QueueInput::Reply(reply) => self.on_reply(reply),
            QueueInput::Pause(news) => {
                self.queues.on_pause_news(news);
                self.on_queue_events();
            }
            QueueInput::Woken(woken) => {
                let demand = demand(&self.executor, self.accepts());
                self.queues.woken(woken, demand);
                // The reply to a pick-up behind the wait has arrived, too.
                if let Some(reply) = self.queues.ready_reply() {
                    self.on_reply(reply);
                }
            }
        }
    }

    fn on_reply(&mut self, reply: Reply) {
        let took = reply.took();
        if let (Some(source), Some((took, _))) = (&self.source, took) {
            let (queue, script) = reply.script();
            source.meter.answered(queue, script, took);
        }
        self.queues.on_reply(reply);
        self.on_queue_events();
        if let Some((took, slots)) = took {
            self.busy_poll.answered(took, slots, self.executor.begun() == 0);
        }
        self.on_early_kills();
    }

    fn on_queue_events(&mut self) {
        while let Some(event) = self.queues.next_event() {
            self.on_queue_event(event);
        }
    }

    fn on_queue_event(&mut self, event: QueueEvent) {
        match event {
            QueueEvent::Arrived { .. } => self.on_arrived(event),
            QueueEvent::Cancelled { queue, slot, message } => {
                self.leave_lines(queue, &message);
                self.executor.hold(slot, queue, message, false, false);
                let outcome = Outcome::Cancelled { by: String::new() };
                if let Some(end) = self.executor.end_as(slot, outcome) {
                    self.settle(end);
                }
            }
            QueueEvent::Begun { slot } => self.executor.note_begun(slot),
            // A message whose call was killed meanwhile is already settled.
            QueueEvent::NotOwned { queue, slot } => {
                if self.executor.take(slot).is_some() {
                    self.permits.give_back_unused(slot);
                    self.queues.forget(queue, slot);
                }
            }
            QueueEvent::Paused { queue } => self.put_back_prefetched_of(queue),
            QueueEvent::Settled { slot, is_done } => self.kills.on_settled(slot, is_done),
            QueueEvent::Buried { queue, burial, letter } => {
                self.failures.buried(self.queues.name(queue), &burial, letter.as_deref());
            }
        }
    }

    /// Starts everything that can start, sends every request that can be sent, and waits for tokens of empty queues.
    fn flush(&mut self) {
        self.executor.update_limiter();
        self.begin_alone();
        let mut batch = Batch::new();
        loop {
            let more = self.begin_prefetched(&mut batch);
            self.send_requests();
            if !more {
                break;
            }
        }
        self.permits.flush();
        self.executor.watch_prefetched();
        let demand = demand(&self.executor, self.accepts());
        self.queues.wait_for_tokens(demand);
    }

    fn send_requests(&mut self) {
        let demand = demand(&self.executor, self.accepts());
        self.queues.flush(demand);
    }

    /// Runs messages that arrived in their slots. Sends requests in between, so that Redis works at the same time.
    ///
    /// A message that is to run alone begins in [`Self::begin_alone`]. It is put back if another such message is held, or
    /// if the maximum number of messages runs: a claim that was already in flight may still bring one.
    fn on_arrived(&mut self, arrived: QueueEvent) {
        let QueueEvent::Arrived { queue, slots, messages, alone, suspects } = arrived else { return };
        let mut batch = Batch::new();
        for (slot, message) in slots.into_iter().zip(messages) {
            let has_no_room = self.executor.has_one_alone() || self.executor.is_busy();
            if alone && has_no_room && !self.is_draining {
                self.queues.put_back(queue, slot, Place::Head);
                continue;
            }
            self.executor.hold(slot, queue, message, suspects, alone);
            if alone || self.is_draining {
                continue; // It begins later; or it does not, and is put back.
            }
            if self.executor.is_full() || batch.is_over() {
                self.executor.leave_prefetched(slot);
                continue;
            }
            self.begin(slot, &mut batch);
            if self.queues.should_release(queue, self.executor.limiter()) {
                self.flush();
                batch.lap();
            }
        }
        if self.queues.is_paused(queue) {
            // The queue was paused while the messages were on their way.
            self.put_back_prefetched_of(queue);
        }
        self.executor.hand_over();
    }

    fn begin(&mut self, slot: usize, batch: &mut Batch) {
        let begun = self.executor.begin(slot, batch);
        self.count_begun(slot, &begun);
        match begun {
            Begun::Ended(end) => self.settle(end),
            Begun::Limited(limits) => self.ask_limits(slot, limits),
            Begun::GoesOn => {
                if let Some(started) = self.executor.started(slot)
                    && let Some((queue, _)) = self.executor.held(slot)
                {
                    self.queues.note_started(queue, started);
                }
            }
        }
    }

    /// Begins a message that is to run alone, once no request is in flight or waiting to be sent. Such a request may bring
    /// another suspect or put this one back. And if this process dies, every message that it still owns counts a death and
    /// runs again, even if its run has ended. Redis first notes that the message begins, because this process may not live
    /// to report it. A message whose task another worker has is not noted.
    fn begin_alone(&mut self) {
        if self.is_draining || self.executor.is_full() || self.executor.to_begin_alone().is_none() {
            return;
        }
        self.take_ended();
        if !self.queues.are_quiet() {
            return;
        }
        let Some((queue, slot, message, is_noted)) = self.executor.to_begin_alone() else { return };
        let is_known = Message::decode(message).is_ok_and(|message| self.executor.knows(message.task()));
        if is_known && !is_noted && !self.queues.is_blocked(queue) {
            // While Redis is unreachable, it waits.
            self.queues.begin(queue, slot);
            return;
        }
        self.begin(slot, &mut Batch::new());
        self.executor.hand_over();
    }

    /// Begins prefetched messages as runs end, until enough messages are finished that they should be released first.
    /// Returns whether more can begin now.
    fn begin_prefetched(&mut self, batch: &mut Batch) -> bool {
        if !self.executor.has_prefetched() {
            return false;
        }
        if self.is_draining {
            // They are put back together with the messages that run.
            self.executor.clear_prefetched();
            return false;
        }
        if self.phase() > Phase::Quiet {
            self.put_back_prefetched();
            return false;
        }
        let mut is_enough = false;
        while !is_enough && !batch.is_over() {
            match self.executor.next_prefetched() {
                NextPrefetched::None => break,
                NextPrefetched::Lapsed => {
                    self.put_back_prefetched();
                    break;
                }
                NextPrefetched::Slot { queue, slot } => {
                    self.begin(slot, batch);
                    is_enough = self.queues.should_release(queue, self.executor.limiter());
                }
            }
        }
        self.executor.hand_over();
        is_enough && self.executor.has_prefetched()
    }

    /// Puts messages that have not begun back to the heads of their queues, for other workers. Returns how many.
    fn put_back_prefetched(&mut self) -> usize {
        // Last first, so that they end up in their original order.
        let taken = self.executor.take_prefetched();
        let count = taken.len();
        taken.into_iter().for_each(|(queue, slot)| self.put_back(queue, slot));
        count
    }

    /// Does the same for one queue.
    fn put_back_prefetched_of(&mut self, queue: usize) {
        let slots = self.executor.take_prefetched_of(queue);
        slots.into_iter().rev().for_each(|slot| self.put_back(queue, slot));
    }

    /// Takes in all reports of ended runs that have arrived.
    fn take_ended(&mut self) {
        while let Some(done) = self.executor.ended_now() {
            self.on_end(done);
        }
    }

    fn on_end(&mut self, done: Done) {
        if let Some(end) = self.executor.finish(done) {
            self.settle(end);
        }
    }
}

/// The worker's current demand.
fn demand(executor: &Executor, accepts: bool) -> Demand<'_> {
    Demand { accepts, concurrency: executor.concurrency(), limiter: executor.limiter() }
}

pub(super) async fn sleep_until(timer: Option<Instant>) {
    match timer {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
