//! What do commands take that run calls, or make them?

use std::time::{Duration, SystemTime};

use clap::ValueEnum;

use crate::cli::args::Json;
use crate::cli::args::exposed::Exposed;
use crate::config::{Backoff, Prefetch, QueueLimit, QueueWeight, Unknown, parse_size};
use crate::isolation::Isolation;
use crate::json::words::{any_moment, duration, expiry, overflow, positive, some_time, unique};
use crate::protocol::call_id::CallId;
use crate::protocol::limit::LimitName;
use crate::protocol::names::QueueName;
use crate::task::{Expiry, Overflow, Unique};

/// `worker`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
On SIGTERM, SIGINT and SIGHUP, stops when its calls have ended, or immediately on a second signal. SIGUSR1 and \
SIGTSTP make it quiet: it claims nothing more, but keeps running.

Examples:
  {program} worker --redis redis://127.0.0.1:6379 --queue default --concurrency 64
  {program} worker --queue mail=3 --queue reports=1 --lease 3s
  {program} worker --isolation fork --timeout 30s --memory 512MB
  {program} worker --burst")]
pub(in crate::cli) struct Worker {
    #[command(flatten)]
    pub(in crate::cli) flags: WorkerFlags,
    #[command(flatten)]
    pub(in crate::cli) exposed: Exposed,
    #[cfg(feature = "otel")]
    #[command(flatten)]
    pub(in crate::cli) otlp: crate::cli::args::exposed::Otlp,
    #[command(flatten)]
    pub(in crate::cli) log: JsonLog,
}

/// The settings of a worker.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct WorkerFlags {
    /// Queues to serve, `default,mail`, or with weights, `default=1,mail=3`, in order of preference; may be repeated
    #[arg(long = "queue", value_name = "QUEUE", value_delimiter = ',', value_parser = queue_weight)]
    pub(in crate::cli) queues: Vec<String>,
    /// The limit of all calls of a queue, such as `mail=smtp`; may be repeated
    #[arg(long = "queue-limit", value_name = "QUEUE=LIMIT", value_delimiter = ',', value_parser = queue_limit)]
    pub(in crate::cli) queue_limits: Vec<String>,
    /// How many calls run at the same time
    #[arg(long, value_name = "N")]
    pub(in crate::cli) concurrency: Option<u32>,
    /// How many more calls are claimed in advance: a number, or auto, which depends on how long they run
    #[arg(long, value_name = "N", value_parser = prefetch)]
    pub(in crate::cli) prefetch: Option<String>,
    /// How long after its last heartbeat a worker is dead, and its calls go to others
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(in crate::cli) lease: Option<Duration>,
    /// How long calls may continue after a stop signal
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(in crate::cli) shutdown: Option<Duration>,
    /// What to do with calls of tasks that are not in this program: bury, requeue or ignore
    #[arg(long, value_name = "WHAT", value_parser = unknown)]
    pub(in crate::cli) unknown: Option<String>,
    /// How often a failed call is retried, if neither the call nor its task says how often or for how long; -1: no maximum
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(in crate::cli) retry: Option<i64>,
    /// How long after its first failed attempt such a call is retried; without --retry, as often as its back-off allows
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub(in crate::cli) retry_for: Option<Duration>,
    /// How long a failed call waits before it is retried: none, fixed:30s, linear:10s..5m or exponential:1s..10m
    #[arg(long, value_name = "BACKOFF", value_parser = backoff)]
    pub(in crate::cli) backoff: Option<String>,
    /// Exit when the queues are empty and all calls are settled, or only calls that --unknown requeue puts back are left;
    /// errors of Redis do not end it
    #[arg(long)]
    pub(in crate::cli) burst: bool,
    /// Do not requeue the calls of dead workers: leave that to others
    #[arg(long)]
    pub(in crate::cli) no_sweep: bool,
    /// List the last N finished calls without a record of each queue, for `calls list`
    #[arg(long, value_name = "N")]
    pub(in crate::cli) keep_finished: Option<u32>,
    #[command(flatten)]
    pub(in crate::cli) isolated: Isolated,
}

