//! What do the commands of `calls` take?

use std::time::Duration;

use clap::Subcommand;

use super::operate::at_least_one;
use super::serve::call_id;
use crate::cli::args::{Json, Watch};
use crate::json::words::positive;
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::CallState;
use crate::protocol::names::QueueName;

/// `calls`
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Calls {
    /// Show calls by state, by default all that have not ended
    List(CallsList),
    /// Show one call in full, in any state
    Show(CallsShow),
    /// Cancel scheduled, waiting or running calls for good
    Cancel(CallsCancel),
    /// Run scheduled calls now
    Run(CallsRun),
    /// Wait for the end of a call, and print its result
    Wait(CallsWait),
}

/// `calls list`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Calls that succeeded, were cancelled or expired are known only if they keep a record (see `enqueue --keep`).

Examples:
  {program} calls list
  {program} calls list --queue mail --task my_crate::tasks::add
  {program} calls list --state retrying --json
  {program} calls list --state running --watch
  {program} calls list --state succeeded,cancelled --count 100")]
pub(in crate::cli) struct CallsList {
    /// The queue; default: all
    #[arg(long)]
    pub(in crate::cli) queue: Option<QueueName>,
    /// Only calls of this task
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) task: Option<String>,
    /// Only calls whose ids begin with this text
    #[arg(long, value_name = "PREFIX")]
    pub(in crate::cli) id: Option<String>,
    /// Only calls in this state, or several: scheduled, waiting, running, retrying, succeeded, dead, cancelled, expired
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',', value_parser = state)]
    pub(in crate::cli) states: Vec<CallState>,
    /// Maximum number of calls
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = at_least_one)]
    pub(in crate::cli) count: u64,
    #[command(flatten)]
    pub(in crate::cli) watch: Watch,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `calls show`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} calls show 018bcfe5-687b-7b5c-8a3e-0123456789ab")]
pub(in crate::cli) struct CallsShow {
    /// The id of the call, or its text, such as order:7
    #[arg(value_parser = call_id)]
    pub(in crate::cli) id: CallId,
    /// The queue; default: all
    #[arg(long)]
    pub(in crate::cli) queue: Option<QueueName>,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `calls cancel`
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which"))]
#[command(group = clap::ArgGroup::new("scope").required(true).multiple(true).args(["ids", "task", "all", "queue"]))]
#[command(after_help = "\
A scheduled call is removed, and a waiting call does not run. A running call is asked to end, or killed if it is
isolated; it is not retried.

Examples:
  {program} calls cancel 018bcfe5-687b-7b5c-8a3e-0123456789ab
  {program} calls cancel --task my_crate::tasks::add --queue mail
  {program} calls cancel --queue mail --yes
  {program} calls cancel --all --yes")]
pub(in crate::cli) struct CallsCancel {
    /// The ids of calls, or their texts, such as order:7
    #[arg(value_name = "ID", group = "which", value_parser = call_id)]
    pub(in crate::cli) ids: Vec<CallId>,
    /// All unfinished calls of a task
    #[arg(long, value_name = "PATH", group = "which")]
    pub(in crate::cli) task: Option<String>,
    /// All unfinished calls of all queues, or of --queue
    #[arg(long, group = "which")]
    pub(in crate::cli) all: bool,
    /// The queue, without ids and --task all its unfinished calls; default: all queues
    #[arg(long)]
    pub(in crate::cli) queue: Option<QueueName>,
    /// Your name, for the record of each call; default: user@host
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) by: Option<String>,
    /// Cancel all calls of a queue, or of all queues, without confirmation
    #[arg(long)]
    pub(in crate::cli) yes: bool,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `calls run`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} calls run 018bcfe5-687b-7b5c-8a3e-0123456789ab")]
pub(in crate::cli) struct CallsRun {
    /// The ids of calls, or their texts, such as order:7
    #[arg(value_name = "ID", required = true, value_parser = call_id)]
    pub(in crate::cli) ids: Vec<CallId>,
    /// The queue; default: all
    #[arg(long)]
    pub(in crate::cli) queue: Option<QueueName>,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `calls wait`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Prints the return value of the call as JSON. The call must keep a record (see `enqueue --keep`).

Examples:
  {program} calls wait 018bcfe5-687b-7b5c-8a3e-0123456789ab --timeout 30s")]
pub(in crate::cli) struct CallsWait {
    /// The id of the call, or its text, such as order:7
    #[arg(value_parser = call_id)]
    pub(in crate::cli) id: CallId,
    /// The queue; default: all
    #[arg(long)]
    pub(in crate::cli) queue: Option<QueueName>,
    /// How long to wait; default: until it has ended
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub(in crate::cli) timeout: Option<Duration>,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

fn state(text: &str) -> Result<CallState, String> {
    let names = || CallState::ALL.map(CallState::name).join(", ");
    CallState::parse(text).ok_or_else(|| format!("not a state: use one of {}", names()))
}
