//! Accepts connections, as many as may be open, and ends when all of them have been answered.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
#[cfg(feature = "cli")]
use tokio::net::TcpSocket;
use tokio::sync::Semaphore;
use tower_service::Service;

/// How long the head of a request may take, and so how long a connection may be silent.
const HEAD: Duration = Duration::from_secs(30);
/// How long to wait when no connection can be accepted, because there are no descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// The largest head of a request.
const MAX_HEAD: usize = 16 << 10;

/// The address from which a request comes.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "web"), expect(dead_code, reason = "the dashboard reads it"))]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// The backlog of connections that are not accepted yet, as far as the system allows. The 128 of the standard library are few for
/// a burst: the kernel tries those beyond them again after seconds.
#[cfg(feature = "cli")]
const WAITING: u32 = 4096;

/// Listens on an address.
#[cfg(feature = "cli")]
pub(crate) fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(WAITING)
}

/// Serves until `stop` ends, and then until all requests are answered.
pub(crate) async fn serve(
    router: Router,
    connections: usize,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send,
) {
    let open = Arc::new(Semaphore::new(connections.clamp(1, Semaphore::MAX_PERMITS)));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(MAX_HEAD);
    let graceful = GracefulShutdown::new();
    let mut stop = pin!(stop);
    loop {
        let next = async {
            let place = Arc::clone(&open).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            biased;
            () = &mut stop => break,
            next = next => next,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // Without it small answers wait for the acknowledgement of earlier ones.
        let _ = stream.set_nodelay(true);
        let router = router.clone();
        let answer = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer));
            router.clone().call(request.map(Body::new))
        });
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), answer));
        tokio::spawn(async move {
            // A sender that goes away is no error of ours.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    graceful.shutdown().await;
}
