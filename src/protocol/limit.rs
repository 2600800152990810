//! Names limits, and says what each allows.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::protocol::decode::{Head, Reader};
use crate::protocol::message::Message;
use crate::protocol::meta::Pairs;
use crate::protocol::names::is_hidden;

/// SET: the names of the limits that have a policy.
pub const LIMITS: &str = "delayed_limits";
/// The longest name of a limit, in bytes.
pub const MAX_LIMIT_NAME: usize = 200;
/// How many limits one call can name.
pub const MAX_LIMITS: usize = 16;

/// Why the name or the policy of a limit was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The name is empty, too long, or has a space or a character that cannot be seen.
    #[error(
        "the limit name {name:?} is not valid: use 1 to {MAX_LIMIT_NAME} bytes of printable text without spaces"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// A call names more limits than [`MAX_LIMITS`].
    #[error("the call names {count} limits: at most {MAX_LIMITS} are allowed")]
    TooMany {
        /// How many it names.
        count: usize,
    },
    /// The period of a rate is no time, or not between 1 ms and 366 days.
    #[error("the period {text:?} of a rate is not valid: use a time from `1ms` to `366d`, such as `1m`")]
    Period {
        /// The period as given.
        text: String,
    },
    /// The policy allows nothing to run, or limits nothing.
    #[error(
        "the limit allows no call to run: set a concurrency or a rate; each of concurrency, rate and burst must be at \
        least 1"
    )]
    Nothing,
}

/// The name of a limit: 1 to 200 bytes of printable text without spaces. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LimitName(Arc<str>);

impl LimitName {
    /// Checks and takes a name.
    ///
    /// # Errors
    /// A name that is empty or too long, or has spaces or hidden characters.
    pub fn parse(name: &str) -> Result<Self, LimitError> {
        let is_valid = (1..=MAX_LIMIT_NAME).contains(&name.len())
            && !name.chars().any(|character| character.is_whitespace() || is_hidden(character));
        if is_valid { Ok(Self(name.into())) } else { Err(LimitError::Name { name: name.into() }) }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LimitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl std::str::FromStr for LimitName {
    type Err = LimitError;

    fn from_str(name: &str) -> Result<Self, LimitError> {
        Self::parse(name)
    }
}

/// The keys of one limit. All of them are in one hash slot of a Redis Cluster.
#[derive(Debug, Clone)]
pub struct LimitKeys {
    /// HASH: what the limit allows.
    pub policy: String,
    /// ZSET: who holds the limit → when this lease ends, in milliseconds since 1970.
    pub holders: String,
    /// LIST: the calls that wait, first come, first served: the SHA-1 of the message, a space, and the queue.
    pub line: String,
    /// HASH: how many of these were told to come, and when the next token is free.
    pub state: String,
    /// ZSET: tokens that are kept for calls.
    pub permits: String,
}

impl LimitKeys {
    /// The keys of the limit of that name.
    #[must_use]
    pub fn new(name: &LimitName) -> Self {
        let key = |end: &str| format!("{{delayed:{name}}}:{end}");
        Self {
            policy: key("policy"),
            holders: key("holders"),
            line: key("line"),
            state: key("state"),
            permits: key("permits"),
        }
    }

    /// All of them, in the order in which scripts take them.
    #[must_use]
    pub fn all(&self) -> [&str; 5] {
        [&self.policy, &self.holders, &self.line, &self.state, &self.permits]
    }
}

/// What a limit allows: how many calls at the same time, how many in a period, or both.
///
/// ```
/// use delayed::Limit;
///
/// let at_once = Limit::concurrent(4);
/// let both = Limit::concurrent(4).rate(100, "1m").burst(10);
/// let rate = Limit::at_rate(1000, std::time::Duration::from_secs(1));
/// assert_eq!((both.concurrency(), rate.concurrency(), at_once.tokens()), (Some(4), None, None));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    concurrency: Option<u32>,
    rate: Option<(u32, Period)>,
    burst: Option<u32>,
}

/// The period of a rate: what [`Limit::rate`] takes as a [`Duration`] or a text such as `"1m"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Period(Result<Duration, String>);

impl Period {
    const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

    fn time(&self) -> Result<Duration, LimitError> {
        match &self.0 {
            Ok(time) if (Duration::from_millis(1)..=Self::LONGEST).contains(time) => Ok(*time),
            Ok(time) => Err(LimitError::Period { text: format!("{time:?}") }),
            Err(text) => Err(LimitError::Period { text: text.clone() }),
        }
    }
}

impl From<Duration> for Period {
    fn from(time: Duration) -> Self {
        Self(Ok(time))
    }
}

impl From<&str> for Period {
    fn from(text: &str) -> Self {
        Self(humantime::parse_duration(text).map_err(|_| text.into()))
    }
}

impl Limit {
    /// At most `most` calls run at the same time.
    #[must_use]
    pub fn concurrent(most: u32) -> Self {
        Self { concurrency: Some(most), rate: None, burst: None }
    }

