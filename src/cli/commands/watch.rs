//! `--watch`: shows the same again and again.

use std::io::IsTerminal;
use std::time::SystemTime;

use crate::cli::args::{Json, Watch};
use crate::cli::exit::{Code, Failure};
use crate::cli::output as out;

/// Shows something once, or with this pause until the process is ended. While Redis does not answer, it says so.
pub(super) async fn repeat(
    watch: Watch,
    output: Json,
    show: impl AsyncFn() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Some(pause) = watch.pause else { return show().await };
    loop {
        if std::io::stdout().is_terminal() {
            // To the first place, and nothing behind it.
            out::print_as_is("\u{1b}[H\u{1b}[2J")?;
        } else if !output.json {
            out::print(&humantime::format_rfc3339_seconds(SystemTime::now()).to_string())?;
        }
        match show().await {
            Err(failure) if failure.code() == Code::Unreachable => {
                out::note(&out::clean(&format!("error: {}", failure.text())));
            }
            shown => shown?,
        }
        tokio::time::sleep(pause).await;
    }
}
