//! `flows`: lists, shows, cancels and retries flows.

use serde_json::json;

use crate::cli::Program;
use crate::cli::args::{Flows, FlowsCancel, FlowsList, FlowsRetry, FlowsShow};
use crate::cli::commands::calls::find::queues;
use crate::cli::commands::{inspector, somebody};
use crate::cli::exit::Failure;
use crate::cli::output::{self, Cell};
use crate::inspect::Inspector;
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::{CallState, Cancelled};
use crate::protocol::names::QueueName;

pub(super) async fn run(program: &Program, verb: Flows) -> Result<(), Failure> {
    match verb {
        Flows::List(args) => list(program, &args).await,
        Flows::Show(args) => show(program, &args).await,
        Flows::Cancel(args) => cancel(program, &args).await,
        Flows::Retry(args) => retry(program, &args).await,
    }
}

async fn list(program: &Program, args: &FlowsList) -> Result<(), Failure> {
    let inspector = inspector(program).await?;
    let count = usize::try_from(args.count).unwrap_or(usize::MAX);
    let mut flows = Vec::new();
    for queue in queues(&inspector, args.queue.as_ref()).await? {
        flows.extend(inspector.flows(&queue, count).await?);
    }
    // Those that go on first, then those that began last.
    flows.sort_by_key(|flow| (flow.ended_ms.is_some(), std::cmp::Reverse(flow.began_ms)));
    let is_cut = flows.len() > count;
    flows.truncate(count);
    if args.output.json {
        return output::json(&flows);
    }
    if flows.is_empty() {
        return output::print("there are no flows");
    }
    let rows = flows.iter().map(|flow| {
        let state = Cell::from(flow.state.name()).red_if(flow.state == CallState::Dead);
        let done = format!("{}/{}", flow.done, flow.steps);
        let began = output::distance(flow.began_ms);
        [flow.id.clone().into(), flow.queue.clone().into(), state, done.into(), began.into()]
    });
    output::table(["id", "queue", "state", "done", "began"], rows.collect(), &[(1, 7)])?;
    if is_cut { output::print(&format!("the first {count}; for more: --count")) } else { Ok(()) }
}

async fn show(program: &Program, args: &FlowsShow) -> Result<(), Failure> {
    let inspector = inspector(program).await?;
    for queue in queues(&inspector, args.queue.as_ref()).await? {
        let Some(tree) = inspector.flow(&queue, args.id).await? else { continue };
        return match (args.output.json, args.mermaid) {
            (true, _) => output::json(&tree),
            (false, true) => output::print(tree.mermaid().trim_end()),
            (false, false) => {
                tree.to_string().lines().try_for_each(|line| output::print(&output::clean(line)))
            }
        };
    }
    Err(unknown(&[args.id]))
}

/// The queue of a flow that has begun.
async fn queue_of(
    inspector: &Inspector,
    queues: &[QueueName],
    id: CallId,
) -> Result<Option<QueueName>, Failure> {
    for queue in queues {
        if inspector.has_flow(queue, id).await? {
            return Ok(Some(queue.clone()));
        }
    }
    Ok(None)
}

async fn cancel(program: &Program, args: &FlowsCancel) -> Result<(), Failure> {
    let inspector = inspector(program).await?;
    let queues = queues(&inspector, args.queue.as_ref()).await?;
    let by = args.by.clone().unwrap_or_else(somebody);
    let (mut cancelled, mut ended, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for id in &args.ids {
        let Some(queue) = queue_of(&inspector, &queues, *id).await? else {
            missing.push(*id);
            continue;
        };
        match inspector.cancel(&queue, &[*id], &by).await?.first() {
            Some(Cancelled::Running) => cancelled.push(*id),
            _ => ended.push(*id),
        }
    }
    if args.output.json {
        let [cancelled, ended, missing] = [&cancelled, &ended, &missing].map(|ids| texts(ids));
        output::json(&json!({ "cancelled": cancelled, "ended": ended, "missing": missing }))?;
    } else {
        for id in &ended {
            output::print(&format!("{id} had ended before"))?;
        }
        output::print(&format!("cancelled {}", output::counted(cancelled.len() as u64, "flow")))?;
    }
    if missing.is_empty() { Ok(()) } else { Err(unknown(&missing)) }
}

async fn retry(program: &Program, args: &FlowsRetry) -> Result<(), Failure> {
    let inspector = inspector(program).await?;
    let queues = queues(&inspector, args.queue.as_ref()).await?;
    let (mut retried, mut others, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for id in &args.ids {
        let Some(queue) = queue_of(&inspector, &queues, *id).await? else {
            missing.push(*id);
            continue;
        };
        match inspector.retry_flow(&queue, *id).await? {
            Some(steps) => retried.push((*id, steps)),
            None => others.push(*id),
        }
    }
    if args.output.json {
        let retried: Vec<_> =
            retried.iter().map(|(id, steps)| json!({ "id": id.to_string(), "steps": steps })).collect();
        output::json(&json!({ "retried": retried, "others": texts(&others), "missing": texts(&missing) }))?;
    } else {
        for (id, steps) in &retried {
            output::print(&format!("{id} goes on: {} to run", output::counted(*steps, "step")))?;
        }
        for id in &others {
            output::print(&format!("{id} has succeeded, or goes on"))?;
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(unknown(&missing)) }
}

fn texts(ids: &[CallId]) -> Vec<String> {
    ids.iter().map(CallId::to_string).collect()
}

fn unknown(ids: &[CallId]) -> Failure {
    Failure::not_found(format!(
        "no flow {} is known: it has not begun, or is not kept any more; `flows list` shows those there are, and `calls show` \
         one that waits",
        texts(ids).join(", ")
    ))
}
