//! The connection on which a worker waits: a raw one, or one of the library for TLS.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Client, Cmd, ConnectionAddr, Pipeline, ProtocolVersion, RedisFuture, RedisResult, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::broker::error::BrokerError;
use crate::broker::node::Node;
use crate::broker::numbered::{Calls, Numbered};
use crate::broker::raw_connection::{RawConnection, Stream};
use crate::broker::socket::{self, SharedConnection};
use crate::broker::target::Target;

/// A connection for requests that block. Clones share it.
#[derive(Clone)]
pub(super) struct Reader {
    connection: Connection,
    node: Arc<Node>,
    is_of_cluster: bool,
    db: i64,
}

#[derive(Clone)]
enum Connection {
    Raw(Arc<RawConnection>),
    Shared(SharedConnection),
}

impl Reader {
    /// Connects to the server with this key, for requests that block there. A reply may take `longest`.
    pub(super) async fn open(target: &Target, key: &str, longest: Duration) -> Result<Self, BrokerError> {
        let connected = match tokio::time::timeout(target.timeout, Self::connect(target, key, longest)).await
        {
            Ok(connected) => connected,
            Err(elapsed) => Err(io::Error::from(elapsed).into()),
        };
        connected.map_err(|error| target.not_connected("wait", &error))
    }

    async fn connect(target: &Target, key: &str, longest: Duration) -> RedisResult<Self> {
        let node = target.node_of(key).await?;
        let connection = match node.client().get_connection_info().addr() {
            ConnectionAddr::Tcp(..) | ConnectionAddr::Unix(_) => {
                Connection::Raw(Arc::new(connect_raw(node.client(), longest).await?))
            }
            _ => {
                let mut live = socket::open(&node).await?;
                live.connection.set_response_timeout(longest);
                Connection::Shared(live)
            }
        };
        Ok(Self { connection, node, is_of_cluster: target.cluster().is_some(), db: target.db() })
    }

    /// The server.
    pub(super) fn node(&self) -> &Arc<Node> {
        &self.node
    }
}

impl Calls for Reader {
    async fn call(&mut self, call: &Numbered) -> RedisResult<Value> {
        let replies = self.req_packed_commands(call.requests(), 0, 2).await?;
        call.check(replies)
    }

    fn is_of_cluster(&self) -> bool {
        self.is_of_cluster
    }
}

/// Connects without TLS.
async fn connect_raw(client: &Client, longest: Duration) -> RedisResult<RawConnection> {
    let info = client.get_connection_info();
    let stream = match info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            let stream = socket::tcp(host, *port, info.tcp_settings()).await?.into_std()?;
            greet(client, TcpStream::from_std(stream.try_clone()?)?).await?;
            Stream::Tcp(TcpStream::from_std(stream)?)
        }
        ConnectionAddr::Unix(path) => {
            let stream = UnixStream::connect(path).await?.into_std()?;
            greet(client, UnixStream::from_std(stream.try_clone()?)?).await?;
            Stream::Unix(UnixStream::from_std(stream)?)
        }
        _ => return Err(io::Error::from(io::ErrorKind::Unsupported).into()),
    };
    Ok(RawConnection::new(stream, longest).await?)
}

/// Performs the handshake through the library, on another descriptor of the same connection.
async fn greet<S>(client: &Client, stream: S) -> RedisResult<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // A raw connection reads only this version.
    let settings = client.get_connection_info().redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
    // The future that would drive the connection is dropped before it starts, which closes only this descriptor.
    MultiplexedConnection::new(&settings, stream).await.map(drop)
}

impl ConnectionLike for Reader {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match &mut self.connection {
            Connection::Raw(line) => Box::pin(async move {
                let mut replies = line.ask(&command.get_packed_command(), 1).await?;
                Ok(replies.remove(0))
            }),
            Connection::Shared(live) => live.connection.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match &mut self.connection {
            Connection::Raw(line) => Box::pin(async move {
                let mut replies = line.ask(&pipeline.get_packed_pipeline(), offset + count).await?;
                Ok(replies.split_off(offset))
            }),
            Connection::Shared(live) => live.connection.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        self.db
    }
}
