//! `peek`: messages that wait.

use crate::cli::Program;
use crate::cli::args::Peek;
use crate::cli::commands::{call, inspector, limit, or_dash, time};
use crate::cli::exit::Failure;
use crate::cli::output;

pub(super) async fn run(program: &Program, args: &Peek) -> Result<(), Failure> {
    let json = args.output.json;
    let waiting = inspector(program).await?.peek(&args.queue, args.start, args.count, limit(json)).await?;
    if json {
        return output::json(&waiting);
    }
    if waiting.is_empty() {
        return output::print(&format!("nothing waits in {} from place {} on", args.queue, args.start));
    }
    let rows = waiting.iter().map(|waiting| {
        let message = &waiting.message;
        [
            waiting.position.to_string(),
            or_dash(message.form.map(str::to_owned)),
            call(message),
            message.attempts.to_string(),
            or_dash(message.retry.map(|retry| retry.to_string())),
            or_dash(message.timeout_ms.map(time)),
            or_dash(message.deadline_ms.map(output::moment)),
            or_dash(message.call_id.clone()),
        ]
    });
    output::table(["place", "form", "call", "failed", "retry", "timeout", "deadline", "id"], rows.collect())
}
