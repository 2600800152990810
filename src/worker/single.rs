//! Runs one message without a queue, for a test: the executor runs it, and `decide` says what a worker would do next.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc::unbounded_channel;

use crate::config::WorkerConfig;
use crate::protocol::names::{QueueName, WorkerId};
use crate::task::{Cancellation, Layers, Registry, States, TaskOptions};
use crate::worker::decide::{Policy, RunInfo, decide, message_of};
use crate::worker::event_loop::sleep_until;
use crate::worker::executor::task_table::TaskTable;
use crate::worker::executor::{Batch, Begun, Executor, ExecutorParts, RunEnd, Shared};
use crate::worker::observe::EndedRun;
use crate::worker::prefetch_limiter::PrefetchLimiter;
use crate::worker::queue::served::ServedQueue;

/// The slot of the only message.
const SLOT: usize = 0;

/// Runs a message in this process, as if it had come from `queue`. Isolated tasks run in this process too.
///
/// Cancel-safe in the sense that dropping the future drops the run at its current `await`.
pub(crate) async fn run_single(
    message: Vec<u8>,
    queue: QueueName,
    registry: &Registry,
    states: States,
) -> EndedRun {
    let config = WorkerConfig::default();
    let mut executor = executor(&queue, registry, states, &config);
    executor.hold(SLOT, 0, message.into(), false, false);
    if let Some((order, _)) = executor.await_permit(SLOT) {
        executor.permit(SLOT, order); // A test has no limits.
    }
    let end = match executor.begin(SLOT, &mut Batch::new()) {
        Begun::Ended(end) => end,
        Begun::GoesOn | Begun::Limited(_) => {
            executor.hand_over();
            run_to_end(&mut executor).await
        }
    };
    let task = end.run.task.map(|task| executor.task(task));
    let info = RunInfo {
        options: task.map_or(&TaskOptions::DEFAULT, |task| task.options()),
        killed_by: None,
        is_stopping: false,
        is_draining: false,
    };
    let policy = Policy::of(&config);
    let message = message_of(&end, &info);
    EndedRun::new(&queue, &end.run, &decide(&end, message.as_ref(), &info, &policy))
}

fn executor(queue: &QueueName, registry: &Registry, states: States, config: &WorkerConfig) -> Executor {
    let (done, ended) = unbounded_channel();
    Executor::new(ExecutorParts {
        queues: vec![Arc::new(ServedQueue::new(queue.clone(), &WorkerId::random(), 1))],
        lease: config.lease,
        concurrency: 1,
        limiter: PrefetchLimiter::new(config),
        tasks: TaskTable::new(registry, config),
        shared: Shared {
            states: Arc::new(states),
            unheard: Cancellation::new(),
            layers: Layers::default(),
            reporter: None,
        },
        processes: None,
        done,
        ended,
    })
}

/// Waits for the end of the only run. A plain `fn` cannot be stopped when its time is up, so this waits for its end.
async fn run_to_end(executor: &mut Executor) -> RunEnd {
    let mut reports = Vec::with_capacity(1);
    loop {
        let timer = executor.next_timer();
        tokio::select! {
            _ = executor.ended(&mut reports, 1) => {
                if let Some(end) = reports.drain(..).find_map(|done| executor.finish(done)) {
                    return end;
                }
            }
            () = sleep_until(timer), if timer.is_some() => drop(executor.on_timer(Instant::now())),
        }
    }
}
