//! `enqueue`: sends one call, its arguments written in JSON.

mod arguments;
mod exact;
mod notation;

use std::sync::Arc;

use serde_json::{Value, json};

use self::arguments::{Given, check, keywords, payload};
use self::notation::Argument;
use crate::broker::{Broker, BrokerError, Entry, Ready, Target};
use crate::cli::Program;
use crate::cli::args::{Enqueue, Language};
use crate::cli::commands::{LONG, warn_of_misspelt};
use crate::cli::exit::{Code, Failure};
use crate::cli::output;
use crate::cli::suggest;
use crate::client::Patience;
use crate::error::Error;
use crate::inspect::MessageSummary;
use crate::protocol::annotations::Annotations;
use crate::protocol::call_id::CallId;
use crate::protocol::encode::{self, EncodeError, Meta};
use crate::protocol::keys::QueueKeys;
use crate::protocol::meta;
use crate::protocol::names::{QueueName, check_path};
use crate::task::{Call, Due, GoTask, PyTask, Registration, Registry, RegistryError};

pub(super) async fn run(program: Program, args: Enqueue) -> Result<(), Failure> {
    let registry = match Registry::collect() {
        Err(RegistryError::Empty) => Registry::new(),
        registry => registry?,
    };
    let given = Given::parse(args.arguments.as_deref())?;
    let task = match args.language {
        None | Some(Language::Rust) => find(&registry, &args)?,
        Some(Language::Python | Language::Go) => None,
    };
    let queue = match (&args.queue, task.and_then(|task| task.options.queue)) {
        (Some(queue), _) => queue.clone(),
        (None, Some(queue)) => QueueName::parse(queue)?,
        (None, None) => QueueName::default(),
    };
    let due = args.after.map(Due::After).or(args.at.map(Due::At));
    let due = due.map(Due::check).transpose().map_err(|error| Failure::usage(error.to_string()))?;
    let id = args.id.map(|id| id.unwrap_or_else(CallId::new)).or_else(|| due.map(|_| CallId::new()));
    let message = match args.language {
        None | Some(Language::Rust) => native(&args, &given, task, id)?,
        Some(Language::Python) => python(&args, given)?,
        Some(Language::Go) => go(&args, given)?,
    };
    let (size, limit) = (message.len(), program.settings.config.client.max_message);
    if size > limit {
        return Err(Error::TooLarge { task: args.path, size, limit }.into());
    }
    let config = &program.settings.config;
    let (until, target) = (Patience::new(config).begin(), Target::new(&config.redis)?);
    let connect = |end| Broker::connect_by(Arc::clone(&target), end);
    let broker = match config.client.patience {
        Some(_) => until.retry(connect).await?,
        // Who waits at a terminal is told at once.
        None => connect(until.attempt()).await?,
    };
    let broker = broker.by(until.attempt());
    if args.queue.is_some() {
        let known = broker.registered_queues().await.map_err(BrokerError::without_effect)?;
        warn_of_misspelt(&queue, known.iter().map(String::as_str));
    }
    broker.register_queue(queue.as_str()).await.map_err(BrokerError::without_effect)?;
    let keys = QueueKeys::new(&queue);
    broker.check_types(&keys).await.map_err(BrokerError::without_effect)?;
    if let (Some(due), Some(id)) = (due, id) {
        let dues = broker.schedule(&keys, &[Entry { id, due, message: &message }]).await?;
        let Some(Some(due_ms)) = dues.first().copied() else {
            let text = format!("a call with the id {id} is scheduled in {queue} already: use another id");
            return Err(Failure::new(Code::Refused, text));
        };
        return report(&args, &queue, Some(id), &message, Place::Scheduled { due_ms });
    }
    let waiting = broker.enqueue(Ready::new(&keys, std::iter::once(&message[..]))).await?;
    report(&args, &queue, id, &message, Place::Waiting { before: waiting })
}

/// Where a call is now.
#[derive(Clone, Copy)]
enum Place {
    /// In its queue, where so many wait with it.
    Waiting { before: u64 },
    /// In the timetable.
    Scheduled { due_ms: u64 },
}

/// The task, when it is compiled in; a program that has tasks wants to be told of one that it has not.
fn find(registry: &Registry, args: &Enqueue) -> Result<Option<&'static Registration>, Failure> {
    let found = registry.get(&args.path);
    if found.is_some() || registry.is_empty() || args.language == Some(Language::Rust) {
        return Ok(found);
    }
    let last = |path: &str| path.rsplit([':', '.']).next().unwrap_or(path).to_owned();
    let alike = registry.iter().find(|task| last(task.name) == last(&args.path));
    let alike = alike.map(|task| task.name);
    let alike = alike.or_else(|| suggest::nearest(&args.path, registry.iter().map(|task| task.name)));
    let alike = alike.map_or_else(String::new, |name| format!("did you mean `{name}`? "));
    Err(Failure::not_found(format!(
        "no task `{}` is in this program: {alike}`tasks` lists all of them; --as rust, python or go sends a call to \
         another program",
        args.path
    )))
}

