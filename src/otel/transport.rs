//! Sends requests to a collector, on the thread that exports spans. It has a runtime of its own, so that the last spans can be
//! sent after that of the program has ended.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::header::HOST;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// How long a request may take.
const REQUEST: Duration = Duration::from_secs(10);
/// The largest answer, in bytes.
const ANSWER: usize = 1 << 20;

/// The connection to a collector: opened for each batch of spans.
#[derive(Debug, Default)]
pub(super) struct Transport {
    /// Built by the thread that exports.
    runtime: Mutex<Option<Runtime>>,
    /// Whether the last request failed.
    is_failing: AtomicBool,
}

type Sending<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'a>>;

impl Transport {
    pub(super) fn new() -> Self {
        Self::default()
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = match &mut *runtime {
            Some(runtime) => runtime,
            none => none.insert(Builder::new_current_thread().enable_all().build()?),
        };
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the collector did not answer in time");
        runtime.block_on(async { timeout(REQUEST, exchange(request)).await.map_err(late)? })
    }

    /// Logs the first failure, and the first success after it.
    fn note(&self, address: &Uri, result: &Result<Response<Bytes>, HttpError>) {
        let problem = match result {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(answer.status().to_string()),
            Err(error) => Some(causes(&**error)),
        };
        let was_failing = self.is_failing.swap(problem.is_some(), Ordering::Relaxed);
        match problem {
            Some(error) if !was_failing => {
                tracing::warn!(collector = %address, error, "spans not exported; dropping them");
            }
            None if was_failing => tracing::info!(collector = %address, "spans are exported again"),
            _ => {}
        }
    }
}

impl HttpClient for Transport {
    fn send_bytes<'a, 'b>(&'a self, request: Request<Bytes>) -> Sending<'b>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let address = request.uri().clone();
            let result = self.send(request);
            self.note(&address, &result);
            result
        })
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        // A runtime that waits for its end panics within another one.
        if let Some(runtime) = self.runtime.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            runtime.shutdown_background();
        }
    }
}

async fn exchange(request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let (mut head, body) = request.into_parts();
    let authority = head.uri.authority().ok_or("the address has no host")?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, authority.port_u16().unwrap_or(80))).await?;
    head.headers.insert(HOST, HeaderValue::from_str(authority.as_str())?);
    head.uri = head.uri.path_and_query().map_or("/", |path| path.as_str()).parse()?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let answer = async {
        let (head, body) =
            sender.send_request(Request::from_parts(head, Full::new(body))).await?.into_parts();
        let body = Limited::new(body, ANSWER).collect().await?.to_bytes();
        Ok(Response::from_parts(head, body))
    };
    let answer = answer.await;
    connection.abort();
    answer
}

/// An error with its causes, in one line.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
