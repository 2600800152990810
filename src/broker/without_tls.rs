//! What stands for TLS in a program that is built without it? A sentence that says so.

use redis::{Client, ConnectionInfo, RedisError};

use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::config::RedisConfig;

pub(super) fn client(
    _: &RedisConfig,
    _: impl FnOnce() -> Result<ConnectionInfo, BrokerError>,
) -> Result<Client, BrokerError> {
    let problem = "this program is built without TLS: build it with the feature `tls` of the crate `delayed`";
    Err(BrokerError::new("connect", BrokerErrorKind::Tls, problem))
}

pub(super) fn refused_by_us(_: &RedisError) -> Option<&'static str> {
    None
}

pub(super) fn refused_by_server(_: &RedisError) -> Option<&'static str> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::address;

    #[test]
    fn whatever_asks_for_tls_is_told_what_to_build() {
        for url in ["rediss://user:secret@localhost:6380/0", "valkeys://localhost", " REDISS://localhost"] {
            let error = address::client(&RedisConfig::new(url)).expect_err("asks for TLS");
            assert_eq!(error.kind(), BrokerErrorKind::Tls, "{url}");
            assert!(error.to_string().contains("the feature `tls`"), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn the_rest_is_as_with_it() {
        for url in ["redis://user:secret@localhost:6380/0", "unix:///run/redis.sock", "valkey://localhost"] {
            assert!(address::client(&RedisConfig::new(url)).is_ok(), "{url}");
        }
        let error = address::client(&RedisConfig::new("http://localhost")).expect_err("no address");
        assert_eq!(error.kind(), BrokerErrorKind::Address);
        let named = RedisConfig { tls_ca: Some("ca.pem".into()), ..RedisConfig::new("redis://localhost") };
        let error = address::client(&named).expect_err("for another address");
        assert_eq!(error.kind(), BrokerErrorKind::Tls);
    }
}
