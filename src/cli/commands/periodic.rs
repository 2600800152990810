//! `periodic`: shows, defines, pauses, resumes, runs and removes periodic tasks.

mod add;
mod flow;
mod show;

use serde_json::json;

use crate::cli::Program;
use crate::cli::args::{Periodic, PeriodicName};
use crate::cli::commands::{check_queue, inspector, somebody};
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::error::Error;
use crate::inspect::Inspector;
use crate::protocol::names::QueueName;

pub(super) async fn run(program: &Program, verb: &Periodic) -> Result<(), Failure> {
    if let Periodic::Add(args) = verb {
        return add::run(program, args).await;
    }
    let inspector = inspector(program).await?;
    match verb {
        Periodic::List(args) => {
            check_queue(&inspector, args.queue.as_ref()).await?;
            let mut tasks = inspector.periodic(args.queue.as_slice()).await?;
            if let Some(name) = &args.name {
                tasks.retain(|task| task.name == *name);
                if tasks.is_empty() {
                    return Err(unknown(name));
                }
            }
            match (args.output.json, &args.name) {
                (true, _) => output::json(&tasks),
                (false, Some(_)) => tasks.iter().try_for_each(|task| output::print(&show::one(task))),
                (false, None) => show::table(&tasks),
            }
        }
        Periodic::Pause(args) => {
            let queue = find(&inspector, &args.one).await?;
            let by = args.by.clone().unwrap_or_else(somebody);
            let changed = inspector.pause_periodic(&queue, &args.one.name, &by).await?;
            told(&args.one, &queue, args.output.json, changed, "paused", "is paused already")
        }
        Periodic::Resume(args) => {
            let queue = find(&inspector, &args.one).await?;
            let changed = inspector.resume_periodic(&queue, &args.one.name).await?;
            told(&args.one, &queue, args.output.json, changed, "resumed", "is not paused")
        }
        Periodic::Remove(args) => {
            let queue = find(&inspector, &args.one).await?;
            let removed = inspector.remove_periodic(&queue, &args.one.name).await?;
            told(&args.one, &queue, args.output.json, removed.then_some(true), "removed", "")
        }
        Periodic::Run(args) => {
            let (queue, name) = (find(&inspector, &args.one).await?, &args.one.name);
            let ran = inspector.run_periodic(&queue, name).await?.ok_or_else(|| unknown(name))?;
            if args.output.json {
                return output::json(&ran);
            }
            output::print(&output::clean(&match (ran.enqueued, &ran.call) {
                (true, Some(id)) => format!("enqueued a call of {name} to {queue}: {id}"),
                (true, None) => format!("enqueued a call of {name} to {queue}"),
                (false, _) => {
                    format!("{name} was not called: an earlier call has not ended, and its overlap is `skip`")
                }
            }))
        }
        Periodic::History(args) => {
            let (queue, name) = (find(&inspector, &args.one).await?, &args.one.name);
            let ticks = inspector.periodic_history(&queue, name).await?.ok_or_else(|| unknown(name))?;
            if args.output.json { output::json(&ticks) } else { show::history(&ticks) }
        }
        Periodic::Add(_) => Ok(()),
    }
}

/// The queue of a periodic task.
async fn find(inspector: &Inspector, one: &PeriodicName) -> Result<QueueName, Failure> {
    if let Some(queue) = &one.queue {
        return Ok(queue.clone());
    }
    let mut found = Vec::new();
    for queue in inspector.queue_names().await.map_err(Error::from)? {
        if inspector.has_periodic(&queue, &one.name).await? {
            found.push(queue);
        }
    }
    match found.len() {
        0 => Err(unknown(&one.name)),
        1 => Ok(found.remove(0)),
        _ => {
            let names = found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let name = &one.name;
            Err(Failure::usage(format!(
                "periodic tasks of several queues are called {name}: give --queue, one of {names}"
            )))
        }
    }
}

fn unknown(name: &str) -> Failure {
    Failure::not_found(format!("there is no periodic task {name}: `periodic list` shows all of them"))
}

/// Prints what became of a task.
fn told(
    one: &PeriodicName,
    queue: &QueueName,
    json: bool,
    changed: Option<bool>,
    done: &str,
    not_done: &str,
) -> Result<(), Failure> {
    let name = &one.name;
    let Some(changed) = changed else { return Err(unknown(name)) };
    if json {
        return output::json(&json!({ "name": name, "queue": queue.as_str(), "changed": changed }));
    }
    let text = if changed { format!("{done} {name}") } else { format!("{name} {not_done}") };
    output::print(&output::clean(&text))
}
