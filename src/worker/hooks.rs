//! Calls the hooks of a program when the outcome of a run has been decided.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::broker::{Broker, StreamEntry};
use crate::protocol::call_id::CallId;
use crate::protocol::message::Message;
use crate::protocol::names::QueueName;
use crate::runner::Outcome;
use crate::sweeper::Burial;
use crate::worker::executor::FinishedRun;
use crate::worker::queue::served::ServedQueue;
use crate::worker::settlement::Settlement;

type Hook = Arc<dyn Fn(&RunReport<'_>) + Send + Sync>;

/// The hooks of a program. Cheap to clone; a worker without any pays one comparison for each run.
#[derive(Clone, Default)]
pub(crate) struct Hooks(Option<Arc<Lists>>);

#[derive(Clone, Default)]
struct Lists {
    success: Vec<Hook>,
    failure: Vec<Hook>,
    burial: Vec<Hook>,
}

/// When a hook is called.
#[derive(Debug, Clone, Copy)]
pub(crate) enum When {
    Success,
    Failure,
    Burial,
}

/// An ended run and the decision about its message, as passed to hooks. See
/// [`WorkerBuilder::on_failure`](crate::worker::WorkerBuilder::on_failure).
#[derive(Debug)]
pub struct RunReport<'a> {
    queue: &'a QueueName,
    /// `None` if it cannot be read.
    message: Option<Message<'a>>,
    duration: Option<Duration>,
    outcome: &'a Outcome,
    settlement: &'a Settlement,
    error: Option<String>,
}

impl Hooks {
    pub(crate) fn push(&mut self, when: When, hook: impl Fn(&RunReport<'_>) + Send + Sync + 'static) {
        let lists = Arc::make_mut(self.0.get_or_insert_default());
        lists.of(when).push(Arc::new(hook));
    }

    /// Whether there are no hooks.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether there are hooks for burials.
    pub(super) fn are_for_burials(&self) -> bool {
        self.0.as_ref().is_some_and(|lists| !lists.burial.is_empty())
    }

    /// Calls the hooks for the burial of an item of a batch.
    pub(super) fn call_for_item(&self, report: &RunReport<'_>) {
        if let Some(lists) = &self.0 {
            each(&lists.burial, report, "on_burial");
        }
    }

    /// Calls the hooks that concern a run. A hook that panics is logged.
    pub(super) fn call(&self, report: &RunReport<'_>, has_failed: bool) {
        let Some(lists) = &self.0 else { return };
        let is_over = !matches!(report.settlement, Settlement::PutBack { .. } | Settlement::Leave);
        if report.outcome.is_success() {
            each(&lists.success, report, "on_success");
        }
        if has_failed && is_over {
            each(&lists.failure, report, "on_failure");
        }
        if matches!(report.settlement, Settlement::Bury { .. }) {
            each(&lists.burial, report, "on_burial");
        }
    }
}

/// Calls the hooks for calls that sweeps of this worker have buried, until the last sweep is gone.
pub(super) async fn call_for_burials(
    broker: Broker,
    queues: Vec<Arc<ServedQueue>>,
    hooks: Hooks,
    mut burials: UnboundedReceiver<Burial>,
) {
    let Some(lists) = &hooks.0 else { return };
    while let Some(Burial { queue, letter }) = burials.recv().await {
        let Some(served) = queues.iter().find(|served| served.queue.as_str() == queue) else { continue };
        match broker.dead_letter(&served.keys, &letter).await {
            Ok(Some(letter)) => call_for_letter(lists, &served.queue, &letter),
            Ok(None) => {} // Somebody was quicker.
            Err(error) => tracing::warn!(%queue, dead_letter = letter, %error, "hook not called"),
        }
    }
}

fn call_for_letter(lists: &Lists, queue: &QueueName, letter: &StreamEntry) {
    let text = |name| letter.fields.get(name).map(|text| String::from_utf8_lossy(text).into_owned());
    let detail = text("detail").unwrap_or_default();
    let attempt = text("attempt").and_then(|attempt| attempt.parse().ok()).unwrap_or(1);
    let outcome = Outcome::Lost { problem: detail.clone() };
    let (output, call) = Default::default();
    let settlement = Settlement::Bury { reason: outcome.reason(), detail, attempt, output, call };
    let message = letter.fields.get("message").map_or(&[][..], Vec::as_slice);
    each(
        &lists.burial,
        &RunReport::of(queue, Message::decode(message).ok(), None, &outcome, &settlement),
        "on_burial",
    );
}

impl Lists {
    fn of(&mut self, when: When) -> &mut Vec<Hook> {
        match when {
            When::Success => &mut self.success,
            When::Failure => &mut self.failure,
            When::Burial => &mut self.burial,
        }
    }
}

fn each(hooks: &[Hook], report: &RunReport<'_>, hook: &str) {
    for call in hooks {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| call(report))) {
            // Dropping a panic payload may panic as well.
            std::mem::forget(payload);
            tracing::error!(queue = %report.queue, task = report.task(), hook, "hook panicked");
        }
    }
}

impl<'a> RunReport<'a> {
    pub(super) fn new(
        queue: &'a QueueName,
        run: &'a FinishedRun,
        message: Option<Message<'a>>,
        outcome: &'a Outcome,
        settlement: &'a Settlement,
    ) -> Self {
        let message = message.or_else(|| Message::decode(&run.message).ok());
        Self::of(queue, message, run.took, outcome, settlement)
    }

    fn of(
        queue: &'a QueueName,
        message: Option<Message<'a>>,
        duration: Option<Duration>,
        outcome: &'a Outcome,
        settlement: &'a Settlement,
    ) -> Self {
        let error = match (outcome, settlement) {
            (Outcome::Succeeded(_), _) => None,
            (_, Settlement::Bury { detail, .. }) => Some(detail.clone()),
            (outcome, _) => Some(outcome.detail()),
        };
        Self { queue, message, duration, outcome, settlement, error }
    }

    /// The path of the task. Empty if the message cannot be read.
    #[must_use]
    pub fn task(&self) -> &str {
        self.message.as_ref().map_or("", |message| message.task())
    }

    /// The queue from which the call came.
    #[must_use]
    pub fn queue(&self) -> &str {
        self.queue.as_str()
    }

    /// The id of the call, if it has one.
    #[must_use]
    pub fn id(&self) -> Option<CallId> {
        self.message.as_ref().and_then(Message::id)
    }

    /// The number of this attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.message.as_ref().map_or(1, |message| message.attempts().saturating_add(1))
    }

    /// The value of a header of the call. Reads the headers of the message each time.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        self.message.as_ref()?.annotations().headers.get(name).map(str::to_owned)
    }

    /// How long the run took. `None` if the call did not run, for example because it had expired.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        self.duration
    }

    /// The outcome in one word: `succeeded`, or the reason of a dead letter, such as `failed`, `timed_out` or `panicked`. See
    /// `docs/protocol.md`.
    #[must_use]
    pub fn reason(&self) -> &str {
        self.outcome.reason()
    }

    /// The error of a run that did not succeed, as its dead letter has it.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// How long the call waits for its next attempt. `None` if there is none.
    #[must_use]
    pub fn retries_after(&self) -> Option<Duration> {
        match self.settlement {
            Settlement::Retry { .. } => Some(Duration::ZERO),
            settlement => settlement.delay(),
        }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |lists: &Arc<Lists>| lists.success.len() + lists.failure.len() + lists.burial.len();
        f.debug_tuple("Hooks").field(&self.0.as_ref().map_or(0, count)).finish()
    }
}
