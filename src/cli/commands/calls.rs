//! `calls`: lists, shows, cancels and runs calls that are scheduled.

use std::collections::BTreeMap;

use crate::cli::Program;
use crate::cli::args::{Calls, CallsCancel, CallsList, CallsRun, CallsShow};
use crate::cli::commands::{LONG, call, check_queue, inspector, limit, or_dash};
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::error::Error;
use crate::inspect::{Inspector, ScheduledCall};
use crate::protocol::call_id::CallId;
use crate::protocol::names::QueueName;

/// How many calls are looked for where all are meant.
const ALL: usize = usize::MAX;

pub(super) async fn run(program: &Program, verb: Calls) -> Result<(), Failure> {
    match verb {
        Calls::List(args) => list(program, &args).await,
        Calls::Show(args) => show(program, &args).await,
        Calls::Cancel(args) => cancel(program, &args).await,
        Calls::Run(args) => run_now(program, &args).await,
    }
}

async fn list(program: &Program, args: &CallsList) -> Result<(), Failure> {
    let json = args.output.json;
    let count = usize::try_from(args.count).unwrap_or(ALL);
    let inspector = inspector(program).await?;
    let mut calls = Vec::new();
    for queue in queues(&inspector, args.queue.as_ref()).await? {
        let is_wanted = |call: &ScheduledCall| args.state.is_none_or(|state| call.state == state.name());
        // Those of another state may come first.
        let most = if args.state.is_some() { ALL } else { count };
        let found = inspector.scheduled(&queue, args.task.as_deref(), most, limit(json)).await?;
        calls.extend(found.into_iter().filter(is_wanted).take(count));
    }
    calls.sort_by_key(|call| call.due_ms);
    let is_cut = calls.len() >= count;
    calls.truncate(count);
    if json {
        return output::json(&calls);
    }
    if calls.is_empty() {
        return output::print("no such call is scheduled");
    }
    let rows = calls.iter().map(|scheduled| {
        let attempts = scheduled.message.attempts.to_string();
        let [id, queue] = [&scheduled.id, &scheduled.queue].map(Clone::clone);
        let (state, due) = (scheduled.state.to_owned(), output::distance(scheduled.due_ms));
        [id, queue, state, due, attempts, call(&scheduled.message)].map(output::Cell::from)
    });
    output::table(["id", "queue", "state", "due", "failed", "call"], rows.collect(), &[(5, 6), (1, 7)])?;
    if is_cut { output::print(&format!("the first {count}; for more: --count")) } else { Ok(()) }
}

async fn show(program: &Program, args: &CallsShow) -> Result<(), Failure> {
    let inspector = inspector(program).await?;
    for queue in queues(&inspector, args.queue.as_ref()).await? {
        if let Some(found) = inspector.scheduled_call(&queue, args.id, LONG).await? {
            return if args.output.json { output::json(&found) } else { output::print(&shown(&found)) };
        }
    }
    Err(missing(&[args.id]))
}

fn shown(scheduled: &ScheduledCall) -> String {
    let message = &scheduled.message;
    let mut lines = vec![
        ("id", scheduled.id.clone()),
        ("queue", scheduled.queue.clone()),
        ("state", scheduled.state.into()),
        ("due", output::moment(scheduled.due_ms)),
        ("task", or_dash(message.task.clone())),
        ("arguments", or_dash(message.arguments_text.clone())),
        ("failed", message.attempts.to_string()),
        ("retry", or_dash(message.retry.map(|retry| retry.to_string()))),
        ("back-off", or_dash(message.backoff.clone())),
        ("bytes", message.bytes.to_string()),
    ];
    lines.extend(message.problem.clone().map(|problem| ("problem", problem)));
    lines.extend((1..).zip(&message.errors).map(|(nth, error)| {
        let name = if nth == 1 { "errors" } else { "" };
        (name, format!("{} {}: {}", output::moment(error.at_ms), error.reason, error.detail))
    }));
    let lines = lines.into_iter().map(|(name, text)| format!("{name:<10} {}", output::clean(&text)));
    lines.collect::<Vec<_>>().join("\n")
}

