//! Enforces the deadline of a run: the run is asked to end, then dropped, then left alone.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::isolation::Timeouts;
use crate::protocol::message::Message;
use crate::runner::{Outcome, TimeLimit};

/// How long a dropped run may take to reach an `await`.
const STUBBORN: Duration = Duration::from_millis(500);

/// The time that a call allows for its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::worker) struct Allotment {
    /// Counted from the start of the run.
    pub(in crate::worker) timeout: Option<Duration>,
    /// Regardless of when the run starts.
    pub(in crate::worker) expires: Option<Instant>,
}

impl Allotment {
    const ENDLESS: Self = Self { timeout: None, expires: None };

    /// Reads the allotment from the message; `timeouts` apply where the message names none.
    ///
    /// The expiry on the wire is a wall-clock time. It is compared with the wall clock once, here; all later comparisons
    /// use the monotonic clock.
    pub(in crate::worker) fn of(message: &Message<'_>, timeouts: Timeouts) -> Result<Self, Outcome> {
        let timeout = message.timeout_ms().map(Duration::from_millis).or(timeouts.timeout);
        let Some(expires) = message.expires_ms().map(Duration::from_millis) else {
            return Ok(Self { timeout, expires: None });
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        match expires.checked_sub(now) {
            None | Some(Duration::ZERO) => Err(Outcome::Expired { late: now - expires }),
            // A time beyond the range of the clock means no limit.
            Some(left) => Ok(Self { timeout, expires: Instant::now().checked_add(left) }),
        }
    }
}

/// The deadline of one run, and how far its enforcement has come.
#[derive(Debug, Clone, Copy)]
pub(in crate::worker) struct RunDeadline {
    began: Instant,
    until: Instant,
    grace: Duration,
    stage: Stage,
    /// When its timer fires; `None` if nothing more is done. A timer of the same run that fires earlier is outdated and is
    /// ignored.
    rings: Option<Instant>,
}

/// How far the enforcement of a deadline has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The deadline has not passed.
    InTime,
    /// The run was asked to end.
    Asked,
    /// The run is dropped at its next `await`.
    Dropped,
    /// The run continues, and nothing can stop it.
    Overdue,
}

/// What to do when a timer fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::worker) enum Step {
    Ask,
    Drop,
    Warn,
}

impl RunDeadline {
    /// The deadline of a run that begins now; `None` if it has no limit.
    pub(in crate::worker) fn start(allotment: Allotment, grace: Duration) -> Option<Self> {
        if allotment == Allotment::ENDLESS {
            return None; // As most are: no look at the clock.
        }
        let began = Instant::now();
        // A time beyond the range of the clock means no limit.
        let timeout = allotment.timeout.and_then(|timeout| began.checked_add(timeout));
        let until = [timeout, allotment.expires].into_iter().flatten().min()?;
        Some(Self { began, until, grace, stage: Stage::InTime, rings: Some(until) })
    }

    /// The deadline of a run whose start is unknown and which may run without limit.
    pub(in crate::worker) fn endless(grace: Duration) -> Self {
        let now = Instant::now();
        Self { began: now, until: now, grace, stage: Stage::InTime, rings: None }
    }

    /// Lets the deadline pass now, if it has not already. A run that continues nevertheless is checked once more.
    pub(in crate::worker) fn end(&mut self, now: Instant) {
        if matches!(self.stage, Stage::InTime | Stage::Overdue) {
            (self.until, self.rings) = (now, Some(now));
        }
    }

    /// When the run is asked to end.
    pub(in crate::worker) fn until(&self) -> Instant {
        self.until
    }

    /// How long the run has after that.
    pub(in crate::worker) fn grace(&self) -> Duration {
        self.grace
    }

    /// When its timer fires; `None` if nothing more is done.
    pub(in crate::worker) fn next_timer(&self) -> Option<Instant> {
        self.rings
    }

    /// Whether the run was told that its time is up, or was to be dropped for that reason.
    pub(in crate::worker) fn is_up(&self) -> bool {
        self.stage != Stage::InTime
    }

    /// Whether nothing could stop the run when its time was up.
    pub(in crate::worker) fn is_overdue(&self) -> bool {
        self.stage == Stage::Overdue
    }

    /// How long it has run.
    pub(in crate::worker) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The outcome of a run that was made to end.
    pub(in crate::worker) fn timed_out(&self) -> Outcome {
        Outcome::TimedOut { limit: TimeLimit::Soft, after: self.elapsed(), signal: None }
    }

    /// Handles a timer: returns what to do, and when the timer fires next. A run that takes its context `listens`.
    pub(in crate::worker) fn on_timer(
        &mut self,
        now: Instant,
        listens: bool,
        can_be_dropped: bool,
    ) -> (Step, Option<Instant>) {
        let (step, again) = self.step(now, listens, can_be_dropped);
        self.rings = again;
        (step, again)
    }

