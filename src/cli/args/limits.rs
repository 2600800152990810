//! The arguments of `limits`.

use std::time::Duration;

use clap::Subcommand;

use crate::cli::args::Json;
use crate::protocol::limit::LimitName;

/// `limits`
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Limits {
    /// Show all limits with their holders and waiting calls
    #[command(after_help = "\
WAITING are calls that wait until others have ended. Calls that wait for the rate are in the timetables of their queues.

Examples:
  {program} limits list
  {program} limits list --json")]
    List(Json),
    /// Create or change a limit, effective immediately
    #[command(after_help = "\
Takes effect immediately. Lowering a limit ends no run: no call begins until fewer run than the limit allows.

Examples:
  {program} limits set github --concurrency 4
  {program} limits set github --concurrency 4 --rate 100/1m --burst 10")]
    Set(SetLimit),
    /// Remove a limit: calls that name it are no longer limited
    #[command(after_help = "\
Examples:
  {program} limits remove github")]
    Remove(RemoveLimit),
}

/// `limits set`
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SetLimit {
    /// The limit
    pub(in crate::cli) name: LimitName,
    /// How many calls run at the same time
    #[arg(long, value_name = "N", required_unless_present = "rate")]
    pub(in crate::cli) concurrency: Option<u32>,
    /// How many calls begin in a period, such as 100/1m
    #[arg(long, value_name = "N/TIME", value_parser = rate)]
    pub(in crate::cli) rate: Option<(u32, Duration)>,
    /// How many calls may begin together after a pause; default: 1
    #[arg(long, value_name = "N", requires = "rate")]
    pub(in crate::cli) burst: Option<u32>,
}

/// `limits remove`
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct RemoveLimit {
    /// The limit
    pub(in crate::cli) name: LimitName,
}

fn rate(text: &str) -> Result<(u32, Duration), String> {
    let rate = text.split_once('/').and_then(|(count, period)| {
        Some((count.trim().parse().ok()?, humantime::parse_duration(period.trim()).ok()?))
    });
    rate.ok_or_else(|| "not a rate such as `100/1m`".into())
}