async fn cancel(program: &Program, args: &CallsCancel) -> Result<(), Failure> {
    let inspector = inspector(program).await?;
    let queues = queues(&inspector, args.queue.as_ref()).await?;
    let mut missing_ids = Vec::new();
    let mut found: BTreeMap<QueueName, Vec<CallId>> = BTreeMap::new();
    if args.ids.is_empty() {
        for queue in queues {
            let calls = inspector.scheduled(&queue, args.task.as_deref(), ALL, 0).await?;
            let ids: Vec<CallId> = calls.iter().filter_map(ScheduledCall::call_id).collect();
            if !ids.is_empty() {
                found.insert(queue, ids);
            }
        }
    } else {
        (found, missing_ids) = find(&inspector, &queues, &args.ids).await?;
    }
    let total: usize = found.values().map(Vec::len).sum();
    if args.all && !args.yes && total > 0 {
        let what = output::counted(total as u64, "scheduled call");
        match output::confirm(&format!("Cancel {what}, for good?"))? {
            Some(true) => {}
            Some(false) if args.output.json => return report("cancelled", 0, &[], args.output.json),
            Some(false) => return output::print("nothing was cancelled"),
            None => {
                return Err(Failure::usage(format!("{what} would be cancelled for good: say so with --yes")));
            }
        }
    }
    let mut done = 0;
    for (queue, ids) in &found {
        let found = inspector.cancel(queue, ids, "").await?;
        done += found.len() as u64;
    }
    report("cancelled", done, &missing_ids, args.output.json)?;
    match &args.task {
        Some(task) if done == 0 => Err(Failure::not_found(format!(
            "no scheduled call is of the task `{}`: `calls list` shows those there are",
            output::clean(task)
        ))),
        _ => Ok(()),
    }
}

async fn run_now(program: &Program, args: &CallsRun) -> Result<(), Failure> {
    let inspector = inspector(program).await?;
    let queues = queues(&inspector, args.queue.as_ref()).await?;
    let (found, missing_ids) = find(&inspector, &queues, &args.ids).await?;
    let mut done = 0;
    for (queue, ids) in &found {
        done += inspector.run_now(queue, ids).await?;
    }
    report("enqueued", done, &missing_ids, args.output.json)
}

/// The queues in whose timetables these calls are, and the ids that are in none.
async fn find(
    inspector: &Inspector,
    queues: &[QueueName],
    ids: &[CallId],
) -> Result<(BTreeMap<QueueName, Vec<CallId>>, Vec<CallId>), Failure> {
    let (mut found, mut missing) = (BTreeMap::<QueueName, Vec<CallId>>::new(), Vec::new());
    for id in ids {
        let mut is_found = false;
        for queue in queues {
            if inspector.scheduled_call(queue, *id, 0).await?.is_some() {
                is_found = true;
                let ids = found.entry(queue.clone()).or_default();
                if !ids.contains(id) {
                    ids.push(*id);
                }
            }
        }
        if !is_found && !missing.contains(id) {
            missing.push(*id);
        }
    }
    Ok((found, missing))
}

/// The queue that was named, or all.
async fn queues(inspector: &Inspector, named: Option<&QueueName>) -> Result<Vec<QueueName>, Failure> {
    match named {
        Some(queue) => {
            check_queue(inspector, Some(queue)).await?;
            Ok(vec![queue.clone()])
        }
        None => Ok(inspector.queue_names().await.map_err(Error::from)?.into_iter().collect()),
    }
}

fn report(verb: &str, done: u64, gone: &[CallId], json: bool) -> Result<(), Failure> {
    if json {
        let gone: Vec<String> = gone.iter().map(ToString::to_string).collect();
        output::json(&serde_json::json!({ verb: done, "missing": gone }))?;
    } else {
        output::print(&format!("{verb} {}", output::counted(done, "call")))?;
    }
    if gone.is_empty() { Ok(()) } else { Err(missing(gone)) }
}

fn missing(ids: &[CallId]) -> Failure {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    Failure::not_found(format!(
        "no call {} is scheduled: it may have run, or run now; `calls list` shows those there are",
        ids.join(", ")
    ))
}
