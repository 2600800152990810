//! Where is Redis? What the settings say of it, read.

use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{Client, ConnectionInfo, IntoConnectionInfo, RedisError};

use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::broker::tls;
use crate::config::RedisConfig;

/// A client for the Redis that the settings name.
pub(super) fn client(config: &RedisConfig) -> Result<Client, BrokerError> {
    // As the parser sees it, which forgives capital letters and blanks.
    let scheme = redis::parse_redis_url(&config.url).map(|url| url.scheme().to_owned());
    if matches!(scheme.as_deref(), Some("rediss" | "valkeys")) {
        return tls::client(config);
    }
    if config.tls_ca.is_some() || config.tls_cert.is_some() || config.tls_key.is_some() {
        let problem =
            "`redis.tls_ca`, `redis.tls_cert` and `redis.tls_key` are for an address with rediss://";
        return Err(BrokerError::new("connect", BrokerErrorKind::Tls, problem));
    }
    Client::open(info(config)?).map_err(|error| not_understood(config, &error))
}

/// How to get there.
pub(super) fn info(config: &RedisConfig) -> Result<ConnectionInfo, BrokerError> {
    let info = config.url.as_str().into_connection_info().map_err(|error| not_understood(config, &error))?;
    Ok(info.set_tcp_settings(tcp_settings(config.timeout)))
}

/// What to say of an address that cannot be used.
pub(super) fn not_understood(config: &RedisConfig, error: &RedisError) -> BrokerError {
    BrokerError::new("connect", BrokerErrorKind::Address, format!("{error}: {}", config.redacted_url()))
}

/// Without delay, and given up by the kernel when a peer has been silent for long: a connection that swallows everything
/// would otherwise be kept for many minutes.
fn tcp_settings(timeout: Duration) -> TcpSettings {
    let settings = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(timeout * 2);
    settings
}
