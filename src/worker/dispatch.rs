//! How does a claimed message come to run? It is read, its task looked up, and polled, spawned or handed to a thread.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::mpsc::UnboundedSender;

use crate::broker::Place;
use crate::isolation::Isolation;
use crate::protocol::message::Message;
use crate::runner::{Done, Job, Outcome, Run, Speed, start};
use crate::task::handler::Handler;
use crate::task::{Cancellation, Scope};
use crate::worker::batch::Batch;
use crate::worker::blocking::BlockingRun;
use crate::worker::claim_loop::ClaimLoop;
use crate::worker::clock::{Allotment, Clock};
use crate::worker::known::Known;
use crate::worker::lane::Lane;
use crate::worker::lane_state::LaneState;
use crate::worker::shutdown::Phase;
use crate::worker::slots::Stop;
use crate::worker::stats::count;

/// Up to so many bytes are copied for a run that may go on for long. Longer ones seldom share their memory with others, and
/// what they keep of those is below 40 KB.
const COPIED: usize = 1024;

/// Where a message goes from here.
enum Dispatched {
    /// It did not run, or ran to its end already.
    Ended(Outcome),
    /// It runs on the runtime, or in a process of its own.
    Begun(Stop, Reins),
    /// It runs on a blocking thread.
    Blocking(BlockingRun, Reins),
}

/// By what a run is led while it goes on.
struct Reins {
    /// What it runs.
    message: Bytes,
    cancellation: Option<Cancellation>,
    clock: Option<Clock>,
}

/// A message whose task was found.
struct Found<'a> {
    slot: usize,
    lane: &'a Arc<Lane>,
    known: &'a Known,
    bytes: &'a Bytes,
    message: Message<'a>,
}

impl ClaimLoop {
    /// Runs `messages` in `slots`, one each. Requests are made in between, so that Redis has work meanwhile.
    ///
    /// One that is to run alone begins in [`Self::begin_alone`], and is put back while there is such a one already, or as
    /// many run as may: claims that were under way may bring it all the same.
    pub(super) fn dispatch(&mut self, index: usize, slots: &[usize], messages: Vec<Bytes>, alone: bool) {
        let mut batch = Batch::new();
        let mut runs = Vec::new();
        let suspect = self.lanes[index].suspects;
        for (slot, message) in slots.iter().copied().zip(messages) {
            self.lanes[index].lane.own(slot);
            let is_full = self.slots.begun() >= self.concurrency;
            if alone && (self.slots.is_one_alone() || is_full) && !self.closing {
                count(&self.counters.put_back, 1);
                self.lanes[index].put_back_later(slot, Place::Head);
                continue;
            }
            self.slots.begin(slot, index, message, suspect);
            if alone {
                self.slots.leave_alone(slot);
                continue;
            }
            if self.closing {
                continue; // It does not begin; it is put back.
            }
            if self.is_full() || batch.is_over() {
                self.leave_ahead(slot);
                continue;
            }
            self.begin(index, slot, &mut batch, &mut runs);
            if self.lanes[index].finished.len() >= self.chunk(index) {
                self.pump();
                batch.lap();
            }
        }
        self.hand_over(runs);
    }

    /// Begins what is to run alone, when no request is under way or to be made: one may bring another suspect, or put it
    /// back, and what this process owns when it dies counts a death and runs again, also what has ended.
    pub(super) fn begin_alone(&mut self) {
        if self.closing || self.is_full() || self.slots.to_begin_alone().is_none() {
            return;
        }
        self.take_ended();
        if !self.lanes.iter().all(LaneState::is_quiet) {
            return;
        }
        let Some((slot, running)) = self.slots.to_begin_alone() else { return };
        let (index, mut runs) = (running.lane, Vec::new());
        self.begin(index, slot, &mut Batch::new(), &mut runs);
        self.hand_over(runs);
    }

    pub(super) fn begin(
        &mut self,
        index: usize,
        slot: usize,
        batch: &mut Batch,
        runs: &mut Vec<BlockingRun>,
    ) {
        let Some(running) = self.slots.running_in(slot) else { return };
        let before = batch.last;
        match self.send_off(index, slot, &running.message, batch) {
            Dispatched::Ended(outcome) => {
                if batch.last > before {
                    self.outlook.learn(batch.last - before, batch.last, !self.backlog.is_empty());
                }
                self.on_done(slot, outcome, None);
            }
            Dispatched::Begun(stop, reins) => self.lead(slot, stop, reins),
            Dispatched::Blocking(run, reins) => {
                self.lead(slot, Stop::Impossible, reins);
                runs.push(run);
            }
        }
    }

    pub(super) fn hand_over(&mut self, runs: Vec<BlockingRun>) {
        if !runs.is_empty() {
            if runs.len() > 1 {
                self.help_later();
            }
            self.blocking.push(runs);
        }
    }