    /// At most `count` calls begin in each period, evenly: one every `period / count`. See [`rate`](Self::rate).
    #[must_use]
    pub fn at_rate(count: u32, period: impl Into<Period>) -> Self {
        Self { concurrency: None, rate: Some((count, period.into())), burst: None }
    }

    /// Also, at most `count` calls begin in each period, a [`Duration`] or a text such as `"1m"`. They begin evenly, unless
    /// there is a [`burst`](Self::burst).
    #[must_use]
    pub fn rate(self, count: u32, period: impl Into<Period>) -> Self {
        Self { rate: Some((count, period.into())), ..self }
    }

    /// So many calls may begin at once after a time in which fewer began than the rate allows. 1 if it is not given.
    #[must_use]
    pub fn burst(self, most: u32) -> Self {
        Self { burst: Some(most), ..self }
    }

    /// How many calls may run at the same time. `None`: any number.
    #[must_use]
    pub fn concurrency(&self) -> Option<u32> {
        self.concurrency
    }

    /// How many calls may begin in a period, that period, and how many at once. `None`: any number, or the period is invalid.
    #[must_use]
    pub fn tokens(&self) -> Option<(u32, Duration, u32)> {
        let (count, period) = self.rate.as_ref()?;
        Some((*count, period.time().ok()?, self.burst.unwrap_or(1)))
    }

    /// Checks that calls can run under this limit.
    ///
    /// # Errors
    /// [`LimitError::Period`], or [`LimitError::Nothing`].
    pub fn check(&self) -> Result<(), LimitError> {
        if let Some((_, period)) = &self.rate {
            period.time()?;
        }
        let numbers = [self.concurrency, self.rate.as_ref().map(|(count, _)| *count), self.burst];
        let limits = self.concurrency.is_some() || self.rate.is_some();
        if limits && numbers.into_iter().flatten().all(|number| number > 0) {
            Ok(())
        } else {
            Err(LimitError::Nothing)
        }
    }
}

impl Pairs<'_> {
    /// The limits that a call names; what is no name is left out, with those behind it.
    pub(crate) fn limits(self) -> Vec<LimitName> {
        let Some(value) = self.find(b"l") else { return Vec::new() };
        let mut reader = Reader::new(value);
        let Ok(Head::Array(count)) = reader.head() else { return Vec::new() };
        let name = |reader: &mut Reader<'_>| match reader.head() {
            Ok(Head::Str(length)) => LimitName::parse(std::str::from_utf8(reader.take(length)).ok()?).ok(),
            _ => None,
        };
        (0..count.min(MAX_LIMITS)).map_while(|_| name(&mut reader)).collect()
    }
}

impl Message<'_> {
    /// The limits that the call itself names.
    #[cfg_attr(not(feature = "worker"), allow(dead_code))]
    pub(crate) fn limits(&self) -> Vec<LimitName> {
        if self.names_limits() { self.pairs().limits() } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::annotations::Annotations;
    use crate::protocol::encode::{Meta, annotated, native};

    #[test]
    fn limits_travel_in_the_meta_and_their_keys_share_a_hash_tag() {
        let names = ["github", "tenant:42"].map(|name| LimitName::parse(name).unwrap());
        let annotations = Annotations { limits: names.to_vec(), ..Annotations::default() };
        let bytes = annotated("f", b"\x05", &Meta::default(), &annotations);
        assert_eq!(bytes, b"\x93\xa1f\xc4\x01\x05\x81\xa1l\x92\xa6github\xa9tenant:42");
        assert_eq!(Message::decode(&bytes).unwrap().limits(), names);
        assert!(Message::decode(&native("f", b"\x05", &Meta::default())).unwrap().limits().is_empty());
        assert!(LimitKeys::new(&names[1]).all().iter().all(|key| key.starts_with("{delayed:tenant:42}:")));
    }

    #[test]
    fn policy_under_which_nothing_could_run_is_refused() {
        for limit in [Limit::concurrent(0), Limit::at_rate(0, "1m"), Limit::at_rate(1, "1m").burst(0)] {
            assert_eq!(limit.check(), Err(LimitError::Nothing));
        }
        for period in ["soon", "0s", "2000years"] {
            assert!(matches!(Limit::at_rate(1, period).check(), Err(LimitError::Period { .. })), "{period}");
        }
        assert_eq!(Limit::concurrent(4).rate(100, "1m").check(), Ok(()));
        for name in ["", "a b", "a\u{200b}", &"a".repeat(201)] {
            assert!(LimitName::parse(name).is_err(), "{name:?}");
        }
    }
}
