//! Which words does the command line take?

mod acl;
mod batches;
mod calls;
mod exposed;
mod flows;
#[cfg(feature = "gateway")]
mod gateway;
mod limits;
mod operate;
mod periodic;
mod refused;
mod serve;
#[cfg(feature = "top")]
mod top;
#[cfg(feature = "web")]
mod web;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::StyledStr;
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub(super) use self::acl::Acl;
pub(super) use self::batches::{Batches, BatchesFlush, BatchesList};
pub(super) use self::calls::{Calls, CallsCancel, CallsList, CallsRun, CallsShow, CallsWait};
#[cfg(feature = "metrics")]
pub(super) use self::exposed::Exporter;
pub(super) use self::exposed::Exposed;
pub(super) use self::flows::{Flows, FlowsCancel, FlowsList, FlowsRetry, FlowsShow};
#[cfg(feature = "gateway")]
pub(super) use self::gateway::{Gateway, GatewayFlags, GatewayVerb, Token, TokenCreate};
pub(super) use self::limits::{Limits, SetLimit};
pub(super) use self::operate::{
    Completions, Config, Dead, DeadDelete, DeadList, DeadMove, DeadShow, Doctor, Kill, Man, PauseQueue, Peek,
    Purge, Queues, QueuesVerb, Tasks, TasksVerb, Workers,
};
pub(super) use self::periodic::{Periodic, PeriodicAdd, PeriodicName};
#[cfg(any(feature = "gateway", feature = "metrics"))]
pub(super) use self::serve::JsonLog;
pub(super) use self::serve::{Dev, Enqueue, Language, Sweeper, SweeperFlags, Worker, WorkerFlags};
#[cfg(feature = "top")]
pub(super) use self::top::Top;
#[cfg(feature = "web")]
pub(super) use self::web::{Web, WebFlags, WebRole, WebUser, WebVerb};
use crate::cli::exit::CODES;
use crate::cli::settings::default_of;
use crate::json::words::positive;

/// Stands in texts for the name of the program.
const PROGRAM: &str = "{program}";

/// For the help of the program itself.
const EXAMPLES: &str = "\
Examples:
  {program} dev
  {program} enqueue my_crate::tasks::add '[1, 2]'
  {program} worker --queue default --concurrency 64
  {program} dead list
  {program} doctor";

/// Delayed calls across Rust, Python and Go through Redis.
#[derive(Debug, Parser)]
#[command(version, about, after_help = format!("{EXAMPLES}\n\n{CODES}"), subcommand_required = true, arg_required_else_help = true)]
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
    /// Address of Redis: redis://user:password@host:port/db, rediss://…, unix:///path, redis+cluster://a:7000,b:7000,
    /// redis-sentinel://a:26379,b:26379/mymaster, or `dev` for a private one
    #[arg(long, global = true, value_name = "URL")]
    pub(super) redis: Option<String>,
    /// For rediss://: the trusted certificate authorities, in PEM; default: those of the system
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) tls_ca: Option<String>,
    /// For rediss://: the client certificate, in PEM
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) tls_cert: Option<String>,
    /// The private key of --tls-cert, in PEM
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) tls_key: Option<String>,
    /// Settings in TOML; default: delayed.toml in the working directory, if it exists
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Log level: error, warn, info, debug, trace, or a filter such as `info,delayed=debug`
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(super) log_level: Option<String>,
    /// Format of log lines
    #[arg(long, global = true, value_name = "FORMAT", value_parser = ["pretty", "json"])]
    pub(super) log_format: Option<String>,
}

/// How a command prints.
#[derive(Debug, Clone, Copy, clap::Args)]
#[command(next_help_heading = None::<&str>)]
pub(super) struct Json {
    /// Print JSON; docs/cli.md lists its fields
    #[arg(long)]
    pub(super) json: bool,
}

