//! Where do log lines go? To the standard error stream, for people or as JSON.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{IsTerminal, Stderr, stderr};
use std::panic::PanicHookInfo;
use std::sync::LazyLock;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::cli::exit::Failure;
use crate::cli::lines::Lines;
use crate::cli::settings::Settings;
use crate::config::LogFormat;

/// Where what is said of a failure goes too, when nobody would wait for it in vain.
pub(super) static LINES: LazyLock<Lines<Stderr>> = LazyLock::new(|| Lines::new(stderr()));

/// Begins to log. A tool only warns, unless it was told to say more; a command that serves says what it does.
pub(super) fn start(settings: &Settings, serves: bool) -> Result<(), Failure> {
    let log = &settings.config.log;
    let level = if serves || settings.is_set("log.level") { log.level.as_str() } else { "warn" };
    let filter = filter(level).map_err(|problem| {
        let origin = settings.origin("log.level");
        Failure::configuration(format!(
            "log.level: {level:?} is not a level such as `info`, or a filter such as `info,delayed=debug` ({problem}; \
             set by {origin})"
        ))
    })?;
    let colour = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(&*LINES).with_ansi(colour);
    // A line that cannot be written, as on a full disk, is no reason to panic, as complaining of it in the same place does.
    let lines = lines.log_internal_errors(false);
    // A program that logs in its own way goes on doing so.
    let _ = match log.format {
        LogFormat::Pretty => {
            let told = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                if LINES.is_open() {
                    told(panic);
                }
            }));
            lines.try_init()
        }
        LogFormat::Json => {
            std::panic::set_hook(Box::new(log_panic));
            lines.json().flatten_event(true).try_init()
        }
    };
    Ok(())
}

/// What is logged. A lone word has to be a level: a filter takes any other for the name of a module, and says nothing more.
fn filter(level: &str) -> Result<EnvFilter, String> {
    let is_name =
        |part: &&str| !part.is_empty() && !part.contains(['=', '[']) && part.parse::<LevelFilter>().is_err();
    if let Some(name) = level.split(',').map(str::trim).find(is_name) {
        return Err(format!("{name:?} is neither `off`, `error`, `warn`, `info`, `debug` nor `trace`"));
    }
    EnvFilter::try_new(level).map_err(|error| error.to_string())
}

/// A panic, of a task for one, as a line like all others.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let place = panic.location().map(ToString::to_string);
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    let text = panic.payload().downcast_ref::<&str>().copied();
    let text =
        text.or_else(|| panic.payload().downcast_ref::<String>().map(String::as_str)).unwrap_or("no text");
    tracing::error!(thread = thread.name(), place, backtrace, "panicked: {text}");
}
