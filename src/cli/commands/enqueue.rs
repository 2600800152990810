//! `enqueue`: sends one call, its arguments written in JSON.

mod options;
mod report;
mod send;

use std::sync::Arc;

use self::options::Options;
pub(super) use self::options::mode_of;
use crate::broker::{Broker, Target};
use crate::cli::Program;
use crate::cli::args::{Enqueue, Language};
use crate::cli::commands::calls::{conclude, outcome};
use crate::cli::commands::inspector;
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::cli::suggest;
use crate::client::Patience;
use crate::error::Error;
use crate::json::{Argument, Given, checked, keywords, payload};
use crate::protocol::annotations::Annotations;
use crate::protocol::call_id::CallId;
use crate::protocol::encode::{self, EncodeError, Meta};
use crate::protocol::limit::{LimitError, LimitName, MAX_LIMITS};
use crate::protocol::meta;
use crate::protocol::names::{QueueName, check_path};
use crate::protocol::tracking::Tracking;
use crate::task::{Call, Due, GoTask, PyTask, Registration, Registry, RegistryError};

pub(super) async fn run(program: Program, args: Enqueue) -> Result<(), Failure> {
    let registry = match Registry::collect() {
        Err(RegistryError::Empty) => Registry::new(),
        registry => registry?,
    };
    let given = Given::parse(args.arguments.as_deref())?;
    let task = match args.language {
        None | Some(Language::Rust) => find(&registry, &args.path, args.language)?,
        Some(Language::Python | Language::Go) => None,
    };
    let queue = match (&args.queue, task.and_then(|task| task.options.queue)) {
        (Some(queue), _) => queue.clone(),
        (None, Some(queue)) => QueueName::parse(queue)?,
        (None, None) => QueueName::default(),
    };
    let due = args.after.map(Due::After).or(args.at.map(Due::At));
    let due = due.map(Due::check).transpose().map_err(|error| Failure::usage(error.to_string()))?;
    let options = Options::new(&args, task, due, &program.settings.config.dead);
    let is_ours = matches!(args.language, None | Some(Language::Rust));
    let needs_id = args.with_id || due.is_some() || is_ours && (options.any() || has_meta(&args));
    let id = args.id.or_else(|| needs_id.then(CallId::new));
    let (message, tracking) = match args.language {
        None | Some(Language::Rust) => native(&args, &given, task, id, &options)?,
        Some(Language::Python) => {
            refuse_meta(&args, "Python")?;
            (python(&args.path, args.retry, given)?, None)
        }
        Some(Language::Go) => {
            refuse_meta(&args, "Go")?;
            (go(&args.path, args.retry, given)?, None)
        }
    };
    let (size, limit) = (message.len(), program.settings.config.client.max_message);
    if size > limit {
        return Err(Error::TooLarge { task: args.path, size, limit }.into());
    }
    let call = Ready { args: &args, queue: &queue, id, due, message: &message };
    let broker = connect(&program).await?;
    let place = send::send(&broker, &call, &options, tracking).await?;
    let Some(timeout) = args.wait else { return report::report(&call, &place) };
    let id = place.id().or(id).unwrap_or_else(CallId::new);
    if !args.output.json {
        output::note(&report::text(&call, &place));
    }
    let failed = |failure| report::failed(failure, &call, &place);
    let inspector = inspector(&program).await.map_err(failed)?;
    let ended = outcome(&inspector, &queue, id, timeout).await.map_err(failed)?;
    if args.output.json {
        output::json(&report::with_end(&call, &place, &ended))?;
    }
    conclude(&ended, args.output.json)
}

/// Whether the command line has an option that stands in the message alone.
fn has_meta(args: &Enqueue) -> bool {
    let times = [args.retry_for, args.timeout];
    args.retry.is_some()
        || args.backoff.is_some()
        || times.iter().any(Option::is_some)
        || !args.headers.is_empty()
        || !args.limits.is_empty()
}

/// A call that is encoded.
struct Ready<'a> {
    args: &'a Enqueue,
    queue: &'a QueueName,
    id: Option<CallId>,
    due: Option<Due>,
    message: &'a [u8],
}

