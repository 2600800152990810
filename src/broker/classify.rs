//! Classifies errors of Redis and of the connection to it by what they mean for the caller.
//!
//! Redis reports many errors in words alone. All words that are matched are in [`TEXTS`].

use redis::{ErrorKind, RedisError, ServerError, ServerErrorKind};

use crate::broker::cause::{self, NotSent};
use crate::broker::error::{BrokerError, BrokerErrorKind as Kind, RIGHTS};
use crate::broker::tls;

/// The origin of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The reply to a request. Before Redis 7, the reply to a script has its error code in the middle.
    Reply,
    /// The reply to a script that was stopped halfway, perhaps after its first write.
    Script,
    /// What a server sends as soon as a client connects, before it closes the connection.
    Greeting,
    /// An error while connecting.
    Connecting,
    /// The library itself.
    Library,
}

/// A text, its meaning, and specific advice if the advice for its kind is not enough.
type Text = (Origin, &'static str, Kind, Option<&'static str>);

/// All known texts. The first one that an error contains counts.
const TEXTS: [Text; 21] = [
    (Origin::Reply, "STALE", Kind::Stale, None),
    (Origin::Reply, "OOM", Kind::Full, None),
    (Origin::Reply, "WRONGTYPE", Kind::WrongType, None),
    (Origin::Reply, READONLY, Kind::ReadOnly, None),
    (Origin::Reply, "MISCONF", Kind::ReadOnly, None),
    (Origin::Reply, "NOREPLICAS", Kind::ReadOnly, None),
    (Origin::Reply, "NOAUTH", Kind::Denied, None),
    (Origin::Reply, WRONGPASS, Kind::Denied, Some(LOGIN)),
    (Origin::Reply, "NOPERM", Kind::Denied, Some(RIGHTS)),
    // As the library names it inside of a transaction, of which nothing was executed.
    (Origin::Reply, "NoPerm", Kind::Denied, Some(RIGHTS)),
    // The user may call a script but not its commands: the text of Redis 6.2 and 7.0, then of later versions and Valkey.
    (Origin::Script, "The user executing the script can't", Kind::Denied, Some(RIGHTS)),
    (Origin::Script, "ACL failure in script", Kind::Denied, Some(RIGHTS)),
    (Origin::Reply, "LOADING", Kind::NotReady, None),
    (Origin::Reply, "MASTERDOWN", Kind::NotReady, None),
    (Origin::Reply, "BUSY", Kind::NotReady, None),
    (Origin::Reply, "CLUSTERDOWN", Kind::NotReady, None),
    (
        Origin::Greeting,
        "DENIED",
        Kind::Denied,
        Some(
            "Redis rejects connections from other machines: set a password, or follow the advice in its message",
        ),
    ),
    (
        Origin::Greeting,
        "max number of clients",
        Kind::Unreachable,
        Some("Redis accepts no more connections: close some, or raise its `maxclients`"),
    ),
    (
        Origin::Connecting,
        "DB index is out of range",
        Kind::Address,
        Some("Redis has fewer databases: use a lower number in the address, or none"),
    ),
    (
        Origin::Connecting,
        "Too many open files",
        Kind::Unreachable,
        Some("this process has too many open files: raise its limit (`ulimit -n`)"),
    ),
    (Origin::Library, "uthentication", Kind::Denied, Some(LOGIN)),
];

/// The reply to a wrong user or password.
const WRONGPASS: &str = "WRONGPASS";

/// The advice for a wrong user or password.
const LOGIN: &str = "Redis rejected the user or the password: check both in `redis.url`, where characters such as # / \
    ? @ % must be percent-encoded";

/// The reply of a replica to a write.
const READONLY: &str = "READONLY";

/// The advice for keys of a Redis Cluster that have no slot in common.
const HASH_TAG: &str = "in a Redis Cluster the name of a queue needs a hash tag, such as `{mail}`, and all queues of \
    a worker need the same one: rename the queue, or use a Redis that is not a Cluster";

/// The advice for keys that are on another node of a Redis Cluster.
const ONE_SHARD: &str = "this node of a Redis Cluster does not serve all keys: connect to the master of a Cluster of \
    one shard (several shards are not supported), or use a Redis that is not a Cluster";

fn find(origins: &[Origin], code: Option<&str>, text: &str) -> Option<&'static Text> {
    let says = |words: &str| code == Some(words) || text.contains(words);
    TEXTS.iter().find(|(origin, words, ..)| origins.contains(origin) && says(words))
}

/// Whether a user and password were given and rejected.
pub(super) fn is_login_refused(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || error.code() == Some(WRONGPASS)
        || error.to_string().contains(WRONGPASS)
}

/// Whether the server is no longer a master: its address may lead to the new one by now. A node of a Redis Cluster names
/// the master.
pub(super) fn is_refused_by_replica(error: &ServerError) -> bool {
    is_word_of_replica(error.code()) || error.details().is_some_and(|details| details.contains(READONLY))
}

/// Decides this by the error code.
pub(super) fn is_word_of_replica(code: &str) -> bool {
    matches!(code, READONLY | "MOVED")
}

impl BrokerError {
    /// An error while connecting: nothing was sent yet.
    pub(super) fn connecting(op: &'static str, error: &RedisError) -> Self {
        Self::unconnected(op, error).unsent()
    }

