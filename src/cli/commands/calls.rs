//! `calls`: lists, shows, cancels, runs and awaits calls.

mod cancel;
pub(super) mod find;
mod show;
mod wait;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use self::find::{found, queues};
pub(super) use self::wait::{conclude, outcome};
use crate::cli::Program;
use crate::cli::args::{Calls, CallsList, CallsRun, CallsShow};
use crate::cli::commands::{call, inspector, limit};
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::cli::watch::watch;
use crate::inspect::{CallFilter, CallRecord};
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::CallState;

pub(super) async fn run(program: &Program, verb: Calls) -> Result<(), Failure> {
    match verb {
        Calls::List(args) => watch(&args.watch, args.output.json, async || list(program, &args).await).await,
        Calls::Show(args) => show(program, &args).await,
        Calls::Cancel(args) => cancel::run(program, &args).await,
        Calls::Run(args) => run_now(program, &args).await,
        Calls::Wait(args) => wait::run(program, &args).await,
    }
}

async fn list(program: &Program, args: &CallsList) -> Result<(), Failure> {
    let json = args.output.json;
    let count = usize::try_from(args.count).unwrap_or(usize::MAX);
    let inspector = inspector(program).await?;
    let filter = CallFilter {
        states: args.states.clone(),
        task: args.task.clone(),
        id_prefix: args.id.clone(),
        count,
        limit: limit(json),
        ..CallFilter::default()
    };
    let mut calls = Vec::new();
    for queue in queues(&inspector, args.queue.as_ref()).await? {
        calls.extend(inspector.calls(&queue, &filter).await?);
    }
    calls.sort_by_key(order);
    let is_cut = calls.len() >= count;
    calls.truncate(count);
    if json {
        return output::json(&calls);
    }
    if calls.is_empty() {
        return output::print("there are no such calls");
    }
    let rows = calls.iter().map(|found| {
        let [id, queue] = [found.id.as_deref().unwrap_or("-"), &found.queue].map(str::to_owned);
        let when = found.at_ms().map_or_else(|| "-".into(), output::distance);
        let failed = found.message.attempts.to_string();
        let is_dead = found.state == CallState::Dead;
        let state = output::Cell::from(found.state.name()).red_if(is_dead);
        [id.into(), queue.into(), state, when.into(), failed.into(), call(&found.message).into()]
    });
    output::table(["id", "queue", "state", "when", "failed", "call"], rows.collect(), &[(5, 5), (1, 7)])?;
    if is_cut {
        output::print(&format!("only the first {count} are shown: use --count for more"))
    } else {
        Ok(())
    }
}

/// By what calls of several queues are ordered: those that run, wait, are due first, and have ended last.
fn order(call: &CallRecord) -> (u8, u64, Reverse<u64>) {
    let rank = match call.state {
        CallState::Running => 0,
        CallState::Waiting => 1,
        CallState::Scheduled | CallState::Retrying => 2,
        _ => 3,
    };
    let due = if rank == 2 { call.due_ms.unwrap_or(0) } else { 0 };
    (rank, due, Reverse(call.ended_ms.unwrap_or(0)))
}

async fn show(program: &Program, args: &CallsShow) -> Result<(), Failure> {
    let inspector = inspector(program).await?;
    let queues = queues(&inspector, args.queue.as_ref()).await?;
    let (_, found) = found(&inspector, &queues, args.id).await?;
    if args.output.json { output::json(&found) } else { output::print(&show::shown(&found)) }
}

async fn run_now(program: &Program, args: &CallsRun) -> Result<(), Failure> {
    let inspector = inspector(program).await?;
    let queues = queues(&inspector, args.queue.as_ref()).await?;
    let (mut done, mut missing_ids) = (0, Vec::new());
    for id in args.ids.iter().collect::<BTreeSet<_>>() {
        let before = done;
        for queue in &queues {
            done += inspector.run_now(queue, &[*id]).await?;
        }
        if done == before {
            missing_ids.push(*id);
        }
    }
    if args.output.json {
        let missing: Vec<String> = missing_ids.iter().map(CallId::to_string).collect();
        output::json(&serde_json::json!({ "enqueued": done, "missing": missing }))?;
    } else {
        output::print(&format!("enqueued {}", output::counted(done, "call")))?;
    }
    if missing_ids.is_empty() {
        return Ok(());
    }
    let ids: Vec<String> = missing_ids.iter().map(CallId::to_string).collect();
    Err(Failure::not_found(format!(
        "no call {} is scheduled: it may have run, or be running; `calls list` shows the known calls",
        ids.join(", ")
    )))
}
