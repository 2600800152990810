//! Runs functions that block, on the runtime's blocking threads: many quick ones on one thread.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::mpsc::UnboundedSender;

use crate::excerpt::excerpt;
use crate::protocol::message::Message;
use crate::runner::{Done, Outcome, Speed, run_blocking};
use crate::task::progress::Reporter;
use crate::task::{Cancellation, Layers, Registration, Scope, States};
use crate::worker::queue::served::ServedQueue;

/// A run that waits for a thread.
pub(super) struct BlockingRun {
    pub(super) slot: usize,
    pub(super) task: &'static Registration,
    pub(super) speed: Arc<Speed>,
    pub(super) queue: Arc<ServedQueue>,
    pub(super) message: Bytes,
    /// None when its task does not ask for its context.
    pub(super) cancellation: Option<Cancellation>,
}

/// What all runs of a worker share.
#[derive(Debug, Clone)]
pub(in crate::worker) struct Shared {
    pub(in crate::worker) states: Arc<States>,
    pub(in crate::worker) layers: Layers,
    /// Where runs of calls with a record report their progress to.
    pub(in crate::worker) reporter: Option<Reporter>,
    /// Of runs that do not ask for their context, and so hear nothing of it.
    pub(in crate::worker) unheard: Cancellation,
}

/// Runs that wait for a thread, and the threads that take them one by one until none is left.
#[derive(Clone)]
pub(super) struct BlockingRuns {
    state: Arc<Mutex<State>>,
    done: UnboundedSender<Done>,
    shared: Shared,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<BlockingRun>,
    /// Threads that work, or were asked for.
    threads: usize,
    /// Those of them that were asked for and have not come yet.
    asked: usize,
}

impl BlockingRuns {
    pub(super) fn new(done: UnboundedSender<Done>, shared: Shared) -> Self {
        Self { state: Arc::default(), done, shared }
    }

    /// How many threads work, or were asked for.
    pub(super) fn threads(&self) -> usize {
        self.state().threads
    }

    /// Hands over runs. Those of quick tasks share one thread, every other one gets a thread of its own, as long as there are
    /// no more than `most`: then they wait for one of those.
    pub(super) fn push(&self, runs: Vec<BlockingRun>, most: usize) {
        let mut state = self.state();
        state.waiting.extend(runs);
        // Also for runs that were handed over before, as long as no thread has come for them.
        let slow = state.waiting.iter().filter(|run| !run.speed.is_quick()).count();
        let wanted = slow + usize::from(slow < state.waiting.len());
        self.ask(&mut state, wanted, most);
    }

    /// Gives every run that still waits a thread of its own, as long as there are no more than `most`: the one before it was
    /// not as quick as it used to be. Takes back those that get none; gives their slots.
    pub(super) fn help(&self, most: usize) -> Vec<usize> {
        let mut state = self.state();
        let wanted = state.waiting.len();
        self.ask(&mut state, wanted, most);
        let asked = state.asked;
        state.waiting.drain(asked.min(wanted)..).map(|run| run.slot).collect()
    }

    /// Takes back the runs that have not begun. Gives their slots.
    pub(super) fn withdraw(&self) -> Vec<usize> {
        self.state().waiting.drain(..).map(|run| run.slot).collect()
    }

    /// Takes a run back unless it has begun.
    pub(super) fn withdraw_one(&self, slot: usize) -> bool {
        let waiting = &mut self.state().waiting;
        let place = waiting.iter().position(|run| run.slot == slot);
        place.is_some_and(|place| waiting.remove(place).is_some())
    }

    /// Asks for threads until so many are to come, or there are `most`.
    fn ask(&self, state: &mut State, wanted: usize, most: usize) {
        while state.asked < wanted && state.threads < most {
            state.asked += 1;
            state.threads += 1;
            let this = self.clone();
            tokio::task::spawn_blocking(move || this.work());
        }
    }

    fn work(&self) {
        self.state().asked -= 1;
        while let Some(run) = self.next() {
            let began = Instant::now();
            let outcome = self.run(&run);
            run.speed.learn(began.elapsed());
            // The loop is gone only when it has taken back what waits.
            let _ = self.done.send(Done { slot: run.slot, outcome: Some(outcome), stats: None });
        }
    }

    /// The next run of a thread, which ends when there is none.
    fn next(&self) -> Option<BlockingRun> {
        let mut state = self.state();
        let run = state.waiting.pop_front();
        state.threads -= usize::from(run.is_none());
        run
    }

    fn run(&self, run: &BlockingRun) -> Outcome {
        // It was read once before it came here, so it can be read again.
        match Message::decode(&run.message) {
            Ok(message) => {
                let scope = Scope::new(
                    run.task.name,
                    &run.queue.queue,
                    &self.shared.states,
                    run.cancellation.as_ref().unwrap_or(&self.shared.unheard),
                )
                .message(&message)
                .reporter(self.shared.reporter.as_ref())
                .place(&run.queue.worker, run.slot);
                run_blocking(run.task, message.arguments(), &scope, &self.shared.layers, None)
            }
            Err(error) => Outcome::Malformed { problem: excerpt(error) },
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
