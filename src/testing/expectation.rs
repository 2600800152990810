//! What a test expects to be enqueued, and what it is told if that is not so.

use std::fmt::{Display, Write};
use std::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};
use std::time::Duration;

pub use crate::testing::arguments::Position;

use crate::task::{Registry, Task};
use crate::testing::arguments::Expected;
use crate::testing::enqueued::EnqueuedCall;
use crate::testing::private_redis::Redis;

/// By how much a call may be due too early: time passes between the computation of a moment and the call.
const EARLY: Duration = Duration::from_secs(1);

/// What is expected of a call; nothing at first.
#[derive(Debug, Default)]
pub struct Expectation<'t> {
    task: Option<String>,
    queue: Option<String>,
    due: Option<(Bound<Duration>, Bound<Duration>)>,
    arguments: Option<Expected<'t>>,
    times: Option<usize>,
}

/// What the option `after` takes.
#[diagnostic::on_unimplemented(
    message = "`after` takes a `Duration` or a range of them, not `{Self}`",
    label = "expected such as `Duration::from_secs(60)` or `Duration::from_secs(60)..`"
)]
pub trait Due {
    /// From when to when a call may be due.
    fn bounds(self) -> (Bound<Duration>, Bound<Duration>);
}

impl Due for Duration {
    /// To the second.
    fn bounds(self) -> (Bound<Duration>, Bound<Duration>) {
        (Bound::Included(self), Bound::Excluded(self.saturating_add(EARLY)))
    }
}

macro_rules! due_within {
    ($($range:ty),*) => { $(
        impl Due for $range {
            fn bounds(self) -> (Bound<Duration>, Bound<Duration>) {
                (self.start_bound().cloned(), self.end_bound().cloned())
            }
        }
    )* };
}

due_within!(
    Range<Duration>,
    RangeFrom<Duration>,
    RangeInclusive<Duration>,
    RangeTo<Duration>,
    RangeToInclusive<Duration>
);

impl Due for RangeFull {
    /// Whenever it is scheduled.
    fn bounds(self) -> (Bound<Duration>, Bound<Duration>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

impl<'t> Expectation<'t> {
    /// Any call.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// A call of `T`.
    #[must_use]
    pub fn of_task<T: Task>() -> Self {
        Self::of_path(T::registration().name)
    }

    /// A call of the task with this path.
    #[must_use]
    pub fn of_path(path: &str) -> Self {
        Self { task: Some(path.to_owned()), ..Self::default() }
    }

    /// In this queue.
    #[must_use]
    pub fn in_queue(self, queue: &impl Display) -> Self {
        Self { queue: Some(queue.to_string()), ..self }
    }

    /// Due then.
    #[must_use]
    pub fn due(self, due: impl Due) -> Self {
        Self { due: Some(due.bounds()), ..self }
    }

    /// As often.
    #[must_use]
    pub fn times(self, times: usize) -> Self {
        Self { times: Some(times), ..self }
    }

    /// With these arguments, and others behind them if it is open.
    #[must_use]
    pub fn each(self, positions: Vec<Position<'t>>, is_open: bool) -> Self {
        Self { arguments: Some(Expected::Each { positions, is_open }), ..self }
    }

    /// With so many arguments that are as expected together.
    #[must_use]
    pub fn all(self, count: usize, check: Position<'t>) -> Self {
        Self { arguments: Some(Expected::All { count, check }), ..self }
    }

    fn is_of_task(&self, call: &EnqueuedCall) -> bool {
        self.task.as_ref().is_none_or(|task| task == call.task())
    }

    /// Why a call is not as expected; `None` if it is.
    fn problem(&self, call: &EnqueuedCall, registry: &Registry) -> Option<String> {
        if !self.is_of_task(call) {
            return Some("another task".into());
        }
        if self.queue.as_ref().is_some_and(|queue| queue != call.queue()) {
            return Some("another queue".into());
        }
        if let Some((from, to)) = self.due {
            match call.after() {
                None => return Some("it waits already".into()),
                Some(after) if !is_within(after, from, to) => return Some("due at another time".into()),
                Some(_) => {}
            }
        }
        let Some(arguments) = &self.arguments else { return None };
        let Some(message) = call.message() else { return Some("no message".into()) };
        arguments.problem(&message, registry.get(call.task()).map(|task| task.params))
    }
}

fn is_within(after: Duration, from: Bound<Duration>, to: Bound<Duration>) -> bool {
    (from, Bound::Unbounded).contains(&after.saturating_add(EARLY)) && (Bound::Unbounded, to).contains(&after)
}

/// Checks that a call is enqueued as expected, and returns the first one. `text` is what was expected, as it is written.
#[track_caller]
pub fn assert_enqueued(redis: &Redis, text: &str, expected: &Expectation<'_>) -> EnqueuedCall {
    let (calls, registry) = (redis.enqueued_blocking(), Registry::collect().unwrap_or_default());
    let problems: Vec<_> = calls.iter().map(|call| expected.problem(call, &registry)).collect();
    let found = problems.iter().filter(|problem| problem.is_none()).count();
    let first = calls.iter().zip(&problems).find(|(_, problem)| problem.is_none());
    assert!(expected.times != Some(0), "`refute_enqueued!` checks that there are no calls: {text}");
    match first {
        Some((call, _)) if expected.times.is_none_or(|times| times == found) => call.clone(),
        _ => {
            let list = listed(
                calls
                    .iter()
                    .zip(&problems)
                    .map(|(call, problem)| (call, problem.as_deref().filter(|_| expected.is_of_task(call)))),
            );
            match expected.times {
                Some(times) => {
                    let calls = if times == 1 { "call" } else { "calls" };
                    panic!("expected {times} enqueued {calls}, found {found}: {text}\n{list}")
                }
                None => panic!("expected an enqueued call: {text}\n{list}"),
            }
        }
    }
}

/// Checks that no call is enqueued as described. `text` is the description, as it is written.
#[track_caller]
pub fn refute_enqueued(redis: &Redis, text: &str, refuted: &Expectation<'_>) {
    assert!(
        refuted.times.is_none(),
        "`assert_enqueued!` counts calls, `refute_enqueued!` expects none: {text}"
    );
    let (calls, registry) = (redis.enqueued_blocking(), Registry::collect().unwrap_or_default());
    let found: Vec<_> = calls.iter().filter(|call| refuted.problem(call, &registry).is_none()).collect();
    if !found.is_empty() {
        panic!("expected no enqueued call: {text}\n{}", listed(found.into_iter().map(|call| (call, None))));
    }
}

/// The calls that are enqueued, one a line, with what is wrong with them.
fn listed<'a>(calls: impl Iterator<Item = (&'a EnqueuedCall, Option<&'a str>)>) -> String {
    let mut text = String::new();
    for (call, problem) in calls {
        let problem = problem.map_or_else(String::new, |problem| format!(" [{problem}]"));
        // Writing to a `String` does not fail.
        let _ = write!(text, "\n  {call}{problem}");
    }
    if text.is_empty() { "nothing is enqueued".into() } else { format!("enqueued:{text}") }
}
