//! Opens connections to Redis, and watches what goes over them.
//!
//! The library reports a broken connection in the same way whether or not a request was in flight. This socket knows more: it
//! counts the bytes that the kernel has taken, and before it writes to a quiet connection it asks the kernel whether the
//! server has closed it, which the runtime may not have noticed yet.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::future::select_ok;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::SockRef;
use redis::{AsyncConnectionConfig, ConnectionAddr, ErrorKind, Pipeline, RedisResult, Value};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream, lookup_host};

use crate::broker::node::Node;
#[cfg(feature = "tls")]
use crate::broker::tls::Secure;

/// How many requests may wait to be written.
const BUFFERED: usize = 1024;

/// A connection used this recently is not checked before a write.
const QUIET: Duration = Duration::from_micros(20);

/// A connection on which many requests can be in flight. The last clone closes it.
#[derive(Clone)]
pub(super) struct SharedConnection {
    pub(super) connection: MultiplexedConnection,
    pub(super) traffic: Arc<Traffic>,
    /// The server at the other end.
    pub(super) node: Arc<Node>,
    _driver: Arc<Driver>,
}

/// The task that drives a connection ends with it.
struct Driver(tokio::task::AbortHandle);

/// The state of a connection, in addition to its replies.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// How many bytes the kernel has taken.
    written: AtomicU64,
    /// How many requests are in flight.
    requests: AtomicUsize,
    /// Whether nothing can be sent any more.
    closed: AtomicBool,
}

/// A request in flight.
pub(super) struct InFlight<'a> {
    traffic: &'a Traffic,
    written_before: u64,
}

/// The byte stream of a connection to Redis.
struct Socket {
    stream: Stream,
    traffic: Arc<Traffic>,
    used: Instant,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    #[cfg(feature = "tls")]
    Tls(Box<Secure>),
}

/// Connects, including the handshake. The caller limits how long that may take.
pub(super) async fn open(node: &Arc<Node>) -> RedisResult<SharedConnection> {
    let info = node.client().get_connection_info();
    let stream = match info.addr() {
        ConnectionAddr::Tcp(host, port) => Stream::Tcp(tcp(host, *port, info.tcp_settings()).await?),
        ConnectionAddr::Unix(path) => Stream::Unix(UnixStream::connect(path).await?),
        #[cfg(feature = "tls")]
        ConnectionAddr::TcpTls { host, port, .. } => {
            let stream = tcp(host, *port, info.tcp_settings()).await?;
            Stream::Tls(Box::new(node.tls()?.connect(host, stream).await?))
        }
        _ => return Err(io::Error::from(io::ErrorKind::Unsupported).into()),
    };
    let traffic = Arc::new(Traffic::default());
    let socket = Socket { stream, traffic: Arc::clone(&traffic), used: Instant::now() };
    // Callers limit how long a reply may take.
    let settings = AsyncConnectionConfig::new().set_response_timeout(None).set_pipeline_buffer_size(BUFFERED);
    let (connection, driver) =
        MultiplexedConnection::new_with_config(info.redis_settings(), socket, settings).await?;
    let driver = Arc::new(Driver(tokio::spawn(driver).abort_handle()));
    Ok(SharedConnection { connection, traffic, node: Arc::clone(node), _driver: driver })
}

/// Connects, sends requests, and returns the replies, all within that time.
pub(super) async fn ask(node: &Arc<Node>, requests: &Pipeline, within: Duration) -> RedisResult<Vec<Value>> {
    let ask = async {
        let mut live = open(node).await?;
        live.connection.send_packed_commands(requests, 0, requests.len()).await
    };
    match tokio::time::timeout(within, ask).await {
        Ok(replies) => replies,
        Err(elapsed) => Err(io::Error::from(elapsed).into()),
    }
}

/// Connects to the first address of a host that accepts.
pub(super) async fn tcp(host: &str, port: u16, settings: &TcpSettings) -> RedisResult<TcpStream> {
    let connect = async |address| {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(settings.nodelay())?;
        let socket = SockRef::from(&stream);
        if let Some(keepalive) = settings.keepalive() {
            socket.set_tcp_keepalive(keepalive)?;
        }
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(settings.user_timeout())?;
        io::Result::Ok(stream)
    };
    let connects: Vec<_> =
        lookup_host((host, port)).await?.map(|address| Box::pin(connect(address))).collect();
    if connects.is_empty() {
        return Err((ErrorKind::InvalidClientConfig, "the host has no address").into());
    }
    Ok(select_ok(connects).await?.0)
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Traffic {
    /// Whether nothing can be sent any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Begins a request. It ends when the returned value is dropped.
    pub(super) fn begin(&self) -> InFlight<'_> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        InFlight { traffic: self, written_before: self.written.load(Ordering::Acquire) }
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

impl InFlight<'_> {
    /// Whether nothing was written since the request began. Bytes of other requests count too: then it may have been
    /// written.
    pub(super) fn is_unwritten(&self) -> bool {
        self.traffic.written.load(Ordering::Acquire) == self.written_before
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.traffic.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Socket {
    /// Whether the server has closed a quiet connection: then the end, or an unsolicited reply, can be read. Not checked during
    /// the handshake, when no request is in flight and TLS may send bytes by itself.
    fn is_useless(&self) -> bool {
        let is_quiet = self.traffic.requests.load(Ordering::Relaxed) == 1 && self.used.elapsed() > QUIET;
        is_quiet && !matches!(self.stream.peek(), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl Stream {
    fn peek(&self) -> io::Result<usize> {
        let mut byte = [MaybeUninit::uninit()];
        match self {
            Self::Tcp(stream) => SockRef::from(stream).peek(&mut byte),
            Self::Unix(stream) => SockRef::from(stream).peek(&mut byte),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => SockRef::from(stream.get_ref().0).peek(&mut byte),
        }
    }
}

/// Calls a method of the inner stream.
macro_rules! inside {
    ($socket:expr, $stream:ident => $call:expr) => {
        match &mut $socket.stream {
            Stream::Tcp($stream) => $call,
            Stream::Unix($stream) => $call,
            #[cfg(feature = "tls")]
            Stream::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(inside!(self, stream => Pin::new(stream).poll_read(cx, buffer)));
        if read.is_err() || buffer.filled().len() == before {
            self.traffic.close();
        }
        self.used = Instant::now();
        Poll::Ready(read)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_useless() {
            self.traffic.close();
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let written = ready!(inside!(self, stream => Pin::new(stream).poll_write(cx, bytes)));
        match &written {
            Ok(written) => drop(self.traffic.written.fetch_add(*written as u64, Ordering::Release)),
            Err(_) => self.traffic.close(),
        }
        self.used = Instant::now();
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inside!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inside!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Also if its runtime ends.
        self.traffic.close();
    }
}
