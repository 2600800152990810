//! Reads the description of a call, and makes a call of it.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::problem::Problem;
use crate::json::words::{any_moment, duration, expiry, overflow, positive, some_time, unique};
use crate::json::{Argument, Given, checked, keywords, payload};
use crate::protocol::annotations::Annotations;
use crate::protocol::backoff::Backoff;
use crate::protocol::call_id::CallId;
use crate::protocol::names::{QueueName, check_path};
use crate::protocol::published::Published;
use crate::task::{Call, Expiry, GoTask, Payload, PyTask, Registration, Registry, Unique};

/// A call to enqueue. Durations are texts such as `30s` or `1h 30m`, moments such as `2030-01-31T12:00:00Z`.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewCall {
    /// The path of the task, such as `shop::tasks::charge`, `mails.tasks:send` or `mails.Send`.
    #[schema(examples("shop::tasks::charge"))]
    pub(super) task: String,
    /// The arguments by place.
    #[serde(default, deserialize_with = "array")]
    #[schema(value_type = Vec<serde_json::Value>)]
    args: Vec<Value>,
    /// The arguments by name.
    #[serde(default, deserialize_with = "object")]
    #[schema(value_type = Object)]
    kwargs: Map<String, Value>,
    /// The queue; default: that of the task, or else `default`.
    queue: Option<String>,
    /// The language of the worker that runs the call; default: `rust`.
    language: Option<Language>,
    /// The id: a UUID, or a text such as `order:7` that stands for one. Another call with this id is refused until it has ended.
    id: Option<String>,
    /// After which time the call runs.
    #[schema(examples("10m"))]
    after: Option<String>,
    /// At which moment the call runs.
    at: Option<String>,
    /// When the call expires: a time from now, or from when it is due, or a moment.
    expires: Option<String>,
    /// How often the call is retried if it fails; -1: without end.
    retry: Option<i64>,
    /// For how long after its first failed attempt the call is retried.
    retry_for: Option<String>,
    /// How long the call waits after a failed attempt: `none`, `fixed:30s`, `linear:10s..5m` or `exponential:1s..10m`.
    backoff: Option<String>,
    /// How long a run may take.
    timeout: Option<String>,
    /// For how long after its end the record of the call is kept: its state, its times and its result.
    #[schema(examples("1h"))]
    keep: Option<String>,
    /// Whether the call is unique: `until-started`, `until-done`, `replace`, or a time.
    unique: Option<String>,
    /// By what unique calls are compared, instead of by their arguments.
    unique_key: Option<String>,
    /// The key of calls that run one after the other.
    ordered: Option<String>,
    /// Whether the call goes to the head of its queue.
    #[serde(default)]
    front: bool,
    /// How many calls may wait in the queue.
    #[schema(minimum = 1)]
    max_len: Option<u64>,
    /// What happens if as many wait: `reject`, or `bury-oldest`.
    overflow: Option<String>,
    /// The limits of the call, in addition to its task's.
    #[serde(default)]
    limits: Vec<String>,
    /// The headers of the call.
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// The language of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Language {
    /// A worker of this library.
    Rust,
    /// A worker of the Python package `delayed`.
    Python,
    /// A worker of the Go module `go-delayed`.
    Go,
}

/// Where a task was found.
#[derive(Debug, Clone, Copy)]
pub(super) enum Found<'a> {
    /// In this program.
    Here(&'static Registration),
    /// Among the published tasks.
    Elsewhere(&'a Published),
    /// Nowhere.
    Nothing,
}

impl Found<'_> {
    fn here(self) -> Option<&'static Registration> {
        match self {
            Self::Here(task) => Some(task),
            Self::Elsewhere(_) | Self::Nothing => None,
        }
    }
}

