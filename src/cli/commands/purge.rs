//! `purge`: drops what waits.

use serde_json::json;

use crate::cli::Program;
use crate::cli::args::Purge;
use crate::cli::commands::inspector;
use crate::cli::exit::Failure;
use crate::cli::output;

pub(super) async fn run(program: &Program, args: &Purge) -> Result<(), Failure> {
    let inspector = inspector(program).await?;
    let queue = &args.queue;
    if !args.yes {
        let waiting = inspector.queue(queue).await?.waiting;
        match output::confirm(&format!("Drop {waiting} messages that wait in {queue}, for good?"))? {
            Some(true) => {}
            Some(false) if args.output.json => return report(args, 0),
            Some(false) => return output::print("nothing was dropped"),
            None => {
                return Err(Failure::usage(format!(
                    "{waiting} messages wait in {queue} and would be dropped for good: say so with --yes"
                )));
            }
        }
    }
    let dropped = inspector.purge(queue, &mut output::progress("dropped")).await?;
    report(args, dropped)
}

fn report(args: &Purge, dropped: u64) -> Result<(), Failure> {
    let queue = args.queue.as_str();
    if args.output.json {
        return output::json(&json!({ "queue": queue, "dropped": dropped }));
    }
    output::print(&format!("dropped {dropped} messages of {queue}"))
}
