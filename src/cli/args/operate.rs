//! What do an operator's commands take?

use std::time::Duration;

use clap::Subcommand;

use crate::cli::args::{Json, SweeperFlags, Watch, WorkerFlags};
use crate::inspect::is_letter_id;
use crate::json::words::positive;
use crate::protocol::names::QueueName;

/// `tasks`
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  {program} tasks
  {program} tasks --json
  {program} tasks kill 018bcfe5-687b-7b5c-8a3e-0123456789ab")]
pub(in crate::cli) struct Tasks {
    #[command(subcommand)]
    pub(in crate::cli) verb: Option<TasksVerb>,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `doctor`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} doctor || echo \"there is a problem\"
  {program} doctor --watch
  {program} doctor --watch=1m --json")]
pub(in crate::cli) struct Doctor {
    /// Check again and again, with this pause, and print what has changed
    #[arg(
        long, value_name = "PAUSE", num_args = 0..=1, require_equals = true, default_missing_value = "10s", value_parser = positive
    )]
    pub(in crate::cli) watch: Option<Duration>,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// What can be done beside looking at `tasks`.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum TasksVerb {
    /// End a running call for good: it is not retried, and its dead letter names the operator
    Kill(Kill),
}

/// `tasks kill`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} tasks kill 018bcfe5-687b-7b5c-8a3e-0123456789ab
  {program} tasks kill default:abcdefghijklmn27:0 --queue default --json")]
pub(in crate::cli) struct Kill {
    /// The id of the call, the text that its sender gave it as an id, or the id of the slot that runs it, as shown by `workers`
    pub(in crate::cli) id: String,
    /// A queue to search; may be repeated; default: all
    #[arg(long = "queue", value_name = "QUEUE")]
    pub(in crate::cli) queues: Vec<QueueName>,
    /// Your name, for the dead letter; default: user@host
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) by: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `queues`
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
TOKENS are notifications, one for each waiting message; a sweeper adds those that are missing.
SUSPECTS are messages that took workers down and are not buried yet (see `sweeper --max-deaths`).

Examples:
  {program} queues
  {program} queues --redis redis://127.0.0.1:6379 --json
  {program} queues --watch
  {program} queues pause mail
  {program} queues resume mail")]
pub(in crate::cli) struct Queues {
    #[command(subcommand)]
    pub(in crate::cli) verb: Option<QueuesVerb>,
    /// Scan all keys of the database for unregistered queues, however long that takes
    #[arg(long)]
    pub(in crate::cli) scan: bool,
    #[command(flatten)]
    pub(in crate::cli) watch: Watch,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// What can be done beside looking at `queues`.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum QueuesVerb {
    /// Pause a queue: Rust workers claim nothing from it until it is resumed
    #[command(after_help = "\
Running calls continue. Calls can be enqueued and scheduled in the meantime. Python and Go workers ignore pauses.

Examples:
  {program} queues pause mail
  {program} queues pause mail --by 'anna, for the move of the mail server' --json")]
    Pause(PauseQueue),
    /// Resume a paused queue: workers claim from it again immediately
    #[command(after_help = "\
Examples:
  {program} queues resume mail
  {program} queues resume mail --json")]
    Resume(PauseQueue),
}

/// `queues pause` and `queues resume`
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct PauseQueue {
    /// The queue
    pub(in crate::cli) queue: QueueName,
    /// Your name, or the reason, for the logs of the workers; default: user@host
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) by: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `workers`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} workers
  {program} workers --watch=5s
  {program} workers --queue mail --json")]
pub(in crate::cli) struct Workers {
    /// A queue; may be repeated; default: all
    #[arg(long = "queue", value_name = "QUEUE")]
    pub(in crate::cli) queues: Vec<QueueName>,
    #[command(flatten)]
    pub(in crate::cli) watch: Watch,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `peek`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} peek default
  {program} peek mail --start 100 --count 20 --json")]
