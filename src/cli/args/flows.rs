//! What do the commands of `flows` take?

use clap::Subcommand;

use super::operate::at_least_one;
use super::serve::call_id;
use crate::cli::args::Json;
use crate::protocol::call_id::CallId;
use crate::protocol::names::QueueName;

/// `flows`
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Flows {
    /// Show the flows that have begun
    List(FlowsList),
    /// Show one flow as a tree
    Show(FlowsShow),
    /// Cancel flows: their steps that run or wait, and those that would follow
    Cancel(FlowsCancel),
    /// Let flows go on that failed or were cancelled: their steps that did not succeed run again
    Retry(FlowsRetry),
}

/// `flows list`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} flows list
  {program} flows list --queue mail --json")]
pub(in crate::cli) struct FlowsList {
    /// The queue; default: all
    #[arg(long)]
    pub(in crate::cli) queue: Option<QueueName>,
    /// How many at the most
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = at_least_one)]
    pub(in crate::cli) count: u64,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `flows show`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} flows show 018bcfe5-687b-7b5c-8a3e-0123456789ab
  {program} flows show 018bcfe5-687b-7b5c-8a3e-0123456789ab --mermaid")]
pub(in crate::cli) struct FlowsShow {
    /// The id of the flow, or the text that its sender gave it
    #[arg(value_parser = call_id)]
    pub(in crate::cli) id: CallId,
    /// The queue; default: all
    #[arg(long)]
    pub(in crate::cli) queue: Option<QueueName>,
    /// Print a flowchart for Mermaid
    #[arg(long, conflicts_with = "json")]
    pub(in crate::cli) mermaid: bool,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `flows cancel`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} flows cancel 018bcfe5-687b-7b5c-8a3e-0123456789ab")]
pub(in crate::cli) struct FlowsCancel {
    /// The ids of flows, or the texts that their senders gave them
    #[arg(value_name = "ID", required = true, value_parser = call_id)]
    pub(in crate::cli) ids: Vec<CallId>,
    /// The queue; default: all
    #[arg(long)]
    pub(in crate::cli) queue: Option<QueueName>,
    /// Who does it, for the record of each flow; default: user@host
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) by: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `flows retry`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Steps that succeeded are not run again. Dead letters of the others stay: `dead delete` removes them.

Examples:
  {program} flows retry 018bcfe5-687b-7b5c-8a3e-0123456789ab")]
pub(in crate::cli) struct FlowsRetry {
    /// The ids of flows, or the texts that their senders gave them
    #[arg(value_name = "ID", required = true, value_parser = call_id)]
    pub(in crate::cli) ids: Vec<CallId>,
    /// The queue; default: all
    #[arg(long)]
    pub(in crate::cli) queue: Option<QueueName>,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}
