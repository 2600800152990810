//! `queues pause` and `queues resume`: whether workers claim from a queue.

use crate::cli::Program;
use crate::cli::args::{PauseQueue, QueuesVerb};
use crate::cli::commands::{check_queue, inspector, somebody};
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::inspect::{Inspector, PauseChange, WorkerKind};
use crate::protocol::names::QueueName;

pub(super) async fn run(program: &Program, verb: &QueuesVerb) -> Result<(), Failure> {
    let (QueuesVerb::Pause(args) | QueuesVerb::Resume(args)) = verb;
    let PauseQueue { queue, by, output } = args;
    let by = by.clone().unwrap_or_else(somebody);
    let inspector = inspector(program).await?;
    check_queue(&inspector, Some(queue)).await?;
    let change = match verb {
        QueuesVerb::Pause(_) => inspector.pause(queue, &by).await?,
        QueuesVerb::Resume(_) => inspector.resume(queue, &by).await?,
    };
    if change.paused && has_foreign_workers(&inspector, queue).await {
        output::note(&format!(
            "warning: a Python or Go worker serves {queue}: it ignores the pause, and continues"
        ));
    }
    if output.json { output::json(&change) } else { output::print(&output::clean(&told(&change))) }
}

/// Whether a worker of another language is to be seen, as long as it owns a message. The queue is paused by now: a failure
/// to look is no failure to pause.
async fn has_foreign_workers(inspector: &Inspector, queue: &QueueName) -> bool {
    let workers = inspector.workers(std::slice::from_ref(queue), 0).await.unwrap_or_default();
    workers.iter().any(|worker| worker.alive && worker.kind == WorkerKind::Foreign)
}

fn told(change: &PauseChange) -> String {
    let PauseChange { queue, paused, changed, pause, .. } = change;
    match (paused, changed, pause) {
        (true, true, _) => format!("paused {queue}: `queues resume {queue}` ends the pause"),
        (true, false, Some(pause)) => {
            format!("{queue} is already paused, by {} {}", pause.by, output::distance(pause.since_ms))
        }
        (false, true, Some(pause)) => {
            format!("resumed {queue}, which was paused by {} {}", pause.by, output::distance(pause.since_ms))
        }
        _ => format!("{queue} is not paused"),
    }
}
