//! `workers`: who works, and on what.

use crate::cli::Program;
use crate::cli::args::Workers;
use crate::cli::commands::{call, check_queue, inspector, limit};
use crate::cli::exit::Failure;
use crate::cli::output::{self, Cell};
use crate::cli::watch::watch;
use crate::inspect::{WorkerInfo, WorkerKind, WorkerPhase, WorkerStatus};

pub(super) async fn run(program: &Program, args: &Workers) -> Result<(), Failure> {
    watch(&args.watch, args.output.json, async || show(program, args).await).await
}

async fn show(program: &Program, args: &Workers) -> Result<(), Failure> {
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
        return output::print("no worker is visible: `worker` starts one");
    }
    let mut rows = Vec::new();
    for worker in &workers {
        rows.push(row(worker));
        for running in &worker.running {
            // Each is what `tasks kill` takes.
            let id = running.message.call_id.as_ref().unwrap_or(&running.wire_id);
            let what = format!("{} {}", running.queue, call(&running.message));
            let state =
                running.started_ms.map_or_else(String::new, |ms| format!("runs {}", output::since(ms)));
            rows.push([format!("  {id}").into(), state.into(), "".into(), what.into()]);
        }
    }
    output::table(["worker, and its calls", "state", "lease", "what it runs"], rows, &[(3, 12)])
}

fn row(worker: &WorkerStatus) -> [Cell; 4] {
    let state = match worker.info.as_ref().and_then(|info| info.phase) {
        _ if !worker.alive => "dead",
        Some(WorkerPhase::Quiet) => "quiet",
        Some(WorkerPhase::Draining) => "draining",
        _ => "alive",
    };
    let place = match (&worker.info, worker.kind) {
        (Some(info), _) => format!("{} pid {} ({})", info.host, info.pid, versions(info)),
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

/// The versions of the program, if it states one, and of the library.
fn versions(info: &WorkerInfo) -> String {
    match &info.program_version {
        Some(program) => format!("{program}, delayed {}", info.version),
        None => format!("delayed {}", info.version),
    }
}

/// How many of what it may run at a time, and what was claimed ahead.
fn busy(owned: u64, concurrency: u64) -> String {
    match owned.checked_sub(concurrency) {
        None | Some(0) => format!("{owned} of {concurrency}"),
        Some(ahead) => format!("{concurrency} of {concurrency}, {ahead} ahead"),
    }
}
