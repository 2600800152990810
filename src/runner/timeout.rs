//! Decides when a run is asked to end, and when it is killed: soft timeout → grace → hard timeout.

use std::time::{Duration, Instant};

/// The action that is due now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// SIGTERM.
    Ask,
    /// SIGKILL.
    Kill,
}

/// The deadlines of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Countdown {
    started: Instant,
    grace: Duration,
    phase: Phase,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// The run continues until this time.
    Running(Option<Instant>),
    /// The run was asked to end, and is killed at this time.
    Asked(Instant),
    /// The run was killed.
    Killed,
}

impl Countdown {
    /// A run that starts now and is asked to end at `until`.
    pub(super) fn start(until: Option<Instant>, grace: Duration) -> Self {
        Self { started: Instant::now(), grace, phase: Phase::Running(until) }
    }

    /// How long the run has lasted.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// When the next action is due.
    pub(super) fn next(&self) -> Option<Instant> {
        match self.phase {
            Phase::Running(until) => until,
            Phase::Asked(until) => Some(until),
            Phase::Killed => None,
        }
    }

    /// Takes the action that is due, if there is one, and marks it as done.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Due> {
        match self.phase {
            Phase::Running(Some(until)) if until <= now => Some(self.ask(now)),
            Phase::Asked(until) if until <= now => Some(self.kill()),
            Phase::Running(_) | Phase::Asked(_) | Phase::Killed => None,
        }
    }

    /// Asks the run to end now, regardless of its deadline.
    pub(super) fn ask(&mut self, now: Instant) -> Due {
        if !matches!(self.phase, Phase::Running(_)) || self.grace.is_zero() {
            return self.kill();
        }
        self.phase = Phase::Asked(now + self.grace);
        Due::Ask
    }

    /// Kills the run now, regardless of its deadline.
    pub(super) fn kill(&mut self) -> Due {
        self.phase = Phase::Killed;
        Due::Kill
    }

    /// Whether the run was killed.
    pub(super) fn has_killed(&self) -> bool {
        matches!(self.phase, Phase::Killed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_asked_first_and_killed_after_its_grace() {
        let grace = Duration::from_secs(2);
        let until = Instant::now() + Duration::from_secs(30);
        let mut countdown = Countdown::start(Some(until), grace);
        assert_eq!(countdown.next(), Some(until));
        assert_eq!(countdown.take_due(until - Duration::from_nanos(1)), None);
        assert_eq!(countdown.take_due(until), Some(Due::Ask));
        assert_eq!(countdown.next(), Some(until + grace));
        assert_eq!(countdown.take_due(until), None);
        assert!(!countdown.has_killed());
        assert_eq!(countdown.take_due(until + grace), Some(Due::Kill));
        assert_eq!(
            (countdown.next(), countdown.take_due(until + grace), countdown.has_killed()),
            (None, None, true)
        );
    }

    #[test]
    fn no_grace_kills_at_once_and_no_timeout_never_kills() {
        let now = Instant::now();
        assert_eq!(Countdown::start(Some(now), Duration::ZERO).take_due(now), Some(Due::Kill));
        let mut countdown = Countdown::start(None, Duration::ZERO);
        assert_eq!((countdown.next(), countdown.take_due(now + Duration::from_secs(1 << 30))), (None, None));
        assert_eq!(countdown.kill(), Due::Kill);
    }
}
