//! Errors of calls to Redis, named by what the caller can do about them. `classify.rs` makes most of them.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;

use crate::broker::cause::Shared;

/// Why a call to Redis failed.
///
/// Its [`source`](Error::source) is the [`std::io::Error`] of the connection if there is one, else the error of the Redis
/// client library, if it came from there. The text of this error includes the text of its source.
///
/// `Debug` prints the same as `Display`, because a `main` that returns this error prints it that way.
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
    /// Boxed, so that results with this error stay small.
    source: Option<Box<Shared>>,
}

/// The kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BrokerErrorKind {
    /// Redis could not be reached; nothing was sent.
    Unreachable,
    /// The connection broke, or no reply came in time: the call may have been applied.
    Uncertain,
    /// Redis is loading its data, or its master is down, or a Cluster moves the keys: it will answer later.
    NotReady,
    /// Redis has no memory left (`OOM command not allowed`).
    Full,
    /// Redis accepts no writes: it is a replica, could not save its data (`MISCONF`), or has too few replicas
    /// (`NOREPLICAS`).
    ReadOnly,
    /// Redis requires a password, or the user lacks a permission.
    Denied,
    /// A key holds a type other than expected, or a value of another program.
    WrongType,
    /// This call was not applied, because a later call of the same worker was.
    Stale,
    /// The server is older than Redis 6.2, or it is a Redis Cluster and the name of a queue has no hash tag.
    Unsupported,
    /// The address is not valid.
    Address,
    /// TLS failed: a certificate was rejected, or one side does not use TLS, such as a program without the feature `tls`.
    /// Nothing was applied.
    Tls,
    /// Redis sent an unexpected reply.
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

    /// The same, caused by `source`.
    pub(super) fn because_of(self, source: Shared) -> Self {
        Self { source: Some(Box::new(source)), ..self }
    }

    /// The same for a request of which nothing was written.
    pub(super) fn unsent(self) -> Self {
        Self { is_unsent: true, ..self }
    }

    /// The same for a script that was stopped halfway, perhaps after its first write.
    pub(super) fn partial(self) -> Self {
        Self { is_partial: true, ..self }
    }

    /// The same, with different advice.
    pub(super) fn advised(self, advice: &'static str) -> Self {
        Self { advice: advice.into(), ..self }
    }

    /// The same, naming the key that has a wrong type, if that is the problem.
    pub(super) fn of_key(self, key: Option<&str>) -> Self {
        match (self.kind, key) {
            (BrokerErrorKind::WrongType, Some(key)) => {
                let advice = format!("the key `{key}` has the wrong type: rename or delete it");
                Self { advice: advice.into(), ..self }
            }
            _ => self,
        }
    }

    /// The same, naming the key that has a wrong type.
    pub(super) fn of_type(self, key: &str, found: &str, expected: &str) -> Self {
        let advice =
            format!("the key `{key}` has the wrong type, {found} instead of {expected}: rename or delete it");
        Self { advice: advice.into(), ..self }
    }

    /// The list at `key` holds something other than tokens, such as a list of another program.
    pub(crate) fn foreign(op: &'static str, key: &str) -> Self {
        let advice = format!(
            "the list `{key}` contains something other than notifications, and may belong to another program: nothing \
            is taken from it; rename it, or use another queue name"
        );
        let detail = "its first element is not a notification";
        Self { advice: advice.into(), ..Self::new(op, BrokerErrorKind::WrongType, detail) }
    }

    /// The keys of a queue with this name are in several hash slots of a Redis Cluster.
    pub(super) fn without_tag(queue: &str) -> Self {
        let advice = format!(
            "in a Redis Cluster the name of a queue needs a hash tag, so that all of its keys are on one node: call \
            it `{{{queue}}}` instead of `{queue}`"
        );
        Self { advice: advice.into(), ..Self::new("check_slot", BrokerErrorKind::Unsupported, "no hash tag") }
            .unsent()
    }

    /// The same, naming the queue of which one key has a wrong type, if that is the problem.
    pub(super) fn of_queue(self, queue: Option<&str>) -> Self {
        match (self.kind, queue) {
            (BrokerErrorKind::WrongType, Some(queue)) => {
                let advice = format!(
                    "a key of the queue `{queue}` has the wrong type: `doctor` says which; rename or delete it, or \
                    use another queue name"
                );
                Self { advice: advice.into(), ..self }
            }
            _ => self,
        }
    }

    /// The same for a request that only reads or is harmless: nothing relevant was applied.
    pub(crate) fn without_effect(self) -> Self {
        match self.kind {
            BrokerErrorKind::Uncertain => {
                let kind = BrokerErrorKind::Unreachable;
                Self { kind, advice: advice(kind).into(), is_unsent: true, is_partial: false, ..self }
            }
            _ => Self { is_unsent: true, is_partial: false, ..self },
        }
    }

    /// The server at `address` rejected the user or the password.
    pub(super) fn login_refused(self, user: Option<&str>, address: &str) -> Self {
        let who = match user {
            Some(user) => format!("the user `{user}`, or the password"),
            None => "the password (of the user `default`)".to_owned(),
        };
        let advice = format!(
            "Redis at {address} rejected {who}: check `redis.url`, and that it is the right server; characters such \
            as # / ? @ % must be percent-encoded there"
        );
        Self { advice: advice.into(), ..self }
    }

    /// The same, with the address of the server.
    pub(super) fn at(self, address: &str) -> Self {
        Self { detail: format!("{}; at {address}", self.detail).into(), ..self }
    }

    /// The transition or read that failed, such as `claim`.
    #[must_use]
    pub fn op(&self) -> &'static str {
        self.op
    }

    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> BrokerErrorKind {
        self.kind
    }

    /// Whether there was no answer at all.
    pub(crate) fn is_silence(&self) -> bool {
        matches!(self.kind, BrokerErrorKind::Unreachable | BrokerErrorKind::Uncertain)
    }

    /// Whether every request would currently fail in this way, whatever its queue.
    pub(crate) fn is_of_server(&self) -> bool {
        use BrokerErrorKind as Kind;
        match self.kind {
            Kind::Unreachable
            | Kind::Uncertain
            | Kind::NotReady
            | Kind::Full
            | Kind::ReadOnly
            | Kind::Tls => true,
            // A missing permission concerns one command or key.
            Kind::Denied => self.advice != RIGHTS,
            _ => false,
        }
    }

    /// The advice, and the server's own message.
    pub(crate) fn advice_and_detail(&self) -> (&str, &str) {
        (&self.advice, &self.detail)
    }

    /// Whether the call may have been applied although it failed.
    #[must_use]
    pub fn may_have_been_applied(&self) -> bool {
        !self.is_unsent
            && (self.is_partial || matches!(self.kind, BrokerErrorKind::Uncertain | BrokerErrorKind::Reply))
    }

    /// Whether the same call may succeed later without any change on this side.
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

