//! How does a call get into its queue? One by one, coalesced with those of others, or in bulk.

mod bulk;
mod coalesce;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use backon::{ExponentialBuilder, Retryable};
use tokio::runtime::{Handle, Runtime};

pub use self::bulk::{BulkError, Fate};

use crate::broker::{Broker, BrokerError, BrokerErrorKind};
use crate::client::bulk::Bulk;
use crate::client::coalesce::Coalescer;
use crate::config::{ClientConfig, Config, RedisConfig};
use crate::error::Error;
use crate::protocol::call_id::CallId;
use crate::protocol::keys::QueueKeys;
use crate::protocol::names::QueueName;
use crate::task::Call;

/// Enqueues calls. Cheap to clone; all clones share one connection, and calls that are enqueued at the same time go to
/// Redis together.
///
/// ```no_run
/// mod tasks {
///     #[delayed::task]
///     pub fn add(a: i64, b: i64) -> i64 { a + b }
/// }
///
/// # async fn example() -> Result<(), delayed::Error> {
/// let client = delayed::Client::connect("redis://127.0.0.1:6379").await?;
/// client.enqueue(tasks::add::call(1, 2)).await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    broker: Broker,
    config: ClientConfig,
    coalescer: Coalescer,
    /// The queues that sweepers know from us, and whether their lists were in order since the last error.
    registered: Arc<Mutex<HashMap<QueueName, bool>>>,
    handle: Handle,
    /// Of a client that was connected from a thread without a runtime.
    _own: Option<Arc<OwnRuntime>>,
}

/// A call that is in its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Enqueued {
    /// The queue.
    pub queue: QueueName,
    /// The call's id, when it has one: see [`Call::with_id`].
    pub id: Option<CallId>,
}

/// A call that was checked and written.
struct Written {
    queue: QueueName,
    id: Option<CallId>,
    bytes: Vec<u8>,
}

