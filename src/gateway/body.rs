//! Reads bodies and writes answers, in JSON or MessagePack, with bounded memory.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::Problem;
use crate::json;
use crate::protocol::value::PlainValue;

/// How long a body may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(30);

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    MessagePack,
}

impl Format {
    const MESSAGE_PACK: [&str; 3] =
        ["application/msgpack", "application/vnd.msgpack", "application/x-msgpack"];

    /// That of the body of a request.
    fn of_body(headers: &HeaderMap) -> Result<Self, Problem> {
        let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(Self::Json) };
        let kind = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
        match kind.to_ascii_lowercase().as_str() {
            // What curl sends unless told otherwise.
            "application/json" | "application/x-www-form-urlencoded" => Ok(Self::Json),
            kind if Self::MESSAGE_PACK.contains(&kind) => Ok(Self::MessagePack),
            _ => Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "media_type",
                "the body must be application/json or application/msgpack",
            )),
        }
    }

    /// The one that the sender of a request wants to read.
    pub(super) fn accepted(headers: &HeaderMap) -> Self {
        let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let wants = accepts.split([',', ';']).any(|kind| Self::MESSAGE_PACK.contains(&kind.trim()));
        if wants { Self::MessagePack } else { Self::Json }
    }

    /// An answer.
    pub(super) fn answer(self, status: StatusCode, value: &impl Serialize) -> Response {
        let (kind, bytes) = match self {
            Self::Json => ("application/json", serde_json::to_vec(value).ok()),
            Self::MessagePack => ("application/msgpack", rmp_serde::to_vec_named(value).ok()),
        };
        let mut response = (status, bytes.unwrap_or_default()).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }
}

/// The body of a request, and the memory that it takes for as long as this lives.
pub(super) struct Received {
    bytes: Vec<u8>,
    _memory: Vec<OwnedSemaphorePermit>,
}

/// Reads a body of at most `limit` bytes, which take as much of `memory`.
pub(super) async fn receive(
    body: Body,
    headers: &HeaderMap,
    limit: usize,
    memory: &Arc<Semaphore>,
) -> Result<Received, Problem> {
    let too_large = || {
        let detail =
            format!("the body is larger than the limit of {limit} bytes: send fewer calls at a time");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    };
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: u64| length > limit as u64) {
        return Err(too_large());
    }
    let mut received = Received { bytes: Vec::new(), _memory: Vec::new() };
    let arrival = async {
        let mut body = body;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                return Err(Problem::malformed("the body ended before all of it had arrived"));
            };
            let Ok(data) = frame.into_data() else { continue };
            if received.bytes.len() + data.len() > limit {
                return Err(too_large());
            }
            let size = u32::try_from(data.len()).unwrap_or(u32::MAX);
            let Ok(taken) = Arc::clone(memory).try_acquire_many_owned(size) else { return Err(busy()) };
            received.bytes.extend_from_slice(&data);
            received._memory.push(taken);
        }
        Ok(())
    };
    match tokio::time::timeout(ARRIVAL, arrival).await {
        Ok(arrived) => arrived.map(|()| received),
        Err(_) => {
            let detail = format!("the body did not arrive within {} s", ARRIVAL.as_secs());
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail))
        }
    }
}

/// That the gateway has as much to do as it can hold.
pub(super) fn busy() -> Problem {
    let detail = "the gateway holds as many calls as it may: try again later";
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_calls", detail)
}

impl Received {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The value of the body. What JSON does not have stands in it as `--json` writes it.
    pub(super) fn value(&self, headers: &HeaderMap) -> Result<Value, Problem> {
        let refused = |reason: String| Problem::malformed(format!("the body cannot be read: {reason}"));
        match Format::of_body(headers)? {
            Format::Json => {
                let text = std::str::from_utf8(&self.bytes).map_err(|error| refused(error.to_string()))?;
                json::parse(text).map_err(|error| refused(error.to_string()))
            }
            Format::MessagePack => {
                let value = PlainValue::decode(&self.bytes)
                    .ok_or_else(|| refused("it is not one value of MessagePack".into()))?;
                serde_json::to_value(&value).map_err(|error| refused(error.to_string()))
            }
        }
    }
}
