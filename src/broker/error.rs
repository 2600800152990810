//! Errors of calls to Redis, named by what the caller can do about them. `classify.rs` makes most of them.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use crate::broker::cause::Shared;

/// Why a call to Redis failed.
///
/// Its [`source`](Error::source) is the [`std::io::Error`] of the connection where there is one, and else the error of the
/// library that speaks to Redis, if it came from there. The text of either is a part of this one's.
///
/// `Debug` prints what `Display` does: that is what a `main` shows that returns this error.
#[derive(Clone)]
pub struct BrokerError {
    op: &'static str,
    kind: BrokerErrorKind,
    advice: Cow<'static, str>,
    detail: Box<str>,
    /// A script was stopped halfway, perhaps after its first write.
    is_partial: bool,
    /// Nothing of the request was written.
    is_unsent: bool,
    /// In a box, so that results with this error stay small.
    source: Option<Box<Shared>>,
}

/// What kind of failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BrokerErrorKind {
    /// Redis could not be reached; nothing was sent.
    Unreachable,
    /// The connection broke, or no reply came in time: the call may have been applied.
    Uncertain,
    /// Redis is loading its data, or its master is down: it will answer later.
    NotReady,
    /// Redis has no memory left (`OOM command not allowed`).
    Full,
    /// Redis takes no writes: it is a replica, could not save its data (`MISCONF`), or has too few replicas (`NOREPLICAS`).
    ReadOnly,
    /// Redis wants a password, or the user may not do this.
    Denied,
    /// A key holds another type than ours, or what another program put there.
    WrongType,
    /// A later call of the same worker was applied; this one was not.
    Stale,
    /// The server is older than Redis 6.2, or it is a Redis Cluster, and what belongs together has no node in common there.
    Unsupported,
    /// The address cannot be understood.
    Address,
    /// TLS did not come about: a certificate, or one side speaks none, as a program without the feature `tls`. Nothing was
    /// applied.
    Tls,
    /// Redis answered something that we did not expect.
    Reply,
}

impl BrokerError {
    pub(crate) fn new(op: &'static str, kind: BrokerErrorKind, detail: impl Into<String>) -> Self {
        Self {
            op,
            kind,
            advice: advice(kind).into(),
            detail: detail.into().into_boxed_str(),
            is_partial: false,
            is_unsent: false,
            source: None,
        }
    }

    /// The same, which came of `source`.
    pub(super) fn because_of(self, source: Shared) -> Self {
        Self { source: Some(Box::new(source)), ..self }
    }

    /// The same of a request of which nothing was written.
    pub(super) fn unsent(self) -> Self {
        Self { is_unsent: true, ..self }
    }

    /// The same of a script that was stopped on its way, perhaps behind its first write.
    pub(super) fn partial(self) -> Self {
        Self { is_partial: true, ..self }
    }

    /// The same, with another word on what to do.
    pub(super) fn advised(self, advice: &'static str) -> Self {
        Self { advice: advice.into(), ..self }
    }

    /// The same, with the key that has a wrong type, when that is what is wrong.
    pub(super) fn of_key(self, key: Option<&str>) -> Self {
        match (self.kind, key) {
            (BrokerErrorKind::WrongType, Some(key)) => {
                let advice = format!("the key `{key}` holds another type: rename or delete it");
                Self { advice: advice.into(), ..self }
            }
            _ => self,
        }
    }

    /// The same, with the key that has another type than it should.
    pub(super) fn of_type(self, key: &str, found: &str, expected: &str) -> Self {
        let advice =
            format!("the key `{key}` holds another type, {found} instead of {expected}: rename or delete it");
        Self { advice: advice.into(), ..self }
    }

    /// The list at `key` holds something else than notifications, as another program's does.
    pub(crate) fn foreign(op: &'static str, key: &str) -> Self {
        let advice = format!(
            "the list `{key}` holds something else than notifications, as another program's queue: nothing is taken from it; \
             rename it, or use another queue name"
        );
        let detail = "its first element is no notification";
        Self { advice: advice.into(), ..Self::new(op, BrokerErrorKind::WrongType, detail) }
    }

    /// The same, with the queue of which one key has a wrong type, when that is what is wrong.
    pub(super) fn of_queue(self, queue: Option<&str>) -> Self {
        match (self.kind, queue) {
            (BrokerErrorKind::WrongType, Some(queue)) => {
                let advice = format!(
                    "a key of the queue `{queue}` holds another type: `doctor` says which; rename or delete it, or use \
                     another queue name"
                );
                Self { advice: advice.into(), ..self }
            }
            _ => self,
        }
    }

