//! The connection to Redis.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::{ConfigError, LONGEST, text};

/// The connection to Redis.
#[derive(Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RedisConfig {
    /// `redis://user:password@host:port/db`, `rediss://…` for TLS (feature `tls`), `unix:///path`,
    /// `redis+cluster://a:7000,b:7000` for a Redis Cluster, or `redis-sentinel://a:26379,b:26379/mymaster?db=0` for the
    /// master that Sentinels watch (their login: `sentinel_user`, `sentinel_password`). Accepts the parameters
    /// that all Redis clients read alike: `?db=3`, `protocol`, which has no effect, and for a socket `user` and `pass`. Other
    /// parameters are an error.
    pub url: String,
    /// How long a request may take, including the connection and its reply: 10 ms to 365 days. Default: 5 s.
    #[serde(deserialize_with = "text::time")]
    pub timeout: Duration,
    /// For `rediss://`: a PEM file with the certificate authorities to trust. `None`: those of the system. This file and the
    /// next two are read when a program connects for the first time.
    pub tls_ca: Option<PathBuf>,
    /// For `rediss://`: a PEM file with the client certificate, and its intermediate certificates.
    pub tls_cert: Option<PathBuf>,
    /// The key of `tls_cert`, in PEM.
    pub tls_key: Option<PathBuf>,
}

impl RedisConfig {
    /// Redis at `url`, with default settings.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    /// Checks the section.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.timeout < Duration::from_millis(10) || self.timeout > LONGEST {
            let problem = format!("{:?} is not from 10ms to 365d", self.timeout);
            return Err(ConfigError { field: "redis.timeout", problem });
        }
        Ok(())
    }

    /// The address without its password, whether it is in `user:password@` or in `?pass=password`.
    #[must_use]
    pub fn redacted_url(&self) -> String {
        // Without a scheme it is not an address, and anything before the host may be the password.
        let Some((scheme, rest)) = self.url.split_once("://") else {
            let url = self.url.split_once("pass").map_or(self.url.as_str(), |(before, _)| before);
            return url.rsplit_once('@').map_or_else(|| url.to_owned(), |(_, host)| format!("***@{host}"));
        };
        // A `?` or `/` that stands in the password is a mistake, and no reason to show it.
        let (user, rest) = rest.rsplit_once('@').map_or((None, rest), |(user, rest)| (Some(user), rest));
        if user.is_some_and(|user| user.contains("pass=") || user.contains("password=")) {
            // Which of the two it is cannot be told.
            return format!("{scheme}://***");
        }
        let (rest, fragment) = rest.split_once('#').map_or((rest, None), |(rest, part)| (rest, Some(part)));
        let (host, query) = rest.split_once('?').map_or((rest, None), |(host, query)| (host, Some(query)));
        let mut redacted = match user {
            Some(user) => {
                let user = user.split_once(':').map_or(user, |(user, _)| user);
                format!("{scheme}://{user}:***@{host}")
            }
            None => format!("{scheme}://{host}"),
        };
        for (place, field) in query.into_iter().flat_map(|query| query.split('&')).enumerate() {
            redacted.push(if place == 0 { '?' } else { '&' });
            match field.split_once('=') {
                Some(("db" | "protocol" | "user" | "username", _)) => redacted.push_str(field),
                Some((name, _)) => redacted.extend([name, "=***"]),
                // It may be the rest of a password.
                None => redacted.push_str("***"),
            }
        }
        if let (Some(part), None) = (fragment, query) {
            redacted.push_str(if part == "insecure" { "#insecure" } else { "#***" });
        }
        redacted
    }
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            url: "redis://127.0.0.1:6379".into(),
            timeout: Duration::from_secs(5),
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
        }
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig")
            .field("url", &self.redacted_url())
            .field("timeout", &self.timeout)
            .field("tls_ca", &self.tls_ca)
            .field("tls_cert", &self.tls_cert)
            .field("tls_key", &self.tls_key)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("redis://h:1/0", "redis://h:1/0"),
            ("redis://:secret@h:1/0", "redis://:***@h:1/0"),
            ("rediss://user:s@cret@h", "rediss://user:***@h"),
            ("unix:///x?db=1&pass=secret", "unix:///x?db=1&pass=***"),
            ("unix:///x?pass=s@cret&db=1", "unix://***"),
            ("redis://user:se?cret@h:1", "redis://user:***@h:1"),
            ("redis://user:se/c?ret@h:1?protocol=resp3", "redis://user:***@h:1?protocol=resp3"),
            ("nonsense", "nonsense"),
            ("redis//user:secret@h:1", "***@h:1"),
            ("user:secret@h:1", "***@h:1"),
            ("unix:/x?pass=secret", "unix:/x?"),
            ("unix:///x?password=secret&db=1", "unix:///x?password=***&db=1"),
            ("unix:///x?pass=se&cret", "unix:///x?pass=***&***"),
            ("redis://h?auth=secret", "redis://h?auth=***"),
            ("redis+sentinel://u:secret@h:1/m", "redis+sentinel://u:***@h:1/m"),
            ("unix://u:secret@/x", "unix://u:***@/x"),
            ("redis://h/0#secret", "redis://h/0#***"),
            ("unix:///x?pass=se#cret", "unix:///x?pass=***"),
        ] {
            assert_eq!(RedisConfig::new(url).redacted_url(), shown);
            assert!(!format!("{:?}", RedisConfig::new(url)).contains("cret"));
        }
    }
}
