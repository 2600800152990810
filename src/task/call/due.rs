//! When a scheduled call is due.

use std::time::{Duration, SystemTime};

use crate::protocol::encode::EncodeError;

/// When a scheduled call is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// This long after it was enqueued, by the clock of Redis.
    After(Duration),
    /// At this moment, or at once if it has passed.
    At(SystemTime),
}

#[cfg_attr(not(feature = "client"), allow(dead_code))]
impl Due {
    /// The furthest: more than a hundred years.
    const LATEST: Duration = Duration::from_secs(101 * 366 * 24 * 60 * 60);

    /// Whether a timetable takes it.
    pub(crate) fn check(self) -> Result<Self, EncodeError> {
        let ahead = match self {
            Self::After(delay) => delay,
            Self::At(moment) => moment.duration_since(SystemTime::now()).unwrap_or_default(),
        };
        if ahead > Self::LATEST { Err(EncodeError::TooFarAhead) } else { Ok(self) }
    }
}
