//! A network that misbehaves, between a client and a test's Redis.
//!
//! It reads the protocol as far as frames go, so that it knows which reply belongs to which request, and can lose
//! exactly the one of a script: before Redis has it, or after Redis has run it.

mod frame;

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use self::frame::frame;
use super::redis::TestRedis;
use super::wait;

/// What the network does with every frame and every new connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Everything passes.
    #[default]
    Pass,
    /// Each read from either side waits so long before it is passed on.
    Delay(Duration),
    /// Connections that are there stay; new ones are closed at once.
    Refuse,
    /// Nothing is read or passed on; connections stay. What was held goes on when the mode changes.
    Hold,
}

/// At which point a connection is lost, or a frame held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lose {
    /// The request does not reach Redis.
    Request,
    /// Redis has executed the request, its reply does not reach the client.
    Reply,
}

/// A fault that is waiting for its request.
#[derive(Debug)]
struct Trap {
    lose: Lose,
    marker: Vec<u8>,
    /// How many requests with the marker still pass.
    spare: u32,
}

#[derive(Debug, Default)]
struct State {
    mode: Mode,
    trap: Option<Trap>,
    /// How many connections a trap has cut.
    sprung: u32,
    net: Option<Trap>,
    /// How many requests that the net is for have passed.
    passed: u32,
    caught: bool,
    let_go: bool,
    /// Every connection since the last cut.
    live: Vec<Ends>,
    closed: bool,
}

/// A connection: the client's side, and Redis' side.
type Ends = Arc<[UnixStream; 2]>;

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// A running proxy. Its connections end when it is dropped; the thread that accepts ends with the test's process.
#[derive(Debug)]
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    url: String,
    _directory: tempfile::TempDir,
}

impl Proxy {
    /// A proxy on a unix socket. A password stays in the address.
    pub(crate) fn unix(server: &TestRedis) -> Self {
        let directory = super::directory();
        let path = directory.path().join("proxy.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let url = server.url().replace(&*server.socket().to_string_lossy(), &path.to_string_lossy());
        Self::start(server, directory, url, move || listener.accept().map(|(stream, _)| stream))
    }

    /// A proxy on a loopback port.
    pub(crate) fn tcp(server: &TestRedis) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        // One type for both: a socket is read, written and shut down in the same way whatever it is connected to.
        let accept = move || listener.accept().map(|(stream, _)| UnixStream::from(OwnedFd::from(stream)));
        Self::start(server, super::directory(), url, accept)
    }

    fn start(
        server: &TestRedis,
        directory: tempfile::TempDir,
        url: String,
        accept: impl Fn() -> io::Result<UnixStream> + Send + 'static,
    ) -> Self {
        let shared = Arc::new(Shared::default());
        let (proxy, socket) = (Arc::clone(&shared), server.socket());
        std::thread::spawn(move || {
            while let Ok(client) = accept() {
                let mut state = proxy.lock();
                if state.closed {
                    break;
                }
                let Ok(redis) = UnixStream::connect(&socket) else { continue };
                if state.mode == Mode::Refuse {
                    continue;
                }
                let ends: Ends = Arc::new([client, redis]);
                state.live.push(Arc::clone(&ends));
                drop(state);
                relay(&proxy, &ends);
            }
        });
        Self { shared, url, _directory: directory }
    }

    /// Its address, for a client.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// How it behaves now.
    pub(crate) fn mode(&self) -> Mode {
        self.shared.lock().mode
    }

    /// Behaves so from now on.
    pub(crate) fn set(&self, mode: Mode) {
        self.shared.lock().mode = mode;
        self.shared.changed.notify_all();
    }

    /// Cuts all connections now.
    pub(crate) fn cut(&self) {
        self.shared.lock().cut();
        self.shared.changed.notify_all();
    }

    /// Cuts the connection at the `nth` (from 1) request from now on whose bytes contain `marker`, such as the
    /// digest of a script. Once: then everything passes again.
    pub(crate) fn lose(&self, lose: Lose, marker: &str, nth: u32) {
        self.shared.lock().trap = Some(Trap { lose, marker: marker.into(), spare: nth - 1 });
    }

    /// Holds the `nth` (from 1) request from now on that contains `marker`, or its reply, until [`Self::let_go`].
    pub(crate) fn catch(&self, at: Lose, marker: &str, nth: u32) {
        self.shared.lock().net = Some(Trap { lose: at, marker: marker.into(), spare: nth - 1 });
    }

    /// Whether it holds what it was to catch.
    pub(crate) fn has_caught(&self) -> bool {
        self.shared.lock().caught
    }

