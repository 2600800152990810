//! A connection that the waiting task reads itself, so that an idle worker starts a call as soon as possible.
//!
//! A connection of the library is shared: a separate task reads the socket and passes the replies on. After a pause, when
//! that code is no longer in the processor's caches, this takes longer than handling the reply. Here, the socket wakes the
//! waiting future itself, which reads the socket and keeps the replies of other futures for them.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{RedisError, RedisResult, Value};
use tokio::io::{Interest, Ready};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::yield_now;

use crate::broker::reply;

/// Minimum and maximum number of bytes per read; the minimum is for short replies.
const ROOM: (usize, usize) = (1 << 10, 64 << 10);
/// The largest buffer that is kept for the next reply.
const KEPT: usize = 64 << 10;
/// The task yields after this many reads.
const TURNS: u32 = 16;

/// A connection whose replies are read by the futures that wait for them. All of them belong to one task.
#[derive(Debug)]
pub(super) struct RawConnection {
    stream: Stream,
    /// How long a reply may take.
    timeout: Duration,
    traffic: Mutex<Traffic>,
}

#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Requests and replies. Requests have no identifiers: replies come in the order of the requests.
#[derive(Debug, Default)]
struct Traffic {
    /// Bytes that the socket has not accepted yet.
    unsent: Vec<u8>,
    /// The beginning of an incomplete reply.
    received: Vec<u8>,
    /// Complete replies; `None` once taken.
    here: VecDeque<Option<Value>>,
    /// The number of the first of them.
    first: u64,
    /// The number of the next reply to be requested.
    next: u64,
    /// Why nothing more can be sent. Replies may still arrive.
    cut: Option<RedisError>,
    /// Why no more replies will come.
    broken: Option<RedisError>,
}

impl RawConnection {
    pub(super) async fn new(stream: Stream, timeout: Duration) -> io::Result<Self> {
        // The socket is not known to be writable until this has resolved.
        stream.ready(Interest::WRITABLE).await?;
        Ok(Self { stream, timeout, traffic: Mutex::default() })
    }

    /// Sends requests when first polled, and returns their replies, of which there are `count`.
    ///
    /// After an error, the connection is unusable. If the future is dropped, other futures still get their own replies; its
    /// own replies are kept as long as the connection.
    pub(super) async fn ask(&self, requests: &[u8], count: usize) -> RedisResult<Vec<Value>> {
        let number = self.traffic().send(&self.stream, requests, count)?;
        match tokio::time::timeout(self.timeout, self.receive(number, count)).await {
            Ok(replies) => replies,
            Err(elapsed) => Err(io::Error::from(elapsed).into()),
        }
    }

    async fn receive(&self, number: u64, count: usize) -> RedisResult<Vec<Value>> {
        let mut turns = 0;
        loop {
            let mut interest = Interest::READABLE;
            {
                let mut traffic = self.traffic();
                if let Some(replies) = traffic.take(number, count)? {
                    return Ok(replies);
                }
                if !traffic.unsent.is_empty() {
                    interest |= Interest::WRITABLE;
                }
            }
            // Arriving bytes wake all futures that wait here.
            let ready = self.stream.ready(interest).await?;
            self.traffic().go_on(&self.stream, ready, number, count);
            turns += 1;
            // A server that sends without end must not block the task.
            if turns % TURNS == 0 {
                yield_now().await;
            }
        }
    }

