//! What does the network between a program and its Redis do now?

use std::fmt;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::testing::network::place::{Address, Listener, Place};
use crate::testing::network::relay::{Connection, relay};
use crate::testing::network::requests::Requests;

/// What the network does with everything that is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Everything is passed on, except for the faults of a [`Trap`].
    #[default]
    Pass,
    /// Everything that is read from either side is passed on after this time.
    Delay(Duration),
    /// Existing connections stay open; new ones are closed immediately.
    Refuse,
    /// Nothing is read or passed on, on either side; connections stay open, and new ones are accepted. Everything
    /// continues when the mode changes.
    Hold,
}

/// What happens to a request, or to its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It is delayed by this time, and so is everything after it.
    Delay(Duration),
    /// It is held back, and nothing more is read in its direction, until the trap is [released](Trap::release).
    Hold,
    /// It is lost; the connection stays open.
    Drop,
    /// Its bytes are sent twice; the connection stays open.
    Double,
    /// It is lost, and the connection is closed, as if by its peer.
    End,
    /// It is lost, and the connection of the client is reset. (A Unix socket cannot be reset: it is closed.)
    Reset,
    /// Half of its bytes are sent, and the connection is closed.
    HalfThenEnd,
    /// Half of its bytes are sent, and then nothing more in its direction. The connection stays open.
    HalfThenNothing,
}

/// What a fault is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The request, before Redis receives it.
    Request,
    /// The reply, after Redis has executed the request.
    Reply,
}

/// A proxy between programs and a Redis. When it is dropped, it stops listening, and closes its connections.
pub struct Proxy {
    shared: Arc<Shared>,
    place: Place,
    url: String,
}

/// A fault that is applied to certain requests. It stays set when this is dropped.
#[derive(Debug, Clone)]
pub struct Trap {
    rule: Arc<Rule>,
    shared: Arc<Shared>,
}

/// What a trap is, and what it saw.
#[derive(Debug)]
pub(super) struct Rule {
    side: Side,
    requests: Requests,
    pub(super) fault: Fault,
    met: AtomicU32,
    struck: AtomicU32,
    released: AtomicBool,
}

/// What all connections of a proxy share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    mode: Mode,
    rules: Vec<Arc<Rule>>,
    live: Vec<Weak<Connection>>,
    closed: bool,
}

impl Proxy {
    /// A proxy for the Redis at `redis://…` or `unix://…`. It listens on a free port of this machine, or on a Unix
    /// socket in its directory of temporary files. User, password and database of the address are used by the client:
    /// see [`url`](Self::url). Redis need not be running yet.
    ///
    /// # Errors
    /// The address is of another kind (a proxy cannot read TLS), or the proxy cannot listen.
    pub fn to(url: &str) -> io::Result<Self> {
        let address = Address::read(url).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "expected redis://host:port or unix:///path")
        })?;
        let (listener, place) = address.place.listen()?;
        let (url, shared) = (address.at(&place), Arc::new(Shared::default()));
        let (proxy, redis) = (Arc::clone(&shared), address.place);
        std::thread::spawn(move || accept(&proxy, &listener, &redis));
        Ok(Self { shared, place, url })
    }

    /// The address of the proxy, for a client.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Applies `fault` to `requests`, or to their replies, from now on. If two traps match, the older one is applied.
    pub fn trap(&self, side: Side, requests: Requests, fault: Fault) -> Trap {
        let (met, struck, released) = Default::default();
        let rule = Arc::new(Rule { side, requests, fault, met, struck, released });
        self.shared.lock().rules.push(Arc::clone(&rule));
        Trap { rule, shared: Arc::clone(&self.shared) }
    }

    /// How many requests have no reply yet, on all connections.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        let live = self.shared.lock().live.clone();
        live.iter().filter_map(Weak::upgrade).map(|connection| connection.unanswered()).sum()
    }

    /// The current mode.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.shared.lock().mode
    }

    /// Sets the mode.
    pub fn set(&self, mode: Mode) {
        self.shared.lock().mode = mode;
        self.shared.changed.notify_all();
    }

    /// Closes all connections now. New ones are accepted as before.
    pub fn cut(&self) {
        let live = std::mem::take(&mut self.shared.lock().live);
        live.iter().filter_map(Weak::upgrade).for_each(|connection| self.shared.end(&connection));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.cut();
        // Whoever accepts hears of it so.
        let _ = self.place.connect();
        self.place.leave();
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An address may have a password.
        f.debug_struct("Proxy")
            .field("place", &self.place)
            .field("mode", &self.mode())
            .finish_non_exhaustive()
    }
}

