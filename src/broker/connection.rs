//! How do we reach Redis? One multiplexed connection for commands, and connections of their own for what blocks.

use std::fmt;
use std::io::Read;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use redis::aio::ConnectionManagerConfig;
use redis::{Client, ConnectionAddr, ErrorKind, RedisError, RedisResult, Value};

use crate::broker::commands::Commands;
use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::broker::reader::Reader;
use crate::broker::{ServerFacts, address, script};
use crate::config::RedisConfig;

/// The oldest server that has all the commands that the scripts use (`LPOP` with a count).
const OLDEST: (u32, u32) = (6, 2);

/// How long a server may take to say why it closes a connection.
const SHORT: Duration = Duration::from_millis(200);

/// Our handle on Redis. Cheap to clone; all clones share one connection.
#[derive(Clone)]
pub(crate) struct Broker {
    pub(super) commands: Commands,
    pub(super) target: Arc<Target>,
    /// Whether the server is a node of a Redis Cluster.
    pub(super) is_cluster: bool,
}

/// Where Redis is, and how long we wait for it.
pub(crate) struct Target {
    client: Client,
    pub(super) timeout: Duration,
}

impl Broker {
    /// Connects, and checks that the server is new enough.
    pub(crate) async fn connect(config: &RedisConfig) -> Result<Self, BrokerError> {
        Self::connect_to(Target::new(config)?).await
    }

    async fn connect_to(target: Arc<Target>) -> Result<Self, BrokerError> {
        // Reconnects for ever: how long to go on is the caller's to decide, by its own time-outs.
        let settings = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(target.timeout))
            .set_response_timeout(Some(target.timeout))
            .set_min_delay(Duration::from_millis(10))
            .set_max_delay(Duration::from_secs(1))
            .set_number_of_retries(1)
            .set_pipeline_buffer_size(1024);
        let commands = Commands::connect(target.client.clone(), settings)
            .await
            .map_err(|error| target.not_connected("connect", &error))?;
        let mut broker = Self { commands, target, is_cluster: false };
        broker.is_cluster = broker.greet().await?.is_cluster();
        Ok(broker)
    }

    /// Connects, and waits for a server that answers that it is not ready yet, as one that loads its data. It says so once.
    pub(crate) async fn connect_when_ready(target: &Arc<Target>) -> Result<Self, BrokerError> {
        let mut told = false;
        let pauses = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(50))
            .with_max_delay(Duration::from_secs(2))
            .with_jitter()
            .without_max_times();
        (|| Self::connect_to(Arc::clone(target)))
            .retry(pauses)
            .when(|error| error.kind() == BrokerErrorKind::NotReady)
            .notify(|error, _| {
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(%error, "Redis is not ready yet: waiting for it");
                }
            })
            .await
    }

    /// Checks that the server is new enough, and tells it all scripts: in one request, since a worker that starts waits for
    /// the answer.
    async fn greet(&self) -> Result<ServerFacts, BrokerError> {
        let mut ask = redis::pipe();
        ask.cmd("INFO").arg("server");
        script::add_loads(&mut ask);
        // Each may be refused: the first of them says why.
        let replies: RedisResult<Vec<RedisResult<Value>>> =
            ask.ignore_errors().query_async(&mut self.commands.clone()).await;
        let failed = |op| move |error| BrokerError::from_redis(op, &error);
        let mut replies = replies.map_err(failed("connect"))?.into_iter();
        let told = replies.next().unwrap_or(Ok(Value::Nil));
        let told: String =
            told.and_then(|told| Ok(redis::from_redis_value(told)?)).map_err(failed("info"))?;
        let facts = ServerFacts::parse(&told);
        check_version(&facts)?;
        replies.try_for_each(|reply| reply.map(drop)).map_err(failed("connect"))?;
        Ok(facts)
    }
}

fn check_version(facts: &ServerFacts) -> Result<(), BrokerError> {
    let mut numbers = facts.redis_version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < OLDEST {
        let detail = format!("the server says version {}", facts.redis_version);
        return Err(BrokerError::new("connect", BrokerErrorKind::Unsupported, detail));
    }
    Ok(())
}

/// What a server says to whoever connects, before it closes the connection: one that has too many, or is protected. The
/// library has no ear for it while it still says who it is.
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

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker").field("address", &self.target.address()).finish_non_exhaustive()
    }
}

impl Target {
    /// Reads the settings; connects to nothing.
    pub(crate) fn new(config: &RedisConfig) -> Result<Arc<Self>, BrokerError> {
        Ok(Arc::new(Self { client: address::client(config)?, timeout: config.timeout }))
    }

    /// Why there is no connection. Which of the two sides speaks TLS can only be guessed from how it failed.
    fn not_connected(&self, op: &'static str, error: &RedisError) -> BrokerError {
        let found = BrokerError::connecting(op, error).at(&self.address());
        match self.client.get_connection_info().addr() {
            ConnectionAddr::TcpTls { .. } if error.kind() == ErrorKind::InvalidClientConfig => {
                BrokerError::new(op, BrokerErrorKind::Tls, error.to_string())
            }
            ConnectionAddr::TcpTls { .. } if error.is_timeout() => found.advised(
                "Redis does not answer: check that it runs, and that it speaks TLS at this port, or use redis://",
            ),
            address if error.is_connection_dropped() && !error.is_connection_refusal() => {
                match (first_words(address), address) {
                    (Some(words), _) => BrokerError::turned_away(op, &words).at(&self.address()),
                    (None, ConnectionAddr::Tcp(..)) => found.advised(
                        "the server closed the connection at once: if it speaks TLS, the address begins with rediss://",
                    ),
                    _ => found,
                }
            }
            _ => found,
        }
    }

    /// A connection of its own for one reader that blocks on the server for up to `longest`.
    pub(super) async fn connect_reader(&self, longest: Duration) -> Result<Reader, BrokerError> {
        Reader::connect(&self.client, self.timeout, longest + self.timeout)
            .await
            .map_err(|error| self.not_connected("wait", &error))
    }

    /// A connection that blocks its thread, for up to `longest` at a time.
    pub(super) fn connect_blocking(&self, longest: Duration) -> Result<redis::Connection, BrokerError> {
        let timeout = self.timeout.min(longest);
        let connect = || {
            let connection = self.client.get_connection_with_timeout(timeout)?;
            connection.set_read_timeout(Some(timeout))?;
            connection.set_write_timeout(Some(timeout))?;
            Ok(connection)
        };
        connect().map_err(|error| self.not_connected("beat", &error))
    }

    /// Where Redis is, without user and password.
    pub(super) fn address(&self) -> String {
        match self.client.get_connection_info().addr() {
            ConnectionAddr::Tcp(host, port) => format!("{host}:{port}"),
            ConnectionAddr::TcpTls { host, port, .. } => format!("{host}:{port} (TLS)"),
            ConnectionAddr::Unix(path) => path.display().to_string(),
            _ => "elsewhere".to_owned(),
        }
    }
}
