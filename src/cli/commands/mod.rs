//! One file for each command.

mod acl;
mod batches;
mod calls;
mod completions;
mod config;
mod dead;
mod dev;
mod doctor;
mod enqueue;
#[cfg(feature = "metrics")]
mod exporter;
mod flows;
#[cfg(feature = "gateway")]
mod gateway;
mod kill;
mod limits;
mod man;
mod pause;
mod peek;
mod periodic;
mod purge;
mod queues;
mod sweeper;
mod tasks;
#[cfg(feature = "top")]
mod top;
#[cfg(feature = "web")]
mod web;
mod worker;
mod workers;

use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;

#[cfg(feature = "testing")]
pub use self::enqueue::json_message;
use crate::cli::Program;
use crate::cli::args::{Command, Queues, Tasks, TasksVerb};
use crate::cli::exit::Failure;
use crate::cli::{output, suggest};
use crate::error::Error;
use crate::inspect::{Inspector, MessageSummary};
use crate::protocol::names::QueueName;
use crate::sys;

/// So many characters of a path, and of arguments, stand in a table, and so many in JSON and where one message is shown.
const SHORT: usize = 80;
const LONG: usize = 100_000;

pub(super) async fn run(program: Program, command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Worker(args) => worker::run(program, args.exposed).await?,
        Command::Sweeper(args) => sweeper::run(program, args.exposed).await?,
        Command::Enqueue(args) => enqueue::run(program, args).await?,
        Command::Tasks(Tasks { verb: Some(TasksVerb::Kill(args)), .. }) => kill::run(&program, &args).await?,
        Command::Tasks(Tasks { verb: None, output }) => tasks::run(output)?,
        Command::Queues(Queues { verb: Some(verb), .. }) => pause::run(&program, &verb).await?,
        Command::Queues(args) => queues::run(&program, &args).await?,
        Command::Workers(args) => workers::run(&program, &args).await?,
        Command::Peek(args) => peek::run(&program, &args).await?,
        Command::Limits(verb) => limits::run(&program, &verb).await?,
        Command::Periodic(verb) => periodic::run(&program, &verb).await?,
        Command::Calls(verb) => calls::run(&program, verb).await?,
        Command::Batches(verb) => batches::run(&program, &verb).await?,
        Command::Flows(verb) => flows::run(&program, verb).await?,
        Command::Dead(verb) => dead::run(&program, verb).await?,
        #[cfg(feature = "gateway")]
        Command::Gateway(args) => gateway::run(program, args).await?,
        #[cfg(feature = "web")]
        Command::Web(args) => web::run(program, args).await?,
        #[cfg(feature = "top")]
        Command::Top(args) => top::run(&program, &args).await?,
        Command::Purge(args) => purge::run(&program, &args).await?,
        Command::Doctor(args) => return doctor::run(&program, &args).await,
        Command::Acl(args) => acl::run(&args)?,
        Command::Config(args) => config::run(&program.settings, args.output)?,
        #[cfg(feature = "metrics")]
        Command::Exporter(args) => exporter::run(program, &args).await?,
        Command::Dev(args) => dev::run(program, args.worker).await?,
        Command::Completions(args) => completions::run(&args)?,
        Command::Man(args) => man::run(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn inspector(program: &Program) -> Result<Inspector, Failure> {
    Ok(Inspector::with_config(&program.settings.config).await?)
}

/// Warns where a queue that was named is not there, and one of nearly that name is.
async fn check_queue(inspector: &Inspector, queue: Option<&QueueName>) -> Result<(), Failure> {
    let Some(queue) = queue else { return Ok(()) };
    let known = inspector.queue_names().await.map_err(Error::from)?;
    warn_of_misspelled(queue, known.iter().map(QueueName::as_str));
    Ok(())
}

/// The same among these names.
fn warn_of_misspelled<'a>(queue: &QueueName, known: impl IntoIterator<Item = &'a str> + Clone) {
    if known.clone().into_iter().any(|known| known == queue.as_str()) {
        return;
    }
    if let Some(meant) = suggest::nearest_queue(queue.as_str(), known) {
        output::note(&format!("warning: no queue `{queue}` is known; did you mean `{meant}`?"));
    }
}

/// How many characters of arguments are shown.
fn limit(json: bool) -> usize {
    if json { LONG } else { SHORT }
}

/// A message in one cell of a table: its call, or why there is none.
fn call(message: &MessageSummary) -> String {
    match (&message.task, &message.arguments_text, &message.problem) {
        (Some(task), Some(arguments), _) => format!("{}{arguments}", short(task)),
        (_, _, Some(problem)) => {
            let hex: String = message.hex.iter().flat_map(|hex| hex.chars()).take(SHORT).collect();
            format!("{problem}: 0x{hex}")
        }
        _ => String::new(),
    }
}

/// A text that is cut for a table, as arguments are.
fn short(text: &str) -> String {
    match text.char_indices().nth(SHORT) {
        None => text.to_owned(),
        Some(_) => text.chars().take(SHORT - 1).chain(['…']).collect(),
    }
}

/// A time in milliseconds, for a table.
fn time(ms: u64) -> String {
    crate::cli::output::duration(std::time::Duration::from_millis(ms))
}

/// What is not there, or is not known, in a table.
fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".into())
}

/// Who runs this program: `user@host`.
fn somebody() -> String {
    let named = ["USER", "LOGNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    let user = named.into_iter().find(|user| !user.is_empty() && !user.chars().any(char::is_control));
    let user = user.unwrap_or_else(|| match std::fs::metadata("/proc/self") {
        Ok(process) => format!("uid {}", process.uid()),
        Err(_) => "somebody".into(),
    });
    let mut by = format!("{user}@{}", sys::host());
    while by.len() > 200 {
        by.pop();
    }
    by
}
