//! `tasks kill`: ends a run for good.

use crate::cli::Program;
use crate::cli::args::Kill;
use crate::cli::commands::{call, inspector, somebody};
use crate::cli::exit::{Code, Failure};
use crate::cli::output;
use crate::inspect::{Ending, KillError, Killed};

pub(super) async fn run(program: &Program, args: &Kill) -> Result<(), Failure> {
    let by = args.by.clone().unwrap_or_else(somebody);
    let killed = inspector(program).await?.kill(&args.id, &args.queues, &by).await?;
    if args.output.json {
        output::json(&killed)?;
    }
    let text = output::clean(&told(&killed));
    match killed.fate {
        Ending::Killed if args.output.json => Ok(()),
        Ending::Killed => output::print(&text),
        Ending::Over => Err(Failure::not_found(text)),
        Ending::Succeeded | Ending::Blocks | Ending::Lost | Ending::Late => {
            Err(Failure::new(Code::Failed, text))
        }
    }
}

fn told(killed: &Killed) -> String {
    let Killed { fate, queue, wire_id, by, letter, message, .. } = killed;
    let call = call(message);
    match fate {
        Ending::Killed => match letter {
            Some(letter) => format!(
                "killed {call} in {wire_id}, by {by}: `dead show {letter} --queue {queue}` shows its dead letter"
            ),
            None => format!("killed {call} in {wire_id}, by {by}"),
        },
        Ending::Succeeded => format!("{call} succeeded in {wire_id} before it could be killed"),
        Ending::Over => format!(
            "{call} had ended in {wire_id}, or was put back before it began, when the kill request arrived: it may be \
            waiting again, which `peek {queue}` shows"
        ),
        Ending::Blocks => format!(
            "{call} continues in {wire_id}: it was asked to end, but a function that blocks cannot be stopped; if it \
            fails in the end, it counts as killed. To end it now, stop its worker"
        ),
        Ending::Lost => format!(
            "the worker of {wire_id} died or lost {call} before it could end it: the call runs again, and you can \
            kill it there"
        ),
        Ending::Late => format!(
            "the worker of {wire_id} did not end {call} in time, and the kill request was withdrawn: check with \
            `workers` whether the worker is alive and of this version, then try again"
        ),
    }
}

impl From<KillError> for Failure {
    fn from(error: KillError) -> Self {
        let code = match error {
            KillError::Error(error) => return error.into(),
            KillError::Malformed { .. } | KillError::Ambiguous { .. } | KillError::By { .. } => Code::Usage,
            KillError::NotRunning { .. } | KillError::Waiting { .. } => Code::NotFound,
            KillError::Foreign { .. } | KillError::DeadWorker { .. } | KillError::TooMany { .. } => {
                Code::Failed
            }
        };
        Self::new(code, output::clean(&error.to_string()))
    }
}