    fn traffic(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Traffic {
    /// Sends requests. Returns the number of the first reply.
    fn send(&mut self, stream: &Stream, requests: &[u8], count: usize) -> RedisResult<u64> {
        debug_assert!(count > 0, "a request has a reply");
        if self.has(self.next, 0) {
            // Bytes that have already arrived are not a reply to this request.
            self.read(stream);
            if !self.received.is_empty() {
                self.broken.get_or_insert_with(reply::no_reply);
            }
        }
        if self.broken.is_none() && self.cut.is_none() {
            self.unsent.extend_from_slice(requests);
            self.write(stream);
        }
        if let Some(error) = self.broken.as_ref().or(self.cut.as_ref()) {
            return Err(error.clone());
        }
        let number = self.next;
        self.next += count as u64;
        Ok(number)
    }

    fn has(&self, number: u64, count: usize) -> bool {
        self.first + self.here.len() as u64 >= number + count as u64
    }

    /// Takes `count` replies from `number` on, once all of them have arrived.
    fn take(&mut self, number: u64, count: usize) -> RedisResult<Option<Vec<Value>>> {
        if !self.has(number, count) {
            return self.broken.clone().map_or(Ok(None), Err);
        }
        let at = usize::try_from(number - self.first).expect("as many as are in memory");
        let taken = self.here.range_mut(at..at + count).filter_map(Option::take).collect();
        while let Some(None) = self.here.front() {
            self.here.pop_front();
            self.first += 1;
        }
        Ok(Some(taken))
    }

    /// Writes and reads as much as possible, unless another future has already read these replies.
    fn go_on(&mut self, stream: &Stream, ready: Ready, number: u64, count: usize) {
        if self.broken.is_some() || self.has(number, count) {
            return;
        }
        if ready.is_writable() {
            self.write(stream);
        }
        if ready.is_readable() {
            self.read(stream);
        }
    }

    fn write(&mut self, stream: &Stream) {
        while !self.unsent.is_empty() {
            match stream.try_write(&self.unsent) {
                Ok(written) if written > 0 => drop(self.unsent.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                failed => {
                    let error = failed.err().unwrap_or_else(|| io::ErrorKind::WriteZero.into());
                    self.unsent.clear();
                    self.cut = Some(error.into());
                }
            }
        }
    }

    fn read(&mut self, stream: &Stream) {
        let length = self.received.len();
        // Doubles the buffer, so that a long reply takes few reads.
        self.received.resize(length + length.clamp(ROOM.0, ROOM.1), 0);
        let read = stream.try_read(&mut self.received[length..]);
        self.received.truncate(length + *read.as_ref().unwrap_or(&0));
        let read = match read {
            Ok(0) => Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
            Ok(_) => self.parse(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error.into()),
        };
        self.broken = self.broken.take().or(read.err());
    }

    fn parse(&mut self) -> RedisResult<()> {
        let mut at = 0;
        while let Some((reply, length)) = reply::first(&self.received[at..])? {
            if self.has(self.next, 0) {
                // An unsolicited reply must not be taken for the answer to the next request.
                return Err(reply::no_reply());
            }
            self.here.push_back(Some(reply));
            at += length;
        }
        self.received.drain(..at);
        if self.received.is_empty() && self.received.capacity() > KEPT {
            self.received = Vec::new();
        }
        Ok(())
    }
}

impl Stream {
    async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Self::Tcp(stream) => stream.ready(interest).await,
            Self::Unix(stream) => stream.ready(interest).await,
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        }
    }

    fn try_read(&self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read(room),
            Self::Unix(stream) => stream.try_read(room),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use redis::ErrorKind;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::unconstrained;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    /// A line, and its other end.
    async fn line(timeout: Duration) -> (RawConnection, UnixStream) {
        let (here, there) = UnixStream::pair().expect("a pair");
        (RawConnection::new(Stream::Unix(here), timeout).await.expect("is ready"), there)
    }

    async fn expect(there: &mut UnixStream, request: &str) {
        let mut got = vec![0; request.len()];
        there.read_exact(&mut got).await.expect("a request");
        assert_eq!(String::from_utf8_lossy(&got), request);
    }

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[tokio::test]
    async fn each_gets_its_own_replies_whoever_reads_them() {
        let (line, mut there) = line(LIMIT).await;
        let serve = async {
            expect(&mut there, "first second ").await;
            there.write_all(b"$1\r\n1\r\n*1\r\n$3\r\nabc\r\n$2\r\n77\r\n").await.expect("takes it");
        };
        let (first, second, ()) = tokio::join!(line.ask(b"first ", 1), line.ask(b"second ", 2), serve);
        assert_eq!(first.expect("a reply"), [bulk("1")]);
        assert_eq!(second.expect("replies"), [Value::Array(vec![bulk("abc")]), bulk("77")]);

        // A reply that nobody waits for stays where it is, and a request that was never polled is not sent.
        drop(line.ask(b"never sent ", 1));
        let forgotten = tokio::time::timeout(Duration::ZERO, line.ask(b"third ", 1)).await;
        assert!(forgotten.is_err(), "expected no reply to it yet");
        let serve = async {
            expect(&mut there, "third fourth ").await;
            there.write_all(b"+OK\r\n*-1\r\n").await.expect("takes it");
        };
        let (fourth, ()) = tokio::join!(line.ask(b"fourth ", 1), serve);
        assert_eq!(fourth.expect("a reply"), [Value::Nil]);
    }

    #[tokio::test]
    async fn long_request_and_reply_go_in_pieces_and_free_their_memory() {
        let (line, mut there) = line(LIMIT).await;
        let request = "x".repeat(1 << 20);
        // Each size leaves a different remainder of the buffer.
        for size in [70_000, 100_000, 130_000, 300_000] {
            let long = "y".repeat(size);
            let serve = async {
                expect(&mut there, &request).await;
                let head = format!("${size}\r");
                for piece in [&head, "\n", &long[..40_000], &long[40_000..], "\r", "\n"] {
                    there.write_all(piece.as_bytes()).await.expect("takes it");
                    tokio::task::yield_now().await;
                }
            };
            let (reply, ()) = tokio::join!(line.ask(request.as_bytes(), 1), serve);
            assert_eq!(reply.expect("a reply"), [bulk(&long)]);
            assert!(line.traffic().received.capacity() <= KEPT, "of {size} bytes");
        }
    }

    #[tokio::test]
    async fn what_came_before_the_end_is_given_and_the_rest_is_told() {
        for (last, kind) in [("", ErrorKind::Io), ("$x\r\n", ErrorKind::Parse)] {
            let (line, mut there) = line(LIMIT).await;
            let end = async {
                there.write_all(format!(":1\r\n:2\r\n{last}").as_bytes()).await.expect("takes it");
                expect(&mut there, "????").await;
                drop(there);
            };
            let (first, second, third, fourth, ()) =
                tokio::join!(line.ask(b"?", 1), line.ask(b"?", 1), line.ask(b"?", 1), line.ask(b"?", 1), end);
            assert_eq!(first.expect("a reply"), [Value::Int(1)]);
            assert_eq!(second.expect("a reply"), [Value::Int(2)]);
            for told in [third, fourth, line.ask(b"not sent", 1).await] {
                assert_eq!(told.expect_err("it ended").kind(), kind);
            }
        }
    }

    #[tokio::test]
    async fn a_reply_that_nobody_asked_for_is_taken_by_nobody() {
        for early in [":1\r\n", ":"] {
            let (line, mut there) = line(LIMIT).await;
            there.write_all(early.as_bytes()).await.expect("takes it");
            line.stream.ready(Interest::READABLE).await.expect("it came");
            assert_eq!(line.ask(b"?", 1).await.expect_err("out of step").kind(), ErrorKind::Parse, "{early}");
        }
        let (line, mut there) = line(LIMIT).await;
        let serve = async {
            expect(&mut there, "?").await;
            there.write_all(b":1\r\n:2\r\n").await.expect("takes it");
        };
        let (first, ()) = tokio::join!(line.ask(b"?", 1), serve);
        assert_eq!(first.expect("a reply"), [Value::Int(1)]);
        assert_eq!(line.ask(b"?", 1).await.expect_err("out of step").kind(), ErrorKind::Parse);
    }

    #[tokio::test]
    async fn received_reply_is_given_though_the_next_write_fails() {
        let (line, mut there) = line(LIMIT).await;
        let end = async {
            expect(&mut there, "?").await;
            let long = "y".repeat(5000);
            there.write_all(format!("${}\r\n{long}\r\n", long.len()).as_bytes()).await.expect("takes it");
            drop(there);
            line.ask(b"?", 1).await
        };
        // Polled in this order, so that the first is not polled in between.
        let (first, second) = tokio::join!(biased; line.ask(b"?", 1), end);
        assert_eq!(first.expect("a reply"), [bulk(&"y".repeat(5000))]);
        assert!(second.expect_err("it ended").is_io_error());
    }

    #[tokio::test]
    async fn a_reply_that_does_not_come_or_does_not_end_is_given_up() {
        let (quiet, _there) = line(Duration::from_millis(1)).await;
        assert!(quiet.ask(b"?", 1).await.expect_err("no reply").is_timeout());

        // Also if the polling task has no budget to observe.
        let (endless, there) = line(Duration::from_millis(1)).await;
        let mut there = there.into_std().expect("a socket");
        there.set_nonblocking(false).expect("blocks");
        let pours = std::thread::spawn(move || {
            let _ = there.write_all(b"$9223372036854775807\r\n");
            while there.write_all(&[b'x'; 4096]).is_ok() {}
        });
        let told = unconstrained(endless.ask(b"?", 1)).await;
        assert!(told.expect_err("no end").is_timeout());
        drop(endless);
        pours.join().expect("it ends with the line");
    }
}
