//! Describes a task: all that its attribute and its signature say.

use std::fmt::Write;
use std::time::Duration;

use crate::isolation::{Isolation, Limits, Timeouts};
use crate::protocol::arguments::{ArgumentError, Arguments, Param, Presence};
use crate::protocol::backoff::Backoff;
use crate::protocol::periodic::{Missed, Overlap};
use crate::task::handler::Handler;
use crate::task::state::StateType;
use crate::task::unique::Unique;

/// A function that was marked with `#[delayed::task]`; implemented by the macro, for the struct that has the
/// function's name.
pub trait Task {
    /// All that is known of it.
    #[doc(hidden)]
    fn registration() -> &'static Registration;
}

/// The options of a task, as its attribute gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskOptions {
    /// The queue of its calls; none is `default`.
    pub queue: Option<&'static str>,
    /// How often a call that failed is tried again; negative is for ever, none is as often as the worker says.
    pub retry: Option<i64>,
    /// How long it waits before; none is as long as the worker says.
    pub backoff: Option<Backoff>,
    /// For how long after its first failed attempt it is tried again; without `retry`, as often as that allows.
    pub retry_for: Option<Duration>,
    /// For how long the records of its calls are kept after their ends; none: they have none.
    pub keep: Option<Duration>,
    /// For how long after it could run a call is of use; none: for ever.
    pub expires: Option<Duration>,
    /// Whether its calls are unique.
    pub unique: Option<Unique>,
    /// The name of the limit of its calls.
    pub limit: Option<&'static str>,
    /// How its calls are collected, if they run in batches.
    pub batch: Option<TaskBatch>,
    /// When calls of it are made by themselves, if it is a periodic task.
    pub cron: Option<TaskCron>,
    /// Where it runs; none is where the worker says.
    pub isolation: Option<Isolation>,
    /// How long it may run; where they say nothing, the worker's hold.
    pub timeouts: Timeouts,
    /// What its process may use; where they say nothing, the worker's hold.
    pub limits: Limits,
}

impl TaskOptions {
    /// No options: the queue `default`, and retries as the worker says.
    pub const DEFAULT: Self = Self {
        queue: None,
        retry: None,
        backoff: None,
        retry_for: None,
        keep: None,
        expires: None,
        unique: None,
        limit: None,
        batch: None,
        cron: None,
        isolation: None,
        timeouts: Timeouts::NONE,
        limits: Limits::NONE,
    };

    /// With `queue = "…"`.
    #[must_use]
    pub const fn with_queue(self, queue: &'static str) -> Self {
        Self { queue: Some(queue), ..self }
    }

    /// With `retry = …`.
    #[must_use]
    pub const fn with_retry(self, retry: i64) -> Self {
        Self { retry: Some(retry), ..self }
    }

    /// With `backoff = …`.
    #[must_use]
    pub const fn with_backoff(self, backoff: Backoff) -> Self {
        Self { backoff: Some(backoff), ..self }
    }

    /// With `retry_for = "…"`.
    #[must_use]
    pub const fn with_retry_for(self, time: Duration) -> Self {
        Self { retry_for: Some(time), ..self }
    }

    /// With `keep = "…"`.
    #[must_use]
    pub const fn with_keep(self, time: Duration) -> Self {
        Self { keep: Some(time), ..self }
    }

    /// With `expires = "…"`.
    #[must_use]
    pub const fn with_expires(self, time: Duration) -> Self {
        Self { expires: Some(time), ..self }
    }

    /// With `unique = "…"`.
    #[must_use]
    pub const fn with_unique(self, unique: Unique) -> Self {
        Self { unique: Some(unique), ..self }
    }

    /// With `limit = "…"`.
    #[must_use]
    pub const fn with_limit(self, limit: &'static str) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// With `batch(…)`.
    #[must_use]
    pub const fn with_batch(self, batch: TaskBatch) -> Self {
        Self { batch: Some(batch), ..self }
    }

    /// With `cron = "…"`.
    #[must_use]
    pub const fn with_cron(self, cron: TaskCron) -> Self {
        Self { cron: Some(cron), ..self }
    }

    /// With `isolation = "…"`.
    #[must_use]
    pub const fn with_isolation(self, isolation: Isolation) -> Self {
        Self { isolation: Some(isolation), ..self }
    }

    /// With `timeout = "…"` and `grace = "…"`.
    #[must_use]
    pub const fn with_timeouts(self, timeouts: Timeouts) -> Self {
        Self { timeouts, ..self }
    }

    /// With `memory = "…"` and the like.
    #[must_use]
    pub const fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }
}

