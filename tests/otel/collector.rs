//! A collector of OpenTelemetry: it takes spans over OTLP, and keeps them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// Spans with the names of their services, in the order of their arrival.
type Taken = Arc<Mutex<Vec<(String, Span)>>>;

/// A server that lives as long as the process.
pub(super) struct Collector {
    address: SocketAddr,
    taken: Taken,
}

/// A span as the tests compare it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    pub(super) service: String,
    pub(super) name: String,
    pub(super) kind: i32,
    pub(super) trace: String,
    pub(super) id: String,
    /// Empty if it has none.
    pub(super) parent: String,
    /// The linked spans: trace and span.
    pub(super) links: Vec<(String, String)>,
    pub(super) error: Option<String>,
    pub(super) attributes: Vec<(String, String)>,
    /// When it began and ended, in nanoseconds since 1970.
    pub(super) times: (u64, u64),
}

impl Collector {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, taken) = (listener.local_addr().unwrap(), Taken::default());
        let kept = Arc::clone(&taken);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || take(&stream.unwrap(), &kept));
            }
        });
        Self { address, taken }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The spans so far, in the order of their beginnings.
    pub(super) fn seen(&self) -> Vec<Seen> {
        let mut seen: Vec<Seen> = self.taken.lock().unwrap().iter().map(Seen::of).collect();
        seen.sort_by_key(|span| span.times);
        seen
    }
}

impl Seen {
    fn of((service, span): &(String, Span)) -> Self {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let status = span.status.clone().unwrap_or_default();
        Self {
            service: service.clone(),
            name: span.name.clone(),
            kind: span.kind,
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            links: span.links.iter().map(|link| (hex(&link.trace_id), hex(&link.span_id))).collect(),
            error: (status.code == 2).then_some(status.message),
            attributes: span.attributes.iter().map(|pair| (key(pair), text(pair.value.as_ref()))).collect(),
            times: (span.start_time_unix_nano, span.end_time_unix_nano),
        }
    }

    pub(super) fn attribute(&self, name: &str) -> &str {
        self.attributes.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value)
    }

    /// As a message says it.
    pub(super) fn traceparent(&self) -> String {
        format!("00-{}-{}-01", self.trace, self.id)
    }
}

fn key(pair: &KeyValue) -> String {
    pair.key.clone()
}

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Any::StringValue(text)) => text.clone(),
        Some(Any::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

/// Takes the spans of one request.
fn take(stream: &TcpStream, taken: &Taken) {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_ascii_lowercase()),
        }
    }
    assert_eq!(lines.first().map(String::as_str), Some("post /v1/traces http/1.1"), "{lines:?}");
    assert!(lines.contains(&"content-type: application/x-protobuf".to_owned()), "{lines:?}");
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.expect("a length")];
    reader.read_exact(&mut body).unwrap();
    let request = ExportTraceServiceRequest::decode(&*body).unwrap();
    for resource in request.resource_spans {
        let attributes = resource.resource.unwrap_or_default().attributes;
        let service = attributes.iter().find(|pair| key(pair) == "service.name");
        let service = text(service.and_then(|pair| pair.value.as_ref()));
        let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
        taken.lock().unwrap().extend(spans.map(|span| (service.clone(), span)));
    }
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
    reader.into_inner().write_all(answer.as_bytes()).unwrap();
}
