//! Parses the address of Redis and the settings beside it.

use std::borrow::Cow;
use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{Client, ConnectionInfo, ErrorKind, IntoConnectionInfo, ProtocolVersion, RedisError};

use crate::broker::cause;
use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::broker::tls;
use crate::config::RedisConfig;

/// The parameters of an address that all clients of Redis understand alike.
const KNOWN: &str = "`db` and `protocol`, and for a socket `user` and `pass`";

/// A client for the Redis that the settings name.
pub(super) fn client(config: &RedisConfig) -> Result<Client, BrokerError> {
    check_words(config)?;
    // As the parser sees it, which accepts capital letters and blanks.
    let scheme = redis::parse_redis_url(&config.url).map(|url| url.scheme().to_owned());
    if matches!(scheme.as_deref(), Some("rediss" | "valkeys")) {
        return tls::client(config, || info(config));
    }
    if config.tls_ca.is_some() || config.tls_cert.is_some() || config.tls_key.is_some() {
        let problem =
            "`redis.tls_ca`, `redis.tls_cert` and `redis.tls_key` are for an address with rediss://";
        return Err(BrokerError::new("connect", BrokerErrorKind::Tls, problem));
    }
    Client::open(info(config)?).map_err(|error| not_understood(config, &error))
}

/// The connection details that the settings describe.
fn info(config: &RedisConfig) -> Result<ConnectionInfo, BrokerError> {
    let parse = |text: &str| {
        let url = redis::parse_redis_url(text);
        url.ok_or_else(|| (ErrorKind::InvalidClientConfig, "it cannot be parsed").into())
    };
    let (text, user) = without_user_of_socket(&config.url);
    let url = parse(&text).map_err(|error| not_understood(config, &error))?;
    let is_socket = url.scheme().ends_with("unix");
    let info = url.clone().into_connection_info().map_err(|error| not_understood(config, &error))?;
    // Every server speaks version 2, and its replies have the same form for all our requests.
    let mut settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
    if let Some(user) = user {
        // Decoded as in an address with a host.
        let user =
            parse(&format!("redis://{user}@localhost")).and_then(IntoConnectionInfo::into_connection_info);
        let user = user.map_err(|error| not_understood(config, &error))?;
        if let Some(name) = user.redis_settings().username() {
            settings = settings.set_username(name);
        }
        if let Some(password) = user.redis_settings().password() {
            settings = settings.set_password(password);
        }
    }
    let mut db = (!is_socket && url.path().len() > 1).then(|| settings.db());
    let mut has_password = false;
    for (name, value) in url.query_pairs() {
        match &*name {
            "db" => {
                let named = value.parse().ok().filter(|db| *db >= 0);
                let named: i64 =
                    named.ok_or_else(|| refused(config, format!("`db` is not a number: {value:?}")))?;
                if let Some(other) = db.filter(|other| *other != named) {
                    return Err(refused(config, format!("it names two databases, {other} and {named}")));
                }
                db = Some(named);
            }
            // The library reads this one.
            "protocol" => {}
            "user" | "username" if is_socket => settings = settings.set_username(&value),
            "pass" | "password" if is_socket => {
                has_password = true;
                settings = settings.set_password(&value);
            }
            // It may be a part of the password.
            _ if has_password => {
                let problem = "a parameter after the password is unknown; write `&` in a password as %26";
                return Err(refused(config, problem.to_owned()));
            }
            name => return Err(refused(config, unknown_parameter(name))),
        }
    }
    settings = settings.set_db(db.unwrap_or(0));
    Ok(info.set_redis_settings(settings).set_tcp_settings(tcp_settings(config.timeout)))
}

/// The message about an unknown parameter, which may belong to another library.
fn unknown_parameter(name: &str) -> String {
    let instead = match name {
        "user" | "username" | "pass" | "password" => "write user:password@ before the host",
        name if name.contains("timeout") => "set `redis.timeout` instead",
        name if name.contains("ssl") || name.contains("tls") || name == "skip_verify" => {
            "begin the address with rediss://, and set `redis.tls_ca`, `redis.tls_cert` and `redis.tls_key`"
        }
        _ => "",
    };
    let separator = if instead.is_empty() { "" } else { ": " };
    let name: String = name.chars().take(50).collect();
    format!("the parameter `{name}` is unknown{separator}{instead}; known parameters are {KNOWN}")
}

/// Detects text that the parser would misread, before it is parsed.
fn check_words(config: &RedisConfig) -> Result<(), BrokerError> {
    let Some((scheme, rest)) = config.url.split_once("://") else { return Ok(()) };
    let scheme = scheme.trim().to_ascii_lowercase();
    let refuse = |problem: &str| Err(refused(config, problem.to_owned()));
    if scheme.contains("socket") {
        return refuse("a socket is written as unix:///path");
    }
    let is_socket = scheme.ends_with("unix");
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    if !is_socket && behind.contains('@') {
        return refuse(&encoding_of(rest));
    }
    if authority.contains(',') && !authority.contains('@') {
        return refuse(
            "it names several hosts: begin it with redis+cluster:// for a Cluster or redis-sentinel:// for Sentinels, or \
            use one of them",
        );
    }
    match behind.split_once('#') {
        None | Some((_, "insecure")) => Ok(()),
        Some(_) => refuse("it has a part after a #, which has no meaning here; write # in a password as %23"),
    }
}