async fn connect(program: &Program) -> Result<Broker, Failure> {
    let config = &program.settings.config;
    let (until, target) = (Patience::new(config).begin(), Target::new(&config.redis)?);
    let connect = |end| Broker::connect_by(Arc::clone(&target), end);
    let broker = match config.client.patience {
        Some(_) => until.retry(connect).await?,
        // Who waits at a terminal is told at once.
        None => connect(until.attempt()).await?,
    };
    Ok(broker.durable(config.client.durability).by(until.attempt()))
}

/// The task, when it is compiled in; a program that has tasks wants to be told of one that it has not.
pub(super) fn find(
    registry: &Registry,
    path: &str,
    language: Option<Language>,
) -> Result<Option<&'static Registration>, Failure> {
    let found = registry.get(path);
    if found.is_some() || registry.is_empty() || language == Some(Language::Rust) {
        return Ok(found);
    }
    let last = |path: &str| path.rsplit([':', '.']).next().unwrap_or(path).to_owned();
    let alike = registry.iter().find(|task| last(task.name) == last(path));
    let alike = alike.map(|task| task.name);
    let alike = alike.or_else(|| suggest::nearest(path, registry.iter().map(|task| task.name)));
    let alike = alike.map_or_else(String::new, |name| format!("did you mean `{name}`? "));
    Err(Failure::not_found(format!(
        "no task `{path}` is in this program: {alike}`tasks` lists all of them; --as rust, python or go sends a call to \
         another program"
    )))
}

/// A message of ours, checked when its task is known.
fn native(
    args: &Enqueue,
    given: &Given,
    task: Option<&'static Registration>,
    id: Option<CallId>,
    options: &Options,
) -> Result<(Vec<u8>, Option<Tracking>), Failure> {
    check_path(&args.path).map_err(|error| Failure::usage(error.to_string()))?;
    let meta = Meta {
        attempts: 0,
        expires_ms: options.expires_ms,
        id,
        backoff: args.backoff,
        by_place: false,
        retry: args.retry,
        retry_for_ms: args.retry_for.map(meta::milliseconds),
        keep_ms: options.keep_ms(),
        timeout_ms: args.timeout.map(meta::milliseconds),
        lock: None,
    };
    let mut annotations = Annotations::default();
    args.headers.iter().for_each(|(name, value)| annotations.headers.insert(name, value));
    annotations.headers.check().map_err(|error| Failure::usage(error.to_string()))?;
    add_limits(&mut annotations, &args.limits)?;
    let (payload, meta) = match (task, given) {
        (Some(task), given) => {
            let (payload, by_place) = checked(task, given)?;
            (payload, Meta { by_place, ..meta })
        }
        (None, Given::ByPlace(values)) => (payload(values)?, meta),
        (None, Given::ByName(values)) => {
            let meta = Meta { lock: options.lock(&args.path, None)?, ..meta };
            let message = encode::by_keyword(&args.path, &keywords(values)?, &meta, &annotations);
            return Ok((message, options.tracking(id, meta.lock)));
        }
    };
    let meta = Meta { lock: options.lock(&args.path, Some(&payload))?, ..meta };
    let message = encode::annotated(&args.path, &payload, &meta, &annotations);
    Ok((message, options.tracking(id, meta.lock)))
}

/// Adds limits to those that a call names.
pub(super) fn add_limits(annotations: &mut Annotations, names: &[LimitName]) -> Result<(), Failure> {
    for name in names {
        if !annotations.limits.contains(name) {
            annotations.limits.push(name.clone());
        }
    }
    match annotations.limits.len() {
        count if count > MAX_LIMITS => Err(Failure::usage(LimitError::TooMany { count }.to_string())),
        _ => Ok(()),
    }
}

/// The message of a call of ours with these options.
pub(super) fn message_of_ours(
    path: &str,
    task: Option<&'static Registration>,
    given: &Given,
    meta: Meta,
    annotations: &Annotations,
) -> Result<Vec<u8>, Failure> {
    let (payload, by_place) = match (task, given) {
        (Some(task), given) => checked(task, given)?,
        (None, Given::ByPlace(values)) => (payload(values)?, false),
        (None, Given::ByName(values)) => {
            return Ok(encode::by_keyword(path, &keywords(values)?, &meta, annotations));
        }
    };
    Ok(encode::annotated(path, &payload, &Meta { by_place, ..meta }, annotations))
}