/// How a command logs that serves.
#[derive(Debug, Clone, Copy, clap::Args)]
#[command(next_help_heading = None::<&str>)]
pub(in crate::cli) struct JsonLog {
    /// Log JSON, one object per line: --log-format json
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

/// How calls are kept apart from the worker.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Isolation, timeout and limits of tasks that do not set their own")]
pub(in crate::cli) struct Isolated {
    /// inline: in the worker's process; fork: in a fresh process; prefork: in a process of a pool
    #[arg(long, value_name = "WHERE", value_parser = isolation)]
    pub(in crate::cli) isolation: Option<String>,
    /// How long a call may run
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(in crate::cli) timeout: Option<Duration>,
    /// How long a call may take to end after its timeout
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(in crate::cli) grace: Option<Duration>,
    /// Memory that a call may use, without pages of files
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(in crate::cli) memory: Option<String>,
    /// Address space
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(in crate::cli) address_space: Option<String>,
    /// CPU time, in whole seconds
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(in crate::cli) cpu: Option<Duration>,
    /// Open file descriptors
    #[arg(long, value_name = "N")]
    pub(in crate::cli) open_files: Option<u32>,
    /// Bytes that a call may write to its standard output and error
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(in crate::cli) output: Option<String>,
    /// Nice value, from 0 to 19
    #[arg(long, value_name = "N")]
    pub(in crate::cli) nice: Option<u32>,
    /// Calls cannot gain privileges
    #[arg(long)]
    pub(in crate::cli) no_new_privileges: bool,
    /// Calls have no network; needs support by the kernel
    #[arg(long)]
    pub(in crate::cli) private_network: bool,
    /// Calls have private mounts; needs support by the kernel
    #[arg(long)]
    pub(in crate::cli) private_mounts: bool,
    /// Number of processes of prefork; default: the concurrency
    #[arg(long, value_name = "N")]
    pub(in crate::cli) children: Option<u32>,
    /// Number of calls after which prefork replaces a process, or `never`
    #[arg(long, value_name = "N")]
    pub(in crate::cli) max_tasks: Option<String>,
    /// Memory above which prefork replaces a process
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(in crate::cli) max_memory: Option<String>,
}

/// `sweeper`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} sweeper
  {program} sweeper --queue mail --interval 10s")]
pub(in crate::cli) struct Sweeper {
    /// Queues to sweep, `default,mail`; may be repeated; default: all queues that it finds
    #[arg(long = "queue", value_name = "QUEUE", value_delimiter = ',')]
    pub(in crate::cli) queues: Vec<QueueName>,
    #[command(flatten)]
    pub(in crate::cli) flags: SweeperFlags,
    #[command(flatten)]
    pub(in crate::cli) exposed: Exposed,
    #[command(flatten)]
    pub(in crate::cli) log: JsonLog,
}

/// The settings of a sweeper that no worker has by the same name.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = None::<&str>)]
pub(in crate::cli) struct SweeperFlags {
    /// Pause between two sweeps
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(in crate::cli) interval: Option<Duration>,
    /// Number of workers that may die while they run a call alone, before it is buried
    #[arg(long, value_name = "N")]
    pub(in crate::cli) max_deaths: Option<u32>,
}

/// `dev`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The server keeps its data in .delayed/ and exits with this command. Other commands use it with `--redis dev`, which \
starts the server if it is not running.

Examples:
  {program} dev
  {program} enqueue my_crate::tasks::add '[1, 2]' --redis dev")]
pub(in crate::cli) struct Dev {
    #[command(flatten)]
    pub(in crate::cli) worker: Worker,
}

/// `enqueue`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  {program} enqueue my_crate::tasks::add '[1, 2]'
  {program} enqueue my_crate::tasks::add '{\"a\": 1, \"b\": 2}' --retry 3 --id order:7
  {program} enqueue my_crate::tasks::add '[1, 2]' --timeout 30s --expires 1h
  {program} enqueue my_crate::tasks::add '[1, 2]' --after 10m
  {program} enqueue my_crate::tasks::add '[1, 2]' --wait=30s
  {program} enqueue my_crate::tasks::index '[7]' --unique until-done
  {program} enqueue mails.tasks:send '[\"ann@example.org\"]' --as python --queue mail")]
pub(in crate::cli) struct Enqueue {
    /// The path of the task
    pub(in crate::cli) path: String,
    /// Its arguments as JSON: an array, or an object with the parameters' names; default: no arguments
    #[arg(value_name = "JSON", allow_hyphen_values = true)]
    pub(in crate::cli) arguments: Option<String>,
    /// The queue; default: that of the task, or else `default`
    #[arg(long)]
    pub(in crate::cli) queue: Option<QueueName>,
    /// Maximum number of retries, instead of the task's; -1: no maximum
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(in crate::cli) retry: Option<i64>,
    /// How long after its first failed attempt the call is retried, instead of the task's; without --retry, as often as its
    /// back-off allows
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub(in crate::cli) retry_for: Option<Duration>,
    /// How long the call waits after a failed attempt, instead of the task's back-off: none, fixed:30s, linear:10s..5m or
    /// exponential:1s..10m
    #[arg(long, value_name = "BACKOFF")]
    pub(in crate::cli) backoff: Option<Backoff>,
    /// Timeout of a run, instead of the task's
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(in crate::cli) timeout: Option<Duration>,
    /// When the call expires, after which it does not run: a time from now (or from its due time), or a moment such as
    /// 2030-01-31T12:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = expiry)]
    pub(in crate::cli) expires: Option<Expiry>,
    /// Run the call after this time
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "at")]
    pub(in crate::cli) after: Option<Duration>,
    /// Run the call at this moment, such as 2030-01-31T12:00:00+01:00; immediately, if it has passed
    #[arg(long, value_name = "MOMENT", value_parser = any_moment)]
    pub(in crate::cli) at: Option<SystemTime>,
    /// Keep a record of the call for this time after its end: its state, its times, and its result
    #[arg(long, value_name = "TIME", value_parser = positive)]
    pub(in crate::cli) keep: Option<Duration>,
    /// Enqueue the call only if there is no other call of the task with the same arguments: until-started, until-done,
    /// replace (a scheduled one), or for a time from now on, such as 10m
    #[arg(long, value_name = "WHICH", value_parser = unique)]
    pub(in crate::cli) unique: Option<Unique>,
    /// Compare calls by this key instead of by their arguments
    #[arg(long, value_name = "KEY")]
    pub(in crate::cli) unique_key: Option<String>,
    /// Run the calls of the queue with this key one after the other, in the order in which they were enqueued
    #[arg(long, value_name = "KEY", conflicts_with_all = ["unique", "unique_key", "after", "at", "front"])]
    pub(in crate::cli) ordered: Option<String>,
    /// Put the call at the head of its queue
    #[arg(long)]
    pub(in crate::cli) front: bool,
    /// Maximum number of calls that may wait in the queue
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(in crate::cli) max_len: Option<u64>,
    /// What to do if the queue is full: reject (the new call), or bury-oldest (the oldest call)
    #[arg(long, value_name = "WHAT", requires = "max_len", value_parser = overflow)]
    pub(in crate::cli) overflow: Option<Overflow>,
    /// Wait for the end of the call, at most for this time, and print its result as JSON. Its record is kept for an hour,
    /// unless its task or --keep sets another time
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, value_parser = positive)]
    pub(in crate::cli) wait: Option<Option<Duration>>,
    /// A limit of the call, in addition to its task's, such as github; repeatable
    #[arg(long = "limit", value_name = "NAME")]
    pub(in crate::cli) limits: Vec<LimitName>,
    /// A header of the call, such as tenant=acme; repeatable
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    pub(in crate::cli) headers: Vec<(String, String)>,
    /// Give the call this id: a UUID, or a text such as order:7
    #[arg(long, value_name = "ID", value_parser = call_id)]
    pub(in crate::cli) id: Option<CallId>,
    /// Give the call a new id
    #[arg(long, conflicts_with = "id")]
    pub(in crate::cli) with_id: bool,
    /// The language of its worker; `rust` also sends a call whose task is not in this program
    #[arg(long = "as", value_name = "LANGUAGE")]
    pub(in crate::cli) language: Option<Language>,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

