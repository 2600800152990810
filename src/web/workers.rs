//! Shows workers, and what each of their slots runs.

use std::sync::Arc;

use maud::{Markup, html};

use super::calls::described_call;
use super::failure::Failure;
use super::form::{Done, Wanted, button};
use super::page::{Section, View, table};
use super::shared::SHORT;
use super::text::{counted, cut, duration, now_ms, number, when, when_or_dash};
use super::unreadable::Unreadable;
use super::visit::Visit;
use crate::inspect::{Running, WorkerKind, WorkerOrder, WorkerPhase, WorkerStatus};

/// How many runs are shown.
const RUNS: usize = 200;

pub(super) async fn list(visit: Arc<Visit>) -> Result<View, Failure> {
    let workers = visit.shared.workers().await?;
    let unreadable = Unreadable::known(&visit.shared.queues().await?);
    let rows: Vec<Markup> = workers.iter().map(|worker| row(&visit, worker)).collect();
    let mut runs: Vec<(&WorkerStatus, &Running)> =
        workers.iter().flat_map(|worker| worker.running.iter().map(move |run| (worker, run))).collect();
    let count = runs.len();
    // The longest first; those that have just begun have no time yet.
    runs.sort_by_key(|(_, run)| run.started_ms.unwrap_or(u64::MAX));
    let runs: Vec<Markup> =
        runs.into_iter().take(RUNS).map(|(worker, run)| running(&visit, worker, run)).collect();
    let alive = workers.iter().filter(|worker| worker.alive).count() as u64;
    let body = html! {
        h1 { "Workers" }
        (unreadable.show(&visit))
        p { (counted(alive, "worker")) " alive." }
        (table(
            "Workers",
            &["worker", "state", "busy", "host", "version", "queues", "started", "lease", "actions"],
            &rows,
            "No worker is visible. Python and Go workers are seen while they run a call.",
        ))
        h2 { "Running calls" }
        (table("Running calls", &["runs for", "call", "queue", "slot", "actions"], &runs, "Nothing runs."))
        @if count > RUNS { p.hint { "The longest " (RUNS) " of " (number(count as u64)) "." } }
    };
    Ok(View { title: "Workers".to_owned(), section: Section::Workers, body })
}

fn row(visit: &Visit, worker: &WorkerStatus) -> Markup {
    let (state, class) = match worker.info.as_ref().and_then(|info| info.phase) {
        _ if !worker.alive => ("dead", "bad"),
        Some(WorkerPhase::Quiet) => ("quiet", "warn"),
        Some(WorkerPhase::Draining) => ("draining", "warn"),
        _ => ("alive", "good"),
    };
    let info = worker.info.as_ref();
    let busy = worker.running.len() as u64;
    html! {
        tr {
            th scope="row" { code { (cut(&worker.id, 40)) } }
            td { span class={ "badge " (class) } { (state) } }
            td.number {
                @match info {
                    Some(info) if busy > info.concurrency => {
                        (info.concurrency) " of " (info.concurrency) ", " (busy - info.concurrency) " ahead"
                    }
                    Some(info) => { (busy) " of " (info.concurrency) }
                    None => { (busy) }
                }
            }
            td {
                @match (info, worker.kind) {
                    (Some(info), _) => { (cut(&info.host, 60)) " (pid " (info.pid) ")" }
                    (None, WorkerKind::Foreign) => "Python or Go",
                    (None, WorkerKind::Ours) => "–",
                }
            }
            td {
                @if let Some(info) = info {
                    @if let Some(program) = &info.program_version { (cut(program, 40)) ", " }
                    "delayed " (cut(&info.version, 20))
                }
            }
            td.text { (worker.queues.join(" ")) }
            td.number { (when_or_dash(info.map(|info| info.started_ms))) }
            td.number { (worker.lease_ends_ms.map(when).unwrap_or_else(|| html! { "–" })) }
            td {
                @if worker.alive && worker.kind == WorkerKind::Ours {
                    div.actions {
                        @if state == "alive" { (button(visit, "worker-quiet", "Quiet", &[("id", &worker.id)])) }
                        (button(visit, "worker-stop", "Drain", &[("id", &worker.id)]))
                    }
                }
            }
        }
    }
}

fn running(visit: &Visit, worker: &WorkerStatus, run: &Running) -> Markup {
    let call = described_call(&run.message);
    // Each is what `kill` takes.
    let id = run.message.call_id.as_ref().unwrap_or(&run.wire_id);
    html! {
        tr {
            td.number {
                @match run.started_ms {
                    Some(ms) => (duration(now_ms().saturating_sub(ms) / 1000 * 1000)),
                    None => span.faint title="It has just begun, or was claimed ahead" { "–" },
                }
            }
            td.text {
                @match &run.message.call_id {
                    Some(id) => a href=(visit.link("/call", &[("queue", &run.queue), ("id", id)])) { (cut(&call, SHORT)) },
                    None => (cut(&call, SHORT)),
                }
            }
            td { (run.queue) }
            td.text { (run.wire_id) }
            td {
                @if worker.kind == WorkerKind::Ours {
                    (button(visit, "kill", "Kill", &[("queue", &run.queue), ("id", id)]))
                }
            }
        }
    }
}

/// Tells a worker to claim nothing more, or to stop.
pub(super) async fn order(visit: &Visit, wanted: &Wanted, order: WorkerOrder) -> Result<Done, Failure> {
    let id = wanted.need("id")?;
    if !visit.inspector().await?.order_worker(id, order, visit.by()).await? {
        return Err(Failure::not_found(format!("The worker {id} is gone.")));
    }
    Ok(Done::new(match order {
        WorkerOrder::Stop => format!("The worker {id} will end its runs and stop"),
        _ => format!("The worker {id} will claim nothing more"),
    }))
}
