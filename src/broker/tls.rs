//! TLS with Redis: settings, connections, and advice for errors.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, RedisError, RedisResult, TlsCertificates,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, ClientConfig, Error as TlsError, InconsistentKeys, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::broker::cause;
use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::config::RedisConfig;

/// A connection that speaks TLS.
pub(super) type Secure = TlsStream<TcpStream>;

/// Opens connections that speak TLS.
pub(super) struct Connector(TlsConnector);

/// The files from the settings, read and checked: authorities to trust instead of the system's, and the client certificate.
struct Files {
    authorities: Option<(Vec<u8>, RootCertStore)>,
    identity: Option<Identity>,
}

/// The client certificate.
struct Identity {
    pem: ClientTlsConfig,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Connector {
    /// Reads the settings.
    pub(super) fn new(config: &RedisConfig) -> Result<Self, BrokerError> {
        let Files { authorities, identity } = Files::read(config)?;
        let authorities = match authorities {
            Some((_, authorities)) => authorities,
            None => system_authorities()?,
        };
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| BrokerError::new("connect", BrokerErrorKind::Tls, error.to_string()))?
            .with_root_certificates(authorities);
        let settings = match identity {
            None => builder.with_no_client_auth(),
            Some(Identity { chain, key, .. }) => builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| BrokerError::new("connect", BrokerErrorKind::Tls, error.to_string()))?,
        };
        Ok(Self(TlsConnector::from(Arc::new(settings))))
    }

    /// Makes the TLS handshake with a host.
    pub(super) async fn connect(&self, host: &str, stream: TcpStream) -> RedisResult<Secure> {
        Ok(self.0.connect(ServerName::try_from(host)?.to_owned(), stream).await?)
    }
}

/// Creates a client that speaks TLS with the configured Redis.
pub(super) fn client(
    config: &RedisConfig,
    info: impl FnOnce() -> Result<ConnectionInfo, BrokerError>,
) -> Result<Client, BrokerError> {
    let info = info()?;
    if matches!(info.addr(), ConnectionAddr::TcpTls { insecure: true, .. }) {
        let problem = "`#insecure` is not supported: set `redis.tls_ca` to the authority of the certificate";
        return Err(BrokerError::new("connect", BrokerErrorKind::Address, problem));
    }
    provider();
    let Files { authorities, identity } = Files::read(config)?;
    let client = if authorities.is_none() && identity.is_none() {
        Client::open(info)
    } else {
        let (root_cert, client_tls) =
            (authorities.map(|(pem, _)| pem), identity.map(|identity| identity.pem));
        Client::build_with_tls(info, TlsCertificates { client_tls, root_cert })
    };
    client.map_err(|error| BrokerError::new("connect", BrokerErrorKind::Tls, error.to_string()))
}

/// Installs the cryptography of this process, unless it has one. Without it rustls panics at the first connection.
fn provider() -> Arc<CryptoProvider> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    CryptoProvider::get_default()
        .map_or_else(|| Arc::new(rustls::crypto::ring::default_provider()), Arc::clone)
}

/// The authorities that the system trusts.
fn system_authorities() -> Result<RootCertStore, BrokerError> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        let why = found.errors.first().map_or_else(|| "there are none".to_owned(), ToString::to_string);
        let problem = format!("the certificate authorities that this system trusts cannot be read: {why}");
        return Err(BrokerError::new("connect", BrokerErrorKind::Tls, problem).advised(
            "set `redis.tls_ca` to the file of the authority that signed the certificate of Redis",
        ));
    }
    Ok(store)
}

impl Files {
    fn read(config: &RedisConfig) -> Result<Self, BrokerError> {
        let identity = match (&config.tls_cert, &config.tls_key) {
            (Some(cert), Some(key)) => Some(Identity::read(cert, key)?),
            (None, None) => None,
            _ => {
                let problem = "`redis.tls_cert` and `redis.tls_key` must be set together, but only one of them is \
                    set";
                return Err(BrokerError::new("connect", BrokerErrorKind::Tls, problem));
            }
        };
        let authorities = config.tls_ca.as_deref().map(authorities).transpose()?;
        Ok(Self { authorities, identity })
    }
}

