//! What can go wrong between us and Redis, named by what the caller can do about it.

use std::borrow::Cow;
use std::fmt;

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::broker::tls;

/// Why a call to Redis failed.
#[derive(Debug, Clone)]
pub struct BrokerError {
    op: &'static str,
    kind: BrokerErrorKind,
    advice: Cow<'static, str>,
    detail: String,
    /// A script was stopped on its way, perhaps behind its first write.
    is_partial: bool,
}

/// What kind of failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// A key holds another type than ours.
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
        Self { op, kind, advice: advice(kind).into(), detail: detail.into(), is_partial: false }
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

    /// An error that was met while a connection was being made: nothing was sent yet.
    pub(super) fn connecting(op: &'static str, error: &RedisError) -> Self {
        if let Some(advice) = tls::refused_by_us(error).or_else(|| tls::refused_by_server(error)) {
            return Self::new(op, BrokerErrorKind::Tls, error.to_string()).advised(advice);
        }
        let found = Self::from_redis(op, error);
        if found.detail.contains("DB index is out of range") {
            let found = Self { kind: BrokerErrorKind::Address, ..found };
            return found
                .advised("Redis has fewer databases: write a lower number into the address, or none");
        }
        if found.kind != BrokerErrorKind::Uncertain {
            return found;
        }
        let is_other = error.kind() == ErrorKind::Parse;
        // What the parser says of a foreign reply has several lines.
        let detail = found.detail.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_full = detail.contains("Too many open files");
        let found = Self::new(op, BrokerErrorKind::Unreachable, detail);
        match () {
            () if is_other => found.advised("what answers there is no Redis: check the address"),
            () if is_full => {
                found.advised("this process may open no more files: raise its limit (`ulimit -n`)")
            }
            () => found,
        }
    }

    /// The server closed a connection as soon as it was made, with these words.
    pub(super) fn turned_away(op: &'static str, words: &str) -> Self {
        if words.starts_with("DENIED") {
            return Self::new(op, BrokerErrorKind::Denied, words).advised(
                "Redis refuses programs of other machines: give it a password, or as its own words say",
            );
        }
        let found = Self::new(op, BrokerErrorKind::Unreachable, words);
        if !words.contains("max number of clients") {
            return found.advised("Redis does not let us in: its own words say why");
        }
        found.advised("Redis takes no more connections: close some, or raise its `maxclients`")
    }

    /// The same, with the address at which it was met.
    pub(super) fn at(self, address: &str) -> Self {
        Self { detail: format!("{}; at {address}", self.detail), ..self }
    }

    pub(super) fn from_redis(op: &'static str, error: &RedisError) -> Self {
        use BrokerErrorKind as Kind;
        let text = error.to_string();
        // Of a connection that is made anew.
        if let Some(advice) = tls::refused_by_us(error) {
            return Self::new(op, Kind::Tls, text).advised(advice);
        }
        // A script's error may come wrapped in another one (before Redis 7), so its word is looked for.
        let says = |word: &str| error.code() == Some(word) || text.contains(word);
        let is_partial = IN_A_SCRIPT.iter().any(|words| says(words));
        let kind = match error.kind() {
            // Only met while a connection is being made: nothing was sent.
            ErrorKind::Io if error.is_connection_refusal() => Kind::Unreachable,
            // What cannot be read, or belongs to another request, ends the connection too.
            ErrorKind::Io | ErrorKind::Parse => Kind::Uncertain,
            ErrorKind::AuthenticationFailed => Kind::Denied,
            ErrorKind::InvalidClientConfig => Kind::Address,
            ErrorKind::Server(ServerErrorKind::CrossSlot | ServerErrorKind::Moved | ServerErrorKind::Ask) => {
                Kind::Unsupported
            }
            ErrorKind::Server(ServerErrorKind::TryAgain) => Kind::NotReady,
            ErrorKind::Server(_) | ErrorKind::Extension => match () {
                () if says("STALE") => Kind::Stale,
                () if says("OOM") => Kind::Full,
                () if says("WRONGTYPE") => Kind::WrongType,
                () if says("READONLY") || says("MISCONF") || says("NOREPLICAS") => Kind::ReadOnly,
                () if says("NOAUTH") || says("WRONGPASS") || says("NOPERM") || is_partial => Kind::Denied,
                () if says("LOADING") || says("MASTERDOWN") || says("BUSY") || says("CLUSTERDOWN") => {
                    Kind::NotReady
                }
                () => Kind::Reply,
            },
            _ if text.contains("uthentication") => Kind::Denied,
            _ => Kind::Reply,
        };
        let is_right_missing = kind == Kind::Denied && (says("NOPERM") || is_partial);
        let found = Self { is_partial, ..Self::new(op, kind, text) };
        match error.kind() {
            _ if is_right_missing => found.advised(RIGHTS),
            ErrorKind::Server(ServerErrorKind::CrossSlot) => found.advised(HASH_TAG),
            ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask) => found.advised(ONE_SHARD),
            _ => found,
        }
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

    /// What to do about it, and the server's own words.
    pub(crate) fn advice_and_detail(&self) -> (&str, &str) {
        (&self.advice, &self.detail)
    }

    /// Whether the call may have been applied although it failed.
    #[must_use]
    pub fn may_have_been_applied(&self) -> bool {
        self.is_partial || matches!(self.kind, BrokerErrorKind::Uncertain | BrokerErrorKind::Reply)
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

impl std::error::Error for BrokerError {}

/// What is said of a user that may call a script, and may not do what it does: by Redis 6.2 and 7.0, and by later ones and
/// Valkey.
const IN_A_SCRIPT: [&str; 2] = ["The user executing the script can't", "ACL failure in script"];

/// What to do about a user that is known and may not do this.
const RIGHTS: &str =
    "Redis does not let this user do that: give it the right (ACL SETUSER), or use another user";

/// What to do about keys of a Redis Cluster that have no slot in common.
const HASH_TAG: &str = "in a Redis Cluster the name of a queue carries a hash tag, such as `{mail}`, and all queues of a worker \
                        the same: rename the queue, or use a Redis that is no Cluster";

/// What to do about keys that are at another node of a Redis Cluster.
const ONE_SHARD: &str = "this node of a Redis Cluster is not the one for all keys: connect to the master of a Cluster of one \
                         shard, since several shards are not supported, or use a Redis that is no Cluster";

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_that_is_missing_is_told_by_each_server() {
        for (text, may_be_done) in [
            ("NOPERM this user has no permissions to run the 'evalsha' command", false),
            (
                "ERR The user executing the script can't run this command or subcommand script: f7, on @user_script:1.",
                true,
            ),
            (
                "ERR Error running script (call to f_f7): @user_script:1: The user executing the script can't run this command",
                true,
            ),
            (
                "ERR ACL failure in script: User poor has no permissions to run the 'rpush' command script: f7",
                true,
            ),
        ] {
            let reply =
                redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).expect("an error of the server");
            let error = BrokerError::from_redis("retry", &reply.extract_error().expect_err("an error"));
            assert_eq!(error.kind(), BrokerErrorKind::Denied, "{error}");
            assert_eq!(
                (error.advice.as_ref(), error.may_have_been_applied()),
                (RIGHTS, may_be_done),
                "{error}"
            );
        }
    }
}
