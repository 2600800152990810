//! Sends requests of HTTP byte by byte, as they are written here, and reads the answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// How long an answer may take on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// An open connection.
pub(crate) struct Connection {
    reader: BufReader<TcpStream>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The answer, if it has this status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self
    }
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { reader: BufReader::new(stream) }
    }

    /// Sends bytes as they are.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// A line of a stream of events, without its end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Whether an answer has begun to arrive.
    pub(crate) fn has_answer(&self) -> bool {
        let stream = self.reader.get_ref();
        stream.set_nonblocking(true).unwrap();
        let has_answer =
            !self.reader.buffer().is_empty() || stream.peek(&mut [0]).is_ok_and(|count| count > 0);
        stream.set_nonblocking(false).unwrap();
        has_answer
    }

    /// The next answer; `None` if the connection was closed.
    pub(crate) fn read(&mut self) -> Option<Answer> {
        let mut line = String::new();
        if self.reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_lowercase(), value.to_owned()));
        }
        let mut answer = Answer { status, headers, body: Vec::new() };
        let length = answer.header("content-length").and_then(|length| length.parse().ok());
        answer.body = vec![0; length.unwrap_or(0)];
        self.reader.read_exact(&mut answer.body).ok()?;
        Some(answer)
    }

    /// Sends a request with these headers, and reads the answer.
    pub(crate) fn request(&mut self, request: &str, headers: &[(&str, &str)], body: &[u8]) -> Option<Answer> {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "{request} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n{headers}\r\n",
            body.len()
        );
        self.write(&[head.as_bytes(), body].concat()).ok()?;
        self.read()
    }
}
