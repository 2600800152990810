//! `purge`: drops the messages that wait in a queue.

use serde_json::json;

use crate::cli::Program;
use crate::cli::args::Purge;
use crate::cli::commands::{check_queue, inspector};
use crate::cli::exit::Failure;
use crate::cli::output;

pub(super) async fn run(program: &Program, args: &Purge) -> Result<(), Failure> {
    let inspector = inspector(program).await?;
    let queue = &args.queue;
    check_queue(&inspector, Some(queue)).await?;
    if !args.yes {
        let waiting = inspector.queue(queue).await?.waiting;
        let what = output::counted(waiting, "message");
        match output::confirm(&format!("Drop {what} that {} in {queue}, for good?", wait(waiting)))? {
            Some(true) => {}
            Some(false) if args.output.json => return report(args, 0, None),
            Some(false) => return output::print("nothing was dropped"),
            None => {
                return Err(Failure::usage(format!(
                    "{what} {} in {queue} and would be dropped for good: confirm with --yes",
                    wait(waiting)
                )));
            }
        }
    }
    let dropped = inspector.purge(queue, &mut output::progress("dropped")).await?;
    // What is dropped is gone by now: a failure to count the rest is no failure to purge.
    let owned = inspector.queue(queue).await.ok().map(|status| status.owned);
    report(args, dropped, owned)
}

fn wait(count: u64) -> &'static str {
    if count == 1 { "waits" } else { "wait" }
}

fn report(args: &Purge, dropped: u64, owned: Option<u64>) -> Result<(), Failure> {
    let queue = args.queue.as_str();
    if args.output.json {
        return output::json(&json!({ "queue": queue, "dropped": dropped, "owned": owned }));
    }
    output::print(&format!("dropped {} of {queue}", output::counted(dropped, "message")))?;
    match owned {
        None | Some(0) => Ok(()),
        Some(owned) => output::print(&format!(
            "workers still own {}: {} (`workers` shows {})",
            output::counted(owned, "message"),
            if owned == 1 { "it continues" } else { "they continue" },
            if owned == 1 { "it" } else { "them" },
        )),
    }
}
