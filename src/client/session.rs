//! Enqueues over one connection, and remembers which queues are known.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use tokio::runtime::Handle;

use crate::broker::{Broker, Entry, Ready, Record};
use crate::client::bulk::{ALWAYS_TAKEN, Bulk, BulkError};
use crate::client::coalesce::Coalescer;
use crate::client::patience::Until;
use crate::client::results::Results;
use crate::client::schedule::Later;
use crate::client::submitter::Submitter;
use crate::client::{Conflict, Written, fill, keys, schedule, submit};
use crate::error::Error;
use crate::flow::Flows;
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::Cancelled;
use crate::protocol::names::QueueName;
use crate::sys::sessions;

/// A call that was enqueued, as a [layer](crate::Client::layer) sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Enqueued {
    /// The queue.
    pub queue: QueueName,
    /// The call's id, if it has one.
    pub id: Option<CallId>,
    /// Why a unique call is not a new one.
    pub conflict: Option<Conflict>,
}

/// A connection of a client, and the runtime that drives it.
#[derive(Debug)]
pub(super) struct Session {
    broker: Broker,
    coalescer: Coalescer,
    submitter: Submitter,
    results: Results,
    /// A connection for messages that Redis may reject. It is opened for the first of them.
    apart: OnceLock<Broker>,
    /// The queues that this session has registered, and whether their lists were valid since the last error.
    registered: Mutex<HashMap<QueueName, bool>>,
    pub(super) handle: Handle,
}

impl Session {
    /// Starts the sending task, on the runtime of the caller.
    pub(super) fn start(broker: Broker) -> Self {
        sessions::add();
        let coalescer = Coalescer::start(broker.clone());
        let submitter = Submitter::start(broker.clone());
        let (apart, registered) = (OnceLock::new(), Mutex::default());
        let results = Results::default();
        Self { broker, coalescer, submitter, results, apart, registered, handle: Handle::current() }
    }

    /// Whether its runtime is still running.
    pub(super) fn lives(&self) -> bool {
        self.coalescer.lives()
    }

    /// Enqueues or schedules a call.
    pub(super) async fn enqueue_written(&self, written: Written, until: Until) -> Result<Enqueued, Error> {
        let Written { queue, id, due, options, batch, bytes } = written;
        self.register(&queue, until).await?;
        if let Some(batch) = batch {
            let broker = if bytes.len() > ALWAYS_TAKEN { self.apart() } else { &self.broker };
            // Boxed, because many calls may wait at the same time.
            let filled = Box::pin(fill::one(broker, &queue, &batch, &bytes, until)).await;
            if filled.is_err() {
                self.look_again([&queue]);
            }
            filled?;
            return Ok(Enqueued { queue, id: None, conflict: None });
        }
        if let Some(options) = options {
            let (bound, is_large) = (options.bound, bytes.len() > ALWAYS_TAKEN);
            let call =
                Later { place: 0, queue: queue.clone(), id, due, options: Some(options), batch: None, bytes };
            let submitted = match is_large {
                true => Box::pin(submit::one(self.apart(), &call, bound, until)).await,
                false => Box::pin(self.submitter.submit(call, bound, until)).await,
            };
            return submit::enqueued(queue, id, submitted?);
        }
        match (id, due) {
            (Some(id), Some(due)) => {
                let broker = if bytes.len() > ALWAYS_TAKEN { self.apart() } else { &self.broker };
                // Boxed, because this is rare and many calls may wait at the same time.
                Box::pin(schedule::one(broker, &queue, Entry { id, due, message: &bytes }, until)).await?;
            }
            _ => self.enqueue(&queue, bytes, until).await?,
        }
        Ok(Enqueued { queue, id, conflict: None })
    }

    pub(super) fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Cancels a call. Returns what it was found to be.
    pub(super) async fn cancel(
        &self,
        queue: &QueueName,
        id: CallId,
        until: Until,
    ) -> Result<Cancelled, Error> {
        let by = here();
        let found = until
            .retry(async |end| Flows::new(self.broker.by(end)).cancel_calls(queue, &[id], &by).await)
            .await?;
        Ok(found.first().copied().unwrap_or(Cancelled::NotFound))
    }

    /// The record of a call.
    pub(super) async fn record(
        &self,
        queue: &QueueName,
        id: CallId,
        until: Until,
    ) -> Result<Option<Record>, Error> {
        Ok(until.retry(async |end| self.broker.by(end).record(queue, id).await).await?)
    }

    /// Waits until a call has ended, or until `end`. Gives its record as it is then.
    pub(super) async fn wait_for(
        &self,
        queue: &QueueName,
        id: CallId,
        end: Instant,
    ) -> Result<Option<Record>, Error> {
        Ok(self.results.wait(&self.broker, queue, id, end).await?)
    }

    async fn enqueue(&self, queue: &QueueName, message: Vec<u8>, until: Until) -> Result<(), Error> {
        let enqueued = if message.len() > ALWAYS_TAKEN {
            let (keys, broker) = (keys(queue), self.apart());
            let ready = || Ready::new(&keys, std::iter::once(&message[..]));
            Box::pin(until.retry(async |end| broker.by(end).enqueue(ready()).await)).await.map(drop)
        } else {
            self.coalescer.enqueue(queue.clone(), message, until).await
        };
        if enqueued.is_err() {
            self.look_again([queue]);
        }
        enqueued.map_err(Error::from)
    }

    fn apart(&self) -> &Broker {
        self.apart.get_or_init(|| self.broker.apart())
    }

    pub(super) async fn enqueue_many(
        &self,
        bulk: &Bulk,
        begin: impl Fn() -> Until,
    ) -> Result<usize, BulkError> {
        let queues: HashSet<&QueueName> = bulk.queues();
        for queue in queues {
            self.register(queue, begin()).await.map_err(BulkError::nothing_sent)?;
        }
        let sent = bulk.send(&self.broker, begin).await;
        if sent.is_err() {
            self.look_again(bulk.queues());
        }
        sent
    }

    /// Registers a queue for sweepers, once, and checks that calls can be enqueued there, once and after each error.
    pub(super) async fn register(&self, queue: &QueueName, until: Until) -> Result<(), Error> {
        let known = self.registered().get(queue).copied();
        if known == Some(true) {
            return Ok(());
        }
        // Boxed, because this is rare and many calls may wait at the same time.
        Box::pin(self.make_known(queue, known.is_none(), until)).await
    }

    async fn make_known(&self, queue: &QueueName, is_new: bool, until: Until) -> Result<(), Error> {
        let (keys, broker) = (&keys(queue), |end| self.broker.by(end));
        if is_new {
            self.broker.check_slot(keys)?;
            until.repeat(|end| async move { broker(end).register_queue(queue.as_str()).await }).await?;
            self.registered().insert(queue.clone(), false);
        }
        until.repeat(|end| async move { broker(end).check_types(keys).await }).await?;
        self.registered().insert(queue.clone(), true);
        Ok(())
    }

    /// Forgets, after an error, what was known of the lists of these queues.
    fn look_again<'a>(&self, queues: impl IntoIterator<Item = &'a QueueName>) {
        let mut registered = self.registered();
        for queue in queues {
            registered.insert(queue.clone(), false);
        }
    }

    fn registered(&self) -> MutexGuard<'_, HashMap<QueueName, bool>> {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who cancels a call: this process.
fn here() -> String {
    let host = nix::unistd::gethostname().ok();
    let host = host.and_then(|host| host.into_string().ok()).unwrap_or_default();
    format!("{host}/{}", std::process::id())
}
