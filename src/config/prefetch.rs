//! How many calls a worker claims in addition to those that run.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use super::ConfigError;

/// How many calls a worker claims in addition to those that run. In a file, a variable or a flag: `auto`, or a number.
///
/// ```
/// use delayed::config::Prefetch;
///
/// assert_eq!("auto".parse(), Ok(Prefetch::Auto));
/// assert_eq!("64".parse(), Ok(Prefetch::from(64)));
/// assert!("-1".parse::<Prefetch>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prefetch {
    /// As many as will probably begin within a millisecond, judged by recent runs: many of quick tasks, none of slow ones.
    /// A call that has not begun after 10 ms is put back for other workers.
    #[default]
    Auto,
    /// This number, however long the runs before them take.
    Fixed(usize),
}

impl From<usize> for Prefetch {
    fn from(count: usize) -> Self {
        Self::Fixed(count)
    }
}

impl FromStr for Prefetch {
    type Err = ConfigError;

    /// Parses `auto`, or a whole number that is not negative.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text.trim() {
            "auto" => Ok(Self::Auto),
            digits => digits.parse().map(Self::Fixed).map_err(|_| ConfigError {
                field: "worker.prefetch",
                problem: format!("{text:?} is neither a whole number nor \"auto\""),
            }),
        }
    }
}

impl fmt::Display for Prefetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(count) => count.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for Prefetch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;

        impl Visitor<'_> for Written {
            type Value = Prefetch;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, or \"auto\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Prefetch, E> {
                text.parse().map_err(|error: ConfigError| E::custom(error.problem))
            }

            fn visit_u64<E: Error>(self, count: u64) -> Result<Prefetch, E> {
                usize::try_from(count).map(Prefetch::Fixed).map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, count: i64) -> Result<Prefetch, E> {
                usize::try_from(count)
                    .map(Prefetch::Fixed)
                    .map_err(|_| E::custom(format!("{count} is less than 0")))
            }
        }

        deserializer.deserialize_any(Written)
    }
}
