//! What do the commands of `batches` take?

use clap::Subcommand;

use crate::cli::args::Json;
use crate::protocol::batch::{BatchKeyError, BatchName};
use crate::protocol::names::QueueName;

/// `batches`
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Batches {
    /// Show the batches that fill, and when each is run at the latest
    List(BatchesList),
    /// Let a batch run now, with the items that it has
    Flush(BatchesFlush),
}

/// `batches list`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} batches list
  {program} batches list --queue search --json")]
pub(in crate::cli) struct BatchesList {
    /// The queue; default: all
    #[arg(long)]
    pub(in crate::cli) queue: Option<QueueName>,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `batches flush`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} batches flush my_crate::tasks::index
  {program} batches flush my_crate::tasks::index --key tenant:42")]
pub(in crate::cli) struct BatchesFlush {
    /// The path of the task
    pub(in crate::cli) task: String,
    /// The key of the batch
    #[arg(long, value_parser = key)]
    pub(in crate::cli) key: Option<String>,
    /// The queue; default: all
    #[arg(long)]
    pub(in crate::cli) queue: Option<QueueName>,
}

fn key(text: &str) -> Result<String, BatchKeyError> {
    BatchName::with_key("task", text).map(|_| text.to_owned())
}
