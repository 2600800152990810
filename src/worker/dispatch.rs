//! How does a claimed message come to run? It is read, its task looked up, and polled, spawned or handed to a thread.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;

use crate::isolation::Isolation;
use crate::protocol::message::Message;
use crate::runner::{self, Done, Outcome, Run, RunHandle, Speed, start};
use crate::task::Scope;
use crate::task::handler::Handler;
use crate::worker::blocking::Job;
use crate::worker::claim::ClaimLoop;
use crate::worker::slots::Stop;

/// How long one batch may be polled in place before the rest of it is spawned.
const BUDGET: Duration = Duration::from_millis(1);

/// Where a message goes from here.
enum Dispatched {
    /// It did not run, or ran to its end already.
    Ended(Outcome),
    /// It runs on the runtime.
    Spawned(tokio::task::AbortHandle),
    /// It runs on a blocking thread.
    Blocking(Job),
    /// It runs in a process of its own.
    Isolated(RunHandle),
}

impl ClaimLoop {
    /// Runs `messages` in `slots`, one each. Requests are made in between, so that Redis has work meanwhile.
    pub(super) fn dispatch(&mut self, index: usize, slots: &[usize], messages: Vec<Vec<u8>>, alone: bool) {
        let began = Instant::now();
        let mut last = began;
        let mut jobs = Vec::new();
        let suspect = self.lanes[index].suspects;
        for (slot, message) in slots.iter().copied().zip(messages) {
            let message = Bytes::from(message);
            self.lanes[index].lane.own(slot);
            self.slots.begin(slot, index, message.clone(), suspect);
            if alone {
                self.slots.leave_alone(slot);
            }
            if self.closing {
                continue; // It does not begin; it is put back.
            }
            match self.send_off(index, slot, message, began, &mut last) {
                Dispatched::Ended(outcome) => self.on_done(Done { slot, outcome, traces: None }),
                Dispatched::Spawned(abort) => self.slots.stop_by(slot, Stop::Abort(abort)),
                Dispatched::Isolated(handle) => self.slots.stop_by(slot, Stop::Process(handle)),
                Dispatched::Blocking(job) => {
                    self.slots.stop_by(slot, Stop::Impossible);
                    jobs.push(job);
                }
            }
            if self.lanes[index].finished.len() >= self.chunk {
                self.pump();
                last = Instant::now();
            }
        }
        if !jobs.is_empty() {
            if jobs.len() > 1 {
                self.help_later();
            }
            self.blocking.push(jobs);
        }
    }

    fn send_off(
        &self,
        index: usize,
        slot: usize,
        bytes: Bytes,
        began: Instant,
        last: &mut Instant,
    ) -> Dispatched {
        let message = match Message::decode(&bytes) {
            Ok(message) => message,
            Err(error) => return Dispatched::Ended(Outcome::Malformed { problem: error.to_string() }),
        };
        let Some(known) = self.known.get(message.task()) else { return Dispatched::Ended(Outcome::Unknown) };
        let lane = &self.lanes[index].lane;
        if known.isolation != Isolation::Inline
            && let Some(processes) = &self.processes
        {
            let job = runner::Job {
                slot,
                task: known.task.name,
                queue: lane.queue.clone(),
                timeout: known.timeouts.timeout,
                deadline: None,
                grace: known.timeouts.grace(),
                limits: known.limits,
                speed: Arc::clone(&known.speed),
                message: bytes,
            };
            return Dispatched::Isolated(processes.run(job, known.isolation));
        }
        if let Handler::Blocking(_) = known.task.handler {
            let (lane, speed) = (Arc::clone(lane), Arc::clone(&known.speed));
            return Dispatched::Blocking(Job { slot, task: known.task, speed, lane, message: bytes });
        }
        let scope = Scope::new(known.task.name, &lane.queue, &self.shared.states, &self.shared.cancellation)
            .attempt(message.attempts().saturating_add(1))
            .id(message.id());
        let mut run = match start(known.task, message.arguments(), &scope) {
            Ok(run) => run,
            Err(outcome) => return Dispatched::Ended(outcome),
        };
        if known.speed.is_quick() && last.duration_since(began) < BUDGET {
            // The waker is of no use: a run that is not ready is spawned, and polled again there.
            let polled = run.poll_unpin(&mut Context::from_waker(Waker::noop()));
            let now = Instant::now();
            known.speed.learn(now.duration_since(*last));
            *last = now;
            if let Poll::Ready(outcome) = polled {
                return Dispatched::Ended(outcome);
            }
        }
        let (done, speed) = (self.done.clone(), Arc::clone(&known.speed));
        let task = tokio::spawn(async move {
            let outcome = Timed { run, speed: Some(speed) }.await;
            // The loop is gone only when it has put this message back.
            let _ = done.send(Done { slot, outcome, traces: None });
        });
        Dispatched::Spawned(task.abort_handle())
    }
}

/// A run whose first poll is timed.
struct Timed {
    run: Run,
    speed: Option<Arc<Speed>>,
}

impl Future for Timed {
    type Output = Outcome;

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        match self.speed.take() {
            None => self.run.poll_unpin(cx),
            Some(speed) => {
                let began = Instant::now();
                let polled = self.run.poll_unpin(cx);
                speed.learn(began.elapsed());
                polled
            }
        }
    }
}