impl Client {
    /// Connects to the Redis at `url`, from async code.
    ///
    /// # Errors
    /// An address that is not understood, or a Redis that cannot be reached or used.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let config = Config { redis: RedisConfig::new(url), ..Config::default() };
        Self::with_config(&config).await
    }

    /// Connects with these settings, from async code.
    ///
    /// # Errors
    /// An address that is not understood, or a Redis that cannot be reached or used.
    pub async fn with_config(config: &Config) -> Result<Self, Error> {
        let broker = Broker::connect(&config.redis).await?;
        Ok(Self {
            coalescer: Coalescer::start(broker.clone()),
            broker,
            config: config.client.clone(),
            registered: Arc::default(),
            handle: Handle::current(),
            _own: None,
        })
    }

    /// Connects to the Redis at `url`, from a thread without a runtime: the client has one of its own, on a thread in
    /// the background. Use [`enqueue_blocking`](Self::enqueue_blocking) with it.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), and a thread that could not be started.
    ///
    /// # Panics
    /// On a thread that runs async code: use [`connect`](Self::connect) there.
    pub fn connect_blocking(url: &str) -> Result<Self, Error> {
        Self::with_config_blocking(&Config { redis: RedisConfig::new(url), ..Config::default() })
    }

    /// The same with these settings.
    ///
    /// # Errors
    /// As [`connect_blocking`](Self::connect_blocking).
    ///
    /// # Panics
    /// As [`connect_blocking`](Self::connect_blocking): use [`with_config`](Self::with_config) there.
    pub fn with_config_blocking(config: &Config) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("delayed-client")
            .enable_all()
            .build()
            .map_err(Error::Io)?;
        let mut client = runtime.block_on(Self::with_config(config))?;
        client._own = Some(Arc::new(OwnRuntime(Some(runtime))));
        Ok(client)
    }

    /// Enqueues one call. When the future is dropped the call may still be enqueued.
    ///
    /// # Errors
    /// A call that cannot be written or is too large was not sent. After an error of Redis,
    /// [`Error::may_have_been_applied`] says whether the call may be in its queue nevertheless.
    pub async fn enqueue(&self, call: impl Into<Call>) -> Result<Enqueued, Error> {
        let Written { queue, id, bytes } = self.write(&call.into())?;
        self.register(&queue).await?;
        if let Err(error) = self.coalescer.enqueue(queue.clone(), bytes).await {
            self.look_again([&queue]);
            return Err(error.into());
        }
        Ok(Enqueued { queue, id })
    }

    /// The same from a thread that may block: also from a task that is a plain `fn`.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    ///
    /// # Panics
    /// On a thread that runs async code: await [`enqueue`](Self::enqueue) there.
    pub fn enqueue_blocking(&self, call: impl Into<Call>) -> Result<Enqueued, Error> {
        self.handle.block_on(self.enqueue(call))
    }

    /// Enqueues many calls in their order, in chunks of up to 1000; each chunk is applied whole or not at all.
    /// Gives how many there were.
    ///
    /// # Errors
    /// All calls are checked before the first is sent. After an error of Redis, [`BulkError::fates`] says of each
    /// call whether it is in its queue; where it is empty, none is.
    pub async fn enqueue_many<C: Into<Call>>(
        &self,
        calls: impl IntoIterator<Item = C>,
    ) -> Result<usize, BulkError> {
        let mut bulk = Bulk::default();
        for call in calls {
            let Written { queue, bytes, .. } = self.write(&call.into()).map_err(BulkError::nothing_sent)?;
            bulk.push(queue, &bytes);
        }
        for queue in bulk.queues() {
            self.register(queue).await.map_err(BulkError::nothing_sent)?;
        }
        let sent = bulk.send(&self.broker).await;
        if sent.is_err() {
            self.look_again(bulk.queues());
        }
        sent
    }

    /// The same from a thread that may block.
    ///
    /// # Errors
    /// As [`enqueue_many`](Self::enqueue_many).
    ///
    /// # Panics
    /// On a thread that runs async code.
    pub fn enqueue_many_blocking<C: Into<Call>>(
        &self,
        calls: impl IntoIterator<Item = C>,
    ) -> Result<usize, BulkError> {
        self.handle.block_on(self.enqueue_many(calls))
    }

    fn write(&self, call: &Call) -> Result<Written, Error> {
        let queue = call.queue_name()?;
        let bytes = call.encode().map_err(|source| Error::Encode { task: call.task().to_owned(), source })?;
        let (size, limit) = (bytes.len(), self.config.max_message);
        if size > limit {
            return Err(Error::TooLarge { task: call.task().to_owned(), size, limit });
        }
        Ok(Written { queue, id: call.call_id(), bytes })
    }

    /// Makes a queue known to sweepers, once, and looks whether calls can be enqueued there, once and after each error.
    async fn register(&self, queue: &QueueName) -> Result<(), Error> {
        let known = self.registered().get(queue).copied();
        if known == Some(true) {
            return Ok(());
        }
        let keys = keys(queue);
        if known.is_none() {
            patiently(|| self.broker.check_slot([&keys])).await?;
            patiently(|| self.broker.register_queue(queue.as_str())).await?;
            self.registered().insert(queue.clone(), false);
        }
        patiently(|| self.broker.check_types(&keys)).await?;
        self.registered().insert(queue.clone(), true);
        Ok(())
    }

    /// After an error: what was found of the lists of these queues may be so no more.
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

/// Tries again for a while what was certainly not applied: Redis is restarting, or loads its data.
async fn patiently<T, F>(call: impl FnMut() -> F) -> Result<T, BrokerError>
where
    F: Future<Output = Result<T, BrokerError>>,
{
    call.retry(ExponentialBuilder::default().with_jitter().with_max_times(4)).when(is_not_yet).await
}

/// Whether it was certainly not applied, and may be soon.
fn is_not_yet(error: &BrokerError) -> bool {
    matches!(error.kind(), BrokerErrorKind::Unreachable | BrokerErrorKind::NotReady)
}

/// Keys of a queue for one request.
fn keys(queue: &QueueName) -> QueueKeys {
    QueueKeys::new(queue)
}

/// A runtime that may be dropped on any thread.
#[derive(Debug)]
struct OwnRuntime(Option<Runtime>);

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
