//! `dead`: calls that could not be run.

use crate::cli::Program;
use crate::cli::args::{Dead, DeadList, DeadMove, DeadShow};
use crate::cli::commands::{LONG, call, inspector, limit, or_dash, time};
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::inspect::{DeadLetter, Selection};
use crate::protocol::names::QueueName;

pub(super) async fn run(program: &Program, verb: Dead) -> Result<(), Failure> {
    match verb {
        Dead::List(args) => list(program, &args).await,
        Dead::Show(args) => show(program, &args).await,
        Dead::Requeue(args) => requeue(program, args).await,
        Dead::Delete(args) => delete(program, args).await,
    }
}

async fn list(program: &Program, args: &DeadList) -> Result<(), Failure> {
    let json = args.output.json;
    let (after, task) = (args.after.as_deref(), args.task.as_deref());
    let count = usize::try_from(args.count).unwrap_or(usize::MAX);
    let letters =
        inspector(program).await?.dead_letters(&args.queue, after, task, count, limit(json)).await?;
    if json {
        return output::json(&letters);
    }
    let Some(last) = letters.last() else {
        return output::print(&format!("{} has no dead letters here", args.queue));
    };
    let more = (letters.len() == count).then(|| format!("for more: --after {}", last.id));
    let rows = letters.iter().map(|letter| {
        let detail: String = letter.detail.chars().take(120).collect();
        let [id, reason] = [&letter.id, &letter.reason].map(Clone::clone);
        [id, output::moment(letter.at_ms), reason, letter.attempt.to_string(), call(&letter.message), detail]
    });
    output::table(["id", "buried", "reason", "attempt", "call", "detail"], rows.collect())?;
    more.map_or(Ok(()), |more| output::print(&more))
}

async fn show(program: &Program, args: &DeadShow) -> Result<(), Failure> {
    let letter = inspector(program).await?.dead_letter(&args.queue, &args.id, LONG).await?;
    let letter = letter.ok_or_else(|| missing(&args.queue, std::slice::from_ref(&args.id)))?;
    if args.output.json { output::json(&letter) } else { output::print(&shown(&letter)) }
}

fn shown(letter: &DeadLetter) -> String {
    let message = &letter.message;
    let mut lines = vec![
        ("id", letter.id.clone()),
        ("task", or_dash(message.task.clone())),
        ("arguments", or_dash(message.arguments_text.clone())),
        ("buried", output::moment(letter.at_ms)),
        ("reason", letter.reason.clone()),
        ("detail", letter.detail.clone()),
        ("attempt", letter.attempt.to_string()),
        ("worker", letter.worker.clone()),
        ("form", or_dash(message.form.map(str::to_owned))),
        ("retry", or_dash(message.retry.map(|retry| retry.to_string()))),
        ("call id", or_dash(message.call_id.clone())),
        ("timeout", or_dash(message.timeout_ms.map(time))),
        ("deadline", or_dash(message.deadline_ms.map(output::moment))),
        ("bytes", message.bytes.to_string()),
    ];
    lines.extend(message.problem.clone().map(|problem| ("problem", problem)));
    lines.extend(message.hex.clone().map(|hex| ("hex", hex)));
    let mut lines: Vec<String> =
        lines.into_iter().map(|(name, text)| format!("{name:<10} {}", output::clean(&text))).collect();
    if let Some(written) = &letter.output {
        lines.push("output".into());
        lines.extend(written.lines().map(|line| format!("    {}", output::clean(line))));
    }
    lines.join("\n")
}

async fn requeue(program: &Program, args: DeadMove) -> Result<(), Failure> {
    let which = selection(&args);
    let mut progress = output::progress("requeued");
    let handled = inspector(program).await?.requeue_dead(&args.queue, &which, &mut progress).await?;
    drop(progress);
    report(&args, "requeued", &handled.missing, handled.done)
}

async fn delete(program: &Program, args: DeadMove) -> Result<(), Failure> {
    let which = selection(&args);
    let mut progress = output::progress("deleted");
    let handled = inspector(program).await?.delete_dead(&args.queue, &which, &mut progress).await?;
    drop(progress);
    report(&args, "deleted", &handled.missing, handled.done)
}

fn selection(args: &DeadMove) -> Selection {
    match &args.task {
        _ if args.all => Selection::All,
        Some(task) => Selection::Task(task.clone()),
        None => Selection::Ids(args.ids.clone()),
    }
}

fn report(args: &DeadMove, verb: &str, gone: &[String], done: u64) -> Result<(), Failure> {
    if args.output.json {
        let queue = args.queue.as_str();
        output::json(&serde_json::json!({ "queue": queue, verb: done, "missing": gone }))?;
    } else {
        output::print(&format!("{verb} {done} dead letters of {}", args.queue))?;
    }
    if gone.is_empty() { Ok(()) } else { Err(missing(&args.queue, gone)) }
}

fn missing(queue: &QueueName, ids: &[String]) -> Failure {
    let ids = output::clean(&ids.join(", "));
    Failure::not_found(format!(
        "{queue} has no dead letter {ids}: `dead list --queue {queue}` shows those it has"
    ))
}