/// `null` stands for no arguments.
fn array<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Value>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map<String, Value>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl NewCall {
    /// Reads a description.
    pub(super) fn of(value: Value) -> Result<Self, Problem> {
        serde_json::from_value(value)
            .map_err(|error| Problem::malformed(format!("the call cannot be read: {error}")))
    }

    /// Whether another call may stand in its way.
    pub(super) fn is_unique(&self, task: Found<'_>) -> bool {
        let of_task = task.here().is_some_and(|task| task.options.unique.is_some());
        of_task || self.unique.is_some() || self.unique_key.is_some() || self.ordered.is_some()
    }

    /// Whether its sender has given it its id.
    pub(super) fn has_id(&self) -> bool {
        self.id.is_some()
    }

    /// Whether its message can say more than a path and arguments.
    pub(super) fn is_native(&self) -> bool {
        matches!(self.language, None | Some(Language::Rust))
    }

    /// Finds the task in this program, or among the published ones.
    ///
    /// # Errors
    /// It is unknown, and unknown tasks are not accepted.
    pub(super) fn find<'a>(
        &self,
        registry: &Registry,
        elsewhere: &'a BTreeMap<String, Published>,
        accepts_unknown: bool,
    ) -> Result<Found<'a>, Problem> {
        check_path(&self.task).map_err(|error| Problem::invalid(error.to_string()))?;
        if !self.is_native() {
            return Ok(Found::Nothing);
        }
        if let Some(task) = registry.get(&self.task) {
            return Ok(Found::Here(task));
        }
        match elsewhere.get(&self.task) {
            Some(task) => Ok(Found::Elsewhere(task)),
            None if accepts_unknown => Ok(Found::Nothing),
            None => {
                let detail = format!(
                    "no task `{}` is known: GET /v1/tasks lists all of them; a worker adds its tasks when it starts",
                    self.task
                );
                Err(Problem::new(StatusCode::NOT_FOUND, "unknown_task", detail))
            }
        }
    }

    /// The queue of the call: the one that it names, or else that of its task.
    pub(super) fn queue_name(&self, task: Option<&Found<'_>>) -> Result<QueueName, Problem> {
        let of_task = match task {
            Some(Found::Here(task)) => task.options.queue,
            Some(Found::Elsewhere(task)) => Some(task.queue.as_str()),
            Some(Found::Nothing) | None => None,
        };
        match self.queue.as_deref().or(of_task) {
            Some(queue) => Ok(QueueName::parse(queue)?),
            None => Ok(QueueName::default()),
        }
    }

    /// The call in this queue. Its arguments are checked as far as the task is known.
    pub(super) fn into_call(self, task: Found<'_>, queue: QueueName) -> Result<Call, Problem> {
        let call = match self.language {
            Some(Language::Python) => self.python()?,
            Some(Language::Go) => self.go(&self.given()?)?,
            None | Some(Language::Rust) => self.native(task, &self.given()?)?,
        };
        let call = self.scheduled(call.queue(queue))?;
        if self.is_native() { self.with_options(call) } else { self.without_options().map(|()| call) }
    }

    fn given(&self) -> Result<Given, Problem> {
        let given = match (self.args.is_empty(), self.kwargs.is_empty()) {
            (_, true) => Given::ByPlace(self.args.clone()),
            (true, false) => Given::ByName(self.kwargs.clone()),
            (false, false) => {
                return Err(Problem::invalid("give the arguments in `args` or in `kwargs`, not in both"));
            }
        };
        given.check_notation()?;
        Ok(given)
    }

    fn native(&self, task: Found<'_>, given: &Given) -> Result<Call, Problem> {
        let (arguments, by_place) = match (task, given) {
            (Found::Here(task), given) => {
                let (payload, by_place) = checked(task, given)?;
                (Payload::ByPlace(payload), by_place)
            }
            (Found::Elsewhere(task), given) => {
                let wrong =
                    |error| Problem::invalid(format!("`{}`: {error}; it is {}", self.task, task.signature));
                given.fit(&task.params).map_err(wrong)?;
                let (payload, by_place) = given.payload_for(&task.params)?;
                (Payload::ByPlace(payload), by_place)
            }
            (Found::Nothing, Given::ByPlace(values)) => (Payload::ByPlace(payload(values)?), false),
            (Found::Nothing, Given::ByName(values)) => (Payload::ByName(keywords(values)?), false),
        };
        let task = task.here();
        if matches!(arguments, Payload::ByName(_)) && self.unique.is_some() && self.unique_key.is_none() {
            return Err(Problem::invalid(
                "arguments by name cannot be compared, because the task is not known here: use `args`, or a `unique_key`",
            ));
        }
        Ok(Call::named(self.task.clone(), arguments, by_place, task.map(|task| &task.options)))
    }

    /// Python takes arguments by place and by name together.
    fn python(&self) -> Result<Call, Problem> {
        Given::ByPlace(self.args.clone()).check_notation()?;
        Given::ByName(self.kwargs.clone()).check_notation()?;
        let task = PyTask::new(&self.task).retry(self.retry.unwrap_or(0));
        let task = self.args.iter().map(Argument).fold(task, PyTask::arg);
        Ok(self.kwargs.iter().fold(task, |task, (name, value)| task.kwarg(name, Argument(value))).into())
    }

    fn go(&self, given: &Given) -> Result<Call, Problem> {
        if self.retry.is_some() {
            return Err(Problem::invalid("Go workers do not retry: leave out `retry`"));
        }
        let Given::ByPlace(values) = given else {
            return Err(Problem::invalid("Go does not support arguments by name: use `args`"));
        };
        Ok(values.iter().map(Argument).fold(GoTask::new(&self.task), GoTask::arg).into())
    }

    /// With what calls of all languages may have.
    fn scheduled(&self, mut call: Call) -> Result<Call, Problem> {
        match (&self.after, &self.at) {
            (None, None) => {}
            (Some(after), None) => call = call.after(read("after", after, duration)?),
            (None, Some(at)) => call = call.at(read("at", at, any_moment)?),
            (Some(_), Some(_)) => return Err(Problem::invalid("give `after` or `at`, not both")),
        }
        if self.front {
            call = call.front();
        }
        if let Some(most) = self.max_len {
            if most == 0 {
                return Err(Problem::invalid("`max_len`: 0 would let no call wait: use 1 or more"));
            }
            call = call.max_len(most);
        }
        if let Some(what) = &self.overflow {
            if self.max_len.is_none() {
                return Err(Problem::invalid("`overflow` says what happens at a `max_len`: give both"));
            }
            call = call.overflow(read("overflow", what, overflow)?);
        }
        match &self.id {
            Some(id) if id.is_empty() => Err(Problem::invalid("`id` is empty: leave it out, or give one")),
            Some(id) => Ok(call.id(CallId::from(id))),
            // So that whoever sends it can follow it.
            None if self.is_native() => Ok(call.with_id()),
            None => Ok(call),
        }
    }

    fn with_options(&self, mut call: Call) -> Result<Call, Problem> {
        if let Some(retry) = self.retry {
            call = call.retry(retry);
        }
        if let Some(time) = &self.retry_for {
            call = call.retry_for(read("retry_for", time, positive)?);
        }
        if let Some(backoff) = &self.backoff {
            call = call.backoff(read("backoff", backoff, |text| text.parse::<Backoff>())?);
        }
        if let Some(timeout) = &self.timeout {
            call = call.timeout(read("timeout", timeout, some_time)?);
        }
        if let Some(time) = &self.keep {
            call = call.keep(read("keep", time, positive)?);
        }
        match self.expires.as_ref().map(|text| read("expires", text, expiry)).transpose()? {
            Some(Expiry::After(time)) => call = call.expires(time),
            Some(Expiry::At(moment)) => call = call.expires_at(moment),
            None => {}
        }
        if let Some(which) = &self.unique {
            call = call.unique(read("unique", which, unique)?);
        }
        if let Some(key) = &self.unique_key {
            call = call.unique_key(key);
        }
        if let Some(key) = &self.ordered {
            if self.unique.is_some() || self.unique_key.is_some() || self.front {
                return Err(Problem::invalid(
                    "`ordered` cannot be used with `unique`, `unique_key` or `front`",
                ));
            }
            if self.after.is_some() || self.at.is_some() {
                return Err(Problem::invalid("`ordered` cannot be used with `after` or `at`"));
            }
            call = call.ordered(key);
        }
        let with_limits = self.limits.iter().fold(call, Call::limit);
        Ok(self.headers.iter().fold(with_limits, |call, (name, value)| call.header(name, value)))
    }

    /// That it asks for nothing which the messages of its language have no field for.
    fn without_options(&self) -> Result<(), Problem> {
        let is_scheduled = self.after.is_some() || self.at.is_some();
        let options = [
            ("`id` while it is not scheduled", self.id.is_some() && !is_scheduled),
            ("`expires`", self.expires.is_some()),
            ("`retry_for`", self.retry_for.is_some()),
            ("`backoff`", self.backoff.is_some()),
            ("`timeout`", self.timeout.is_some()),
            ("`keep`", self.keep.is_some()),
            ("`unique`", self.unique.is_some() || self.unique_key.is_some()),
            ("`ordered`", self.ordered.is_some()),
            ("`limits`", !self.limits.is_empty()),
            ("`headers`", !self.headers.is_empty()),
        ];
        match options.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(()),
            Some((option, _)) => Err(Problem::invalid(format!(
                "a message for another language cannot have {option}: leave it out"
            ))),
        }
    }
}

/// Reads an option.
fn read<T, E: std::fmt::Display>(
    name: &str,
    text: &str,
    read: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, Problem> {
    read(text).map_err(|error| Problem::invalid(format!("`{name}`: {error}")))
}

/// Makes a call unique under the key of its request.
pub(super) fn once(call: Call, key: String, period: std::time::Duration) -> Call {
    call.unique(Unique::For(period)).unique_key(key)
}

/// Puts a call into the trace of its request.
pub(super) fn in_trace(call: Call, parent: Option<&str>, state: Option<&str>) -> Call {
    let is_valid = |parent: &&str| {
        let mut annotations = Annotations::default();
        annotations.trace.parent = (*parent).to_owned();
        annotations.trace.check().is_ok()
    };
    match parent.filter(is_valid) {
        Some(parent) => state.into_iter().fold(call.traceparent(parent), Call::tracestate),
        None => call,
    }
}