/// The authorities in a file. Rejects a file with an invalid one, which would make the whole file unusable when connecting.
fn authorities(path: &Path) -> Result<(Vec<u8>, RootCertStore), BrokerError> {
    let (pem, certificates) = certificates("redis.tls_ca", path)?;
    let mut store = RootCertStore::empty();
    for (index, certificate) in certificates.into_iter().enumerate() {
        store.add(certificate).map_err(|_| {
            unusable("redis.tls_ca", path, format!("certificate {} in it cannot be read", index + 1))
        })?;
    }
    Ok((pem, store))
}

impl Identity {
    fn read(cert: &Path, key: &Path) -> Result<Self, BrokerError> {
        let (client_cert, chain) = certificates("redis.tls_cert", cert)?;
        let client_key = read("redis.tls_key", key)?;
        let found = PrivateKeyDer::from_pem_slice(&client_key)
            .map_err(|_| unusable("redis.tls_key", key, "it contains no PEM key, or one with a password"))?;
        match CertifiedKey::from_der(chain.clone(), found.clone_key(), &provider()) {
            Ok(_) | Err(TlsError::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(TlsError::InconsistentKeys(_)) => {
                let problem = format!("it is not the key of the certificate in {}", cert.display());
                return Err(unusable("redis.tls_key", key, problem));
            }
            Err(TlsError::InvalidCertificate(_)) => {
                return Err(unusable("redis.tls_cert", cert, "the certificate in it cannot be read"));
            }
            Err(error) => return Err(unusable("redis.tls_key", key, error)),
        }
        Ok(Self { pem: ClientTlsConfig { client_cert, client_key }, chain, key: found })
    }
}

/// The certificates in a file, and its text.
fn certificates(setting: &str, path: &Path) -> Result<(Vec<u8>, Vec<CertificateDer<'static>>), BrokerError> {
    let pem = read(setting, path)?;
    // A file without certificates would trust no server, and would be noticed only when connecting.
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(some) if !some.is_empty() => Ok((pem, some)),
        Ok(_) => Err(unusable(setting, path, "it contains no PEM certificate")),
        Err(error) => Err(unusable(setting, path, error)),
    }
}

fn read(setting: &str, path: &Path) -> Result<Vec<u8>, BrokerError> {
    std::fs::read(path).map_err(|error| unusable(setting, path, &error).because_of(Arc::new(error)))
}

fn unusable(setting: &str, path: &Path, problem: impl Display) -> BrokerError {
    let text = format!("{} cannot be used as `{setting}`: {problem}", path.display());
    BrokerError::new("connect", BrokerErrorKind::Tls, text)
}

/// The advice if this client rejected the certificate of the server: nothing was sent.
pub(super) fn refused_by_us(error: &RedisError) -> Option<&'static str> {
    let Some(TlsError::InvalidCertificate(problem)) = cause::of_connection::<TlsError>(error) else {
        return None;
    };
    Some(match problem {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the certificate of Redis is for another name: use a name of the certificate in the address"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate of Redis has expired: renew it, and check this machine's clock"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate of Redis is not valid yet: check this machine's clock"
        }
        _ => {
            "the certificate of Redis is not trusted: set the file of the authority that signed it (`redis.tls_ca`, \
            DELAYED_REDIS_TLS_CA or --tls-ca)"
        }
    })
}

/// The advice if the server rejected the TLS handshake.
pub(super) fn refused_by_server(error: &RedisError) -> Option<&'static str> {
    Some(match cause::of_connection::<TlsError>(error)? {
        TlsError::AlertReceived(_) => {
            "Redis rejected the connection: if it requires a client certificate, set one that it trusts \
            (`redis.tls_cert` and `redis.tls_key`)"
        }
        TlsError::InvalidMessage(_) => {
            "the server does not use TLS at this port: use its TLS port, or an address with redis://"
        }
        _ => "the TLS connection failed",
    })
}