/// The advice for a user that is known and lacks a permission.
pub(super) const RIGHTS: &str = "the Redis user lacks a permission: grant it (ACL SETUSER), or use another user; `acl` prints what each role needs";

/// The default advice for each kind.
fn advice(kind: BrokerErrorKind) -> &'static str {
    match kind {
        BrokerErrorKind::Unreachable => {
            "Redis cannot be reached: check that it is running and that the address is correct"
        }
        BrokerErrorKind::Uncertain => "the connection to Redis broke: the call may have been applied",
        BrokerErrorKind::NotReady => "Redis is not ready yet: try again later",
        BrokerErrorKind::Full => {
            "Redis is full: raise `maxmemory`, or let the workers drain the queues; keep `maxmemory-policy noeviction`"
        }
        BrokerErrorKind::ReadOnly => {
            "Redis rejects writes: connect to the master, and check that it can save its data and has enough replicas"
        }
        BrokerErrorKind::Denied => {
            "Redis rejected the connection: put the user and password into the address (redis://user:password@host)"
        }
        BrokerErrorKind::WrongType => {
            "a key of this queue has the wrong type: rename or delete that key, or use another queue name"
        }
        BrokerErrorKind::Stale => "a later script call of this worker was already applied",
        BrokerErrorKind::Unsupported => "this server is too old: Redis 6.2 or newer, or Valkey, is needed",
        BrokerErrorKind::Address => {
            "the address is invalid: use redis://host:port/db, rediss://… for TLS, unix:///path, redis+cluster://a:7000,b:7000, \
             or redis-sentinel://a:26379,b:26379/mymaster"
        }
        BrokerErrorKind::Tls => "no TLS connection can be made with these settings",
        BrokerErrorKind::Reply => "Redis sent an unexpected reply",
    }
}