    /// The same of a request that only reads, or does no harm: nothing was applied that counts.
    pub(crate) fn without_effect(self) -> Self {
        match self.kind {
            BrokerErrorKind::Uncertain => {
                let kind = BrokerErrorKind::Unreachable;
                Self { kind, advice: advice(kind).into(), is_unsent: true, is_partial: false, ..self }
            }
            _ => Self { is_unsent: true, is_partial: false, ..self },
        }
    }

    /// The server at `address` knows no such user with such a password.
    pub(super) fn login_refused(self, user: Option<&str>, address: &str) -> Self {
        let who = match user {
            Some(user) => format!("the user `{user}`, or the password"),
            None => "the password (of the user `default`)".to_owned(),
        };
        let advice = format!(
            "Redis at {address} refused {who}: check `redis.url`, and that it is the right server; characters such as # / ? @ % \
             are percent-encoded there"
        );
        Self { advice: advice.into(), ..self }
    }

    /// The same, with the address at which it was met.
    pub(super) fn at(self, address: &str) -> Self {
        Self { detail: format!("{}; at {address}", self.detail).into(), ..self }
    }

    /// The transition or read that failed, such as `claim`.
    #[must_use]
    pub fn op(&self) -> &'static str {
        self.op
    }

    /// What kind of failure it was.
    #[must_use]
    pub fn kind(&self) -> BrokerErrorKind {
        self.kind
    }

    /// Whether there was no answer at all.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self.kind, BrokerErrorKind::Unreachable | BrokerErrorKind::Uncertain)
    }

    /// Whether any request would fail in this way now, whatever its queue.
    pub(crate) fn is_of_server(&self) -> bool {
        use BrokerErrorKind as Kind;
        match self.kind {
            Kind::Unreachable
            | Kind::Uncertain
            | Kind::NotReady
            | Kind::Full
            | Kind::ReadOnly
            | Kind::Tls => true,
            // A missing right is one of a command or a key.
            Kind::Denied => self.advice != RIGHTS,
            _ => false,
        }
    }

    /// What to do about it, and the server's own words.
    pub(crate) fn advice_and_detail(&self) -> (&str, &str) {
        (&self.advice, &self.detail)
    }

    /// Whether the call may have been applied although it failed.
    #[must_use]
    pub fn may_have_been_applied(&self) -> bool {
        !self.is_unsent
            && (self.is_partial || matches!(self.kind, BrokerErrorKind::Uncertain | BrokerErrorKind::Reply))
    }

    /// Whether the same call may succeed later without anybody changing anything here.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.kind,
            BrokerErrorKind::Unreachable
                | BrokerErrorKind::Uncertain
                | BrokerErrorKind::NotReady
                | BrokerErrorKind::Full
                | BrokerErrorKind::ReadOnly
        )
    }
}

impl fmt::Display for BrokerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}: {})", self.advice, self.op, self.detail)
    }
}

impl fmt::Debug for BrokerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for BrokerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| &***source as _)
    }
}

/// What to do about a user that is known and may not do this.
pub(super) const RIGHTS: &str =
    "Redis does not let this user do that: give it the right (ACL SETUSER), or use another user";

/// What to do about it, where nothing better is known.
fn advice(kind: BrokerErrorKind) -> &'static str {
    match kind {
        BrokerErrorKind::Unreachable => {
            "Redis cannot be reached: check that it runs and that the address is right"
        }
        BrokerErrorKind::Uncertain => "the connection to Redis broke: the call may have been applied",
        BrokerErrorKind::NotReady => "Redis is not ready yet: try again later",
        BrokerErrorKind::Full => {
            "Redis is full: raise `maxmemory`, or let the workers drain the queues; keep `maxmemory-policy noeviction`"
        }
        BrokerErrorKind::ReadOnly => {
            "Redis takes no writes: connect to the master, and check that it can save its data and has its replicas"
        }
        BrokerErrorKind::Denied => {
            "Redis refused us: put the user and password into the address (redis://user:password@host)"
        }
        BrokerErrorKind::WrongType => {
            "a key of this queue holds another type: rename or delete that key, or use another queue name"
        }
        BrokerErrorKind::Stale => "a later call of this worker was applied already",
        BrokerErrorKind::Unsupported => "this server is too old: Redis 6.2 or newer, or Valkey, is needed",
        BrokerErrorKind::Address => {
            "the address is not understood: use redis://host:port/db, rediss://… for TLS, or unix:///path"
        }
        BrokerErrorKind::Tls => "a connection with TLS cannot be made with these settings",
        BrokerErrorKind::Reply => "Redis answered something unexpected",
    }
}
