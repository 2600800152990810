//! What does the command line say? Makes a program of an [`App`].

mod args;
mod commands;
mod dev;
mod exit;
mod health;
mod lines;
mod logs;
#[cfg(feature = "otel")]
mod otlp;
mod output;
mod settings;
mod suggest;
mod text;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use nix::sys::resource::{Resource, getrlimit};
use tokio::runtime::{Builder, Runtime};

#[cfg(feature = "testing")]
pub use self::commands::json_message;
use crate::app::{App, Parts};
use crate::cli::args::{Args, Command};
use crate::cli::dev::DevServer;
use crate::cli::exit::Failure;
use crate::cli::settings::Settings;
use crate::client::Client;
use crate::config::Config;
use crate::error::Error;
#[cfg(feature = "metrics")]
use crate::meter::Sources;
use crate::runner::Zygote;
use crate::sys::startup;
use crate::task::Registry;
use crate::worker;
use crate::worker::first_isolated;

/// Blocking threads beside those that run calls: the heartbeat's end, file and name look-ups.
const SPARE_THREADS: usize = 16;

/// What the runtime and one connection take, with the standard streams.
const FEWEST_FILES: u64 = 16;

/// What they take beside the zygote, a child that runs, a child that was just forked, and one that is being forked: up to 39
/// were seen. With fewer, calls would be put back for want of a process.
const FEWEST_FILES_WITH_ZYGOTE: u64 = 48;

/// Runs what the command line says, with the tasks that are linked into the program: the whole `main` of a program
/// whose tasks share no state. See [`App`] for one whose tasks do.
///
/// ```no_run
/// #[delayed::task]
/// async fn add(a: i64, b: i64) -> i64 {
///     a + b
/// }
///
/// fn main() -> std::process::ExitCode {
///     delayed::main()
/// }
/// ```
#[must_use = "return the exit code from `main`"]
pub fn main() -> ExitCode {
    App::new().main()
}

impl App {
    /// Runs what the command line says. Call it first in `main`, while the process has one thread.
    #[must_use = "return the exit code from `main`"]
    pub fn main(self) -> ExitCode {
        run(self.into_parts(), std::env::args_os())
    }
}

/// What a command works with.
struct Program {
    settings: Settings,
    parts: Parts,
    zygote: Option<Zygote>,
    /// The counters of its metrics.
    #[cfg(feature = "metrics")]
    sources: Sources,
}

fn run(parts: Parts, words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.into_iter().collect();
    // Also of a command line that is not understood.
    let json = words.iter().any(|word| word == "--json");
    let args = match args::read(words, parts.version.as_deref()) {
        Ok(args) => args,
        Err(error) if json && error.use_stderr() => {
            let text = error.to_string();
            return Failure::usage(text.trim_start_matches("error: ").trim_end()).report(json);
        }
        Err(error) => {
            // To help that nobody reads, or an error that nobody sees, there is nothing to add.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    execute(parts, args).unwrap_or_else(|failure| failure.report(json))
}

fn execute(mut parts: Parts, args: Args) -> Result<ExitCode, Failure> {
    // First: it may be told to end before it has come to anything.
    startup::prepare(args.command.serves());
    let mut settings = Settings::load(&args)?;
    #[cfg(feature = "metrics")]
    let sources = Sources::default();
    if args.command.runs_calls() {
        let redis = DevServer::address_for(&settings, &args.command)?;
        let config = Config {
            redis: redis.unwrap_or_else(|| settings.config.redis.clone()),
            ..settings.config.clone()
        };
        let client = Client::lazy_with_config(&config).layers(parts.client_layers.clone());
        #[cfg(feature = "metrics")]
        let client = match args.command.shows_metrics() {
            true => client.counted(sources.clone()),
            false => client,
        };
        parts.states.insert_missing(client);
    }
    // While the process has one thread, and nothing open that a child must not have.
    let zygote = if args.command.runs_calls() { zygote(&settings, &parts)? } else { None };
    logs::start(&settings, args.command.serves())?;
    #[cfg(feature = "otel")]
    let exporter = otlp::start(&args.command)?;
    for suggest::Misspelled { name, meant } in suggest::misspelled_variables() {
        match args.command.serves() {
            true => tracing::warn!(variable = name, did_you_mean = meant, "unknown environment variable"),
            false => output::note(&format!("warning: the variable {name} is unknown; did you mean {meant}?")),
        }
    }

    let server = DevServer::for_command(&mut settings, &args.command)?;
    let runtime = runtime(&settings, &args.command, zygote.is_some())?;
    let program = Program {
        settings,
        parts,
        zygote,
        #[cfg(feature = "metrics")]
        sources,
    };
    let serves = args.command.serves();
    let result = runtime.block_on(commands::run(program, args.command));
    if serves {
        // What is left to be done, as the end of a private Redis, is done without us too.
        startup::take_signals_back();
    }
    // A function that blocks may never end; the process does.
    runtime.shutdown_background();
    #[cfg(feature = "otel")]
    drop(exporter);
    drop(server);
    result
}

/// Forks the zygote of a worker that has tasks which run in processes of their own.
fn zygote(settings: &Settings, parts: &Parts) -> Result<Option<Zygote>, Failure> {
    let Ok(registry) = Registry::collect() else {
        // The worker tells what is wrong with it.
        return Ok(None);
    };
    if first_isolated(&registry, &settings.config.worker).is_none() {
        return Ok(None);
    }
    let zygote = Zygote::builder().registry(registry);
    let started = zygote.states(parts.states.clone()).layers(parts.layers.clone()).start();
    started.map(Some).map_err(|error| Error::Zygote(error).into())
}

/// A worker gets threads; a tool does one thing after another.
fn runtime(settings: &Settings, command: &Command, forks: bool) -> Result<Runtime, Failure> {
    // The runtime panics where it finds none for its signals.
    let needed = if forks { FEWEST_FILES_WITH_ZYGOTE } else { FEWEST_FILES };
    if let Ok((files, _)) = getrlimit(Resource::RLIMIT_NOFILE)
        && files < needed
    {
        let text = format!(
            "this process may open only {files} files, but needs {needed}: raise its limit (`ulimit -n`)"
        );
        return Err(Failure::configuration(text));
    }
    let built = if command.runs_calls() {
        worker::runtime().max_blocking_threads(settings.config.worker.concurrency + SPARE_THREADS).build()
    } else if command.answers_http() {
        Builder::new_multi_thread().enable_all().build()
    } else {
        Builder::new_current_thread().enable_all().build()
    };
    built.map_err(|error| Failure::io("the runtime could not be started", &error))
}