/// Whether a command is repeated.
#[derive(Debug, Clone, Copy, clap::Args)]
#[command(next_help_heading = None::<&str>)]
pub(super) struct Watch {
    /// Repeat it with this pause (2s if none is given) until Ctrl-C: in place on a terminal
    #[arg(
        long, value_name = "PAUSE", num_args = 0..=1, require_equals = true, default_missing_value = "2s", value_parser = positive
    )]
    pub(super) watch: Option<Duration>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run calls from queues
    Worker(Worker),
    /// Requeue the calls of dead workers, until a signal stops it
    Sweeper(Sweeper),
    /// Enqueue a call
    Enqueue(Enqueue),
    /// Show the tasks of this program, or kill a running call
    Tasks(Tasks),
    /// Show the queues, or pause and resume one
    Queues(Queues),
    /// Show the workers and their running calls
    Workers(Workers),
    /// Show waiting messages
    Peek(Peek),
    /// Show limits with their holders and waiting calls, or set or remove one
    #[command(
        subcommand,
        after_help = "Examples:\n  {program} limits list\n  {program} limits set github --concurrency 4 --rate 100/1m\n  \
                      {program} limits remove github"
    )]
    Limits(Limits),
    /// Show periodic tasks, define, pause, resume, run and remove them
    #[command(
        subcommand,
        after_help = "Examples:\n  {program} periodic list\n  \
                      {program} periodic add nightly '0 3 * * *' my_crate::tasks::report --tz Europe/Berlin\n  \
                      {program} periodic history nightly"
    )]
    Periodic(Periodic),
    /// Show calls in every state, cancel them, run scheduled ones now, or wait for one to end
    #[command(
        subcommand,
        after_help = "Examples:\n  {program} calls list --queue mail\n  {program} calls list --state retrying\n  \
                      {program} calls cancel 018bcfe5-687b-7b5c-8a3e-0123456789ab\n  {program} calls cancel --task my_crate::tasks::add\n  {program} calls wait 018bcfe5-687b-7b5c-8a3e-0123456789ab"
    )]
    Calls(Calls),
    /// Show the batches that fill, or let one run now
    #[command(
        subcommand,
        after_help = "Examples:\n  {program} batches list\n  {program} batches flush my_crate::tasks::index"
    )]
    Batches(Batches),
    /// Show chains and groups of calls, cancel one, or run its failed steps again
    #[command(
        subcommand,
        after_help = "Examples:\n  {program} flows list\n  {program} flows show 018bcfe5-687b-7b5c-8a3e-0123456789ab\n  \
                      {program} flows retry 018bcfe5-687b-7b5c-8a3e-0123456789ab"
    )]
    Flows(Flows),
    /// Show, requeue or delete calls that could not run
    #[command(
        subcommand,
        after_help = "Examples:\n  {program} dead list --queue mail\n  {program} dead show 1700000000000-0\n  \
                      {program} dead requeue --task my_crate::tasks::add\n  {program} dead delete --all --yes"
    )]
    Dead(Dead),
    /// Accept calls over HTTP, or manage its tokens
    #[cfg(feature = "gateway")]
    #[command(after_help = "\
Examples:
  {program} gateway
  {program} gateway --listen 0.0.0.0:8080
  {program} gateway token create shop --task 'shop::*'")]
    Gateway(Gateway),
    /// Show a dashboard in the browser, or make its users
    #[cfg(feature = "web")]
    #[command(after_help = "\
Examples:
  {program} web
  {program} web --allow-actions
  {program} web user ann --role operator >>users
  {program} web --listen 0.0.0.0:8081 --users users --allow-actions")]
    Web(Web),
    /// Show metrics of the queues to Prometheus, for fleets without a Rust worker
    #[cfg(feature = "metrics")]
    Exporter(Exporter),
    /// Show rates, queues, workers, running calls and dead letters live in the terminal, and act on them
    #[cfg(feature = "top")]
    #[command(after_help = "\
Examples:
  {program} top
  {program} top --pause 5s")]
    Top(Top),
    /// Drop all waiting messages of a queue
    Purge(Purge),
    /// Find problems of Redis and the queues
    Doctor(Doctor),
    /// Print the Redis permissions that a role needs, as a line of an ACL
    Acl(Acl),
    /// Show the settings in effect, and where they come from
    Config(Config),
    /// Run a private Redis in the working directory, and a worker if the program has tasks
    Dev(Dev),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Write manual pages into a directory, or print that of the program
    Man(Man),
}

impl Command {
    /// Whether it stays, and logs what it does.
    pub(super) fn serves(&self) -> bool {
        matches!(self, Self::Worker(_) | Self::Sweeper(_) | Self::Dev(_)) || self.answers_http()
    }

    /// Whether it answers requests of HTTP.
    pub(super) fn answers_http(&self) -> bool {
        match self {
            #[cfg(feature = "gateway")]
            Self::Gateway(Gateway { verb, .. }) => verb.is_none(),
            #[cfg(feature = "metrics")]
            Self::Exporter(_) => true,
            #[cfg(feature = "web")]
            Self::Web(Web { verb, .. }) => verb.is_none(),
            _ => false,
        }
    }

