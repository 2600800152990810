//! `dev`: a private Redis, and a worker beside it when the program has tasks.

use serde_json::json;

use crate::cli::Program;
use crate::cli::args::JsonLog;
use crate::cli::commands::{sweeper, worker};
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::task::{Registry, RegistryError};

pub(super) async fn run(program: Program, log: JsonLog) -> Result<(), Failure> {
    let ended = sweeper::until_signal()?;
    let url = program.settings.config.redis.redacted_url();
    // On one line: there is no end of the output by which a reader would know that it has come whole.
    output::print(&match log.json {
        true => json!({ "redis": url }).to_string(),
        false => format!(
            "Redis runs at {url}\nuse it with --redis dev in this directory, with --redis {url} elsewhere"
        ),
    })?;
    match Registry::collect() {
        Err(RegistryError::Empty) => {
            ended.await;
            Ok(())
        }
        _ => worker::run(program).await,
    }
}
