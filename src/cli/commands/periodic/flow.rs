//! Reads a flow that is written in JSON, and makes a periodic task of it.

use serde::Deserialize;
use serde_json::Value;

use super::add::refused;
use crate::cli::args::{Language, PeriodicAdd};
use crate::cli::commands::enqueue;
use crate::cli::exit::Failure;
use crate::json::{self, Given};
use crate::protocol::annotations::Annotations;
use crate::protocol::encode::{self, Meta};
use crate::protocol::flow::{self, Node, Plan, Policy, Step, TASK};
use crate::protocol::meta::milliseconds;
use crate::protocol::names::{QueueName, check_path};
use crate::protocol::plan_error::PlanError;
use crate::protocol::tracking::Lock;
use crate::task::{Call, Periodic, PeriodicEntry, Registry, Unique};

/// A part as it is written: has exactly one of the first four fields.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Part {
    /// The path of a task.
    call: Option<String>,
    /// The path of a task that takes the result of the part before it.
    step: Option<String>,
    chain: Option<Vec<Self>>,
    group: Option<Vec<Self>>,
    /// Of a call or a step: an array or an object, as for `enqueue`.
    args: Option<Value>,
    queue: Option<String>,
    /// Of a group.
    at_most: Option<u32>,
    policy: Option<Word>,
}

/// When a group fails, in the words of Python.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    WaitForAll,
    FailFast,
    Successes,
}

impl From<Word> for Policy {
    fn from(word: Word) -> Self {
        match word {
            Word::WaitForAll => Self::WaitForAll,
            Word::FailFast => Self::FailFast,
            Word::Successes => Self::Successes,
        }
    }
}

/// The definition of a periodic task that begins the flow in `text`: JSON, or the name of a file that has it.
pub(super) fn entry(args: &PeriodicAdd, registry: &Registry, text: &str) -> Result<PeriodicEntry, Failure> {
    if matches!(args.language, Some(Language::Python | Language::Go)) {
        return Err(unfit("a worker of Python or Go does not say how a call ended: leave out --as"));
    }
    let home = args.queue.clone().unwrap_or_default();
    let plan = Reader { registry, language: args.language, home }.plan(&read(text)?)?;
    plan.flatten().map_err(unfit)?;
    let payload = flow::encoded(&plan).map_err(unfit)?;
    let mut call: Call = Call::of_flow(plan.root.first_queue().map(str::to_owned), Ok(payload));
    if let Some(queue) = &args.queue {
        call = call.queue(queue);
    }
    if let Some(keep) = args.keep {
        call = call.keep(keep);
    }
    if let Some(expires) = args.expires {
        call = call.expires(expires);
    }
    let (overlap, missed) = (args.overlap.unwrap_or_default(), args.missed.unwrap_or_default());
    let mut task = Periodic::new(&args.name, &args.cron, call).overlap(overlap).missed(missed);
    if let Some(tz) = &args.tz {
        task = task.tz(tz);
    }
    task.into_entry().map_err(refused)
}

fn read(text: &str) -> Result<Value, Failure> {
    let text = text.trim();
    let of_file = match text.starts_with('{') {
        true => None,
        false => Some(std::fs::read_to_string(text).map_err(|error| {
            Failure::usage(format!(
                "the flow cannot be read from {text}: {error}; give a file, or JSON such as \
                 '{{\"chain\": [{{\"call\": \"my_crate::task\", \"args\": [1]}}]}}'"
            ))
        })?),
    };
    json::parse(of_file.as_deref().unwrap_or(text)).map_err(unfit)
}

fn unfit(reason: impl std::fmt::Display) -> Failure {
    Failure::usage(format!("that cannot be a flow: {reason}"))
}

/// Makes parts of what is written.
struct Reader<'a> {
    registry: &'a Registry,
    language: Option<Language>,
    /// The queue of steps that name none, and whose tasks have none.
    home: QueueName,
}

