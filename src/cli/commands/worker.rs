//! `worker`: runs calls until it is told to stop.

use crate::cli::Program;
use crate::cli::exit::{Code, Failure};
use crate::task::{Registry, RegistryError};
use crate::worker::Worker;

pub(super) async fn run(program: Program) -> Result<(), Failure> {
    let registry = Registry::collect().map_err(advise)?;
    let mut worker =
        Worker::with_config(program.settings.config).registry(registry).states(program.states).signals(true);
    if let Some(zygote) = program.zygote {
        worker = worker.zygote(zygote);
    }
    // On the runtime's own threads: what is awaited there is heard of without a detour.
    match tokio::spawn(async { worker.connect().await?.run().await }).await {
        Ok(ended) => ended.map(drop).map_err(Failure::from),
        Err(error) => {
            Err(Failure::new(Code::Failed, format!("the worker ended by a mistake of its own: {error}")))
        }
    }
}

/// The shipped program has no tasks, and who runs it for a worker wants to know what to run instead.
fn advise(error: RegistryError) -> Failure {
    match error {
        RegistryError::Empty => Failure::configuration(format!(
            "{error}; and run the program that has them: its `fn main() -> std::process::ExitCode {{ delayed::main() }}` \
             makes it a worker"
        )),
        other => other.into(),
    }
}
