//! On what does a worker wait? On a connection of its own: a line, or one of the library's where TLS is spoken.

use std::io;
use std::net::{SocketAddr, TcpStream as StdTcpStream};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_ok;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::SockRef;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, Pipeline, ProtocolVersion, RedisFuture,
    RedisResult, Value,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, lookup_host};

use crate::broker::line::{Line, Stream};

/// A connection for requests that block. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    way: Way,
    db: i64,
}

#[derive(Debug, Clone)]
enum Way {
    Line(Arc<Line>),
    Shared(MultiplexedConnection),
}

impl Reader {
    /// Connects within `timeout`; a reply may take `longest`.
    pub(super) async fn connect(client: &Client, timeout: Duration, longest: Duration) -> RedisResult<Self> {
        let db = client.get_connection_info().redis_settings().db();
        if let ConnectionAddr::Tcp(..) | ConnectionAddr::Unix(_) = client.get_connection_info().addr() {
            return match tokio::time::timeout(timeout, line(client, longest)).await {
                Ok(line) => Ok(Self { way: Way::Line(Arc::new(line?)), db }),
                Err(elapsed) => Err(io::Error::from(elapsed).into()),
            };
        }
        let settings = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(Some(longest));
        let connection = client.get_multiplexed_async_connection_with_config(&settings).await?;
        Ok(Self { way: Way::Shared(connection), db })
    }
}

/// Connects without TLS.
async fn line(client: &Client, longest: Duration) -> RedisResult<Line> {
    let info = client.get_connection_info();
    let stream = match info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            let addresses = lookup_host((host.as_str(), *port)).await?;
            let connects: Vec<_> =
                addresses.map(|address| Box::pin(connect_tcp(address, info.tcp_settings()))).collect();
            if connects.is_empty() {
                return Err((ErrorKind::InvalidClientConfig, "the host has no address").into());
            }
            let (stream, _) = select_ok(connects).await?;
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
    Ok(Line::new(stream, longest).await?)
}

async fn connect_tcp(address: SocketAddr, settings: &TcpSettings) -> io::Result<StdTcpStream> {
    let stream = TcpStream::connect(address).await?.into_std()?;
    stream.set_nodelay(settings.nodelay())?;
    let socket = SockRef::from(&stream);
    if let Some(keepalive) = settings.keepalive() {
        socket.set_tcp_keepalive(keepalive)?;
    }
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(settings.user_timeout())?;
    Ok(stream)
}

/// Says who we are, as the library does, on another descriptor of the same connection.
async fn greet<S>(client: &Client, stream: S) -> RedisResult<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // A line reads no other version.
    let settings = client.get_connection_info().redis_settings().clone().set_protocol(ProtocolVersion::RESP2);
    // What would drive the connection is dropped before it has begun, and closes no more than the descriptor.
    MultiplexedConnection::new(&settings, stream).await.map(drop)
}

impl ConnectionLike for Reader {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match &mut self.way {
            Way::Line(line) => Box::pin(async move {
                let mut replies = line.ask(&command.get_packed_command(), 1).await?;
                Ok(replies.remove(0))
            }),
            Way::Shared(connection) => connection.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match &mut self.way {
            Way::Line(line) => Box::pin(async move {
                let mut replies = line.ask(&pipeline.get_packed_pipeline(), offset + count).await?;
                Ok(replies.split_off(offset))
            }),
            Way::Shared(connection) => connection.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        self.db
    }
}
