//! `periodic add`: defines a periodic task, its arguments or its flow written in JSON.

use serde_json::json;

use super::flow;
use crate::cli::Program;
use crate::cli::args::{Language, PeriodicAdd};
use crate::cli::commands::enqueue::{add_limits, find, message_of_another, message_of_ours};
use crate::cli::commands::inspector;
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::error::Error;
use crate::json::Given;
use crate::protocol::annotations::Annotations;
use crate::protocol::encode::Meta;
use crate::protocol::meta;
use crate::protocol::names::{QueueName, check_path};
use crate::protocol::periodic::{Definition, Overlap, PeriodicError, overlap_key, overlap_limit};
use crate::protocol::tracking::{Lock, LockMode};
use crate::task::error::chain;
use crate::task::{PeriodicEntry, Registry, RegistryError};

pub(super) async fn run(program: &Program, args: &PeriodicAdd) -> Result<(), Failure> {
    let registry = match Registry::collect() {
        Err(RegistryError::Empty) => Registry::new(),
        registry => registry?,
    };
    let entry = match (&args.flow, &args.path) {
        (Some(flow), _) => flow::entry(args, &registry, flow)?,
        (None, path) => entry(args, &registry, path.as_deref().unwrap_or_default())?,
    };
    let (size, limit) = (entry.definition.len(), program.settings.config.client.max_message);
    if size > limit {
        return Err(Error::TooLarge { task: args.name.clone(), size, limit }.into());
    }
    let inspector = inspector(program).await?;
    let is_new = inspector.define_entry(&entry, args.replace).await?;
    if !is_new {
        return Err(Failure::usage(format!(
            "{} has a periodic task {} already: --replace replaces it",
            entry.queue, args.name
        )));
    }
    let tasks = inspector.periodic(std::slice::from_ref(&entry.queue)).await?;
    let task = tasks.iter().find(|task| task.name == args.name);
    let next = task.and_then(|task| task.next_ms.first().copied());
    if args.output.json {
        return output::json(&json!({ "name": args.name, "queue": entry.queue.as_str(), "next_ms": next }));
    }
    let next = next.map_or_else(|| "while it is paused, never".into(), output::moment);
    output::print(&output::clean(&format!("defined {} in {}; next: {next}", args.name, entry.queue)))
}

/// The definition of a task that is called, checked.
fn entry(args: &PeriodicAdd, registry: &Registry, path: &str) -> Result<PeriodicEntry, Failure> {
    let task = match args.language {
        None | Some(Language::Rust) => find(registry, path, args.language)?,
        Some(Language::Python | Language::Go) => None,
    };
    let queue = match (&args.queue, task.and_then(|task| task.options.queue)) {
        (Some(queue), _) => queue.clone(),
        (None, Some(queue)) => QueueName::parse(queue)?,
        (None, None) => QueueName::default(),
    };
    let given = Given::parse(args.arguments.as_deref())?;
    let (overlap, missed) = (args.overlap.unwrap_or_default(), args.missed.unwrap_or_default());
    let of_task = task.map(|task| &task.options);
    let is_ours = matches!(args.language, None | Some(Language::Rust));
    let message = if is_ours {
        check_path(path).map_err(|error| Failure::usage(error.to_string()))?;
        let lock = (overlap == Overlap::Skip)
            .then(|| Lock::of_key(LockMode::UntilDone, path, &overlap_key(&args.name)));
        let keep = args.keep.or_else(|| of_task?.keep).map(meta::milliseconds);
        let timeout_ms = args.timeout.map(meta::milliseconds);
        let keep_ms = keep.or(lock.map(|_| 0));
        let meta = Meta { retry: args.retry, timeout_ms, keep_ms, lock, ..Meta::default() };
        let mut annotations = Annotations::default();
        if overlap == Overlap::Queue {
            annotations.limits.push(overlap_limit(&queue, &args.name).map_err(Error::from)?);
        }
        add_limits(&mut annotations, &args.limits)?;
        message_of_ours(path, task, &given, meta, &annotations)?
    } else {
        if overlap != Overlap::Allow {
            return Err(refused(PeriodicError::Foreign { name: args.name.clone() }));
        }
        let has_ours = args.timeout.is_some() || args.keep.is_some() || args.expires.is_some();
        if has_ours || !args.limits.is_empty() {
            return Err(Failure::usage(
                "a message for Python or Go has no place for a timeout, a record, an expiry or a limit: leave out --timeout, \
                 --keep, --expires and --limit",
            ));
        }
        message_of_another(path, args.language, args.retry, given)?
    };
    let expires = args.expires.or_else(|| of_task?.expires);
    let definition = Definition {
        tz: args.tz.clone(),
        overlap,
        missed,
        expires_ms: expires.map(meta::milliseconds),
        ..Definition::new(args.cron.trim(), message, is_ours)
    };
    PeriodicEntry::new(queue, args.name.clone(), &definition).map_err(refused)
}

/// What was given cannot be a periodic task.
pub(super) fn refused(error: PeriodicError) -> Failure {
    Failure::usage(chain(&error))
}