    fn step(&mut self, now: Instant, listens: bool, can_be_dropped: bool) -> (Step, Option<Instant>) {
        match self.stage {
            Stage::InTime if listens => {
                self.stage = Stage::Asked;
                (Step::Ask, now.checked_add(self.grace))
            }
            Stage::InTime | Stage::Asked if can_be_dropped => {
                self.stage = Stage::Dropped;
                (Step::Drop, Some(now + STUBBORN))
            }
            Stage::InTime | Stage::Asked | Stage::Dropped | Stage::Overdue => {
                self.stage = Stage::Overdue;
                (Step::Warn, None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::encode::{Meta, native};

    const SECOND: Duration = Duration::from_secs(1);

    fn deadline_of(meta: Meta, timeouts: Timeouts) -> Result<Option<RunDeadline>, Outcome> {
        let allotment = Allotment::of(&Message::decode(&native("f", b"", &meta)).unwrap(), timeouts)?;
        Ok(RunDeadline::start(allotment, timeouts.grace()))
    }

    /// How long a run has.
    fn time(meta: Meta, timeouts: Timeouts) -> Option<Duration> {
        deadline_of(meta, timeouts).unwrap().map(|clock| clock.until - clock.began)
    }

    fn in_ms(time: Duration) -> u64 {
        (UNIX_EPOCH.elapsed().unwrap() + time).as_millis() as u64
    }

    #[test]
    fn the_call_comes_before_the_task_and_the_earliest_end_holds() {
        let task = Timeouts::NONE.with_timeout(60 * SECOND);
        let call = |ms| Meta { timeout_ms: Some(ms), ..Meta::default() };
        assert_eq!(time(Meta::default(), Timeouts::NONE), None);
        assert_eq!(time(Meta::default(), task), Some(60 * SECOND));
        assert_eq!(time(call(90_000), task), Some(90 * SECOND));
        assert_eq!(time(call(1), Timeouts::NONE), Some(Duration::from_millis(1)));
        assert_eq!(time(call(u64::MAX), Timeouts::NONE), Some(Duration::from_millis(u64::MAX)));
        let until = |time| Meta { expires_ms: Some(in_ms(time)), ..Meta::default() };
        assert!(time(until(30 * SECOND), task).is_some_and(|time| time <= 30 * SECOND && time > 20 * SECOND));
        assert_eq!(time(until(90 * SECOND), task), Some(60 * SECOND));
        assert_eq!(
            time(Meta { expires_ms: Some(u64::MAX), ..call(5) }, task),
            Some(Duration::from_millis(5))
        );
    }

    #[test]
    fn a_call_that_is_too_late_does_not_begin() {
        let late = |expires_ms| {
            let meta = Meta { expires_ms: Some(expires_ms), ..Meta::default() };
            match deadline_of(meta, Timeouts::NONE) {
                Err(Outcome::Expired { late }) => Some(late),
                _ => None,
            }
        };
        assert!(late(in_ms(Duration::ZERO) - 1000).is_some_and(|late| late >= SECOND && late < 60 * SECOND));
        assert!(late(0).is_some());
        assert!(late(in_ms(60 * SECOND)).is_none());
    }

    #[test]
    fn what_is_done_when_the_time_is_up() {
        use Step::{Ask, Drop, Warn};
        for (what, listens, can_be_dropped, steps) in [
            ("an async fn with a context", true, true, &[(Ask, 2), (Drop, 0), (Warn, 0)][..]),
            ("an async fn without one", false, true, &[(Drop, 0), (Warn, 0)]),
            ("a fn with a context", true, false, &[(Ask, 2), (Warn, 0)]),
            ("a fn without one", false, false, &[(Warn, 0)]),
        ] {
            let timeouts = Timeouts::NONE.with_timeout(SECOND).with_grace(2 * SECOND);
            let mut clock = deadline_of(Meta::default(), timeouts).unwrap().unwrap();
            let mut now = clock.until;
            assert!(!clock.is_up());
            for (place, (step, grace)) in steps.iter().enumerate() {
                let (made, again) = clock.on_timer(now, listens, can_be_dropped);
                assert_eq!(made, *step, "{what}");
                let pause = if *step == Drop { STUBBORN } else { *grace * SECOND };
                let last = place + 1 == steps.len();
                assert_eq!(again, (!last).then(|| now + pause), "{what}");
                assert!(clock.is_up() && clock.is_overdue() == last, "{what}");
                now += pause;
            }
        }
    }

    #[test]
    fn a_run_that_is_told_to_end_has_its_whole_grace() {
        let timeouts = Timeouts::NONE.with_timeout(60 * SECOND).with_grace(2 * SECOND);
        let mut clock = deadline_of(Meta::default(), timeouts).unwrap().unwrap();
        let (now, first) = (Instant::now(), clock.until);
        clock.end(now);
        assert_eq!((clock.until(), clock.rings), (now, Some(now)));
        assert_eq!(clock.on_timer(now, true, true), (Step::Ask, Some(now + 2 * SECOND)));
        // A second request and the old timer: neither shortens the grace.
        clock.end(now + SECOND);
        assert_eq!(clock.rings, Some(now + 2 * SECOND));
        assert!(first > now + 2 * SECOND && clock.is_up() && !clock.is_overdue());
        // A run that continues nevertheless is checked again on each request.
        let mut endless = RunDeadline::endless(SECOND);
        for _ in 0..2 {
            endless.end(now);
            assert_eq!(endless.rings, Some(now));
            assert_eq!(endless.on_timer(now, false, false), (Step::Warn, None));
        }
        assert_eq!(endless.rings, None);
    }
}