impl Trap {
    /// How often the fault was applied.
    #[must_use]
    pub fn struck(&self) -> u32 {
        self.rule.struck.load(Relaxed)
    }

    /// How many matching requests the proxy has seen, including those that the fault is not applied to.
    #[must_use]
    pub fn met(&self) -> u32 {
        self.rule.met.load(Relaxed)
    }

    /// Removes the trap. Everything that it holds back is passed on.
    pub fn release(&self) {
        let mut state = self.shared.lock();
        state.rules.retain(|rule| !Arc::ptr_eq(rule, &self.rule));
        self.rule.released.store(true, Relaxed);
        drop(state);
        self.shared.changed.notify_all();
    }
}

fn accept(shared: &Arc<Shared>, listener: &Listener, redis: &Place) {
    while let Ok(client) = listener.accept() {
        if shared.lock().closed {
            break;
        }
        if shared.lock().mode == Mode::Refuse {
            continue;
        }
        // It may take a while: nobody is to wait for the lock meanwhile.
        let Ok(redis) = redis.connect() else { continue };
        let connection = Arc::new(Connection::new(client, redis));
        let mut state = shared.lock();
        if state.closed || state.mode == Mode::Refuse {
            continue;
        }
        state.live.retain(|connection| connection.strong_count() > 0);
        state.live.push(Arc::downgrade(&connection));
        drop(state);
        relay(shared, &connection);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the mode lets something pass. False: the connection is over.
    pub(super) fn pass(&self, connection: &Connection) -> bool {
        let mut time = Duration::ZERO;
        let may_go = self.wait(connection, |mode| {
            time = if let Mode::Delay(time) = mode { time } else { Duration::ZERO };
            mode != Mode::Hold
        });
        may_go && self.pause(connection, time)
    }

    /// Holds something until its trap is released. False: the connection is over.
    pub(super) fn hold(&self, connection: &Connection, rule: &Rule) -> bool {
        self.wait(connection, |_| rule.released.load(Relaxed))
    }

    fn wait(&self, connection: &Connection, mut may_go: impl FnMut(Mode) -> bool) -> bool {
        let waits = |state: &mut State| !state.closed && !connection.is_over() && !may_go(state.mode);
        let state = self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        !state.closed && !connection.is_over()
    }

    /// Lets time pass. False: the connection is over.
    pub(super) fn pause(&self, connection: &Connection, time: Duration) -> bool {
        if time.is_zero() {
            return true;
        }
        let waits = |state: &mut State| !state.closed && !connection.is_over();
        let waited = self.changed.wait_timeout_while(self.lock(), time, waits);
        waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Ends a connection, and wakes what waits for it.
    pub(super) fn end(&self, connection: &Connection) {
        connection.end();
        self.wake();
    }

    /// Resets a connection for its client, and wakes what waits for it.
    pub(super) fn reset(&self, connection: &Connection) {
        connection.reset();
        self.wake();
    }

    fn wake(&self) {
        // Nobody is between his look and his wait while this is locked.
        drop(self.lock());
        self.changed.notify_all();
    }

    /// What happens to this request, and to its reply.
    pub(super) fn judge(&self, request: &[u8]) -> [Option<Arc<Rule>>; 2] {
        let mut state = self.lock();
        let mut found = [None, None];
        state.rules.retain(|rule| {
            if !rule.requests.have(request) {
                return true;
            }
            let met = rule.met.fetch_add(1, Relaxed) + 1;
            let is_meant = rule.requests.nth.is_none_or(|nth| nth == met);
            let place = &mut found[usize::from(rule.side == Side::Reply)];
            if !is_meant || place.is_some() {
                return true;
            }
            *place = Some(Arc::clone(rule));
            rule.requests.nth.is_none()
        });
        found
    }
}

impl Rule {
    /// Notes that it strikes.
    pub(super) fn strike(&self) -> Fault {
        self.struck.fetch_add(1, Relaxed);
        self.fault
    }
}