    /// Whether it runs calls.
    pub(super) fn runs_calls(&self) -> bool {
        matches!(self, Self::Worker(_) | Self::Dev(_))
    }

    /// Whether it runs calls and shows metrics.
    #[cfg(feature = "metrics")]
    pub(super) fn shows_metrics(&self) -> bool {
        let (Self::Worker(worker) | Self::Dev(Dev { worker })) = self else { return false };
        worker.exposed.address().is_some()
    }

    /// Where it sends its spans, if it makes some.
    #[cfg(feature = "otel")]
    pub(super) fn otlp(&self) -> Option<&exposed::Otlp> {
        match self {
            Self::Worker(worker) | Self::Dev(Dev { worker }) => Some(&worker.otlp),
            #[cfg(feature = "gateway")]
            Self::Gateway(Gateway { verb: None, otlp, .. }) => Some(otlp),
            _ => None,
        }
    }

    /// What it says of a worker's settings.
    pub(super) fn worker_flags(&self) -> Option<&WorkerFlags> {
        match self {
            Self::Worker(Worker { flags, .. })
            | Self::Dev(Dev { worker: Worker { flags, .. } })
            | Self::Config(Config { worker: flags, .. }) => Some(flags),
            _ => None,
        }
    }

    /// What it says of a sweeper's settings.
    pub(super) fn sweeper_flags(&self) -> Option<&SweeperFlags> {
        match self {
            Self::Sweeper(Sweeper { flags, .. }) | Self::Config(Config { sweeper: flags, .. }) => Some(flags),
            _ => None,
        }
    }

    /// Whether it is to log JSON.
    pub(super) fn logs_json(&self) -> bool {
        match self {
            Self::Worker(Worker { log, .. })
            | Self::Dev(Dev { worker: Worker { log, .. } })
            | Self::Sweeper(Sweeper { log, .. }) => log.json,
            #[cfg(feature = "gateway")]
            Self::Gateway(Gateway { log, .. }) => log.json,
            #[cfg(feature = "metrics")]
            Self::Exporter(Exporter { log, .. }) => log.json,
            #[cfg(feature = "web")]
            Self::Web(Web { log, .. }) => log.json,
            _ => false,
        }
    }

    /// Whether it goes without a Redis.
    pub(super) fn stands_alone(&self) -> bool {
        matches!(
            self,
            Self::Tasks(Tasks { verb: None, .. })
                | Self::Acl(_)
                | Self::Config(_)
                | Self::Completions(_)
                | Self::Man(_)
        )
    }
}

/// A worker's words by themselves, without the name of the command.
#[derive(Debug, Parser)]
struct WorkerAlone {
    #[command(flatten)]
    global: Global,
    #[command(flatten)]
    worker: Worker,
}

/// Reads the command line; the error may be the help that was asked for.
pub(super) fn read(
    words: impl IntoIterator<Item = OsString>,
    version: Option<&str>,
) -> Result<Args, clap::Error> {
    let words: Vec<OsString> = words.into_iter().collect();
    let program = program_name(words.first());
    // To put all commands together takes longer than to read the words, and what help says besides longer still: a worker
    // starts without the others, and the rest is for when it is shown.
    let args = match worker_alone(&words) {
        Some(args) => args,
        None => {
            let mut matches = match Args::command().try_get_matches_from(&words) {
                Ok(matches) => matches,
                Err(_) => versioned(command(&program), &program, version)
                    .try_get_matches_from(words)
                    .map_err(refused::shown)?,
            };
            Args::from_arg_matches_mut(&mut matches)?
        }
    };
    if args.command.logs_json() && args.global.log_format.as_deref() == Some("pretty") {
        let problem = "--json means --log-format json: leave out --log-format pretty, or --json";
        return Err(command(&program).error(ErrorKind::ArgumentConflict, problem));
    }
    Ok(args)
}

/// What these words say, if they begin with a worker and nothing is wrong with them.
fn worker_alone(words: &[OsString]) -> Option<Args> {
    let [program, command, rest @ ..] = words else { return None };
    if command != "worker" {
        return None;
    }
    let WorkerAlone { global, worker } =
        WorkerAlone::try_parse_from(std::iter::once(program).chain(rest)).ok()?;
    Some(Args { global, command: Command::Worker(worker) })
}

/// The command line of a program of that name, with all that its help says.
pub(super) fn command(program: &str) -> clap::Command {
    let served = |command| with_defaults(command, &["worker", "worker.limits", "prefork"]);
    let swept = |command| with_defaults(command, &["sweeper"]);
    let command = Args::command()
        .mut_subcommand("worker", served)
        .mut_subcommand("dev", served)
        .mut_subcommand("sweeper", swept)
        .mut_subcommand("config", |command| swept(served(command)));
    named(command.name(program.to_owned()).bin_name(program), program)
}