/// How to encode the characters of the user or password that end it too soon. These are before the last `@`.
fn encoding_of(rest: &str) -> String {
    let login = rest.rsplit_once('@').map_or("", |(login, _)| login);
    let encoded = [('/', "%2F"), ('#', "%23"), ('?', "%3F"), ('@', "%40"), ('%', "%25")];
    let met: Vec<String> = encoded
        .into_iter()
        .filter(|(character, _)| login.contains(*character))
        .map(|(character, code)| format!("write {character} as {code}"))
        .collect();
    format!("the user or password has a character that must be percent-encoded: {}", met.join(", "))
}

/// The address of a socket without the user and password before its path, and these two.
fn without_user_of_socket(url: &str) -> (Cow<'_, str>, Option<&str>) {
    let found = url.split_once("://").and_then(|(scheme, rest)| {
        let (user, path) = rest.split_once('@')?;
        let is_it = scheme.trim().to_ascii_lowercase().ends_with("unix") && !user.contains(['/', '?', '#']);
        is_it.then_some((scheme, user, path))
    });
    match found {
        Some((scheme, user, path)) => (format!("{scheme}://{path}").into(), Some(user)),
        None => (url.into(), None),
    }
}

/// The error for an address that cannot be used.
fn not_understood(config: &RedisConfig, error: &RedisError) -> BrokerError {
    refused(config, error.to_string()).because_of(cause::of(error))
}

fn refused(config: &RedisConfig, problem: String) -> BrokerError {
    BrokerError::new("connect", BrokerErrorKind::Address, format!("{problem}: {}", config.redacted_url()))
}

/// How long a connection may be idle before the kernel probes the peer, and how often it probes.
const KEEPALIVE: Duration = Duration::from_secs(30);
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;

/// Disables Nagle's algorithm, and lets the kernel give up a peer that stays silent: otherwise a connection that swallows
/// everything would be kept for many minutes. Keepalive probes keep firewalls from forgetting an idle connection.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "no such option elsewhere"))]
fn tcp_settings(timeout: Duration) -> TcpSettings {
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(PROBE_EVERY).with_retries(PROBES);
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(timeout * 2);
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(url: &str) -> (i64, Option<String>, Option<String>) {
        let config = RedisConfig::new(url);
        let info = client(&config).map_err(|error| format!("{url}: {error}")).expect("an address");
        let settings = info.get_connection_info().redis_settings().clone();
        (settings.db(), settings.username().map(Into::into), settings.password().map(Into::into))
    }

    /// As redis-py and go-redis read them.
    #[test]
    fn address_means_what_it_means_elsewhere() {
        for (url, db) in [
            ("redis://h", 0),
            ("redis://h/3", 3),
            ("redis://h?db=3", 3),
            ("redis://h/?db=3", 3),
            ("redis://h/3?db=3", 3),
            ("redis://h:1/3/?protocol=3", 3),
            ("unix:///s?db=3", 3),
            ("redis+unix:///s?protocol=resp3&db=3", 3),
            ("valkey://h/3", 3),
            (" REDIS://h/3", 3),
        ] {
            assert_eq!(found(url), (db, None, None), "{url}");
        }
        assert_eq!(found("unix://:p%23@/s"), (0, None, Some("p#".into())));
        let (user, password) = (Some("u".to_owned()), Some("p@s/s".to_owned()));
        for url in [
            "redis://u:p%40s%2Fs@h",
            "unix:///s?user=u&pass=p@s/s",
            "unix:///s?username=u&password=p%40s/s",
            "unix://u:p%40s%2Fs@/s",
            "redis+unix://u:p%40s%2Fs@/s?db=0",
        ] {
            assert_eq!(found(url), (0, user.clone(), password.clone()), "{url}");
        }
        // The last `@` ends the password, for all clients.
        assert_eq!(found("redis://:p@ss@h"), (0, None, Some("p@ss".into())));
    }

    #[test]
    fn ambiguous_address_is_refused_with_what_to_do() {
        for (url, problem) in [
            ("redis://h/3?db=4", "two databases, 3 and 4"),
            ("redis://h?db=3&db=4", "two databases, 3 and 4"),
            ("redis://h/0?db=4", "two databases, 0 and 4"),
            ("redis://h?db=x", "`db` is not a number: \"x\""),
            ("redis://h?db=-1", "`db` is not a number"),
            ("redis://h/x", "Invalid database number"),
            ("redis://h?protocol=4", "Invalid protocol version"),
            (
                "redis://h?max_connections=10",
                "the parameter `max_connections` is unknown; known parameters are `db`",
            ),
            ("redis://h?DB=3", "the parameter `DB` is unknown"),
            ("redis://h?socket_timeout=3", "`socket_timeout` is unknown: set `redis.timeout` instead"),
            ("redis://h?ssl_cert_reqs=none", "`redis.tls_ca`"),
            ("redis://h?password=cret", "user:password@ before the host"),
            ("unix:///s?pass=se&cret", "%26"),
            ("unix:///s?pass=se#cret", "%23"),
            ("redis://u:se/cret@h", "%2F"),
            ("redis://u:se?cret@h:1", "%3F"),
            ("redis://u:12#cret@h", "%23"),
            ("redis://u:12/cret@h:1/0", "%2F"),
            ("redis://u:p@cr/et@h", "%40"),
            ("redis://h#x", "after a #"),
            ("redis://h1:1,h2:2", "several hosts"),
            ("redis+socket:///s", "unix:///path"),
            ("http://h", "cannot be parsed"),
            ("nonsense", "cannot be parsed"),
        ] {
            let error = client(&RedisConfig::new(url)).expect_err(url);
            assert_eq!(error.kind(), BrokerErrorKind::Address, "{url}");
            let text = error.to_string();
            assert!(text.contains(problem), "{url}: {text}");
            assert!(!text.contains("cret") && !text.contains("cr/et"), "{url}: {text}");
        }
    }
}
