//! `dev`: a private Redis, and a worker beside it when the program has tasks.

use crate::cli::Program;
use crate::cli::commands::{sweeper, worker};
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::task::{Registry, RegistryError};

pub(super) async fn run(program: Program) -> Result<(), Failure> {
    let ended = sweeper::until_signal()?;
    let url = program.settings.config.redis.redacted_url();
    output::print(&format!(
        "Redis runs at {url}\nuse it with --redis dev in this directory, with --redis {url} elsewhere"
    ))?;
    match Registry::collect() {
        Err(RegistryError::Empty) => {
            ended.await;
            Ok(())
        }
        _ => worker::run(program).await,
    }
}
