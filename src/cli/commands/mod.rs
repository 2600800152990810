//! One file for each command.

mod enqueue;
mod sweeper;
mod worker;

use std::process::ExitCode;

use crate::cli::Program;
use crate::cli::args::Command;
use crate::cli::exit::Failure;

pub(super) async fn run(program: Program, command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Worker(_) => worker::run(program).await?,
        Command::Sweeper(_) => sweeper::run(program).await?,
        Command::Enqueue(args) => enqueue::run(program, args).await?,
    }
    Ok(ExitCode::SUCCESS)
}
