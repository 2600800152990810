//! `peek`: messages that wait.

use crate::cli::Program;
use crate::cli::args::Peek;
use crate::cli::commands::{call, check_queue, inspector, limit, or_dash, time};
use crate::cli::exit::Failure;
use crate::cli::output;

pub(super) async fn run(program: &Program, args: &Peek) -> Result<(), Failure> {
    let json = args.output.json;
    let inspector = inspector(program).await?;
    check_queue(&inspector, Some(&args.queue)).await?;
    let waiting = inspector.peek(&args.queue, args.start, args.count, limit(json)).await?;
    if json {
        return output::json(&waiting);
    }
    if waiting.is_empty() {
        return output::print(&format!("nothing waits in {} from position {} on", args.queue, args.start));
    }
    let rows = waiting.iter().map(|waiting| {
        let message = &waiting.message;
        let cells = [
            waiting.position.to_string(),
            or_dash(message.form.map(str::to_owned)),
            call(message),
            message.attempts.to_string(),
            or_dash(message.retry.map(|retry| retry.to_string())),
            or_dash(message.timeout_ms.map(time)),
            or_dash(message.expires_ms.map(output::distance)),
            or_dash(message.call_id.clone()),
        ];
        cells.map(output::Cell::from)
    });
    let heads = ["place", "form", "call", "failed", "retry", "timeout", "expires", "id"];
    output::table(heads, rows.collect(), &[(2, 16), (7, 10), (6, 8), (5, 7), (2, 6)])
}
