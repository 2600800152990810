//! How is a command repeated with `--watch`? In place on a terminal, one output after the other elsewhere.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::pending;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use jiff::{Timestamp, Unit};
use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::args::Watch;
use crate::cli::exit::{Code, Failure};
use crate::cli::output;
use crate::sys::startup;
use crate::sys::terminal::terminal_height;

/// The height of a terminal that does not report its height.
const USUAL_HEIGHT: u16 = 24;

tokio::task_local! {
    /// What the command of this round has printed so far.
    static ROUND: RefCell<String>;
}

/// Runs a command once, or with `--watch` again and again until SIGINT. While Redis is unreachable, each round says so.
///
/// # Errors
/// The command failed for a reason other than an unreachable Redis, or the output cannot be written.
pub(super) async fn watch(
    args: &Watch,
    json: bool,
    command: impl AsyncFn() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Some(pause) = args.watch else { return command().await };
    let in_place = !json && std::io::stdout().is_terminal() && !output::is_dumb();
    let shown = until_interrupted(async {
        let mut last = String::new();
        loop {
            let (result, text) = collect(&command).await;
            let failure = match result {
                Ok(()) => None,
                Err(failure) if failure.code() == Code::Unreachable => Some(failure),
                Err(failure) => return Err(failure),
            };
            let problem = failure.as_ref().map(|failure| output::clean_lines(failure.text()));
            match problem {
                None if json => output::print(&text)?,
                Some(problem) if json => {
                    let code = Code::Unreachable as u8;
                    output::print(&serde_json::json!({ "error": problem, "exit": code }).to_string())?;
                }
                problem => {
                    // What was last known stays in sight.
                    if problem.is_none() || !in_place {
                        last = text;
                    }
                    let head = heading(pause, problem.as_deref());
                    match in_place {
                        true => {
                            output::write(&frame(&head, &last, terminal_height().unwrap_or(USUAL_HEIGHT)))?
                        }
                        false => output::print(&format!("{head}\n{last}"))?,
                    }
                }
            }
            tokio::time::sleep(pause).await;
        }
    })
    .await;
    if in_place {
        // The shell's prompt begins a line of its own.
        output::write("\n")?;
    }
    shown.map(drop)
}

/// Runs something that has no end until SIGINT, which ends it with success.
///
/// # Errors
/// It failed, or signals cannot be handled.
pub(super) async fn until_interrupted(
    endless: impl Future<Output = Result<Infallible, Failure>>,
) -> Result<ExitCode, Failure> {
    let failed = |error| Failure::io("signals cannot be handled", &error);
    let mut interrupt = match startup::hears(Signal::SIGINT) {
        true => Some(signal(SignalKind::interrupt()).map_err(failed)?),
        false => None,
    };
    let interrupted = async {
        match &mut interrupt {
            Some(interrupt) => interrupt.recv().await,
            None => pending().await,
        }
    };
    tokio::select! {
        result = endless => result.map(|never| match never {}),
        _ = interrupted => Ok(ExitCode::SUCCESS),
    }
}

/// Adds a text to the output of the round that is under way; `false` if there is none.
pub(super) fn add(text: &str) -> bool {
    ROUND.try_with(|round| round.borrow_mut().push_str(text)).is_ok()
}

/// Whether a round is under way.
pub(super) fn is_round() -> bool {
    ROUND.try_with(|_| ()).is_ok()
}

/// Runs the command, and gives what it printed.
async fn collect(command: &impl AsyncFn() -> Result<(), Failure>) -> (Result<(), Failure>, String) {
    let round = async {
        let result = command().await;
        (result, ROUND.with(RefCell::take))
    };
    ROUND.scope(RefCell::default(), round).await
}

/// The line above each output.
fn heading(pause: Duration, problem: Option<&str>) -> String {
    let now = Timestamp::now();
    let now = now.round(Unit::Second).unwrap_or(now);
    let head = format!("--- {now}, every {}", output::duration(pause));
    match problem {
        Some(problem) => format!("{head}\n{}", output::red(&format!("error: {problem}"))),
        None => head,
    }
}

/// What draws a text over the one before, without an empty screen in between. Lines that are too long are cut by the terminal,
/// and those that do not fit its height are counted.
fn frame(head: &str, text: &str, height: u16) -> String {
    let height = usize::from(height).max(2);
    let mut lines: Vec<&str> = head.lines().chain(text.lines()).collect();
    let left_out = match lines.len().checked_sub(height) {
        None | Some(0) => None,
        Some(more) => Some(format!("… {} more lines", more + 1)),
    };
    if let Some(left_out) = &left_out {
        lines.truncate(height - 1);
        lines.push(left_out);
    }
    // Home, without wrapping; each line erases what is left of the one before, and the last one what is below.
    format!("\u{1b}[H\u{1b}[?7l{}\u{1b}[K\u{1b}[J\u{1b}[?7h", lines.join("\u{1b}[K\r\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_fit_the_height_and_say_what_is_left_out() {
        let lines = |text: &str, height| {
            let frame = frame("head", text, height);
            let inner = frame.strip_prefix("\u{1b}[H\u{1b}[?7l").unwrap();
            let inner = inner.strip_suffix("\u{1b}[K\u{1b}[J\u{1b}[?7h").unwrap();
            inner.split("\u{1b}[K\r\n").map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines("a\nb\n", 3), ["head", "a", "b"]);
        assert_eq!(lines("a\nb\nc\n", 3), ["head", "a", "… 2 more lines"]);
        assert_eq!(lines("a\nb\n", 0), ["head", "… 2 more lines"]);
    }
}
