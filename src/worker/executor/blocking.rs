//! Runs blocking functions on the runtime's blocking threads: many quick ones share one thread.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::mpsc::UnboundedSender;

use crate::excerpt::excerpt;
use crate::isolation::Isolation;
use crate::otel::RunSpan;
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
    /// `None` if its task does not take its context.
    pub(super) cancellation: Option<Cancellation>,
}

/// What all runs of a worker share.
#[derive(Debug, Clone)]
pub(in crate::worker) struct Shared {
    pub(in crate::worker) states: Arc<States>,
    pub(in crate::worker) layers: Layers,
    /// Where runs of calls with a record report their progress.
    pub(in crate::worker) reporter: Option<Reporter>,
    /// For runs that do not take their context and cannot notice a cancellation.
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
    /// Threads that are working or were requested.
    threads: usize,
    /// Those of them that were requested and have not started yet.
    asked: usize,
}

impl BlockingRuns {
    pub(super) fn new(done: UnboundedSender<Done>, shared: Shared) -> Self {
        Self { state: Arc::default(), done, shared }
    }

    /// How many threads are working or were requested.
    pub(super) fn threads(&self) -> usize {
        self.state().threads
    }

    /// Hands over runs. Runs of quick tasks share one thread; every other run gets its own. Beyond `most` threads, runs
    /// wait for one of the existing threads.
    pub(super) fn push(&self, runs: Vec<BlockingRun>, most: usize) {
        let mut state = self.state();
        state.waiting.extend(runs);
        // Includes runs that were handed over earlier and that no thread has taken yet.
        let slow = state.waiting.iter().filter(|run| !run.speed.is_quick()).count();
        let wanted = slow + usize::from(slow < state.waiting.len());
        self.ask(&mut state, wanted, most);
    }

    /// Gives every waiting run its own thread, up to `most` threads, because an earlier run is slower than expected. Takes
    /// back the runs that get no thread; returns their slots.
    pub(super) fn help(&self, most: usize) -> Vec<usize> {
        let mut state = self.state();
        let wanted = state.waiting.len();
        self.ask(&mut state, wanted, most);
        let asked = state.asked;
        state.waiting.drain(asked.min(wanted)..).map(|run| run.slot).collect()
    }

    /// Takes back the runs that have not begun. Returns their slots.
    pub(super) fn withdraw(&self) -> Vec<usize> {
        self.state().waiting.drain(..).map(|run| run.slot).collect()
    }

    /// Takes a run back unless it has begun.
    pub(super) fn withdraw_one(&self, slot: usize) -> bool {
        let waiting = &mut self.state().waiting;
        let place = waiting.iter().position(|run| run.slot == slot);
        place.is_some_and(|place| waiting.remove(place).is_some())
    }

    /// Requests threads until `wanted` of them are starting, or there are `most` in total.
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
            let mut span = RunSpan::default();
            let outcome = self.run(&run, &mut span);
            run.speed.learn(began.elapsed());
            // The loop ends only after it has taken back the waiting runs.
            let _ = self.done.send(Done { slot: run.slot, outcome: Some(outcome), stats: None, span });
        }
    }

    /// The next run for a thread. The thread ends if there is none.
    fn next(&self) -> Option<BlockingRun> {
        let mut state = self.state();
        let run = state.waiting.pop_front();
        state.threads -= usize::from(run.is_none());
        run
    }

    fn run(&self, run: &BlockingRun, span: &mut RunSpan) -> Outcome {
        // The message was decoded before it came here, so decoding succeeds again.
        match Message::decode(&run.message) {
            Ok(message) => {
                let (queue, worker) = (run.queue.queue.as_str(), run.queue.worker.as_str());
                *span = RunSpan::start(&message, queue, worker, Isolation::Inline.as_str());
                let own = span.message(&message);
                let message = own.as_deref().and_then(|own| Message::decode(own).ok()).unwrap_or(message);
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
