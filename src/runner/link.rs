//! The worker's connection to its zygote: sends requests, and receives events about each child.

use std::collections::HashMap;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::signal::Signal;
use tokio::io::Interest;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use crate::isolation::Limits;
use crate::runner::frame::{Reuse, ZygoteEvent, ZygoteRequest, decode, encode};
use crate::runner::zygote::Zygote;
use crate::sys::async_descriptor::AsyncDescriptor;
use crate::sys::packets::{self, MAX_PACKET};

/// The worker's side of the connection to its zygote. Clones are the same one.
#[derive(Clone)]
pub(super) struct Link(Arc<Shared>);

struct Shared {
    // Dropped before the zygote, whose drop waits until the process has noticed the end of the connection.
    socket: AsyncDescriptor,
    zygote: Zygote,
    /// The receivers of each child's events. `None` once the zygote is dead and no more events will come.
    minders: Mutex<Option<HashMap<u64, UnboundedSender<ZygoteEvent>>>>,
    next: AtomicU64,
    closing: AtomicBool,
    dead: watch::Sender<bool>,
}

fn dead() -> io::Error {
    io::Error::other("the zygote is dead")
}

impl Link {
    /// Starts to receive the events of the zygote.
    pub(super) fn start(zygote: Zygote) -> io::Result<Self> {
        let link = Self(Arc::new(Shared {
            socket: AsyncDescriptor::new(zygote.control()?, Interest::READABLE | Interest::WRITABLE)?,
            zygote,
            minders: Mutex::new(Some(HashMap::new())),
            next: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            dead: watch::Sender::new(false),
        }));
        let shared = Arc::clone(&link.0);
        tokio::spawn(async move {
            let mut buffer = vec![0; MAX_PACKET];
            // Until the zygote ends, or the link is closed.
            loop {
                let receive = |control: BorrowedFd<'_>| Ok(packets::receive_now(control, &mut buffer)?);
                match shared.socket.when_ready(Interest::READABLE, receive).await {
                    Ok(packet) if packet.length > 0 => {
                        if let Some(event) = decode::<ZygoteEvent>(&buffer[..packet.length]) {
                            shared.route(event);
                        }
                    }
                    _ => return shared.bury(),
                }
            }
        });
        Ok(link)
    }

    /// Forks a child, with these descriptors for its requests, its reports and its output.
    ///
    /// Not cancel-safe: the child may be forked nevertheless.
    ///
    /// # Errors
    /// The zygote is dead, or the system allows no more descriptors in flight.
    pub(super) async fn fork(
        &self,
        lasting: Limits,
        reuse: Reuse,
        descriptors: [RawFd; 3],
    ) -> io::Result<(u64, UnboundedReceiver<ZygoteEvent>)> {
        let child = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (minder, event) = unbounded_channel();
        self.0.minders().as_mut().ok_or_else(dead)?.insert(child, minder);
        let request = encode(&ZygoteRequest::Fork { child, lasting, reuse });
        match self.0.send(&request, &descriptors).await {
            Ok(()) => Ok((child, event)),
            Err(error) => {
                self.forget(child);
                let is_gone =
                    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
                Err(if is_gone { dead() } else { error })
            }
        }
    }

    /// Sends a signal to the group of a child, unless it has ended.
    pub(super) fn signal(&self, child: u64, signal: Signal) {
        let request = encode(&ZygoteRequest::Signal { child, signal: signal as i32 });
        // If the zygote is dead, so is the child.
        if packets::send(&self.0.socket, &request, &[]) == Err(nix::Error::EAGAIN) {
            let shared = Arc::clone(&self.0);
            tokio::spawn(async move {
                let _ = shared.send(&request, &[]).await;
            });
        }
    }

    /// Stops receiving events about this child.
    pub(super) fn forget(&self, child: u64) {
        if let Some(minders) = self.0.minders().as_mut() {
            minders.remove(&child);
        }
    }

    /// Ends the zygote and everything that it forked.
    pub(super) fn close(&self) {
        self.0.closing.store(true, Ordering::Relaxed);
        self.0.zygote.hang_up();
    }

    /// Resolves when the zygote and everything that it forked have ended, for any reason.
    pub(super) fn end(&self) -> impl Future<Output = ()> + Send + use<> {
        self.0.zygote.end()
    }

    /// Resolves when the zygote has died by itself. Cancel-safe.
    pub(super) fn death(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut dead = self.0.dead.subscribe();
        async move {
            if dead.wait_for(|dead| *dead).await.is_err() {
                // The link was dropped, and the zygote with it, as intended.
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Shared {
    fn minders(&self) -> MutexGuard<'_, Option<HashMap<u64, UnboundedSender<ZygoteEvent>>>> {
        self.minders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn send(&self, request: &[u8], descriptors: &[RawFd]) -> io::Result<()> {
        match packets::send(&self.socket, request, descriptors) {
            Err(nix::Error::EAGAIN) => {
                self.socket
                    .when_ready(Interest::WRITABLE, |control| {
                        Ok(packets::send(control, request, descriptors)?)
                    })
                    .await
            }
            sent => Ok(sent?),
        }
    }

    fn route(&self, event: ZygoteEvent) {
        let mut minders = self.minders();
        let Some(minders) = minders.as_mut() else { return };
        let is_last = !matches!(event, ZygoteEvent::Forked { .. });
        let minder =
            if is_last { minders.remove(&event.child()) } else { minders.get(&event.child()).cloned() };
        if let Some(minder) = minder {
            // The receiver may be gone.
            let _ = minder.send(event);
        }
    }

    fn bury(&self) {
        if !self.closing.load(Ordering::Relaxed) {
            tracing::error!("zygote died; its children are killed");
        }
        // The receivers see that no more events will come.
        drop(self.minders().take());
        self.dead.send_replace(!self.closing.load(Ordering::Relaxed));
    }
}