/// When a filling batch is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskBatch {
    /// With this many items.
    pub max: u32,
    /// This long after its first item.
    pub within: Duration,
    /// This long after its last item.
    pub grace: Option<Duration>,
}

impl TaskBatch {
    /// Without a grace period.
    #[must_use]
    pub const fn new(max: u32, within: Duration) -> Self {
        Self { max, within, grace: None }
    }

    /// With `grace = "…"`.
    #[must_use]
    pub const fn with_grace(self, grace: Duration) -> Self {
        Self { grace: Some(grace), ..self }
    }
}

/// When calls of a periodic task are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskCron {
    /// The cron expression.
    pub text: &'static str,
    /// The name of its time zone; none is UTC.
    pub tz: Option<&'static str>,
    /// What happens when an earlier call has not ended.
    pub overlap: Overlap,
    /// What happens to missed ticks.
    pub missed: Missed,
}

impl TaskCron {
    /// With this expression, in UTC.
    #[must_use]
    pub const fn new(text: &'static str) -> Self {
        Self { text, tz: None, overlap: Overlap::Allow, missed: Missed::Once }
    }

    /// With `tz = "…"`.
    #[must_use]
    pub const fn with_tz(self, tz: &'static str) -> Self {
        Self { tz: Some(tz), ..self }
    }

    /// With `overlap = "…"`.
    #[must_use]
    pub const fn with_overlap(self, overlap: Overlap) -> Self {
        Self { overlap, ..self }
    }

    /// With `missed = "…"`.
    #[must_use]
    pub const fn with_missed(self, missed: Missed) -> Self {
        Self { missed, ..self }
    }
}

/// All that is known of a task.
#[derive(Debug, Clone, Copy)]
pub struct Registration {
    /// Its path on the wire.
    pub name: &'static str,
    /// Where it stands: `file:line`.
    pub location: &'static str,
    /// Its doc comment.
    pub doc: &'static str,
    /// The parameters that travel.
    pub params: &'static [Param],
    /// What it returns, as written.
    pub returns: &'static str,
    /// Its options.
    pub options: TaskOptions,
    /// The states that it asks for.
    pub states: &'static [StateType],
    /// Whether it asks for its [`Context`](crate::Context), and so can hear that it should end.
    pub context: bool,
    /// Whether arguments fit it: reads them as for a run, and calls nothing.
    pub check: for<'a> fn(Arguments<'a>) -> Result<(), ArgumentError>,
    /// How it is called.
    pub handler: Handler,
}

impl Registration {
    /// How the task is called, for people: `async send(to: String, cc: Vec<String> = default, xs: ...i64) -> bool`.
    ///
    /// It begins with the last part of the task's name. A parameter that is no `Option` and may be missing has
    /// ` = default`, a variadic one `...` and the type of its elements.
    #[must_use]
    pub fn signature(&self) -> String {
        let mut text = String::from(match self.handler {
            Handler::Async(_) => "async ",
            Handler::Blocking(_) => "",
        });
        text.push_str(self.name.rsplit("::").next().unwrap_or(self.name));
        text.push('(');
        for (index, Param { name, ty, presence }) in self.params.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            // Writing to a `String` does not fail.
            let _ = match presence {
                Presence::Variadic => write!(text, "{separator}{name}: ...{}", element(ty)),
                Presence::Optional if !is_option(ty) => write!(text, "{separator}{name}: {ty} = default"),
                Presence::Optional | Presence::Required => write!(text, "{separator}{name}: {ty}"),
            };
        }
        text.push(')');
        if self.returns != "()" {
            text.push_str(" -> ");
            text.push_str(self.returns);
        }
        text
    }
}

fn is_option(ty: &str) -> bool {
    ty.split('<').next().is_some_and(|path| path.rsplit("::").next() == Some("Option"))
}

/// `i64` of `Vec<i64>`.
fn element(ty: &str) -> &str {
    ty.split_once('<').and_then(|(_, rest)| rest.strip_suffix('>')).unwrap_or(ty)
}