pub(in crate::cli) struct Peek {
    /// The queue
    pub(in crate::cli) queue: QueueName,
    /// How many to show
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = at_least_one)]
    pub(in crate::cli) count: u64,
    /// How many of the oldest messages to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(in crate::cli) start: u64,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `dead`
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Dead {
    /// Show dead letters, oldest first
    List(DeadList),
    /// Show one dead letter with all its arguments
    Show(DeadShow),
    /// Put dead letters back into their queue, without their failed attempts
    Requeue(DeadMove),
    /// Delete dead letters
    Delete(DeadDelete),
}

/// `dead list`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} dead list --queue default --json
  {program} dead list --watch
  {program} dead list --task my_crate::tasks::add --count 10
  {program} dead list --after 1700000000000-0")]
pub(in crate::cli) struct DeadList {
    /// The queue; default: all
    #[arg(long)]
    pub(in crate::cli) queue: Option<QueueName>,
    /// Only dead letters of this task
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) task: Option<String>,
    /// How many to show
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = at_least_one)]
    pub(in crate::cli) count: u64,
    /// Only dead letters after this one: the last id of the previous page
    #[arg(long, value_name = "ID", value_parser = letter_id)]
    pub(in crate::cli) after: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) watch: Watch,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `dead show`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} dead show 1700000000000-0 --queue mail")]
pub(in crate::cli) struct DeadShow {
    /// The id of the dead letter
    pub(in crate::cli) id: String,
    /// The queue; default: all
    #[arg(long)]
    pub(in crate::cli) queue: Option<QueueName>,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `dead requeue`, and what `dead delete` has in common with it
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true))]
#[command(after_help = "\
Examples:
  {program} dead requeue 1700000000000-0
  {program} dead requeue --task my_crate::tasks::add --queue mail
  {program} dead delete --all --yes")]
pub(in crate::cli) struct DeadMove {
    /// The ids of dead letters
    #[arg(value_name = "ID", group = "which")]
    pub(in crate::cli) ids: Vec<String>,
    /// All dead letters of a task
    #[arg(long, value_name = "PATH", group = "which")]
    pub(in crate::cli) task: Option<String>,
    /// All dead letters
    #[arg(long, group = "which")]
    pub(in crate::cli) all: bool,
    /// The queue; default: all
    #[arg(long)]
    pub(in crate::cli) queue: Option<QueueName>,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `dead delete`
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct DeadDelete {
    #[command(flatten)]
    pub(in crate::cli) which: DeadMove,
    /// Delete --all without confirmation
    #[arg(long)]
    pub(in crate::cli) yes: bool,
}

/// `purge`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} purge mail
  {program} purge mail --yes --json")]
pub(in crate::cli) struct Purge {
    /// The queue
    pub(in crate::cli) queue: QueueName,
    /// Drop them without confirmation
    #[arg(long)]
    pub(in crate::cli) yes: bool,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `config`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Takes the flags of `worker` and of `sweeper`, and shows the settings with these flags.

Examples:
  {program} config
  {program} config --concurrency 64 --lease 3s
  {program} config --json")]
pub(in crate::cli) struct Config {
    #[command(flatten)]
    pub(in crate::cli) worker: WorkerFlags,
    #[command(flatten)]
    pub(in crate::cli) sweeper: SweeperFlags,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `completions`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} completions bash > ~/.local/share/bash-completion/completions/{program}")]
pub(in crate::cli) struct Completions {
    /// The shell
    pub(in crate::cli) shell: clap_complete::Shell,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `man`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} man | man -l -
  {program} man ~/.local/share/man/man1")]
pub(in crate::cli) struct Man {
    /// Where to write a page for each command
    #[arg(value_name = "DIR")]
    pub(in crate::cli) directory: Option<std::path::PathBuf>,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

fn letter_id(text: &str) -> Result<String, String> {
    if is_letter_id(text) {
        return Ok(text.to_owned());
    }
    Err("not the id of a dead letter, such as 1700000000000-0".into())
}

pub(super) fn at_least_one(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err("nothing would be shown: use 1 or more".into()),
        Ok(count) => Ok(count),
        Err(_) => Err("not a whole number, such as 20".into()),
    }
}
