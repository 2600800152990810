//! Where do functions that block run? On the runtime's blocking threads, many quick ones on one thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::mpsc::UnboundedSender;

use crate::protocol::message::Message;
use crate::runner::{Done, Outcome, Speed, run_blocking};
use crate::task::{Cancellation, Registration, Scope, States};
use crate::worker::lane::Lane;

/// A run that waits for a thread.
pub(super) struct BlockingRun {
    pub(super) slot: usize,
    pub(super) task: &'static Registration,
    pub(super) speed: Arc<Speed>,
    pub(super) lane: Arc<Lane>,
    pub(super) message: Bytes,
    /// None when its task does not ask for its context.
    pub(super) cancellation: Option<Cancellation>,
}

/// What all runs of a worker share.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub(super) states: Arc<States>,
    /// Of runs that do not ask for their context, and so hear nothing of it.
    pub(super) unheard: Cancellation,
}

/// Runs that wait for a thread, and the threads that take them one by one until none is left.
#[derive(Clone)]
pub(super) struct BlockingRuns {
    waiting: Arc<Mutex<VecDeque<BlockingRun>>>,
    /// Threads that were asked for and have not come yet.
    asked: Arc<AtomicUsize>,
    done: UnboundedSender<Done>,
    shared: Shared,
}

impl BlockingRuns {
    pub(super) fn new(done: UnboundedSender<Done>, shared: Shared) -> Self {
        Self { waiting: Arc::default(), asked: Arc::default(), done, shared }
    }

    /// Hands over runs. Those of quick tasks share one thread, every other one gets a thread of its own.
    pub(super) fn push(&self, runs: Vec<BlockingRun>) {
        let mut queue = self.queue();
        queue.extend(runs);
        // Also for what was handed over before, as long as no thread has come for it.
        let slow = queue.iter().filter(|run| !run.speed.is_quick()).count();
        self.ask(slow + usize::from(slow < queue.len()));
    }

    /// Gives every run that still waits a thread of its own: the one before it was not as quick as it used to be.
    pub(super) fn help_all(&self) {
        self.ask(self.queue().len());
    }

    /// Takes back the runs that have not begun. Gives their slots.
    pub(super) fn withdraw(&self) -> Vec<usize> {
        self.queue().drain(..).map(|run| run.slot).collect()
    }

    /// Takes a run back unless it has begun.
    pub(super) fn withdraw_one(&self, slot: usize) -> bool {
        let mut queue = self.queue();
        let place = queue.iter().position(|run| run.slot == slot);
        place.is_some_and(|place| queue.remove(place).is_some())
    }

    /// Asks for threads until so many are to come.
    fn ask(&self, threads: usize) {
        for _ in self.asked.load(Ordering::Relaxed)..threads {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let this = self.clone();
            tokio::task::spawn_blocking(move || this.work());
        }
    }

    fn work(&self) {
        self.asked.fetch_sub(1, Ordering::Relaxed);
        loop {
            let run = self.queue().pop_front();
            let Some(run) = run else { return };
            let began = Instant::now();
            let outcome = self.run(&run);
            run.speed.learn(began.elapsed());
            if self.done.send(Done { slot: run.slot, outcome: Some(outcome), traces: None }).is_err() {
                return;
            }
        }
    }

    fn run(&self, run: &BlockingRun) -> Outcome {
        // It was read once before it came here, so it can be read again.
        match Message::decode(&run.message) {
            Ok(message) => {
                let scope = Scope::new(
                    run.task.name,
                    &run.lane.queue,
                    &self.shared.states,
                    run.cancellation.as_ref().unwrap_or(&self.shared.unheard),
                )
                .attempt(message.attempts().saturating_add(1))
                .id(message.id());
                run_blocking(run.task, message.arguments(), &scope)
            }
            Err(error) => Outcome::Malformed { problem: error.to_string() },
        }
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<BlockingRun>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