    fn lead(&mut self, slot: usize, stop: Stop, reins: Reins) {
        self.slots.stop_by(slot, stop);
        let Some(running) = self.slots.running_in_mut(slot) else { return };
        (running.message, running.cancellation, running.clock) =
            (reins.message, reins.cancellation, reins.clock);
        if running.clock.is_some() {
            self.mind(slot);
        }
    }

    fn send_off(&self, index: usize, slot: usize, bytes: &Bytes, batch: &mut Batch) -> Dispatched {
        let message = match Message::decode(bytes) {
            Ok(message) => message,
            Err(error) => return Dispatched::Ended(Outcome::Malformed { problem: error.to_string() }),
        };
        let Some(known) = self.known.get(message.task()) else { return Dispatched::Ended(Outcome::Unknown) };
        let allotment = match Allotment::of(&message, known.timeouts) {
            Ok(allotment) => allotment,
            Err(outcome) => return Dispatched::Ended(outcome),
        };
        if let (Isolation::Fork | Isolation::Prefork, Some(processes)) = (known.isolation, &self.processes) {
            let message = apart(bytes);
            let job = Job {
                slot,
                task: known.task.name,
                queue: self.lanes[index].lane.queue.clone(),
                message: message.clone(),
                timeout: allotment.timeout,
                deadline: allotment.deadline,
                grace: known.timeouts.grace(),
                limits: known.limits,
                speed: Arc::clone(&known.speed),
            };
            let stop = Stop::Process(processes.run(job, known.isolation));
            return Dispatched::Begun(stop, Reins { message, cancellation: None, clock: None });
        }
        let clock = Clock::start(allotment, known.timeouts.grace());
        let found = Found { slot, lane: &self.lanes[index].lane, known, bytes, message };
        self.run_inline(&found, clock, batch)
    }

    /// Runs a task in this process.
    fn run_inline(&self, found: &Found<'_>, clock: Option<Clock>, batch: &mut Batch) -> Dispatched {
        let Found { slot, lane, known, bytes, message } = found;
        let cancellation = known.task.context.then(|| self.cancellation(clock));
        if let Handler::Blocking(_) = known.task.handler {
            let message = if known.speed.is_quick() { (*bytes).clone() } else { apart(bytes) };
            let run = BlockingRun {
                slot: *slot,
                task: known.task,
                speed: Arc::clone(&known.speed),
                lane: Arc::clone(lane),
                message: message.clone(),
                cancellation: cancellation.clone(),
            };
            return Dispatched::Blocking(run, Reins { message, cancellation, clock });
        }
        let heard = cancellation.as_ref().unwrap_or(&self.shared.unheard);
        let scope = Scope::new(known.task.name, &lane.queue, &self.shared.states, heard)
            .attempt(message.attempts().saturating_add(1))
            .id(message.id());
        let mut run = match start(known.task, message.arguments(), &scope) {
            Ok(run) => run,
            Err(outcome) => return Dispatched::Ended(outcome),
        };
        if known.speed.is_quick() && batch.has_time() {
            // The waker is of no use: a run that is not ready is spawned, and polled again there.
            let polled = run.poll_unpin(&mut Context::from_waker(Waker::noop()));
            known.speed.learn(batch.ran());
            if let Poll::Ready(outcome) = polled {
                return Dispatched::Ended(outcome);
            }
        }
        let spawned = Spawned {
            run,
            speed: Some(Arc::clone(&known.speed)),
            report: Report { done: self.done.clone(), slot: *slot, is_made: false },
        };
        let stop = Stop::Abort(tokio::spawn(spawned).abort_handle());
        Dispatched::Begun(stop, Reins { message: apart(bytes), cancellation, clock })
    }

    /// The means to tell a run that it should end, and when.
    fn cancellation(&self, clock: Option<Clock>) -> Cancellation {
        let shutdown = match self.phase() {
            Phase::Stopping { deadline } => Some(deadline),
            _ => None,
        };
        let cancellation = Cancellation::new();
        if let Some(deadline) = clock.map(|clock| clock.until()).into_iter().chain(shutdown).min() {
            cancellation.set_deadline(deadline);
        }
        cancellation
    }
}

/// The same message, for a run that may go on for long: it does not keep in memory what came with it.
fn apart(bytes: &Bytes) -> Bytes {
    if bytes.len() > COPIED { bytes.clone() } else { Bytes::copy_from_slice(bytes) }
}

/// A run on the runtime. Its first poll is timed. However it ends, it is reported once, after it was dropped.
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

/// Tells the loop how a run ended. One that is dropped without a word tells that it was dropped: so a run that ends while
/// it is being stopped is heard as it ended.
struct Report {
    done: UnboundedSender<Done>,
    slot: usize,
    is_made: bool,
}

impl Report {
    fn make(&mut self, outcome: Option<Outcome>) {
        if !std::mem::replace(&mut self.is_made, true) {
            // The loop is gone only when it has put this message back.
            let _ = self.done.send(Done { slot: self.slot, outcome, traces: None });
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
