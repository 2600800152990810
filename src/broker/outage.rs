//! Logs that requests to Redis fail: once when that begins, once a minute while it lasts, and once when it is over.
//!
//! A worker has several connections: for claims, for the wait for notifications, for the heartbeat, for sweeps. While Redis is
//! away they all fail again and again for the same reason, so they share one log.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::repeats::{Repeats, WINDOW};

/// How many outages are logged in a minute.
const FEW: u32 = 3;
/// A failed request that was not retried for this long no longer prevents the end of an outage.
const FORGOTTEN: Duration = Duration::from_secs(10);
/// How long after an outage an older connection may still fail without starting another outage.
const LATE: Duration = Duration::from_millis(900);

/// The connection, the name of the request in the log, and its queue; empty if it concerns none in particular.
type Source = (u64, &'static str, String);

/// What counts as the same failure: the kind of the error, and the source if the error concerns only one queue.
type Class = (BrokerErrorKind, Option<Source>);

/// The failures at one Redis, shared by all connections to it in this process.
#[derive(Debug)]
pub(crate) struct Outage {
    shared: Arc<Shared>,
    /// The number of this connection.
    member: u64,
}

#[derive(Debug)]
struct Shared {
    is_on: AtomicBool,
    members: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    began: Instant,
    /// When the last outage ended.
    ended: Option<Instant>,
    failures: u64,
    /// When each source failed last.
    failing: HashMap<Source, Instant>,
    lines: HashMap<Class, Line>,
    /// Whether a line about this outage was logged.
    is_told: bool,
    outages: Repeats<Class>,
}

/// The line about one class in this outage.
#[derive(Debug)]
struct Line {
    next: Instant,
    repeated: u64,
}

impl Outage {
    /// The log of the Redis at this address.
    pub(crate) fn at(address: String) -> Self {
        static KNOWN: Mutex<Vec<(String, Weak<Shared>)>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, shared)| shared.strong_count() > 0);
        let found =
            known.iter().find(|(other, _)| *other == address).and_then(|(_, shared)| shared.upgrade());
        let shared = found.unwrap_or_else(|| {
            let shared = Shared::new();
            known.push((address, Arc::downgrade(&shared)));
            shared
        });
        let member = shared.members.fetch_add(1, Ordering::Relaxed);
        Self { shared, member }
    }

    /// Notes and logs that `what` failed and will be retried.
    pub(crate) fn failed(&self, what: &'static str, queue: &str, error: &BrokerError) {
        let queue_field = (!queue.is_empty()).then_some(queue);
        match self.note(what, queue, error, Instant::now()) {
            Some(0) => {
                tracing::warn!(request = what, queue = queue_field, %error, "request failed; retrying")
            }
            Some(repeated) => {
                tracing::warn!(request = what, queue = queue_field, %error, repeated, "request failed; retrying")
            }
            None => tracing::debug!(request = what, queue = queue_field, %error, "request failed; retrying"),
        }
    }

    /// Notes that `what` succeeded, and logs when nothing fails any more.
    pub(crate) fn succeeded(&self, what: &'static str, queue: &str) {
        if !self.shared.is_on.load(Ordering::Relaxed) {
            return;
        }
        if let Some((lasted, failures, is_told)) = self.end(what, queue, Instant::now()) {
            if is_told {
                tracing::info!(?lasted, failures, "requests succeed again");
            } else {
                tracing::debug!(?lasted, failures, "requests succeed again");
            }
        }
    }

    /// Whether to print the failure, and how many before it were not printed.
    fn note(&self, what: &'static str, queue: &str, error: &BrokerError, now: Instant) -> Option<u64> {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let source = (self.member, what, queue.to_owned());
        let kind = match error.kind() {
            // A starting server replies that it is not ready.
            BrokerErrorKind::Uncertain | BrokerErrorKind::NotReady => BrokerErrorKind::Unreachable,
            kind => kind,
        };
        let is_late = state.ended.is_some_and(|ended| now.saturating_duration_since(ended) < LATE);
        if is_late && kind == BrokerErrorKind::Unreachable && !self.shared.is_on.load(Ordering::Relaxed) {
            return None;
        }
        if !self.shared.is_on.swap(true, Ordering::Relaxed) {
            state.began = now;
        }
        state.failures += 1;
        let class = (kind, (!error.is_of_server()).then(|| source.clone()));
        state.failing.insert(source, now);
        if let Some(line) = state.lines.get_mut(&class) {
            if now < line.next {
                line.repeated += 1;
                return None;
            }
            line.next = now + WINDOW;
            state.is_told = true;
            return Some(std::mem::take(&mut line.repeated));
        }
        state.lines.insert(class.clone(), Line { next: now + WINDOW, repeated: 0 });
        let printed = state.outages.note(class, now);
        state.is_told |= printed.is_some();
        printed
    }

    /// How long the outage lasted, how many failures there were and whether it was logged, if it is over.
    fn end(&self, what: &'static str, queue: &str, now: Instant) -> Option<(Duration, u64, bool)> {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failing.remove(&(self.member, what, queue.to_owned()));
        state.failing.retain(|_, last| now.saturating_duration_since(*last) < FORGOTTEN);
        if !state.failing.is_empty() || !self.shared.is_on.swap(false, Ordering::Relaxed) {
            return None;
        }
        state.lines.clear();
        state.ended = Some(now);
        let failures = std::mem::take(&mut state.failures);
        Some((now.saturating_duration_since(state.began), failures, std::mem::take(&mut state.is_told)))
    }
}

