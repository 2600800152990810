//! `calls cancel`: ends calls for good, wherever they are.

use std::collections::BTreeMap;

use serde_json::json;

use super::find::{find, queues, unknown};
use crate::cli::Program;
use crate::cli::args::CallsCancel;
use crate::cli::commands::{inspector, somebody};
use crate::cli::exit::{Code, Failure};
use crate::cli::output;
use crate::inspect::{CallFilter, CallRecord, Inspector};
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::{CallState, Cancelled};
use crate::protocol::names::QueueName;

/// What is to be cancelled.
#[derive(Default)]
struct Chosen {
    ids: BTreeMap<QueueName, Vec<CallId>>,
    /// Ids that no call has.
    missing: Vec<CallId>,
    /// How many calls of each state were chosen without their ids.
    states: Vec<(CallState, u64)>,
    /// How many of them have no id.
    nameless: u64,
}

/// A call that was cancelled, or not.
struct Done {
    queue: QueueName,
    id: CallId,
    found: Cancelled,
}

pub(super) async fn run(program: &Program, args: &CallsCancel) -> Result<(), Failure> {
    let inspector = inspector(program).await?;
    let queues = queues(&inspector, args.queue.as_ref()).await?;
    let chosen = choose(&inspector, &queues, args).await?;
    let is_sweeping = args.ids.is_empty() && args.task.is_none();
    if is_sweeping && !args.yes && !chosen.ids.is_empty() {
        let place = args.queue.as_ref().map_or("all queues", QueueName::as_str);
        let what = format!("{} of {place}", described(&chosen.states));
        match output::confirm(&format!("Cancel {what}, for good?"))? {
            Some(true) => {}
            Some(false) if args.output.json => return report(&[], &[], true),
            Some(false) => return output::print("nothing was cancelled"),
            None => {
                return Err(Failure::usage(format!(
                    "{what} would be cancelled for good: confirm with --yes"
                )));
            }
        }
    }
    let by = args.by.clone().unwrap_or_else(somebody);
    let (mut done, mut missing) = (Vec::new(), chosen.missing);
    for (queue, ids) in &chosen.ids {
        let found = inspector.cancel(queue, ids, &by).await?;
        for (id, found) in ids.iter().zip(found) {
            match found {
                Cancelled::NotFound => missing.push(*id),
                found => done.push(Done { queue: queue.clone(), id: *id, found }),
            }
        }
    }
    report(&done, &missing, args.output.json)?;
    if chosen.nameless > 0 {
        let calls = output::counted(chosen.nameless, "call");
        output::note(&format!(
            "{calls} without an id cannot be cancelled: `purge` drops all waiting calls of a queue"
        ));
    }
    conclude(args, &done, &missing)
}

async fn choose(inspector: &Inspector, queues: &[QueueName], args: &CallsCancel) -> Result<Chosen, Failure> {
    let mut chosen = Chosen::default();
    if !args.ids.is_empty() {
        (chosen.ids, chosen.missing) = find(inspector, queues, &args.ids).await?;
        return Ok(chosen);
    }
    let filter = CallFilter { task: args.task.clone(), count: usize::MAX, limit: 0, ..CallFilter::default() };
    for queue in queues {
        let calls = inspector.calls(queue, &filter).await?;
        let ids: Vec<CallId> = calls.iter().filter_map(CallRecord::call_id).collect();
        chosen.nameless += (calls.len() - ids.len()) as u64;
        for call in calls.iter().filter(|call| call.id.is_some()) {
            match chosen.states.iter_mut().find(|(state, _)| *state == call.state) {
                Some((_, count)) => *count += 1,
                None => chosen.states.push((call.state, 1)),
            }
        }
        if !ids.is_empty() {
            chosen.ids.insert(queue.clone(), ids);
        }
    }
    Ok(chosen)
}

/// How many calls of each state: `2 scheduled calls and 1 running call`.
fn described(states: &[(CallState, u64)]) -> String {
    let parts = states.iter().map(|(state, count)| output::counted(*count, &format!("{state} call")));
    parts.collect::<Vec<_>>().join(" and ")
}

fn report(done: &[Done], missing: &[CallId], json: bool) -> Result<(), Failure> {
    let is_cancelled = |done: &&Done| !matches!(done.found, Cancelled::Ended(_));
    let count = done.iter().filter(is_cancelled).count() as u64;
    if json {
        let missing: Vec<String> = missing.iter().map(CallId::to_string).collect();
        let calls: Vec<_> = done
            .iter()
            .map(|Done { queue, id, found }| {
                let (found, ended) = state(*found);
                json!({ "id": id.to_string(), "queue": queue.as_str(), "found": found, "cancelled": !ended })
            })
            .collect();
        return output::json(&json!({ "cancelled": count, "missing": missing, "calls": calls }));
    }
    for Done { queue, id, found } in done {
        let text = match found {
            Cancelled::Scheduled => "was scheduled, and has been removed".into(),
            Cancelled::Retrying => "was waiting for a retry, and has been removed".into(),
            Cancelled::Waiting => "was waiting, and will not run".into(),
            Cancelled::Running => "is running: its worker was asked to end it".into(),
            Cancelled::Ended(state) => format!("had already ended: {state}"),
            Cancelled::NotFound => continue,
        };
        output::print(&format!("{id} in {queue} {text}"))?;
    }
    output::print(&format!("cancelled {}", output::counted(count, "call")))
}

/// The state in which a call was found, and whether it had ended.
fn state(found: Cancelled) -> (Option<CallState>, bool) {
    match found {
        Cancelled::Scheduled => (Some(CallState::Scheduled), false),
        Cancelled::Retrying => (Some(CallState::Retrying), false),
        Cancelled::Waiting => (Some(CallState::Waiting), false),
        Cancelled::Running => (Some(CallState::Running), false),
        Cancelled::Ended(state) => (Some(state), true),
        Cancelled::NotFound => (None, true),
    }
}

/// What is an error: an id that no call has, and a call that had ended otherwise.
fn conclude(args: &CallsCancel, done: &[Done], missing: &[CallId]) -> Result<(), Failure> {
    if !args.ids.is_empty() && !missing.is_empty() {
        return Err(unknown(missing));
    }
    if let (Some(task), true) = (&args.task, done.is_empty()) {
        return Err(Failure::not_found(format!(
            "no unfinished call belongs to the task `{}`: `calls list` shows unfinished calls",
            output::clean(task)
        )));
    }
    let is_late =
        |done: &&Done| matches!(done.found, Cancelled::Ended(state) if state != CallState::Cancelled);
    match done.iter().find(is_late) {
        Some(Done { id, .. }) if !args.ids.is_empty() => Err(Failure::new(
            Code::Failed,
            format!("the call {id} had ended before it could be cancelled: `calls show {id}` shows how"),
        )),
        _ => Ok(()),
    }
}
