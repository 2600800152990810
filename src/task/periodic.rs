//! Describes a periodic task: a call that is made at the times of a cron expression.

use crate::protocol::arguments::Presence;
use crate::protocol::cron::Schedule;
use crate::protocol::limit::LimitName;
use crate::protocol::names::QueueName;
use crate::protocol::periodic::{Definition, Missed, Overlap, PeriodicError, check_name, overlap_limit};
use crate::task::registration::Registration;
use crate::task::{Call, IntoCall};

/// A call that is made at the times of a cron expression. [`Client::define_periodic`](crate::Client::define_periodic) stores
/// it; from then on, the workers and sweepers of its queue make its calls, whether or not this program runs.
///
/// ```
/// mod tasks {
///     #[delayed::task]
///     pub fn report(kind: String) {}
/// }
///
/// use delayed::{Missed, Overlap, Periodic};
///
/// let nightly = Periodic::new("reports.nightly", "0 3 * * *", tasks::report::call("full".into()))
///     .tz("Europe/Berlin")
///     .overlap(Overlap::Skip)
///     .missed(Missed::Once);
/// let often = Periodic::new("reports.often", "@every 90s", tasks::report::call("brief".into()));
/// # drop((nightly, often));
/// ```
///
/// A task without arguments can be one by itself, with `cron = "…"` in its [attribute](macro@crate::task).
#[derive(Debug, Clone)]
#[must_use = "a periodic task does nothing until a client defines it"]
pub struct Periodic {
    name: String,
    cron: String,
    tz: Option<String>,
    overlap: Overlap,
    missed: Missed,
    call: Call,
    /// Whether it comes from the attribute of a task.
    code: bool,
}

/// A periodic task that was checked.
#[derive(Debug, Clone)]
pub(crate) struct PeriodicEntry {
    pub(crate) queue: QueueName,
    pub(crate) name: String,
    pub(crate) definition: Vec<u8>,
    pub(crate) schedule: Schedule,
    /// The limit that lets one call run at a time.
    pub(crate) limit: Option<LimitName>,
}

impl Periodic {
    /// A periodic task with a name, which is unique in the queue of its call, and a cron expression in UTC:
    ///
    /// - five fields, `minute hour day month weekday`, or six, with the second first: numbers, names such as `JAN` and `MON`,
    ///   `*`, lists `1,15`, ranges `9-17`, steps `*/10`, `L` for the last day of the month or, behind a weekday, the last one of
    ///   it, and `#` for the n-th, as in `FRI#2`. If both the day and the weekday are given, either is enough;
    /// - `@hourly`, `@daily`, `@weekly`, `@monthly` or `@yearly`;
    /// - `@every 90s`: an interval from a second to 366 days. Where in its period it begins follows from the name, so that many
    ///   tasks with the same interval are spread evenly, and restarts change nothing.
    ///
    /// An invalid name, expression or time zone is an error of the client that defines the task.
    pub fn new(name: impl Into<String>, cron: impl Into<String>, call: impl IntoCall) -> Self {
        let (overlap, missed) = Default::default();
        let (name, cron, call) = (name.into(), cron.into(), call.into_call().untyped());
        Self { name, cron, tz: None, overlap, missed, call, code: false }
    }

    /// The periodic task that the attribute of a task declares, if it does.
    pub(crate) fn of_task(task: &'static Registration) -> Result<Option<Self>, PeriodicError> {
        let Some(cron) = task.options.cron else { return Ok(None) };
        if task.params.iter().any(|param| param.presence == Presence::Required) {
            return Err(PeriodicError::Arguments { name: task.name.into() });
        }
        Ok(Some(Self {
            tz: cron.tz.map(Into::into),
            overlap: cron.overlap,
            missed: cron.missed,
            code: true,
            ..Self::new(task.name, cron.text, Call::of_registration(task))
        }))
    }

    /// Sets the time zone of the expression, such as `Europe/Berlin`, in place of UTC.
    ///
    /// Where a clock change leaves out the time of a tick, it is made once, at the next time that exists; where one repeats it,
    /// it is made once, at the first. An expression without a fixed hour, such as `* * * * *`, has ticks in both equal hours.
    pub fn tz(self, tz: impl Into<String>) -> Self {
        Self { tz: Some(tz.into()), ..self }
    }

    /// Sets what happens when the call of an earlier tick has not ended. Default: [`Overlap::Allow`].
    pub fn overlap(self, overlap: Overlap) -> Self {
        Self { overlap, ..self }
    }

    /// Sets what happens to ticks that nobody made within a minute, because no worker and no sweeper was there, or Redis was
    /// away. Default: [`Missed::Once`].
    pub fn missed(self, missed: Missed) -> Self {
        Self { missed, ..self }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks it.
    pub(crate) fn into_entry(self) -> Result<PeriodicEntry, PeriodicError> {
        let Self { name, cron, tz, overlap, missed, call, code } = self;
        let queue = call.queue_name()?;
        let call = match overlap {
            Overlap::Queue => call.limit(limit_of(&queue, &name)?.as_str()),
            Overlap::Allow | Overlap::Skip => call,
        };
        let template = call.into_template(&name, overlap)?;
        let definition = Definition {
            tz,
            overlap,
            missed,
            expires_ms: template.expires_ms,
            lock_ms: template.lock_ms,
            code,
            ..Definition::new(cron.trim(), template.message, template.ours)
        };
        PeriodicEntry::new(queue, name, &definition)
    }
}

impl PeriodicEntry {
    /// Checks the name and the schedule of a definition.
    pub(crate) fn new(
        queue: QueueName,
        name: String,
        definition: &Definition,
    ) -> Result<Self, PeriodicError> {
        check_name(&name)?;
        let schedule = Schedule::parse(&definition.cron, definition.tz.as_deref(), &name)
            .map_err(|source| PeriodicError::Schedule { name: name.clone(), source })?;
        let limit = match definition.overlap {
            Overlap::Queue => Some(limit_of(&queue, &name)?),
            Overlap::Allow | Overlap::Skip => None,
        };
        Ok(Self { queue, name, definition: definition.encode(), schedule, limit })
    }
}

/// The limit that lets one call of a periodic task run at a time.
fn limit_of(queue: &QueueName, name: &str) -> Result<LimitName, PeriodicError> {
    overlap_limit(queue, name)
        .map_err(|source| PeriodicError::Encode { name: name.to_owned(), source: source.into() })
}