/// Arguments of a call of ours.
pub(super) enum Encoded {
    ByPlace { payload: Vec<u8>, by_place: bool },
    ByName(Vec<u8>),
}

/// The arguments of a part of a flow; with `takes`, behind the result of the part before it, whose type nobody knows yet.
pub(super) fn payload_of(
    path: &str,
    task: Option<&'static Registration>,
    given: Given,
    takes: bool,
) -> Result<Encoded, Failure> {
    let given = if takes { given.with_first(path, task)? } else { given };
    let (payload, by_place) = match (task, &given) {
        (Some(task), given) if takes => {
            given.check_count(task)?;
            given.payload_for(task.params)?
        }
        (Some(task), given) => checked(task, given)?,
        (None, Given::ByPlace(values)) => (payload(values)?, false),
        (None, Given::ByName(values)) => return Ok(Encoded::ByName(keywords(values)?)),
    };
    Ok(Encoded::ByPlace { payload, by_place })
}

/// The message of a call of a Python or Go function.
pub(super) fn message_of_another(
    path: &str,
    language: Option<Language>,
    retry: Option<i64>,
    given: Given,
) -> Result<Vec<u8>, Failure> {
    if language == Some(Language::Go) { go(path, retry, given) } else { python(path, retry, given) }
}

/// The payload for a task that is compiled in, and whether it is to be read by place.
/// The message that `enqueue` makes of this JSON; none where it refuses it. For fuzzing.
#[cfg(feature = "testing")]
pub fn json_message(task: &'static Registration, text: &str) -> Option<Vec<u8>> {
    let (payload, by_place) = checked(task, &Given::parse(Some(text)).ok()?).ok()?;
    Some(encode::native(task.name, &payload, &Meta { by_place, ..Meta::default() }))
}

fn python(path: &str, retry: Option<i64>, given: Given) -> Result<Vec<u8>, Failure> {
    let mut task = PyTask::new(path).retry(retry.unwrap_or(0));
    match given {
        Given::ByPlace(values) => task = values.iter().map(Argument).fold(task, PyTask::arg),
        Given::ByName(values) => {
            task = values.iter().fold(task, |task, (name, value)| task.kwarg(name, Argument(value)));
        }
    }
    encoded(task.into())
}

fn go(path: &str, retry: Option<i64>, given: Given) -> Result<Vec<u8>, Failure> {
    if retry.is_some() {
        return Err(Failure::usage("Go workers do not retry: leave out --retry"));
    }
    let Given::ByPlace(values) = given else {
        return Err(Failure::usage("Go does not support arguments by name: use an array, such as '[1, 2]'"));
    };
    encoded(values.iter().map(Argument).fold(GoTask::new(path), GoTask::arg).into())
}

fn refuse_meta(args: &Enqueue, language: &str) -> Result<(), Failure> {
    let is_scheduled = args.after.is_some() || args.at.is_some();
    let options = [
        ("an id while it is not scheduled: leave out --id", args.id.is_some() && !is_scheduled),
        ("an id: leave out --with-id", args.with_id),
        ("headers: leave out --header", !args.headers.is_empty()),
        ("a limit: leave out --limit", !args.limits.is_empty()),
        ("a time for retries: leave out --retry-for", args.retry_for.is_some()),
        ("a back-off: leave out --backoff", args.backoff.is_some()),
        ("a record: leave out --keep", args.keep.is_some()),
        ("a record: leave out --wait", args.wait.is_some()),
        ("a lock: leave out --unique", args.unique.is_some()),
        ("a lock: leave out --unique-key", args.unique_key.is_some()),
        ("an order: leave out --ordered", args.ordered.is_some()),
        ("a timeout: leave out --timeout", args.timeout.is_some()),
        ("an expiry: leave out --expires", args.expires.is_some()),
    ];
    match options.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => Err(Failure::usage(format!("a message for {language} cannot have {option}"))),
    }
}

fn encoded(call: Call) -> Result<Vec<u8>, Failure> {
    call.encode().map_err(|source| match source {
        EncodeError::Path(problem) => Failure::usage(problem.to_string()),
        source => Error::Encode { task: call.task().to_owned(), source }.into(),
    })
}
