//! Waits for the ends of calls, which are pushed on a connection that is made for the first wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, oneshot};
use tokio::time::timeout_at;

use crate::broker::{Broker, BrokerError, Record, RecordEnd, RecordEnds, RecordListener};
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::CallState;
use crate::protocol::keys;
use crate::protocol::names::QueueName;

/// How long to wait before trying again where Redis cannot be reached.
const PAUSE: Duration = Duration::from_millis(50);

/// How long it takes at the most until what has come is handed on.
const HAND_ON: Duration = Duration::from_millis(20);

/// What a wait has heard.
enum Heard {
    /// The call has ended, or the time is over: its record as it is then.
    End(Option<Record>),
    /// Nothing that is known.
    Nothing,
}

/// The ends that somebody waits for. One connection serves them all, until it breaks.
#[derive(Debug, Default)]
pub(super) struct Results {
    hub: Mutex<Arc<OnceCell<Hub>>>,
}

#[derive(Clone)]
struct Hub {
    listener: RecordListener,
    waiting: Arc<Waiting>,
}

/// By channel: who waits. `None` once the connection is broken.
#[derive(Debug)]
struct Waiting(Mutex<Option<HashMap<String, Vec<oneshot::Sender<RecordEnd>>>>>);

impl Results {
    /// Waits until a call has ended, or until then. Gives its record as it is by then; `None` where there is none.
    pub(super) async fn wait(
        &self,
        broker: &Broker,
        queue: &QueueName,
        id: CallId,
        end: Instant,
    ) -> Result<Option<Record>, BrokerError> {
        loop {
            match self.listen(broker, queue, id, end).await {
                Ok(Heard::End(record)) => return Ok(record),
                // The record says what was missed.
                Ok(Heard::Nothing) => {}
                Err(error) if error.is_retryable() && Instant::now() + PAUSE < end => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits as long as the connection lasts.
    async fn listen(
        &self,
        broker: &Broker,
        queue: &QueueName,
        id: CallId,
        end: Instant,
    ) -> Result<Heard, BrokerError> {
        let channel = keys::record(queue, id);
        let hub = match timeout_at(end.into(), self.hub(broker)).await {
            Ok(hub) => hub?,
            Err(_) => return broker.record(queue, id).await.map(Heard::End),
        };
        // Dropped behind the receiver.
        let _listening = Listening { hub: hub.clone(), channel: channel.clone() };
        let Some(heard) = hub.waiting.add(&channel) else {
            self.replace(&hub);
            return Ok(Heard::Nothing);
        };
        if let Err(error) = hub.listener.subscribe(&channel).await {
            self.replace(&hub);
            return Err(error);
        }
        // Only now: what has ended before is in the record, and what ends from here on is heard.
        let record = broker.record(queue, id).await?;
        if record.as_ref().and_then(Record::state).is_some_and(CallState::is_final) {
            return Ok(Heard::End(record));
        }
        if record.is_none() {
            // One that is not kept may have ended in between.
            hub.listener.catch_up().await?;
            let ended = tokio::time::timeout(HAND_ON, heard).await;
            return Ok(Heard::End(ended.ok().and_then(Result::ok)));
        }
        match timeout_at(end.into(), heard).await {
            Ok(Ok(ended)) => Ok(Heard::End(Some(ended))),
            Err(_) => broker.record(queue, id).await.map(Heard::End),
            Ok(Err(_)) => {
                if hub.waiting.is_broken() {
                    self.replace(&hub);
                }
                Ok(Heard::Nothing)
            }
        }
    }

    async fn hub(&self, broker: &Broker) -> Result<Hub, BrokerError> {
        let cell = Arc::clone(&self.cell());
        let connect = || async {
            let (listener, ends) = broker.listen_to_records().await?;
            let waiting = Arc::new(Waiting(Mutex::new(Some(HashMap::new()))));
            tokio::spawn(hand_on(ends, Arc::clone(&waiting)));
            Ok(Hub { listener, waiting })
        };
        cell.get_or_try_init(connect).await.cloned()
    }

    /// Forgets a connection that broke, unless that was done already.
    fn replace(&self, hub: &Hub) {
        let mut cell = self.cell();
        if cell.get().is_some_and(|other| Arc::ptr_eq(&other.waiting, &hub.waiting)) {
            *cell = Arc::default();
        }
    }

    fn cell(&self) -> MutexGuard<'_, Arc<OnceCell<Hub>>> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wait on a channel. Without another one, the channel is not listened to any more when this is dropped.
struct Listening {
    hub: Hub,
    channel: String,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let Ok(runtime) = Handle::try_current() else { return };
        if !self.hub.waiting.remove(&self.channel) {
            return;
        }
        let (hub, channel) = (self.hub.clone(), std::mem::take(&mut self.channel));
        runtime.spawn(async move {
            // That the connection is broken is found by the next wait.
            let _ = hub.listener.unsubscribe(&channel).await;
            // Whoever has come meanwhile may hear nothing any more, and looks again.
            hub.waiting.forget(&channel);
        });
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").finish_non_exhaustive()
    }
}

impl Waiting {
    fn add(&self, channel: &str) -> Option<oneshot::Receiver<RecordEnd>> {
        let (sender, receiver) = oneshot::channel();
        self.lock().as_mut()?.entry(channel.to_owned()).or_default().push(sender);
        Some(receiver)
    }

    /// Takes those out that do not wait any more. Whether nobody waits for this one.
    fn remove(&self, channel: &str) -> bool {
        let mut waiting = self.lock();
        let Some(all) = waiting.as_mut() else { return false };
        let Some(senders) = all.get_mut(channel) else { return true };
        senders.retain(|sender| !sender.is_closed());
        let is_last = senders.is_empty();
        if is_last {
            all.remove(channel);
        }
        is_last
    }

    /// Has those who wait for this one look again.
    fn forget(&self, channel: &str) {
        self.lock().as_mut().map(|all| all.remove(channel));
    }

    fn is_broken(&self) -> bool {
        self.lock().is_none()
    }

    fn lock(&self) -> MutexGuard<'_, Option<HashMap<String, Vec<oneshot::Sender<RecordEnd>>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells each end to those who wait for it, until the connection breaks.
async fn hand_on(mut ends: RecordEnds, waiting: Arc<Waiting>) {
    // Also when its runtime ends before the connection breaks: those who wait in another one look again.
    let _broken = Broken(Arc::clone(&waiting));
    while let Some((channel, end)) = ends.next().await {
        let heard = waiting.lock().as_mut().and_then(|all| all.remove(&channel)).unwrap_or_default();
        for sender in heard {
            // What cannot be read is as a broken connection: the record is read again.
            if let Some(end) = &end {
                let _ = sender.send(end.clone());
            }
        }
    }
}

/// Nobody hands on any more when this is dropped.
struct Broken(Arc<Waiting>);

impl Drop for Broken {
    fn drop(&mut self) {
        self.0.lock().take();
    }
}
