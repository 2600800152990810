//! What becomes of the bytes of one connection?

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};

use crate::testing::network::frame::frame;
use crate::testing::network::proxy::{Fault, Rule, Shared};

/// A client, and Redis for it.
#[derive(Debug)]
pub(super) struct Connection {
    client: UnixStream,
    redis: UnixStream,
    over: AtomicBool,
    /// For each request that has no reply yet: what happens to that.
    asked: Mutex<VecDeque<Option<Arc<Rule>>>>,
}

impl Connection {
    pub(super) fn new(client: UnixStream, redis: UnixStream) -> Self {
        Self { client, redis, over: AtomicBool::new(false), asked: Mutex::default() }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// How many requests have no reply yet.
    pub(super) fn unanswered(&self) -> usize {
        if self.is_over() { 0 } else { self.asked().len() }
    }

    fn asked(&self) -> MutexGuard<'_, VecDeque<Option<Arc<Rule>>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn end(&self) {
        if !self.over.swap(true, Relaxed) {
            let _ = self.client.shutdown(Shutdown::Both);
            let _ = self.redis.shutdown(Shutdown::Both);
        }
    }

    /// Ends so that the client gets a reset: when the last of the two that use its socket lets it go.
    pub(super) fn reset(&self) {
        if !self.over.swap(true, Relaxed) {
            let _ = setsockopt(&self.client, sockopt::Linger, &linger { l_onoff: 1, l_linger: 0 });
            // Says nothing to the client, and wakes whoever reads.
            let _ = self.client.shutdown(Shutdown::Read);
            let _ = self.redis.shutdown(Shutdown::Both);
        }
    }
}

/// The way back to a client. What comes when it is gone has no taker; that does not end what it sent before.
struct Replies<'a>(&'a UnixStream);

impl Write for Replies<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                Ok(bytes.len())
            }
            result => result,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Passes frames on in both directions, each in a thread of its own.
pub(super) fn relay(shared: &Arc<Shared>, connection: &Arc<Connection>) {
    let (this, ends) = (Arc::clone(shared), Arc::clone(connection));
    std::thread::spawn(move || {
        let _ = pump(&this, &ends, &ends.client, &ends.redis, |request| {
            let [rule, of_reply] = this.judge(request);
            let fault = rule.as_ref().map(|rule| rule.fault);
            let mut asked = ends.asked();
            if fault != Some(Fault::Drop) {
                asked.push_back(of_reply);
            }
            if fault == Some(Fault::Double) {
                asked.push_back(None);
            }
            rule
        });
        this.end(&ends);
    });
    let (this, ends) = (Arc::clone(shared), Arc::clone(connection));
    std::thread::spawn(move || {
        let _ = pump(&this, &ends, &ends.redis, Replies(&ends.client), |reply| match reply.first() {
            Some(b'>') => None, // Nobody asked for it.
            _ => ends.asked().pop_front().flatten(),
        });
        this.end(&ends);
    });
}

/// Passes on what comes from one side, as far as its rules allow, until the connection is over.
fn pump(
    shared: &Shared,
    connection: &Connection,
    mut from: &UnixStream,
    mut to: impl Write,
    judge: impl Fn(&[u8]) -> Option<Arc<Rule>>,
) -> io::Result<()> {
    let (mut held, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let read = from.read(&mut chunk)?;
        if read == 0 || !shared.pass(connection) {
            return Ok(());
        }
        held.extend_from_slice(&chunk[..read]);
        while let Some(length) = frame(&held) {
            let bytes = &held[..length];
            let goes_on = match judge(bytes) {
                None => to.write_all(bytes).map(|()| true),
                Some(rule) => strike(shared, connection, &rule, bytes, &mut to),
            };
            if !goes_on? {
                return Ok(());
            }
            held.drain(..length);
        }
    }
}

/// Lets a fault happen to these bytes. Gives whether the connection goes on.
fn strike(
    shared: &Shared,
    connection: &Connection,
    rule: &Rule,
    bytes: &[u8],
    to: &mut impl Write,
) -> io::Result<bool> {
    let fault = rule.strike();
    let goes_on = match fault {
        Fault::Delay(time) => shared.pause(connection, time),
        Fault::Hold => shared.hold(connection, rule),
        Fault::Drop => return Ok(true),
        Fault::Double => true,
        Fault::End => false,
        Fault::Reset => {
            shared.reset(connection);
            false
        }
        Fault::HalfThenEnd | Fault::HalfThenNothing => {
            to.write_all(&bytes[..bytes.len() / 2])?;
            if fault == Fault::HalfThenNothing {
                shared.hold(connection, rule);
            }
            false
        }
    };
    if goes_on {
        to.write_all(bytes)?;
    }
    if fault == Fault::Double {
        to.write_all(bytes)?;
    }
    Ok(goes_on)
}
