//! `workers`: who works, and on what.

use crate::cli::Program;
use crate::cli::args::Workers;
use crate::cli::commands::{call, check_queue, inspector, limit};
use crate::cli::exit::Failure;
use crate::cli::output::{self, Cell};
use crate::inspect::{WorkerKind, WorkerStatus};

pub(super) async fn run(program: &Program, args: &Workers) -> Result<(), Failure> {
    let json = args.output.json;
    let inspector = inspector(program).await?;
    for queue in &args.queues {
        check_queue(&inspector, Some(queue)).await?;
    }
    let workers = inspector.workers(&args.queues, limit(json)).await?;
    if json {
        return output::json(&workers);
    }
    if workers.is_empty() {
        return output::print("no worker is to be seen: `worker` starts one");
    }
    let mut rows = Vec::new();
    for worker in &workers {
        rows.push(row(worker));
        for running in &worker.running {
            // Each is what `tasks kill` takes.
            let id = running.message.call_id.as_ref().unwrap_or(&running.wire_id);
            let what = format!("{} {}", running.queue, call(&running.message));
            rows.push([format!("  {id}").into(), "".into(), "".into(), what.into()]);
        }
    }
    output::table(["worker, and its calls", "state", "lease", "what it runs"], rows, &[(3, 12)])
}

fn row(worker: &WorkerStatus) -> [Cell; 4] {
    let state = if worker.alive { "alive" } else { "dead" };
    let place = match (&worker.info, worker.kind) {
        (Some(info), _) => format!("{} pid {} ({})", info.host, info.pid, info.version),
        (None, WorkerKind::Foreign) => "Python or Go".into(),
        (None, WorkerKind::Ours) => "-".into(),
    };
    let busy = match &worker.info {
        Some(info) => busy(worker.running.len() as u64, info.concurrency),
        None => worker.running.len().to_string(),
    };
    let lease = worker.lease_ends_ms.map_or_else(|| "-".into(), output::distance);
    let what = format!("runs {busy}: {place}, {}", worker.queues.join(" "));
    [worker.id.clone().into(), Cell::from(state).red_if(!worker.alive), lease.into(), what.into()]
}

/// How many of what it may run at a time, and what was claimed ahead.
fn busy(owned: u64, concurrency: u64) -> String {
    match owned.checked_sub(concurrency) {
        None | Some(0) => format!("{owned} of {concurrency}"),
        Some(ahead) => format!("{concurrency} of {concurrency}, {ahead} ahead"),
    }
}
