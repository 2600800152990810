//! How long a failed call waits before it is tried again.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

/// How long a call waits after each failed attempt. In a file, a variable or a flag: `none`, `fixed:30s`,
/// `linear:10s..5m`, or `exponential:1s..10m`, the default.
///
/// ```
/// use std::time::Duration;
/// use delayed::config::Backoff;
///
/// let backoff: Backoff = "exponential:1s..10m".parse().unwrap();
/// assert_eq!(backoff, Backoff::default());
/// let waits = [1, 2, 3, 11].map(|failed| backoff.delay(failed).as_secs());
/// assert_eq!(waits, [1, 2, 4, 600]);
/// assert_eq!(Backoff::None.delay(1), Duration::ZERO);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Backoff {
    /// Not at all: it goes to the tail of its queue at once.
    None,
    /// The same time after each attempt.
    Fixed(Duration),
    /// The first time, twice that, three times that, and so on.
    Linear {
        /// After the first attempt, and what is added after each other.
        first: Duration,
        /// At the most.
        max: Duration,
    },
    /// The first time, doubled after each attempt.
    Exponential {
        /// After the first attempt.
        first: Duration,
        /// At the most.
        max: Duration,
    },
}

/// A text that is no back-off.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a back-off: use none, fixed:30s, linear:10s..5m or exponential:1s..10m{problem}")]
pub struct BackoffError {
    text: String,
    problem: String,
}

/// The longest wait.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Backoff {
    /// How long a call waits of which `failed` attempts have failed, before [jitter](Self::jittered).
    #[must_use]
    pub fn delay(self, failed: u32) -> Duration {
        let failed = failed.max(1);
        match self {
            Self::None => Duration::ZERO,
            Self::Fixed(delay) => delay,
            Self::Linear { first, max } => first.saturating_mul(failed).min(max),
            Self::Exponential { first, max } => {
                let factor = 1_u32.checked_shl(failed - 1).unwrap_or(u32::MAX);
                first.saturating_mul(factor).min(max)
            }
        }
    }

    /// A wait that is up to a quarter longer, so that calls which failed together do not come back together. `random` is
    /// any number; a call never comes back sooner than its back-off says.
    #[must_use]
    pub fn jittered(delay: Duration, random: u64) -> Duration {
        let share = f64::from(u32::try_from(random >> 32).unwrap_or(0)) / f64::from(u32::MAX);
        delay + delay.mul_f64(share / 4.0)
    }
}

impl Default for Backoff {
    /// From 1 s to 10 min, doubling.
    fn default() -> Self {
        Self::Exponential { first: Duration::from_secs(1), max: Duration::from_secs(600) }
    }
}

impl fmt::Display for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `humantime` puts spaces between units, which would have to be quoted in a shell.
        let time = |time: Duration| humantime::format_duration(time).to_string().replace(' ', "");
        match self {
            Self::None => f.write_str("none"),
            Self::Fixed(delay) => write!(f, "fixed:{}", time(*delay)),
            Self::Linear { first, max } => write!(f, "linear:{}..{}", time(*first), time(*max)),
            Self::Exponential { first, max } => write!(f, "exponential:{}..{}", time(*first), time(*max)),
        }
    }
}

impl FromStr for Backoff {
    type Err = BackoffError;

    fn from_str(text: &str) -> Result<Self, BackoffError> {
        let refuse = |problem: String| BackoffError { text: text.into(), problem };
        let time = |part: &str| match humantime::parse_duration(part.trim()) {
            Ok(time) if time.is_zero() => Err(refuse("; a wait is longer than 0".into())),
            Ok(time) if time > LONGEST => Err(refuse("; a wait is at most 365d".into())),
            Ok(time) => Ok(time),
            Err(error) => Err(refuse(format!("; {part:?}: {error}"))),
        };
        let range = |part: &str| {
            let (first, max) = part.split_once("..").ok_or_else(|| refuse(String::new()))?;
            let (first, max) = (time(first)?, time(max)?);
            if first > max {
                return Err(refuse("; the first wait is longer than the last".into()));
            }
            Ok((first, max))
        };
        match text.trim().split_once(':') {
            None if text.trim() == "none" => Ok(Self::None),
            Some(("fixed", part)) => time(part).map(Self::Fixed),
            Some(("linear", part)) => range(part).map(|(first, max)| Self::Linear { first, max }),
            Some(("exponential", part)) => range(part).map(|(first, max)| Self::Exponential { first, max }),
            _ => Err(refuse(String::new())),
        }
    }
}

impl TryFrom<String> for Backoff {
    type Error = BackoffError;

    fn try_from(text: String) -> Result<Self, BackoffError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_as_their_kind_says_up_to_the_longest() {
        for (text, expected) in [
            ("none", [0, 0, 0, 0]),
            ("fixed:30s", [30, 30, 30, 30]),
            ("linear:10s..35s", [10, 20, 30, 35]),
            ("exponential:1s..5s", [1, 2, 4, 5]),
        ] {
            let backoff: Backoff = text.parse().unwrap();
            assert_eq!([1, 2, 3, 4].map(|failed| backoff.delay(failed).as_secs()), expected, "{text}");
            assert_eq!(backoff.to_string(), text);
            assert_eq!(backoff.delay(u32::MAX), backoff.delay(1000), "{text}");
        }
        assert_eq!(Backoff::default().to_string(), "exponential:1s..10m");
    }

    #[test]
    fn jitter_adds_up_to_a_quarter() {
        let second = Duration::from_secs(1);
        assert_eq!(Backoff::jittered(second, 0), second);
        assert_eq!(Backoff::jittered(second, u64::MAX), Duration::from_millis(1250));
        assert_eq!(Backoff::jittered(Duration::ZERO, u64::MAX), Duration::ZERO);
    }

    #[test]
    fn texts_that_are_no_back_off_say_what_to_write() {
        for (text, problem) in [
            ("", ""),
            ("soon", ""),
            ("fixed", ""),
            ("fixed:0s", "longer than 0"),
            ("linear:10s", ""),
            ("exponential:2s..1s", "longer than the last"),
            ("exponential:1s..400d", "at most 365d"),
            ("fixed:1x", "\"1x\""),
        ] {
            let error = text.parse::<Backoff>().unwrap_err().to_string();
            assert!(error.contains("use none, fixed:30s") && error.contains(problem), "{text:?}: {error}");
        }
    }
}