/// Whose task it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Language {
    /// A worker of this library
    Rust,
    /// A worker of the Python package `delayed`
    Python,
    /// A worker of the Go module `go-delayed`
    Go,
}

/// Checks a queue with its weight, and keeps it as it was written.
fn queue_weight(text: &str) -> Result<String, String> {
    let checked: Result<QueueWeight, _> = text.parse();
    checked.map(|_| text.to_owned()).map_err(|error| error.problem)
}

fn queue_limit(text: &str) -> Result<String, String> {
    text.parse::<QueueLimit>().map(|_| text.to_owned()).map_err(|error| error.problem)
}

fn prefetch(text: &str) -> Result<String, String> {
    text.parse::<Prefetch>().map(|_| text.to_owned()).map_err(|error| error.problem)
}

fn backoff(text: &str) -> Result<String, String> {
    text.parse::<Backoff>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("not a name and a value, such as tenant=acme".into()),
    }
}

fn unknown(text: &str) -> Result<String, String> {
    text.parse::<Unknown>().map(|_| text.to_owned()).map_err(|error| error.problem)
}

fn isolation(text: &str) -> Result<String, String> {
    text.parse::<Isolation>().map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Checks an amount of bytes, and keeps it as it was written.
fn size(text: &str) -> Result<String, String> {
    parse_size(text).map(|_| text.to_owned())
}

/// Reads the id of a call, or a text that stands for it.
pub(super) fn call_id(text: &str) -> Result<CallId, String> {
    if text.is_empty() {
        return Err("is empty: give a UUID, or a text such as `order:7`".into());
    }
    Ok(text.into())
}
