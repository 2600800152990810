//! `worker`: runs calls until it is told to stop.

use std::collections::BTreeSet;
use std::future::pending;

use crate::cli::Program;
use crate::cli::args::Exposed;
#[cfg(feature = "metrics")]
use crate::cli::commands::exporter::expose;
use crate::cli::exit::{Code, Failure};
use crate::cli::health::{self, Health};
use crate::config::QueueWeight;
use crate::protocol::names::QueueName;
use crate::runner::streams;
use crate::task::{Registry, RegistryError};
use crate::worker::Worker;

/// How many tasks a warning names.
const FEW: usize = 5;

pub(super) async fn run(program: Program, exposed: Exposed) -> Result<(), Failure> {
    let registry = Registry::collect().map_err(advise)?;
    warn_of_unserved(&registry, &program.settings.config.worker.queues);
    #[cfg(feature = "metrics")]
    let exporter = expose(&program, exposed.address()).await?;
    let config = program.settings.config.clone();
    let mut worker = Worker::with_config(program.settings.config)
        .registry(registry)
        .states(program.parts.states)
        .layers(program.parts.layers)
        .hooks(program.parts.hooks)
        .signals(true)
        .owns_process();
    #[cfg(feature = "metrics")]
    if let Some(exporter) = exporter {
        worker = worker.exporter(&exporter);
    }
    if let Some(version) = program.parts.version {
        worker = worker.program_version(version);
    }
    if let Some(zygote) = program.zygote {
        worker = worker.zygote(zygote);
    }
    streams::keep().map_err(|error| Failure::io("the standard streams cannot be watched", &error))?;
    // On the runtime's own threads: what is awaited there is heard of without a detour.
    let runs = async move {
        let health = Health::begin(&config, exposed.health_file)?;
        let worker = worker.connect().await?;
        let handle = worker.handle();
        let telling = tokio::spawn(async move {
            handle.serving().await;
            let _health = health.ready();
            handle.told_to_stop().await;
            health::stopping();
            pending::<()>().await;
        });
        let ended = worker.run().await;
        telling.abort();
        // Dropping `_health` removes the file.
        let _ = telling.await;
        ended.map(drop).map_err(Failure::from)
    };
    match tokio::spawn(runs).await {
        Ok(ended) => ended,
        Err(error) => Err(Failure::new(Code::Failed, format!("the worker ended because of a bug: {error}"))),
    }
}

/// Names the tasks whose calls go to queues that this worker does not serve.
fn warn_of_unserved(registry: &Registry, served: &[QueueWeight]) {
    let default = QueueName::default();
    let is_served = |queue: &str| served.iter().any(|entry| entry.queue.as_str() == queue);
    let (mut tasks, mut queues) = (Vec::new(), BTreeSet::new());
    for task in registry.iter() {
        let queue = task.options.queue.unwrap_or(default.as_str());
        if !is_served(queue) {
            tasks.push(task.name);
            queues.insert(queue);
        }
    }
    if !queues.is_empty() {
        let flags: Vec<String> = queues.iter().map(|queue| format!("--queue {queue}")).collect();
        let more = tasks.len().saturating_sub(FEW);
        let (tasks, serve_with) = (tasks[..tasks.len() - more].join(" "), flags.join(" "));
        let more = (more > 0).then_some(more);
        tracing::warn!(tasks, more, serve_with, "queues of some tasks are not served");
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