    /// How many requests that [`Self::catch`] is for have reached Redis.
    pub(crate) fn passed(&self) -> u32 {
        self.shared.lock().passed
    }

    /// Passes on what it has caught.
    pub(crate) fn let_go(&self) {
        self.shared.lock().let_go = true;
        self.shared.changed.notify_all();
    }

    /// How many connections were cut by [`Self::lose`].
    pub(crate) fn lost(&self) -> u32 {
        self.shared.lock().sprung
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.lock().cut();
        self.shared.changed.notify_all();
    }
}

impl State {
    fn cut(&mut self) {
        self.live.drain(..).for_each(|ends| shut(&ends));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
    /// Waits as the mode says. False: the proxy was closed.
    fn pass(&self) -> bool {
        let held = |state: &mut State| state.mode == Mode::Hold && !state.closed;
        let state = self.changed.wait_while(self.lock(), held).unwrap();
        let (mode, closed) = (state.mode, state.closed);
        drop(state);
        if let Mode::Delay(time) = mode {
            wait::pause(time);
        }
        !closed
    }

    /// What becomes of this request, and of its reply.
    fn judge(&self, request: &[u8]) -> [Fate; 2] {
        let mut state = self.lock();
        let is_meant = state.net.as_ref().is_some_and(|net| net.is_for(request));
        let (lost, caught) = (springs(&mut state.trap, request), springs(&mut state.net, request));
        state.passed += u32::from(is_meant && caught != Some(Lose::Request));
        match (lost, caught) {
            (Some(Lose::Request), _) => [Fate::Lost, Fate::Lost],
            (Some(Lose::Reply), _) => [Fate::Passes, Fate::Lost],
            (None, Some(Lose::Request)) => [Fate::Held, Fate::Passes],
            (None, Some(Lose::Reply)) => [Fate::Passes, Fate::Held],
            (None, None) => [Fate::Passes; 2],
        }
    }

    /// Holds a frame until it is let go. False: the proxy was closed.
    fn hold(&self) -> bool {
        self.lock().caught = true;
        let held = |state: &mut State| !state.let_go && !state.closed;
        !self.changed.wait_while(self.lock(), held).unwrap().closed
    }
}

/// What becomes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Passes,
    /// Its connection is cut.
    Lost,
    Held,
}

impl Trap {
    fn is_for(&self, request: &[u8]) -> bool {
        request.windows(self.marker.len()).any(|part| part == self.marker)
    }
}

/// Whether this request is the one that a trap waits for.
fn springs(place: &mut Option<Trap>, request: &[u8]) -> Option<Lose> {
    let trap = place.as_mut().filter(|trap| trap.is_for(request))?;
    if trap.spare > 0 {
        trap.spare -= 1;
        return None;
    }
    place.take().map(|trap| trap.lose)
}

/// Passes frames on in both directions, each in a thread of its own.
fn relay(shared: &Arc<Shared>, ends: &Ends) {
    // For each request that has no reply yet: what becomes of that.
    let asked = Arc::new(Mutex::new(VecDeque::new()));
    let (this, expected) = (Arc::clone(shared), Arc::clone(&asked));
    pump(shared, ends, 0, move |request| {
        let [fate, of_reply] = this.judge(request);
        expected.lock().unwrap().push_back(of_reply);
        fate
    });
    pump(shared, ends, 1, move |reply| match reply.first() {
        Some(b'>') => Fate::Passes, // Nobody asked for it.
        _ => asked.lock().unwrap().pop_front().unwrap_or(Fate::Passes),
    });
}

/// Passes on what comes from one end, as far as its fate allows.
fn pump(shared: &Arc<Shared>, ends: &Ends, from: usize, judge: impl Fn(&[u8]) -> Fate + Send + 'static) {
    let (shared, ends) = (Arc::clone(shared), Arc::clone(ends));
    std::thread::spawn(move || {
        let (mut from, mut to) = (&ends[from], &ends[1 - from]);
        let (mut held, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
        'open: while let Ok(read @ 1..) = from.read(&mut chunk) {
            if !shared.pass() {
                break;
            }
            held.extend_from_slice(&chunk[..read]);
            while let Some(length) = frame(&held) {
                match judge(&held[..length]) {
                    Fate::Passes => {}
                    Fate::Held if shared.hold() => {}
                    Fate::Held => break 'open,
                    Fate::Lost => {
                        shared.lock().sprung += 1;
                        break 'open;
                    }
                }
                if to.write_all(&held[..length]).is_err() {
                    break 'open;
                }
                held.drain(..length);
            }
        }
        shut(&ends);
    });
}

fn shut(ends: &Ends) {
    for end in ends.iter() {
        let _ = end.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests;
