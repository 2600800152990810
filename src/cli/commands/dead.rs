//! `dead`: lists, shows, requeues and deletes dead letters.

use std::collections::{BTreeMap, BTreeSet};

use crate::cli::Program;
use crate::cli::args::{Dead, DeadDelete, DeadList, DeadMove, DeadShow};
use crate::cli::commands::{LONG, call, check_queue, inspector, limit, or_dash, time};
use crate::cli::exit::{Code, Failure};
use crate::cli::watch::watch;
use crate::cli::{output, suggest};
use crate::error::Error;
use crate::inspect::{DeadLetter, Handled, Inspector, Selection, order};
use crate::protocol::names::QueueName;

pub(super) async fn run(program: &Program, verb: Dead) -> Result<(), Failure> {
    match verb {
        Dead::List(args) => watch(&args.watch, args.output.json, async || list(program, &args).await).await,
        Dead::Show(args) => show(program, &args).await,
        Dead::Requeue(args) => handle(program, &args, "requeued").await,
        Dead::Delete(args) => delete(program, &args).await,
    }
}

async fn list(program: &Program, args: &DeadList) -> Result<(), Failure> {
    let json = args.output.json;
    let (after, task) = (args.after.as_deref(), args.task.as_deref());
    let count = usize::try_from(args.count).unwrap_or(usize::MAX);
    let inspector = inspector(program).await?;
    let mut letters = Vec::new();
    let queues = queues(&inspector, args.queue.as_ref()).await?;
    for queue in &queues {
        letters.extend(inspector.dead_letters(queue, after, task, count, limit(json)).await?);
    }
    letters.sort_by_key(|letter| order(&letter.id));
    let is_full = letters.len() >= count;
    if let Some(last) = letters.get(count - 1).map(|letter| order(&letter.id)) {
        // Letters of several queues may have one id, after which the next page begins.
        letters.retain(|letter| order(&letter.id) <= last);
    }
    if json {
        return output::json(&letters);
    }
    let Some(last) = letters.last() else {
        if let Some(task) = task
            && let Some(meant) = nearest_task(&inspector, &queues, task).await?
        {
            return output::print(&format!(
                "no dead letter here belongs to the task `{}`; did you mean `{meant}`?",
                output::clean(task)
            ));
        }
        return output::print(&match &args.queue {
            Some(queue) => format!("{queue} has no dead letters here"),
            None => "there are no dead letters here".into(),
        });
    };
    let more = is_full.then(|| format!("use --after {} for more", last.id));
    let rows = letters.iter().map(|letter| {
        let detail: String = letter.detail.chars().take(120).collect();
        let [id, queue, reason] = [&letter.id, &letter.queue, &letter.reason].map(Clone::clone);
        let (buried, attempt) = (output::distance(letter.at_ms), letter.attempt.to_string());
        [id, queue, buried, reason, attempt, call(&letter.message), detail].map(output::Cell::from)
    });
    output::table(["id", "queue", "buried", "reason", "attempt", "call", "detail"], rows.collect(), &SHRINK)?;
    more.map_or(Ok(()), |more| output::print(&more))
}

/// What is cut of a list: details, calls, queues.
const SHRINK: [(usize, u16); 3] = [(6, 12), (5, 12), (1, 7)];
/// Of how many letters of each queue the tasks are looked at.
const LOOKED_AT: usize = 1000;