impl Reader<'_> {
    fn plan(&self, written: &Value) -> Result<Plan, Failure> {
        let mut root = written.clone();
        let on_error = root.as_object_mut().and_then(|root| root.remove("on_error"));
        let root = self.node(serde_json::from_value(root).map_err(unfit)?)?;
        if root.step.is_some() {
            return Err(unfit("its outermost part is a chain or a group"));
        }
        if takes_first(&root) {
            return Err(unfit("it begins with a `step`, and there is no result before it: use a `call`"));
        }
        let on_error =
            on_error.map(|part| match self.node(serde_json::from_value(part).map_err(unfit)?)?.step {
                Some(step) => Ok(*step),
                None => Err(unfit(PlanError::OnError)),
            });
        Ok(Plan { root, on_error: on_error.transpose()? })
    }

    fn node(&self, part: Part) -> Result<Node, Failure> {
        let nodes = |parts: Vec<Part>| -> Result<Vec<Node>, Failure> {
            parts.into_iter().map(|part| self.node(part)).collect()
        };
        match part {
            Part {
                call: Some(path),
                step: None,
                chain: None,
                group: None,
                at_most: None,
                policy: None,
                ..
            } => self.step(&path, false, part.args, part.queue.as_deref()),
            Part {
                call: None,
                step: Some(path),
                chain: None,
                group: None,
                at_most: None,
                policy: None,
                ..
            } => self.step(&path, true, part.args, part.queue.as_deref()),
            Part {
                call: None,
                step: None,
                chain: Some(parts),
                group: None,
                args: None,
                queue: None,
                at_most: None,
                policy: None,
            } => Ok(Node { chain: Some(nodes(parts)?), ..Node::default() }),
            Part {
                call: None,
                step: None,
                chain: None,
                group: Some(members),
                args: None,
                queue: None,
                ..
            } => {
                let policy = part.policy.map(Policy::from).unwrap_or_default();
                let at_most = part.at_most.map(|at_most| at_most.max(1));
                Ok(Node { group: Some(nodes(members)?), at_most, policy, ..Node::default() })
            }
            _ => Err(unfit(
                "a part is one of a `call` and a `step`, both with `args` and `queue`, a `chain`, and a `group` with \
                 `at_most` and `policy`",
            )),
        }
    }

    /// A call with the options of its task, as a client in Rust makes it.
    fn step(
        &self,
        path: &str,
        takes: bool,
        args: Option<Value>,
        queue: Option<&str>,
    ) -> Result<Node, Failure> {
        check_path(path).map_err(unfit)?;
        if path == TASK {
            return Err(unfit(PlanError::Flow));
        }
        let task = enqueue::find(self.registry, path, self.language)?;
        let options = task.map(|task| &task.options);
        let queue = match queue.or_else(|| options?.queue) {
            Some(queue) => QueueName::parse(queue)?,
            None => self.home.clone(),
        };
        let given = Given::of(args.unwrap_or_else(|| Value::Array(Vec::new())))?;
        let mut meta = Meta { keep_ms: options.and_then(|of| of.keep).map(milliseconds), ..Meta::default() };
        let message = match enqueue::payload_of(path, task, given, takes)? {
            enqueue::Encoded::ByPlace { payload, by_place } => {
                let unique = options.and_then(|of| of.unique);
                let lock = unique.map(|unique| Lock::of_arguments(enqueue::mode_of(unique), path, &payload));
                meta = Meta { by_place, lock, keep_ms: meta.keep_ms.or(lock.map(|_| 0)), ..meta };
                encode::annotated(path, &payload, &meta, &Annotations::default())
            }
            enqueue::Encoded::ByName(keywords) => {
                encode::by_keyword(path, &keywords, &meta, &Annotations::default())
            }
        };
        let period = options.and_then(|of| of.unique).and_then(|unique| match unique {
            Unique::For(period) => Some(milliseconds(period)),
            _ => None,
        });
        let expires = options.and_then(|of| of.expires).map(milliseconds);
        let (queue, message) = (queue.to_string(), message.into());
        Ok(Node::of_step(Step { queue, message, takes, expires, period, ..Step::default() }))
    }
}

/// Whether what runs first takes a result.
fn takes_first(node: &Node) -> bool {
    match node {
        Node { step: Some(step), .. } => step.takes,
        Node { chain: Some(parts), .. } => parts.first().is_some_and(takes_first),
        Node { group, .. } => group.iter().flatten().any(takes_first),
    }
}
