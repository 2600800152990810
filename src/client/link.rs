//! Connects a client at its first use, on the runtime of its caller or one of its own, and again in a forked process.

use std::io;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::time::timeout_at;

use crate::broker::{Broker, BrokerError, BrokerErrorKind, Target};
use crate::client::patience::{Patience, Until};
use crate::client::session::Session;
use crate::config::Config;
use crate::error::Error;
use crate::sys::forks;

/// How long to wait for the end of a client's own thread.
const TO_END: Duration = Duration::from_secs(1);

/// The connection of a client to Redis, shared by all its clones.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) config: Config,
    patience: Patience,
    /// The process to which this belongs.
    generation: u64,
    /// The link of a process that was forked from that one.
    heir: OnceLock<Arc<Link>>,
    /// The session on the runtime of async callers.
    shared: Slot,
    /// The session on the runtime below, for threads without one.
    own: Slot,
    runtime: Mutex<Option<Runtime>>,
}

/// A place for a session.
#[derive(Debug, Default)]
struct Slot {
    session: Mutex<Option<Arc<Session>>>,
    /// Held while connecting.
    turn: tokio::sync::Mutex<()>,
}

/// Where a thread that may block enqueues.
pub(super) struct Ground<'a> {
    link: &'a Link,
    slot: &'a Slot,
    pub(super) handle: Handle,
}

impl Link {
    pub(super) fn new(config: Config) -> Self {
        Self {
            patience: Patience::new(&config),
            config,
            generation: forks::generation(),
            heir: OnceLock::new(),
            shared: Slot::default(),
            own: Slot::default(),
            runtime: Mutex::default(),
        }
    }

    /// The link of this process.
    pub(super) fn here(&self) -> &Self {
        let mut link = self;
        while link.generation != forks::generation() {
            link = link.heir.get_or_init(|| Arc::new(Self::new(link.config.clone())));
        }
        link
    }

    /// The deadline of an operation that begins now.
    pub(super) fn until(&self) -> Until {
        self.patience.begin()
    }

    /// The session for async code, connected if it is not yet.
    pub(super) async fn session(&self, until: Until) -> Result<Arc<Session>, Error> {
        match self.shared.session().or_else(|| self.own.session()) {
            Some(session) => Ok(session),
            // Boxed, because this is rare and many calls may wait at the same time.
            None => Box::pin(self.connect(&self.shared, until)).await,
        }
    }

    /// Connects for async code, in one attempt.
    pub(super) async fn connect_now(&self) -> Result<(), Error> {
        let broker = Broker::connect(&self.config.redis).await?;
        let session = Session::start(broker.durable(self.config.client.durability));
        *self.shared.lock() = Some(Arc::new(session));
        Ok(())
    }

    /// The same for a thread without a runtime.
    pub(super) fn connect_now_blocking(&self) -> Result<(), Error> {
        let handle = self.own_runtime().map_err(Error::Io)?;
        let connect = Broker::connect(&self.config.redis);
        let durability = self.config.client.durability;
        let session =
            handle.block_on(async { Ok::<_, Error>(Session::start(connect.await?.durable(durability))) })?;
        *self.own.lock() = Some(Arc::new(session));
        Ok(())
    }

    /// The runtime on which a thread that may block enqueues: one with a connection that other threads drive, or else one that
    /// keeps running while this thread waits.
    pub(super) fn ground(&self) -> io::Result<Ground<'_>> {
        let goes_on = |handle: &Handle| handle.runtime_flavor() != RuntimeFlavor::CurrentThread;
        let connected = |slot: &Slot| slot.session().map(|session| session.handle.clone()).filter(goes_on);
        let (slot, handle) = if let Some(handle) = connected(&self.own) {
            (&self.own, handle)
        } else if let Some(handle) = connected(&self.shared) {
            (&self.shared, handle)
        } else if let Some(handle) = Handle::try_current().ok().filter(goes_on) {
            (&self.shared, handle)
        } else {
            (&self.own, self.own_runtime()?)
        };
        Ok(Ground { link: self, slot, handle })
    }

    fn own_runtime(&self) -> io::Result<Handle> {
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        let there = match runtime.take() {
            Some(there) => there,
            None => Builder::new_multi_thread()
                .worker_threads(1)
                .thread_name("delayed-client")
                .enable_all()
                .build()?,
        };
        Ok(runtime.insert(there).handle().clone())
    }

    async fn connect(&self, slot: &Slot, until: Until) -> Result<Arc<Session>, Error> {
        let waited = timeout_at(until.end.into(), slot.turn.lock()).await;
        let _turn = waited.map_err(|_| {
            let detail = "another call is connecting, and has not connected in time";
            Error::from(BrokerError::new("connect", BrokerErrorKind::Unreachable, detail))
        })?;
        if let Some(session) = slot.session() {
            return Ok(session);
        }
        let target = Target::new(&self.config.redis)?;
        let broker = until.retry(|end| Broker::connect_by(Arc::clone(&target), end)).await?;
        let session = Arc::new(Session::start(broker.durable(self.config.client.durability)));
        *slot.lock() = Some(Arc::clone(&session));
        Ok(session)
    }
}

impl Ground<'_> {
    /// The session of this ground.
    pub(super) async fn session(&self, until: Until) -> Result<Arc<Session>, Error> {
        match self.slot.session() {
            Some(session) => Ok(session),
            None => Box::pin(self.link.connect(self.slot, until)).await,
        }
    }
}

impl Slot {
    /// The session, unless its runtime has ended.
    fn session(&self) -> Option<Arc<Session>> {
        self.lock().as_ref().filter(|session| session.lives()).map(Arc::clone)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Session>>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let runtime = self.runtime.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.generation != forks::generation() {
            // Its threads are in another process, and may have held any lock.
            mem::forget(runtime);
            for slot in [&mut self.shared, &mut self.own] {
                mem::forget(slot.session.get_mut().unwrap_or_else(PoisonError::into_inner).take());
            }
            return;
        }
        let Some(runtime) = runtime else { return };
        if Handle::try_current().is_ok() {
            // Waiting is not allowed here.
            runtime.shutdown_background();
        } else {
            runtime.shutdown_timeout(TO_END);
        }
    }
}
