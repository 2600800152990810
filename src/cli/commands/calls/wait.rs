//! `calls wait`, and what `enqueue --wait` has in common with it.

use std::time::Duration;

use super::find::{found, queues};
use crate::cli::Program;
use crate::cli::args::CallsWait;
use crate::cli::commands::inspector;
use crate::cli::exit::{Code, Failure};
use crate::cli::output;
use crate::inspect::{CallRecord, Inspector};
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::CallState;
use crate::protocol::names::QueueName;

pub(super) async fn run(program: &Program, args: &CallsWait) -> Result<(), Failure> {
    let inspector = inspector(program).await?;
    let queues = queues(&inspector, args.queue.as_ref()).await?;
    let (queue, _) = found(&inspector, &queues, args.id).await?;
    let call = outcome(&inspector, &queue, args.id, args.timeout).await?;
    if args.output.json {
        output::json(&call)?;
    }
    conclude(&call, args.output.json)
}

/// The call as it is when it has ended, or when the time is over.
pub(in crate::cli::commands) async fn outcome(
    inspector: &Inspector,
    queue: &QueueName,
    id: CallId,
    timeout: Option<Duration>,
) -> Result<CallRecord, Failure> {
    let call = inspector.wait(queue, id, timeout.unwrap_or(Duration::MAX)).await?;
    call.ok_or_else(|| {
        Failure::not_found(format!(
            "the call {id} in {queue} has no record, so its end cannot be seen: enqueue it with `--keep`, or with \
            `#[delayed::task(keep = \"1h\")]`; `calls show {id}` shows where it is"
        ))
    })
}

/// Prints what a call returned, unless that was printed, or says why there is nothing.
pub(in crate::cli::commands) fn conclude(call: &CallRecord, is_printed: bool) -> Result<(), Failure> {
    let id = call.id.as_deref().unwrap_or_default();
    let text = |text: &Option<String>| text.as_deref().map(output::clean).unwrap_or_default();
    match call.state {
        CallState::Succeeded => match &call.result_problem {
            Some(problem) => Err(Failure::new(
                Code::Failed,
                format!("the call {id} succeeded, and its result is not kept: {}", output::clean(problem)),
            )),
            None if is_printed => Ok(()),
            None => output::json(&call.result),
        },
        CallState::Dead => {
            let (reason, error, letter) = (text(&call.reason), text(&call.error), text(&call.letter));
            let error = if error.is_empty() { reason } else { format!("{reason}: {error}") };
            let advice = format!("`dead show {letter} --queue {}` shows more", call.queue);
            Err(Failure::new(Code::Failed, format!("the call {id} is dead: {error}; {advice}")))
        }
        CallState::Expired => {
            Err(Failure::new(Code::Failed, format!("the call {id} expired before it could run")))
        }
        CallState::Cancelled => {
            Err(Failure::new(Code::Failed, format!("the call {id} was cancelled by {}", text(&call.by))))
        }
        state => Err(Failure::new(
            Code::Late,
            format!(
                "the call {id} has not ended in time, and continues: it is {state}; `calls wait {id}` waits for it"
            ),
        )),
    }
}
