//! Where do log lines go? To the standard error stream, for people or as JSON.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{IsTerminal, Stderr, stderr};
use std::panic::PanicHookInfo;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Instant;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::exit::Failure;
use crate::cli::lines::Lines;
use crate::cli::settings::Settings;
use crate::cli::text::Fields;
use crate::config::LogFormat;
use crate::excerpt::{LONGEST, excerpt, panic_text};
use crate::repeats::Repeats;
use crate::runner::streams;

/// Where what is said of a failure goes too, when nobody would wait for it in vain.
pub(super) static LINES: LazyLock<Lines<Stderr>> = LazyLock::new(|| Lines::new(stderr()));

/// So many panics at one place are logged in a minute.
const FEW_PANICS: u32 = 5;

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
    let color = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let lines = fmt::layer().with_writer(&*LINES).with_ansi(color);
    // A line that cannot be written, as on a full disk, is no reason to panic, as complaining of it in the same place does.
    let lines = lines.log_internal_errors(false);
    let filtered = tracing_subscriber::registry().with(filter);
    // A program that logs in its own way goes on doing so.
    let _ = match log.format {
        LogFormat::Pretty => {
            let told = std::panic::take_hook();
            // The one that writes to the stream itself, where it would wait for a reader.
            let writes_itself = std::ptr::eq(&raw const *told, &raw const *std::panic::take_hook());
            std::panic::set_hook(Box::new(move |panic| match unexcused(panic) {
                None => {}
                Some(repeated) if repeated > 0 || panic_text(panic).len() > LONGEST => {
                    log_panic(panic, repeated)
                }
                Some(_) if writes_itself => write_panic(panic),
                Some(_) if LINES.is_open() => told(panic),
                Some(_) => {}
            }));
            filtered.with(lines.fmt_fields(Fields)).try_init()
        }
        LogFormat::Json => {
            std::panic::set_hook(Box::new(|panic| {
                if let Some(repeated) = unexcused(panic) {
                    log_panic(panic, repeated);
                }
            }));
            filtered.with(lines.json().flatten_event(true).with_span_list(false)).try_init()
        }
    };
    Ok(())
}

/// What is logged. A lone word has to be a level: a filter takes any other for the name of a module, and says nothing more.
fn filter(level: &str) -> Result<Targets, String> {
    let is_name =
        |part: &&str| !part.is_empty() && !part.contains(['=', '[']) && part.parse::<LevelFilter>().is_err();
    if let Some(name) = level.split(',').map(str::trim).find(is_name) {
        return Err(format!("{name:?} is neither `off`, `error`, `warn`, `info`, `debug` nor `trace`"));
    }
    level.parse::<Targets>().map_err(|error| error.to_string())
}

/// Whether a panic is to be logged, with the number of those at the same place that were not.
///
/// One that says only that the standard output or error cannot be written is not. That is mended here, before what unwinds
/// prints something in its turn, which would end the process, and reported in a line of its own.
fn unexcused(panic: &PanicHookInfo<'_>) -> Option<u64> {
    static PANICS: LazyLock<Mutex<Repeats<String>>> = LazyLock::new(|| Mutex::new(Repeats::new(FEW_PANICS)));
    if streams::excuses(panic_text(panic)) {
        return None;
    }
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    PANICS.lock().unwrap_or_else(PoisonError::into_inner).note(place, Instant::now())
}

/// A panic, of a task for one, as the standard library shows it.
fn write_panic(panic: &PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("<unnamed>");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("\nthread '{name}' panicked at {place}:\n{}\n", panic_text(panic));
    if let Some(backtrace) = backtrace() {
        text.push_str(&backtrace);
    }
    LINES.write(text.as_bytes());
}

/// The same as a line like all others.
fn log_panic(panic: &PanicHookInfo<'_>, repeated: u64) {
    let thread = std::thread::current();
    let location = panic.location().map(ToString::to_string);
    let error = excerpt(panic_text(panic));
    let repeated = (repeated > 0).then_some(repeated);
    tracing::error!(thread = thread.name(), location, error, backtrace = backtrace(), repeated, "panicked");
}

/// None unless `RUST_BACKTRACE` asks for it.
fn backtrace() -> Option<String> {
    let backtrace = Backtrace::capture();
    (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string())
}
