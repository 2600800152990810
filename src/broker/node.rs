//! One server: its address, how to connect to it, and why that failed.

#[cfg(feature = "tls")]
use std::io;
use std::io::Read;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
#[cfg(feature = "tls")]
use std::sync::Arc;
use std::time::Duration;

use redis::{Client, ConnectionAddr, ErrorKind, RedisError, RedisResult};

use crate::broker::address;
use crate::broker::cause;
use crate::broker::classify::is_login_refused;
use crate::broker::error::{BrokerError, BrokerErrorKind};
#[cfg(feature = "tls")]
use crate::broker::tls;
use crate::config::RedisConfig;

/// How long a server may take to send why it closes a connection.
const SHORT: Duration = Duration::from_millis(200);

/// A server, and how to connect to it.
pub(super) struct Node {
    client: Client,
    #[cfg(feature = "tls")]
    tls: Option<Arc<tls::Connector>>,
    address: String,
}

impl Node {
    /// Reads the settings without connecting.
    pub(super) fn new(config: &RedisConfig) -> Result<Self, BrokerError> {
        let client = address::client(config)?;
        Ok(Self {
            #[cfg(feature = "tls")]
            tls: match client.get_connection_info().addr() {
                ConnectionAddr::TcpTls { .. } => Some(Arc::new(tls::Connector::new(config)?)),
                _ => None,
            },
            address: address_of(&client),
            client,
        })
    }

    /// Another server, reached with the same settings.
    pub(super) fn at(&self, host: &str, port: u16) -> RedisResult<Self> {
        let info = self.client.get_connection_info();
        let host = host.to_owned();
        let addr = match info.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        let client = Client::open(info.clone().set_addr(addr))?;
        Ok(Self {
            #[cfg(feature = "tls")]
            tls: self.tls.clone(),
            address: address_of(&client),
            client,
        })
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// The TLS connector, if the address asks for TLS.
    #[cfg(feature = "tls")]
    pub(super) fn tls(&self) -> io::Result<&tls::Connector> {
        self.tls.as_deref().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// The address, without user and password.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The host of the address; `None` for a socket.
    pub(super) fn host(&self) -> Option<&str> {
        match self.client.get_connection_info().addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => Some(host),
            _ => None,
        }
    }

    /// The reason why connecting failed. Which of the two sides speaks TLS can only be guessed from the error.
    pub(super) fn not_connected(&self, op: &'static str, error: &RedisError) -> BrokerError {
        let found = BrokerError::connecting(op, error).at(&self.address);
        let info = self.client.get_connection_info();
        match info.addr() {
            _ if is_login_refused(error) => BrokerError::connecting(op, error)
                .login_refused(info.redis_settings().username(), &self.address),
            ConnectionAddr::TcpTls { .. } if error.kind() == ErrorKind::InvalidClientConfig => {
                BrokerError::new(op, BrokerErrorKind::Tls, error.to_string()).because_of(cause::of(error))
            }
            ConnectionAddr::TcpTls { .. } if error.is_timeout() => found.advised(
                "Redis does not respond: check that it is running, and that it uses TLS at this port, or use \
                redis://",
            ),
            address if error.is_connection_dropped() && !error.is_connection_refusal() => {
                match (first_words(address), address) {
                    (Some(words), _) => BrokerError::turned_away(op, &words).at(&self.address),
                    (None, ConnectionAddr::Tcp(..)) => found.advised(
                        "the server closed the connection immediately: if it uses TLS, begin the address with \
                        rediss://",
                    ),
                    _ => found,
                }
            }
            _ => found,
        }
    }
}

fn address_of(client: &Client) -> String {
    match client.get_connection_info().addr() {
        ConnectionAddr::Tcp(host, port) => format!("{host}:{port}"),
        ConnectionAddr::TcpTls { host, port, .. } => format!("{host}:{port} (TLS)"),
        ConnectionAddr::Unix(path) => path.display().to_string(),
        _ => "elsewhere".to_owned(),
    }
}

/// The error that a server sends before it closes a new connection, because it has too many connections or is in protected
/// mode. The library discards errors that arrive during its handshake.
fn first_words(address: &ConnectionAddr) -> Option<String> {
    let mut words = [0; 2048];
    let length = match address {
        ConnectionAddr::Tcp(host, port) => {
            let mut addresses = (host.as_str(), *port).to_socket_addrs().ok()?;
            let mut stream =
                addresses.find_map(|address| TcpStream::connect_timeout(&address, SHORT).ok())?;
            stream.set_read_timeout(Some(SHORT)).ok()?;
            stream.read(&mut words).ok()?
        }
        ConnectionAddr::Unix(path) => {
            let mut stream = UnixStream::connect(path).ok()?;
            stream.set_read_timeout(Some(SHORT)).ok()?;
            stream.read(&mut words).ok()?
        }
        _ => return None,
    };
    let words = String::from_utf8_lossy(&words[..length]);
    words.strip_prefix('-').map(|words| words.trim_end().to_owned())
}