impl Shared {
    fn new() -> Arc<Self> {
        let state = State {
            began: Instant::now(),
            ended: None,
            failures: 0,
            failing: HashMap::new(),
            lines: HashMap::new(),
            is_told: false,
            outages: Repeats::new(FEW),
        };
        Arc::new(Self { is_on: AtomicBool::new(false), members: AtomicU64::new(0), state: Mutex::new(state) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn alone() -> Outage {
        Outage { shared: Shared::new(), member: 0 }
    }

    fn error(kind: BrokerErrorKind) -> BrokerError {
        BrokerError::new("claim", kind, "")
    }

    #[test]
    fn an_outage_is_told_at_once_and_each_minute_and_at_its_end() {
        let outage = alone();
        let began = Instant::now();
        let (gone, broken) = (error(BrokerErrorKind::Unreachable), error(BrokerErrorKind::Uncertain));
        assert_eq!(outage.note("request", "a", &broken, began), Some(0));
        for n in 1..60 {
            let (what, queue) = if n % 2 == 0 { ("heartbeat", "") } else { ("request", "b") };
            assert_eq!(outage.note(what, queue, &gone, began + n * SECOND), None, "after {n} s");
        }
        assert_eq!(outage.note("request", "a", &gone, began + WINDOW), Some(59));
        let starting = error(BrokerErrorKind::NotReady);
        assert_eq!(outage.note("request", "a", &starting, began + WINDOW), None, "expected the same outage");
        let other = error(BrokerErrorKind::Full);
        assert_eq!(outage.note("request", "a", &other, began + WINDOW), Some(0), "expected another reason");
        let end = began + WINDOW + SECOND;
        assert_eq!(outage.end("request", "a", end), None, "expected others to fail still");
        assert_eq!(outage.end("request", "b", end), None);
        assert_eq!(outage.end("heartbeat", "", end), Some((WINDOW + SECOND, 63, true)));
        assert_eq!(outage.end("heartbeat", "", end), None, "expected it to be over once");
    }

    #[test]
    fn short_outages_in_a_row_are_counted() {
        let outage = alone();
        let began = Instant::now();
        let told: Vec<_> = (0..6)
            .map(|n| {
                let now = began + n * SECOND;
                let told = outage.note("request", "a", &error(BrokerErrorKind::Uncertain), now);
                (told.is_some(), outage.end("request", "a", now).is_some_and(|(_, _, is_told)| is_told))
            })
            .collect();
        assert_eq!(told, [[(true, true); 3], [(false, false); 3]].concat());
    }

    #[test]
    fn late_failure_of_an_old_connection_begins_no_outage() {
        let (outage, now) = (alone(), Instant::now());
        let gone = error(BrokerErrorKind::Unreachable);
        assert_eq!(outage.note("request", "a", &gone, now), Some(0));
        assert!(outage.end("request", "a", now).is_some());
        assert_eq!(outage.note("wait", "", &gone, now + LATE / 2), None);
        assert_eq!(outage.end("wait", "", now + LATE / 2), None);
        assert_eq!(outage.note("wait", "", &gone, now + LATE), Some(0), "expected another outage");
    }

    #[test]
    fn what_concerns_one_queue_is_told_of_each() {
        let outage = alone();
        let now = Instant::now();
        let wrong = error(BrokerErrorKind::WrongType);
        for (queue, expected) in [("a", Some(0)), ("a", None), ("b", Some(0)), ("b", None)] {
            assert_eq!(outage.note("request", queue, &wrong, now), expected, "{queue}");
        }
        // This one does not retry.
        assert_eq!(outage.end("request", "a", now), None);
        assert!(outage.end("request", "a", now + FORGOTTEN).is_some());
    }

    #[test]
    fn connections_to_one_redis_share_an_outage() {
        let address = || "redis://an.address.of.this.test".to_owned();
        let (one, other) = (Outage::at(address()), Outage::at(address()));
        let elsewhere = Outage::at("redis://another.address.of.this.test".into());
        let (gone, now) = (error(BrokerErrorKind::Unreachable), Instant::now());
        assert_eq!(one.note("heartbeat", "", &gone, now), Some(0));
        assert_eq!(other.note("heartbeat", "", &gone, now), None, "expected one warning");
        assert_eq!(elsewhere.note("heartbeat", "", &gone, now), Some(0), "expected one of each Redis");
        assert_eq!(one.end("heartbeat", "", now), None, "expected the other to fail still");
        assert_eq!(other.end("heartbeat", "", now), Some((Duration::ZERO, 2, true)));
    }
}
