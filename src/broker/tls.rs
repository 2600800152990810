//! How do we speak TLS with Redis, and what keeps us from it?

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use redis::{Client, ClientTlsConfig, ConnectionAddr, RedisError, TlsCertificates};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CertificateError, Error as TlsError};

use crate::broker::address;
use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::config::RedisConfig;

/// A client that speaks TLS, for the Redis that the settings name.
pub(super) fn client(config: &RedisConfig) -> Result<Client, BrokerError> {
    let info = address::info(config)?;
    if matches!(info.addr(), ConnectionAddr::TcpTls { insecure: true, .. }) {
        let problem = "`#insecure` is not supported: name the authority of the certificate as `redis.tls_ca`";
        return Err(BrokerError::new("connect", BrokerErrorKind::Address, problem));
    }
    // Without a process-wide provider rustls panics at the first connection. One that is there stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = match certificates(config)? {
        Some(certificates) => Client::build_with_tls(info, certificates),
        None => Client::open(info),
    };
    client.map_err(|error| address::not_understood(config, &error))
}

/// The authorities to trust instead of the system's, and who we are: what the settings name. None when they name nothing.
fn certificates(config: &RedisConfig) -> Result<Option<TlsCertificates>, BrokerError> {
    let root_cert = config.tls_ca.as_deref().map(|path| certificate("redis.tls_ca", path)).transpose()?;
    let client_tls = match (&config.tls_cert, &config.tls_key) {
        (Some(cert), Some(key)) => {
            let client_cert = certificate("redis.tls_cert", cert)?;
            let client_key = read("redis.tls_key", key)?;
            PrivateKeyDer::from_pem_slice(&client_key).map_err(|_| {
                unusable("redis.tls_key", key, "it has no key in PEM, or one with a password")
            })?;
            Some(ClientTlsConfig { client_cert, client_key })
        }
        (None, None) => None,
        _ => {
            let problem = "`redis.tls_cert` and `redis.tls_key` go together, and only one of them is set";
            return Err(BrokerError::new("connect", BrokerErrorKind::Tls, problem));
        }
    };
    Ok((root_cert.is_some() || client_tls.is_some()).then_some(TlsCertificates { client_tls, root_cert }))
}

fn certificate(setting: &str, path: &Path) -> Result<Vec<u8>, BrokerError> {
    let pem = read(setting, path)?;
    // Without one it would trust nobody, and say so only when it connects.
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(some) if !some.is_empty() => Ok(pem),
        Ok(_) => Err(unusable(setting, path, "it has no certificate in PEM")),
        Err(error) => Err(unusable(setting, path, error)),
    }
}

fn read(setting: &str, path: &Path) -> Result<Vec<u8>, BrokerError> {
    std::fs::read(path).map_err(|error| unusable(setting, path, error))
}

fn unusable(setting: &str, path: &Path, problem: impl Display) -> BrokerError {
    let text = format!("{} cannot be used as `{setting}`: {problem}", path.display());
    BrokerError::new("connect", BrokerErrorKind::Tls, text)
}

/// What to do about a certificate of the server that we do not accept: nothing was sent.
pub(super) fn refused_by_us(error: &RedisError) -> Option<&'static str> {
    let Some(TlsError::InvalidCertificate(problem)) = tls_error(error) else { return None };
    Some(match problem {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the certificate of Redis is for another name: write a name that is in the certificate into the address"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate of Redis has expired: renew it, and check this machine's clock"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate of Redis is not valid yet: check this machine's clock"
        }
        _ => {
            "the certificate of Redis is not trusted: name the file of the authority that signed it \
             (`redis.tls_ca`, DELAYED_REDIS_TLS_CA or --tls-ca)"
        }
    })
}

/// What to do about a TLS that did not come about, where it is the server who did not want it.
pub(super) fn refused_by_server(error: &RedisError) -> Option<&'static str> {
    Some(match tls_error(error)? {
        TlsError::AlertReceived(_) => {
            "Redis did not accept us: if it asks for a client certificate, name one that it trusts \
             (`redis.tls_cert` and `redis.tls_key`)"
        }
        TlsError::InvalidMessage(_) => {
            "the server speaks no TLS at this port: use its TLS port, or an address with redis://"
        }
        _ => "a connection with TLS did not come about",
    })
}

/// The error of TLS that is inside.
fn tls_error(error: &RedisError) -> Option<&TlsError> {
    type Shared = Arc<dyn std::error::Error + Send + Sync>;
    let shared = std::error::Error::source(error)?.downcast_ref::<Shared>()?;
    shared.downcast_ref::<std::io::Error>()?.get_ref()?.downcast_ref()
}