/// A message of ours, checked when its task is known.
fn native(
    args: &Enqueue,
    given: &Given,
    task: Option<&'static Registration>,
    id: Option<CallId>,
) -> Result<Vec<u8>, Failure> {
    check_path(&args.path).map_err(|error| Failure::usage(error.to_string()))?;
    let meta = Meta {
        attempts: 0,
        deadline_ms: args.deadline.map(meta::since_1970),
        id,
        backoff: args.backoff,
        by_place: false,
        retry: args.retry,
        keep_ms: None,
        timeout_ms: args.timeout.map(meta::milliseconds),
        lock: None,
    };
    let mut annotations = Annotations::default();
    args.headers.iter().for_each(|(name, value)| annotations.headers.insert(name, value));
    annotations.headers.check().map_err(|error| Failure::usage(error.to_string()))?;
    match (task, given) {
        (Some(task), given) => {
            let (payload, by_place) = checked(task, given)?;
            Ok(encode::annotated(&args.path, &payload, &Meta { by_place, ..meta }, &annotations))
        }
        (None, Given::ByPlace(values)) => {
            Ok(encode::annotated(&args.path, &payload(values)?, &meta, &annotations))
        }
        (None, Given::ByName(values)) => {
            Ok(encode::by_keyword(&args.path, &keywords(values)?, &meta, &annotations))
        }
    }
}

/// The payload for a task that is compiled in, and whether it is to be read by place.
fn checked(task: &'static Registration, given: &Given) -> Result<(Vec<u8>, bool), Failure> {
    check(task, given)?;
    given.payload_for(task.params)
}

/// The message that `enqueue` makes of this JSON; none where it refuses it. For fuzzing.
#[cfg(feature = "testing")]
pub fn json_message(task: &'static Registration, text: &str) -> Option<Vec<u8>> {
    let (payload, by_place) = checked(task, &Given::parse(Some(text)).ok()?).ok()?;
    Some(encode::native(task.name, &payload, &Meta { by_place, ..Meta::default() }))
}

fn python(args: &Enqueue, given: Given) -> Result<Vec<u8>, Failure> {
    refuse_meta(args, "Python")?;
    let mut task = PyTask::new(&args.path).retry(args.retry.unwrap_or(0));
    match given {
        Given::ByPlace(values) => task = values.iter().map(Argument).fold(task, PyTask::arg),
        Given::ByName(values) => {
            task = values.iter().fold(task, |task, (name, value)| task.kwarg(name, Argument(value)));
        }
    }
    encoded(task.into())
}

fn go(args: &Enqueue, given: Given) -> Result<Vec<u8>, Failure> {
    refuse_meta(args, "Go")?;
    if args.retry.is_some() {
        return Err(Failure::usage("Go's worker does not retry: leave out --retry"));
    }
    let Given::ByPlace(values) = given else {
        return Err(Failure::usage("Go knows no arguments by name: give an array, such as '[1, 2]'"));
    };
    encoded(values.iter().map(Argument).fold(GoTask::new(&args.path), GoTask::arg).into())
}

fn refuse_meta(args: &Enqueue, language: &str) -> Result<(), Failure> {
    let options = [
        ("an id: leave out --id", args.id.is_some()),
        ("headers: leave out --header", !args.headers.is_empty()),
        ("a back-off: leave out --backoff", args.backoff.is_some()),
        ("a timeout: leave out --timeout", args.timeout.is_some()),
        ("a deadline: leave out --deadline", args.deadline.is_some()),
    ];
    match options.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => {
            Err(Failure::usage(format!("a message for {language} has no place for {option}")))
        }
    }
}

fn encoded(call: Call) -> Result<Vec<u8>, Failure> {
    call.encode().map_err(|source| match source {
        EncodeError::Path(problem) => Failure::usage(problem.to_string()),
        source => Error::Encode { task: call.task().to_owned(), source }.into(),
    })
}

fn report(
    args: &Enqueue,
    queue: &QueueName,
    id: Option<CallId>,
    message: &[u8],
    place: Place,
) -> Result<(), Failure> {
    tell(args, queue, id, message, place).map_err(|failure| {
        // Whoever takes it for not enqueued has it run twice.
        failure.although(&format!(
            "the call was enqueued to {queue}{} all the same, do not repeat it: `peek {queue}` shows it while it waits",
            with_the_id(id)
        ))
    })
}

fn tell(
    args: &Enqueue,
    queue: &QueueName,
    id: Option<CallId>,
    message: &[u8],
    place: Place,
) -> Result<(), Failure> {
    let (waiting, due_ms) = match place {
        Place::Waiting { before } => (Some(before), None),
        Place::Scheduled { due_ms } => (None, Some(due_ms)),
    };
    let read = MessageSummary::of(message, if args.output.json { LONG } else { 200 });
    let shown = read.arguments_text.unwrap_or_default();
    if args.output.json {
        return output::json(&json!({
            "task": args.path,
            "queue": queue.as_str(),
            "id": id.map_or(Value::Null, |id| id.to_string().into()),
            "arguments": read.arguments,
            "keywords": read.keywords,
            "arguments_text": shown,
            "bytes": message.len(),
            "waiting": waiting,
            "due_ms": due_ms,
        }));
    }
    let (path, id) = (output::clean(&args.path), with_the_id(id));
    output::print(&match place {
        Place::Waiting { before } => format!("enqueued {path}{shown} to {queue}{id}; {before} waiting"),
        Place::Scheduled { due_ms } => {
            format!("scheduled {path}{shown} in {queue}{id} for {}", output::moment(due_ms))
        }
    })
}

fn with_the_id(id: Option<CallId>) -> String {
    id.map_or_else(String::new, |id| format!(" with the id {id}"))
}
