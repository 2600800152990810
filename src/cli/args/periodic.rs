//! The arguments of `periodic`.

use std::time::Duration;

use clap::Subcommand;

use super::serve::Language;
use crate::cli::args::Json;
use crate::json::words::{positive, some_time};
use crate::protocol::limit::LimitName;
use crate::protocol::names::QueueName;
use crate::protocol::periodic::{Missed, Overlap};

/// `periodic`
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Periodic {
    /// Show periodic tasks and when they are due next
    List(PeriodicList),
    /// Define a periodic task
    Add(PeriodicAdd),
    /// Let a periodic task make no calls until it is resumed
    Pause(PeriodicPause),
    /// Resume a periodic task with its next tick; those during the pause are not made up for
    Resume(PeriodicOne),
    /// Make a call of a periodic task now
    Run(PeriodicOne),
    /// Remove a periodic task with its history; calls that were made stay
    Remove(PeriodicOne),
    /// Show the last ticks of a periodic task, and what became of them
    History(PeriodicOne),
}

/// `periodic list`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
ORPHANED are tasks that come from the code of a program of which no worker runs: `periodic remove` removes them.

Examples:
  {program} periodic list
  {program} periodic list my_crate::tasks::nightly
  {program} periodic list --queue reports --json")]
pub(in crate::cli) struct PeriodicList {
    /// Only this one, with its next ten ticks
    pub(in crate::cli) name: Option<String>,
    /// The queue; default: all
    #[arg(long)]
    pub(in crate::cli) queue: Option<QueueName>,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `periodic add`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The expression has five fields (minute hour day month weekday) or six, with seconds first, or is @hourly, @daily, @weekly,
@monthly, @yearly, or @every and an interval.

With --flow, each tick begins a flow. A part of it is a call, a step (a call whose first argument is the result of the part
before it), a chain, or a group with at_most and policy (wait_for_all, fail_fast, successes); on_error is a call or a step.

Examples:
  {program} periodic add nightly '0 3 * * *' my_crate::tasks::report '[\"full\"]' --tz Europe/Berlin
  {program} periodic add often '@every 90s' my_crate::tasks::poll --overlap skip --missed skip
  {program} periodic add mails '0 8 * * MON-FRI' mails.tasks:digest --as python --queue mail
  {program} periodic add books '@daily' --flow '{\"chain\": [{\"call\": \"my_crate::pages\", \"args\": [7]},
    {\"step\": \"my_crate::print\"}], \"on_error\": {\"step\": \"my_crate::alert\"}}'")]
pub(in crate::cli) struct PeriodicAdd {
    /// Its name: no other periodic task of the queue may have it
    pub(in crate::cli) name: String,
    /// When it is due
    pub(in crate::cli) cron: String,
    /// The path of the task that it calls
    #[arg(required_unless_present = "flow")]
    pub(in crate::cli) path: Option<String>,
    /// The arguments of its calls in JSON, as for `enqueue`
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(in crate::cli) arguments: Option<String>,
    /// The flow that it begins, in place of a call: JSON, or a file that has it
    #[arg(long, value_name = "JSON|FILE", conflicts_with_all = ["path", "arguments", "retry", "timeout", "limits"])]
    pub(in crate::cli) flow: Option<String>,
    /// The queue of its calls; default: the task's own, or else `default`. Of a flow, also of steps whose tasks have none
    #[arg(long)]
    pub(in crate::cli) queue: Option<QueueName>,
    /// The time zone of the expression, such as Europe/Berlin; default: UTC
    #[arg(long, value_name = "ZONE")]
    pub(in crate::cli) tz: Option<String>,
    /// What happens when an earlier call has not ended: allow, skip (the tick) or queue (the call, behind it); default: allow
    #[arg(long, value_name = "WHAT")]
    pub(in crate::cli) overlap: Option<Overlap>,
    /// What happens to ticks that nobody made within a minute: skip, once (one call for all of them), all or all:N (the last N);
    /// default: once
    #[arg(long, value_name = "WHAT")]
    pub(in crate::cli) missed: Option<Missed>,
    /// How often a call may be retried, whatever its task says; -1 is for ever
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(in crate::cli) retry: Option<i64>,
    /// How long one run may go on, whatever its task says
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(in crate::cli) timeout: Option<Duration>,
    /// How long after its tick a call may begin
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub(in crate::cli) expires: Option<Duration>,
    /// Keep the record of each call for this long after its end; default: ten times the time between two ticks
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub(in crate::cli) keep: Option<Duration>,
    /// A limit of its calls, in addition to that of their task, such as github; repeatable
    #[arg(long = "limit", value_name = "NAME")]
    pub(in crate::cli) limits: Vec<LimitName>,
    /// Who is to run it; `rust` takes a task that is not in this program, too
    #[arg(long = "as", value_name = "LANGUAGE")]
    pub(in crate::cli) language: Option<Language>,
    /// Replace the periodic task of this name, if there is one
    #[arg(long)]
    pub(in crate::cli) replace: bool,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// `periodic pause`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} periodic pause nightly")]
pub(in crate::cli) struct PeriodicPause {
    #[command(flatten)]
    pub(in crate::cli) one: PeriodicName,
    /// Who pauses it; default: user@host
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) by: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// What the other commands take.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} periodic history nightly
  {program} periodic run nightly --queue reports --json")]
pub(in crate::cli) struct PeriodicOne {
    #[command(flatten)]
    pub(in crate::cli) one: PeriodicName,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// Which periodic task.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct PeriodicName {
    /// The name of the periodic task
    pub(in crate::cli) name: String,
    /// Its queue, if tasks of several queues have this name
    #[arg(long)]
    pub(in crate::cli) queue: Option<QueueName>,
}
