//! `dev`: a private Redis, and a worker beside it when the program has tasks.

use serde_json::json;

use crate::cli::Program;
use crate::cli::args::Worker;
use crate::cli::commands::{sweeper, worker};
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::task::{Registry, RegistryError};

pub(super) async fn run(program: Program, args: Worker) -> Result<(), Failure> {
    let url = program.settings.config.redis.redacted_url();
    let has_tasks = !matches!(Registry::collect(), Err(RegistryError::Empty));
    // A worker hears signals itself; until then they end this process at once.
    let ended = if has_tasks { None } else { Some(sweeper::until_signal()?) };
    // On one line: there is no end of the output by which a reader would know that it has come whole.
    output::print(&match args.log.json {
        true => json!({ "redis": url }).to_string(),
        false => format!(
            "Redis runs at {url}\nuse it with --redis dev in this directory, with --redis {url} elsewhere"
        ),
    })?;
    match ended {
        Some(ended) => {
            ended.await;
            Ok(())
        }
        None => worker::run(program, args.exposed).await,
    }
}