    fn unconnected(op: &'static str, error: &RedisError) -> Self {
        if let Some(advice) = tls::refused_by_us(error).or_else(|| tls::refused_by_server(error)) {
            return Self::new(op, Kind::Tls, error.to_string()).because_of(cause::of(error)).advised(advice);
        }
        // The parser's message about a malformed reply has several lines.
        let detail = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(text) = find(&[Origin::Connecting], None, &detail) {
            return Self::by_text(op, error, detail, Some(text));
        }
        let found = Self::from_redis(op, error);
        if found.kind() != Kind::Uncertain {
            return found;
        }
        let found = Self::new(op, Kind::Unreachable, detail).because_of(cause::of(error));
        match error.kind() {
            ErrorKind::Parse => found.advised("the server at this address is not Redis: check the address"),
            _ => found,
        }
    }

    /// The server sent this text and closed the connection as soon as it was made.
    pub(super) fn turned_away(op: &'static str, words: &str) -> Self {
        let (kind, advice) = match find(&[Origin::Greeting], None, words) {
            Some((_, _, kind, Some(advice))) => (*kind, *advice),
            _ => (Kind::Unreachable, "Redis rejects the connection: its message says why"),
        };
        Self::new(op, kind, words).advised(advice)
    }

    /// An error of a request.
    pub(super) fn from_redis(op: &'static str, error: &RedisError) -> Self {
        use ServerErrorKind::{Ask, CrossSlot, Moved, TryAgain};
        if let Some(error) = NotSent::inside(error) {
            return Self::connecting(op, error);
        }
        let text = error.to_string();
        let of_kind = |kind| Self::new(op, kind, text.as_str()).because_of(cause::of(error));
        // While reconnecting.
        if let Some(advice) = tls::refused_by_us(error) {
            return of_kind(Kind::Tls).advised(advice);
        }
        match error.kind() {
            // Occurs only while connecting: nothing was sent.
            ErrorKind::Io if error.is_connection_refusal() => of_kind(Kind::Unreachable),
            // A malformed reply, or one to another request, ends the connection, too.
            ErrorKind::Io | ErrorKind::Parse => of_kind(Kind::Uncertain),
            ErrorKind::AuthenticationFailed => of_kind(Kind::Denied).advised(LOGIN),
            ErrorKind::InvalidClientConfig => of_kind(Kind::Address),
            ErrorKind::Server(CrossSlot) => of_kind(Kind::Unsupported).advised(HASH_TAG),
            ErrorKind::Server(Moved | Ask) => of_kind(Kind::Unsupported).advised(ONE_SHARD),
            ErrorKind::Server(TryAgain) => of_kind(Kind::NotReady),
            ErrorKind::Server(_) | ErrorKind::Extension => {
                let found = find(&[Origin::Reply, Origin::Script], error.code(), &text);
                Self::by_text(op, error, text, found)
            }
            _ => {
                let found = find(&[Origin::Library], None, &text);
                Self::by_text(op, error, text, found)
            }
        }
    }

    fn by_text(op: &'static str, error: &RedisError, detail: String, found: Option<&Text>) -> Self {
        let (origin, _, kind, advice) = found.copied().unwrap_or((Origin::Reply, "", Kind::Reply, None));
        let mut told = Self::new(op, kind, detail).because_of(cause::of(error));
        if origin == Origin::Script {
            told = told.partial();
        }
        match advice {
            Some(advice) => told.advised(advice),
            None => told,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::io;

    use super::*;

    fn refused(text: &str) -> BrokerError {
        let reply =
            redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).expect("an error of the server");
        BrokerError::from_redis("retry", &reply.extract_error().expect_err("an error"))
    }

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
            let error = refused(text);
            assert_eq!(error.kind(), Kind::Denied, "{error}");
            let (advice, _) = error.advice_and_detail();
            assert_eq!((advice, error.may_have_been_applied()), (RIGHTS, may_be_done), "{error}");
        }
    }

    #[test]
    fn each_text_of_a_reply_is_found_alone_and_in_a_scripts_error() {
        for (origin, words, kind, _) in TEXTS {
            let alone = match origin {
                Origin::Reply => format!("{words} and prose"),
                Origin::Script => format!("ERR {words}"),
                _ => continue,
            };
            for text in [alone, format!("ERR Error running script: @user_script: 7: -{words}")] {
                assert_eq!(refused(&text).kind(), kind, "{text}");
            }
        }
        assert_eq!(refused("ERR syntax error").kind(), Kind::Reply);
    }

    #[test]
    fn source_is_the_error_of_the_connection_or_of_redis() {
        let broken = || RedisError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        for error in [broken(), NotSent::wrap(broken())] {
            let error = BrokerError::from_redis("claim", &error);
            let source = error.source().expect("a source").downcast_ref::<io::Error>();
            assert_eq!(source.expect("an I/O error").kind(), io::ErrorKind::BrokenPipe);
        }
        let error = refused("OOM command not allowed").without_effect();
        let source = error.source().expect("a source").downcast_ref::<RedisError>();
        assert_eq!(source.expect("an error of Redis").code(), Some("OOM"));
        assert!(BrokerError::new("claim", Kind::Reply, "x").source().is_none());
    }
}
