//! Which words does the command line take?

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::StyledStr;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::cli::exit::CODES;
use crate::config::{QueueWeight, Unknown};
use crate::protocol::call_id::CallId;
use crate::protocol::names::QueueName;

/// Stands in texts for the name of the program.
const PROGRAM: &str = "{program}";

/// Delayed calls across Rust, Python and Go through Redis.
#[derive(Debug, Parser)]
#[command(version, about, after_help = CODES, subcommand_required = true, arg_required_else_help = true)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What every command takes.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Everywhere")]
pub(super) struct Global {
    /// Where Redis is: redis://user:password@host:port/db, rediss://…, unix:///path, or `dev` for a private one
    #[arg(long, global = true, value_name = "URL")]
    pub(super) redis: Option<String>,
    /// Settings in TOML; default: delayed.toml in the working directory, if it is there
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// What is logged: error, warn, info, debug, trace, or a filter such as `info,delayed=debug`
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(super) log_level: Option<String>,
    /// How log lines look
    #[arg(long, global = true, value_name = "FORMAT", value_parser = ["pretty", "json"])]
    pub(super) log_format: Option<String>,
}

/// How a command prints.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct Json {
    /// Print JSON, whose fields docs/cli.md names
    #[arg(long)]
    pub(super) json: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run calls from queues
    Worker(Worker),
    /// Bring back what dead workers owned, until a signal comes
    Sweeper(Sweeper),
    /// Enqueue a call
    Enqueue(Enqueue),
}

impl Command {
    /// Whether it stays, and logs what it does.
    pub(super) fn serves(&self) -> bool {
        matches!(self, Self::Worker(_) | Self::Sweeper(_))
    }

    /// Whether it runs calls.
    pub(super) fn runs_calls(&self) -> bool {
        matches!(self, Self::Worker(_))
    }
}

/// `worker`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Stops on SIGTERM, SIGINT and SIGHUP when its calls have ended, at once on a second one. SIGUSR1 makes it quiet: it \
claims nothing more, and stays.

Examples:
  {program} worker --redis redis://127.0.0.1:6379 --queue default --concurrency 64
  {program} worker --queue mail=3 --queue reports=1 --lease 3s
  {program} worker --burst")]
pub(super) struct Worker {
    /// A queue to serve, `mail`, or with a weight, `mail=3`; may be repeated, in order of preference
    #[arg(long = "queue", value_name = "QUEUE", value_parser = queue_weight)]
    pub(super) queues: Vec<String>,
    /// How many calls run at a time
    #[arg(long, value_name = "N")]
    pub(super) concurrency: Option<u32>,
    /// How long after its last sign of life what it owns goes to others
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) lease: Option<Duration>,
    /// How long calls may go on after the worker was told to stop
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) shutdown: Option<Duration>,
    /// What becomes of calls of tasks that are not in this program: bury, requeue or ignore
    #[arg(long, value_name = "WHAT", value_parser = unknown)]
    pub(super) unknown: Option<String>,
    /// End when the queues are empty and all is settled
    #[arg(long)]
    pub(super) burst: bool,
    /// Leave it to others to bring back what dead workers owned
    #[arg(long)]
    pub(super) no_sweep: bool,
}

/// `sweeper`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} sweeper
  {program} sweeper --queue mail --interval 10s")]
pub(super) struct Sweeper {
    /// A queue to sweep; may be repeated; default: all that it finds
    #[arg(long = "queue", value_name = "QUEUE")]
    pub(super) queues: Vec<QueueName>,
    /// How long it rests between two sweeps
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) interval: Option<Duration>,
    /// How many processes may die of a call before it is buried
    #[arg(long, value_name = "N")]
    pub(super) max_deaths: Option<u32>,
}

/// `enqueue`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} enqueue my_crate::tasks::add '[1, 2]'
  {program} enqueue my_crate::tasks::add '{\"a\": 1, \"b\": 2}' --retry 3 --id
  {program} enqueue mails.tasks:send '[\"ann@example.org\"]' --as python --queue mail")]
pub(super) struct Enqueue {
    /// The path of the task
    pub(super) path: String,
    /// Its arguments in JSON: an array by place, or an object by the parameters' names; none: no arguments
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(super) arguments: Option<String>,
    /// The queue; default: the task's own, or else `default`
    #[arg(long)]
    pub(super) queue: Option<QueueName>,
    /// How often the call may be retried, whatever its task says; -1 is for ever
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(super) retry: Option<i64>,
    /// Give the call an id: this one, or a new one
    #[arg(long, value_name = "ID", num_args = 0..=1, require_equals = true)]
    pub(super) id: Option<Option<CallId>>,
    /// Who is to run it; `rust` sends a call also when its task is not in this program
    #[arg(long = "as", value_name = "LANGUAGE")]
    pub(super) language: Option<Language>,
    #[command(flatten)]
    pub(super) output: Json,
}

/// Whose task it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Language {
    /// A worker of this library
    Rust,
    /// A worker of the Python package `delayed`
    Python,
    /// A worker of the Go module `go-delayed`
    Go,
}

/// Reads the command line; the error may be the help that was asked for.
pub(super) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Args, clap::Error> {
    let words: Vec<OsString> = words.into_iter().collect();
    let mut matches = command(&program_name(words.first())).try_get_matches_from(words)?;
    Args::from_arg_matches_mut(&mut matches)
}

/// The command line of a program of that name.
pub(super) fn command(program: &str) -> clap::Command {
    named(Args::command().name(program.to_owned()).bin_name(program), program)
}

/// Puts the program's name into the texts.
fn named(command: clap::Command, program: &str) -> clap::Command {
    let text = command.get_after_help().map(StyledStr::to_string);
    let command = match text {
        Some(text) => command.after_help(text.replace(PROGRAM, program)),
        None => command,
    };
    command.mut_subcommands(|command| named(command, program))
}

pub(super) fn program_name(word: Option<&OsString>) -> String {
    let name = word.and_then(|word| Path::new(word).file_name()).map(|name| name.to_string_lossy());
    name.map_or_else(|| "delayed".into(), std::borrow::Cow::into_owned)
}

/// Checks a queue with its weight, and keeps it as it was written.
fn queue_weight(text: &str) -> Result<String, String> {
    let checked: Result<QueueWeight, _> = text.parse();
    checked.map(|_| text.to_owned()).map_err(|error| error.problem)
}

fn unknown(text: &str) -> Result<String, String> {
    text.parse::<Unknown>().map(|_| text.to_owned()).map_err(|error| error.problem)
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("not a duration such as `30s` or `1h 30m`: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_well_formed_and_bear_the_programs_name() {
        let mut command = command("my_app");
        command.clone().debug_assert();
        let help = command.find_subcommand_mut("worker").unwrap().render_help().to_string();
        assert!(help.contains("my_app worker --burst") && !help.contains(PROGRAM), "{help}");
    }
}