/// The same with what `--version` prints: that of the program, where it says so, and that of this library.
fn versioned(command: clap::Command, program: &str, version: Option<&str>) -> clap::Command {
    let ours = env!("CARGO_PKG_VERSION");
    command.version(match version {
        Some(version) => format!("{version} (delayed {ours})"),
        None if program == env!("CARGO_PKG_NAME") => ours.to_owned(),
        None => format!("(delayed {ours})"),
    })
}

/// Says in the help of each setting of these sections what holds without it, where that is not said in words.
fn with_defaults(command: clap::Command, sections: &[&str]) -> clap::Command {
    command.mut_args(|arg| {
        let help = arg.get_help().map(StyledStr::to_string).unwrap_or_default();
        match default_of(sections, arg.get_id().as_str()) {
            Some(default) if !help.contains("default:") => arg.help(format!("{help} [default: {default}]")),
            _ => arg,
        }
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_and_errors_are_those_of_the_program() {
        let words = |line: &'static str| line.split(' ').map(OsString::from);
        let said = |line| read(words(line), Some("1.2.3")).expect_err("tells something").to_string();
        let help = said("bin/my_app worker --help");
        assert!(help.contains("my_app worker --burst") && help.contains("[default: 10]"), "{help}");
        let ours = env!("CARGO_PKG_VERSION");
        assert_eq!(said("bin/my_app --version"), format!("my_app 1.2.3 (delayed {ours})\n"));
        let unsaid = |line| read(words(line), None).expect_err("a version").to_string();
        assert_eq!(unsaid("my_app --version"), format!("my_app (delayed {ours})\n"));
        assert_eq!(unsaid("delayed --version"), format!("delayed {ours}\n"));
        let wrong = said("my_app worker --fast");
        assert!(wrong.contains("--fast") && wrong.contains("Usage: my_app worker"), "{wrong}");
        let wrong = said("my_app worker --json --log-format pretty");
        assert!(wrong.contains("leave out --log-format pretty"), "{wrong}");
        let args = read(words("my_app worker --json --queue mail"), None).unwrap();
        assert!(args.command.logs_json() && args.command.worker_flags().is_some());
    }

    #[test]
    fn a_worker_alone_is_what_it_is_among_all_commands() {
        for line in [
            "my_app worker",
            "my_app worker --burst --queue mail=3 --queue other --concurrency 64 --lease 2s --memory 1GB",
            "my_app worker --redis redis://h --json --log-level debug --config other.toml --no-sweep",
            "my_app worker -h",
            "my_app worker --version",
            "my_app worker --fast",
            "my_app worker more",
            "my_app worker --concurrency",
            "my_app worker --queue ,",
            "my_app --json worker",
            "my_app help worker",
            "my_app workers",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let among_all = Args::try_parse_from(&words);
            match worker_alone(&words) {
                Some(alone) => {
                    assert_eq!(format!("{alone:?}"), format!("{:?}", among_all.unwrap()), "{line}")
                }
                // It is read among all, wherever it is right or wrong.
                None => assert!(among_all.is_err() || words[1] != "worker", "{line}"),
            }
        }
    }

    #[test]
    fn the_commands_are_well_formed_and_bear_the_programs_name() {
        let mut command = command("my_app");
        command.build();
        command.clone().debug_assert();
        let mut help_of = |name| {
            let help = command.find_subcommand_mut(name).unwrap().render_help().to_string();
            help.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let help = help_of("worker");
        assert!(help.contains("my_app worker --burst"), "{help}");
        for default in
            ["[default: 10]", "[default: 6s]", "[default: bury]", "[default: inline]", "[default: 1s]"]
        {
            assert!(help.contains(default), "expected {default} in {help}");
        }
        assert_eq!(help.matches("[default: default]").count(), 1, "{help}");
        let help = help_of("sweeper");
        assert!(
            help.contains("[default: 2s]") && help.contains("default: all queues that it finds"),
            "{help}"
        );
        fn all(command: &mut clap::Command) {
            let help = command.render_long_help().to_string();
            assert!(!help.contains(PROGRAM), "{help}");
            assert!(help.contains("Examples:\n  my_app "), "{help}");
            command.get_subcommands_mut().filter(|command| command.get_name() != "help").for_each(all);
        }
        all(&mut command);
    }
}