/// The task of dead letters whose path is most like that of one that has none.
async fn nearest_task(
    inspector: &Inspector,
    queues: &[QueueName],
    task: &str,
) -> Result<Option<String>, Failure> {
    let mut tasks = BTreeSet::new();
    for queue in queues {
        let letters = inspector.dead_letters(queue, None, None, LOOKED_AT, 0).await?;
        tasks.extend(letters.into_iter().filter_map(|letter| letter.message.task));
    }
    Ok(suggest::nearest(task, tasks.iter().map(String::as_str))
        .filter(|near| *near != task)
        .map(output::clean))
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

/// The queue of a dead letter, which one alone may have, among those that were named.
async fn queue_of(
    inspector: &Inspector,
    queues: &[QueueName],
    id: &str,
) -> Result<Option<QueueName>, Failure> {
    let mut found: Option<&QueueName> = None;
    for queue in queues {
        if inspector.dead_letter(queue, id, 0).await?.is_none() {
            continue;
        }
        if let Some(other) = found {
            let text =
                format!("{other} and {queue} both have a dead letter {id}: choose one of them with --queue");
            return Err(Failure::usage(text));
        }
        found = Some(queue);
    }
    Ok(found.cloned())
}

async fn show(program: &Program, args: &DeadShow) -> Result<(), Failure> {
    let inspector = inspector(program).await?;
    let missing = || missing(args.queue.as_ref(), std::slice::from_ref(&args.id));
    let queues = queues(&inspector, args.queue.as_ref()).await?;
    let queue = queue_of(&inspector, &queues, &args.id).await?.ok_or_else(missing)?;
    let letter = inspector.dead_letter(&queue, &args.id, LONG).await?.ok_or_else(missing)?;
    if args.output.json { output::json(&letter) } else { output::print(&shown(&letter)) }
}

fn shown(letter: &DeadLetter) -> String {
    let message = &letter.message;
    let mut lines = vec![
        ("id", letter.id.clone()),
        ("queue", letter.queue.clone()),
        ("task", or_dash(message.task.clone())),
        ("arguments", or_dash(message.arguments_text.clone())),
        ("buried", output::moment(letter.at_ms)),
        ("reason", letter.reason.clone()),
        ("detail", letter.detail.clone()),
        ("attempt", letter.attempt.to_string()),
        ("worker", letter.worker.clone()),
        ("form", or_dash(message.form.map(str::to_owned))),
        ("retry", or_dash(message.retry.map(|retry| retry.to_string()))),
        ("retry for", or_dash(message.retry_for_ms.map(time))),
        ("back-off", or_dash(message.backoff.clone())),
        ("call id", or_dash(message.call_id.clone())),
        ("timeout", or_dash(message.timeout_ms.map(time))),
        ("expires", or_dash(message.expires_ms.map(output::moment))),
        ("bytes", message.bytes.to_string()),
    ];
    lines.extend(message.traceparent.clone().map(|trace| ("trace", trace)));
    lines.extend(message.problem.clone().map(|problem| ("problem", problem)));
    lines.extend(message.hex.clone().map(|hex| ("hex", hex)));
    let mut lines: Vec<String> =
        lines.into_iter().map(|(name, text)| format!("{name:<10} {}", output::clean(&text))).collect();
    lines.extend((1..).zip(&message.headers).map(|(nth, (name, value))| {
        let header = format!("{name}: {value}");
        format!("{:<10} {}", if nth == 1 { "headers" } else { "" }, output::clean(&header))
    }));
    lines.extend((1..).zip(&message.errors).map(|(nth, error)| {
        let error = format!("{} {}: {}", output::moment(error.at_ms), error.reason, error.detail);
        format!("{:<10} {}", if nth == 1 { "earlier" } else { "" }, output::clean(&error))
    }));
    if let Some(written) = &letter.output {
        lines.push("output".into());
        lines.extend(written.lines().map(|line| format!("    {}", output::clean(line))));
    }
    lines.join("\n")
}

async fn delete(program: &Program, args: &DeadDelete) -> Result<(), Failure> {
    let DeadDelete { which, yes } = args;
    if which.all && !yes {
        let inspector = inspector(program).await?;
        let mut dead = 0;
        for queue in queues(&inspector, which.queue.as_ref()).await? {
            dead += inspector.queue(&queue).await?.dead;
        }
        let place = which.queue.as_ref().map_or("all queues".into(), ToString::to_string);
        let what = format!("{} of {place}", output::counted(dead, "dead letter"));
        match output::confirm(&format!("Delete {what}, for good?"))? {
            Some(true) => {}
            Some(false) if which.output.json => {
                return report(which, "deleted", &Handled::default(), &[], None);
            }
            Some(false) => return output::print("nothing was deleted"),
            None => {
                return Err(Failure::usage(format!("{what} would be deleted for good: confirm with --yes")));
            }
        }
    }
    handle(program, which, "deleted").await
}

/// Requeues or deletes, queue by queue.
async fn handle(program: &Program, args: &DeadMove, verb: &'static str) -> Result<(), Failure> {
    let inspector = inspector(program).await?;
    let queues = queues(&inspector, args.queue.as_ref()).await?;
    let mut all = Handled::default();
    let mut parts: BTreeMap<QueueName, Selection> = BTreeMap::new();
    match &args.task {
        _ if args.all => parts.extend(queues.iter().map(|queue| (queue.clone(), Selection::All))),
        Some(task) => {
            parts.extend(queues.iter().map(|queue| (queue.clone(), Selection::Task(task.clone()))));
        }
        None => {
            let ids: BTreeSet<&String> = args.ids.iter().collect();
            for id in ids {
                let Some(queue) = queue_of(&inspector, &queues, id).await? else {
                    all.missing.push(id.clone());
                    continue;
                };
                let part = parts.entry(queue).or_insert_with(|| Selection::Ids(Vec::new()));
                if let Selection::Ids(ids) = part {
                    ids.push(id.clone());
                }
            }
        }
    }
    let mut touched = Vec::new();
    for (queue, which) in &parts {
        let mut progress = output::progress(verb);
        let handled = match verb {
            "deleted" => inspector.delete_dead(queue, which, &mut progress).await?,
            _ => inspector.requeue_dead(queue, which, &mut progress).await?,
        };
        all.done += handled.done;
        all.missing.extend(handled.missing);
        all.locked.extend(handled.locked);
        if handled.done > 0 {
            touched.push(queue.to_string());
        }
    }
    let meant = match &args.task {
        Some(task) if all.done == 0 => nearest_task(&inspector, &queues, task).await?,
        _ => None,
    };
    report(args, verb, &all, &touched, meant.as_deref())
}

fn report(
    args: &DeadMove,
    verb: &str,
    handled: &Handled,
    touched: &[String],
    meant: Option<&str>,
) -> Result<(), Failure> {
    let Handled { done, missing: gone, locked } = handled;
    if args.output.json {
        let queue = args.queue.as_ref().map(QueueName::as_str);
        let mut shown = serde_json::json!({ "queue": queue, verb: done, "missing": gone });
        if verb == "requeued" {
            shown["locked"] = serde_json::json!(locked);
        }
        output::json(&shown)?;
    } else {
        let place = args.queue.as_ref().map_or_else(|| touched.join(", "), ToString::to_string);
        let place = if place.is_empty() { place } else { format!(" of {place}") };
        output::print(&format!("{verb} {}{place}", output::counted(*done, "dead letter")))?;
    }
    if let Some((call, holder)) = locked.first() {
        let more = if locked.len() > 1 { format!(" and {} more", locked.len() - 1) } else { String::new() };
        return Err(Failure::new(
            Code::Refused,
            format!("{call}{more} stays dead: it is unique, and {holder} holds its lock until it has ended"),
        ));
    }
    match &args.task {
        Some(task) if *done == 0 => Err(Failure::not_found(format!(
            "no dead letter belongs to the task `{}`: {}`dead list` shows all dead letters",
            output::clean(task),
            meant.map_or_else(String::new, |meant| format!("did you mean `{meant}`? "))
        ))),
        _ if gone.is_empty() => Ok(()),
        _ => Err(missing(args.queue.as_ref(), gone)),
    }
}

fn missing(queue: Option<&QueueName>, ids: &[String]) -> Failure {
    let ids = output::clean(&ids.join(", "));
    Failure::not_found(match queue {
        Some(queue) => {
            format!("{queue} has no dead letter {ids}: `dead list --queue {queue}` shows its dead letters")
        }
        None => format!("no queue has a dead letter {ids}: `dead list` shows all dead letters"),
    })
}
