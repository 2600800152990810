//! Enqueues calls: one by one, coalesced with those of others, or in bulk.

mod batch;
mod bulk;
mod coalesce;
mod context;
mod fill;
pub(crate) mod flow;
mod handle;
mod layer;
mod limits;
mod link;
mod patience;
#[cfg(feature = "periodic")]
mod periodic;
mod results;
mod schedule;
mod session;
mod submit;
mod submitter;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use self::bulk::{BulkError, Fate};
pub use self::flow::FlowHandle;
pub use self::handle::{Conflict, Handle, Progress, WaitError};
#[cfg(feature = "cli")]
pub(crate) use self::layer::ClientLayers;
pub use self::layer::NextEnqueue;
#[cfg(feature = "cli")]
pub(crate) use self::patience::Patience;
pub use self::session::Enqueued;

use crate::broker::{Bound, Record};
use crate::client::bulk::Bulk;
use crate::client::link::Link;
use crate::config::{Config, RedisConfig};
use crate::error::Error;
use crate::otel::{self, SendSpan};
use crate::protocol::batch::BatchName;
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::Cancelled;
use crate::protocol::keys::QueueKeys;
use crate::protocol::names::QueueName;
use crate::protocol::tracking::Tracking;
use crate::task::{BatchItem, Call, Due, IntoCall, TaskBatch};

/// Enqueues calls. Cheap to clone; all clones share one connection, and calls that are enqueued at the same time share a
/// request.
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
///
/// An operation takes at most `redis.timeout`, including the connection and all retries, or
/// [`ClientConfig::patience`](crate::config::ClientConfig::patience) if that is longer. Until then the client retries what
/// was certainly not applied, because Redis could not be reached or was not ready.
///
/// A client reconnects in a process that was forked from its own.
#[derive(Debug, Clone)]
pub struct Client {
    link: Arc<Link>,
    layers: layer::ClientLayers,
}

/// A call that was checked and encoded.
struct Written {
    queue: QueueName,
    /// Always `Some` for a scheduled call.
    id: Option<CallId>,
    due: Option<Due>,
    /// Of a call that keeps a record, is unique, or goes to the head or into a queue with a bound.
    options: Option<Box<Options>>,
    /// The batch for which `bytes` is an item, not a message.
    batch: Option<(BatchName, &'static TaskBatch)>,
    bytes: Vec<u8>,
}

/// What a call asks for beside being enqueued or scheduled.
struct Options {
    task: String,
    tracking: Tracking,
    front: bool,
    period: Duration,
    bound: Bound,
}

impl Client {
    /// Connects to the Redis at `url`, from async code.
    ///
    /// # Errors
    /// The address is invalid, or Redis cannot be reached or used.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::with_config(&at(url)).await
    }

    /// Connects with these settings, from async code.
    ///
    /// # Errors
    /// The address is invalid, or Redis cannot be reached or used.
    pub async fn with_config(config: &Config) -> Result<Self, Error> {
        let client = Self::lazy_with_config(config);
        client.link.connect_now().await?;
        Ok(client)
    }

    /// Connects to the Redis at `url`, from a thread without a runtime. The client has its own runtime, on a background
    /// thread that is joined when the last clone is dropped. Use [`enqueue_blocking`](Self::enqueue_blocking) with it.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), or the thread cannot be started.
    ///
    /// # Panics
    /// On a thread that runs async code: use [`connect`](Self::connect) there.
    pub fn connect_blocking(url: &str) -> Result<Self, Error> {
        Self::with_config_blocking(&at(url))
    }

    /// Connects with these settings, from a thread without a runtime.
    ///
    /// # Errors
    /// As [`connect_blocking`](Self::connect_blocking).
    ///
    /// # Panics
    /// As [`connect_blocking`](Self::connect_blocking): use [`with_config`](Self::with_config) there.
    pub fn with_config_blocking(config: &Config) -> Result<Self, Error> {
        let client = Self::lazy_with_config(config);
        client.link.connect_now_blocking()?;
        Ok(client)
    }

    /// Creates a client that connects to the Redis at `url` when it first enqueues a call. It has no thread until then, and can
    /// be created anywhere: before [`delayed::main()`](crate::main), in a `static`, or as a state that tasks share. An invalid
    /// address is an error of the first call.
    ///
    /// In async code it connects on the current runtime. In a thread without a runtime that keeps running while the thread
    /// waits, it has one of its own, like that of [`connect_blocking`](Self::connect_blocking).
    ///
    /// ```no_run
    /// use delayed::{Client, State};
    ///
    /// #[delayed::task]
    /// fn resize(image: String) {}
    ///
    /// #[delayed::task]
    /// async fn publish(images: Vec<String>, other_redis: State<Client>) -> Result<(), delayed::Error> {
    ///     for image in images {
    ///         other_redis.enqueue(resize::call(image)).await?;
    ///     }
    ///     Ok(())
    /// }
    ///
    /// fn main() -> std::process::ExitCode {
    ///     delayed::App::new().state(Client::lazy("redis://other.example.org")).main()
    /// }
    /// ```
    #[must_use]
    pub fn lazy(url: &str) -> Self {
        Self::lazy_with_config(&at(url))
    }

    /// Creates a client like [`lazy`](Self::lazy), with these settings.
    #[must_use]
    pub fn lazy_with_config(config: &Config) -> Self {
        Self { link: Arc::new(Link::new(config.clone())), layers: layer::ClientLayers::default() }
    }

    /// Enqueues one call. If the future is dropped, the call may still be enqueued.
    ///
    /// # Errors
    /// The call cannot be encoded or is too large, or a [layer](Self::layer) refused it; then it was not sent. After an error of Redis,
    /// [`Error::may_have_been_applied`] says whether the call may be in its queue nevertheless.
    pub fn enqueue<C: IntoCall>(
        &self,
        call: C,
    ) -> impl Future<Output = Result<Handle<C::Output>, Error>> + use<'_, C> {
        // Not within the future, which would hold the call for as long as it waits, and many may.
        let call = match self.layers.is_empty() {
            true => Ok(write(self.link.here(), call.into_call())),
            false => Err(Box::pin(self.enqueue_layered(call.into_call().untyped()))),
        };
        async move {
            let enqueued = match call {
                Ok(written) => {
                    let (link, (written, span)) = (self.link.here(), written?);
                    let until = link.until();
                    // Not in a future of its own, which would hold the call twice.
                    let session = link.session(until).await.map_err(|error| span.note(error))?;
                    session.enqueue_written(written, until).await.map_err(|error| span.note(error))?
                }
                Err(layered) => layered.await?,
            };
            Ok(self.handle(enqueued))
        }
    }

    /// Enqueues one call from a thread that may block, such as that of a task that is a plain `fn`.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue), or a thread cannot be started.
    ///
    /// # Panics
    /// On a thread that runs async code: await [`enqueue`](Self::enqueue) there.
    pub fn enqueue_blocking<C: IntoCall>(&self, call: C) -> Result<Handle<C::Output>, Error> {
        if !self.layers.is_empty() {
            let enqueued = self.enqueue_layered_blocking(call.into_call().untyped());
            return enqueued.map(|enqueued| self.handle(enqueued));
        }
        let link = self.link.here();
        let (written, span) = write(link, call.into_call())?;
        let (until, ground) = (link.until(), link.ground().map_err(Error::Io)?);
        let enqueue = async { ground.session(until).await?.enqueue_written(written, until).await };
        let enqueued = ground.handle.block_on(enqueue).map_err(|error| span.note(error))?;
        Ok(self.handle(enqueued))
    }

    fn handle<R>(&self, enqueued: Enqueued) -> Handle<R> {
        let Enqueued { queue, id, conflict } = enqueued;
        Handle::new(self.clone(), queue, id, conflict)
    }

    /// Cancels a call, whatever its state, and returns the state in which it was found: see [`Handle::cancel`].
    ///
    /// ```no_run
    /// # mod tasks { #[delayed::task] pub fn remind(who: String) {} }
    /// # async fn example(client: delayed::Client) -> Result<(), delayed::Error> {
    /// use std::time::Duration;
    ///
    /// let reminder = client.enqueue(tasks::remind::call("ann".into()).after(Duration::from_secs(3600))).await?;
    /// assert_eq!(client.cancel(&reminder).await?, delayed::Cancelled::Scheduled);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Redis cannot be reached, or a key of the timetable has a wrong type. After a connection error the call may or may not be
    /// cancelled; cancelling it again is harmless.
    pub async fn cancel<R>(&self, call: &Handle<R>) -> Result<Cancelled, Error> {
        let Some(id) = call.id() else { return Ok(Cancelled::NotFound) };
        let link = self.link.here();
        let until = link.until();
        link.session(until).await?.cancel(call.queue(), id, until).await
    }

    /// Cancels a call from a thread that may block.
    ///
    /// # Errors
    /// As [`cancel`](Self::cancel), or a thread cannot be started.
    ///
    /// # Panics
    /// On a thread that runs async code: await [`cancel`](Self::cancel) there.
    pub fn cancel_blocking<R>(&self, call: &Handle<R>) -> Result<Cancelled, Error> {
        let Some(id) = call.id() else { return Ok(Cancelled::NotFound) };
        let link = self.link.here();
        let (until, ground) = (link.until(), link.ground().map_err(Error::Io)?);
        ground.handle.block_on(async { ground.session(until).await?.cancel(call.queue(), id, until).await })
    }

    /// The handle of a call that was enqueued elsewhere: by its [`CallId`], or by the text that its sender gave. `R` is what its task returns.
    #[must_use]
    pub fn handle_of<R>(&self, queue: &QueueName, id: impl Into<CallId>) -> Handle<R> {
        Handle::new(self.clone(), queue.clone(), Some(id.into()), None)
    }

    async fn record(&self, queue: &QueueName, id: CallId) -> Result<Option<Record>, Error> {
        let link = self.link.here();
        let until = link.until();
        link.session(until).await?.record(queue, id, until).await
    }

    async fn wait_for(
        &self,
        queue: &QueueName,
        id: CallId,
        timeout: Duration,
    ) -> Result<Option<Record>, Error> {
        let end = Instant::now() + timeout;
        let link = self.link.here();
        let session = link.session(link.until()).await?;
        session.wait_for(queue, id, end).await
    }

    /// Enqueues many calls in order, in chunks of up to 1000, and returns their number. Redis applies a chunk whole or not at
    /// all; each chunk may take as long as a single call.
    ///
    /// # Errors
    /// All calls are checked before the first is sent. After an error of Redis, [`BulkError::fates`] says for each call
    /// whether it is in its queue; if it is empty, none is.
    pub async fn enqueue_many<C: IntoCall>(
        &self,
        calls: impl IntoIterator<Item = C>,
    ) -> Result<usize, BulkError> {
        let link = self.link.here();
        let bulk = match self.layers.is_empty() {
            true => write_all(link, calls)?,
            false => {
                self.write_layered(calls.into_iter().map(|call| call.into_call().untyped()).collect()).await?
            }
        };
        let session = link.session(link.until()).await.map_err(BulkError::nothing_sent)?;
        session.enqueue_many(&bulk, || link.until()).await
    }

    /// Enqueues many calls from a thread that may block.
    ///
    /// # Errors
    /// As [`enqueue_many`](Self::enqueue_many), or a thread cannot be started.
    ///
    /// # Panics
    /// On a thread that runs async code.
    pub fn enqueue_many_blocking<C: IntoCall>(
        &self,
        calls: impl IntoIterator<Item = C>,
    ) -> Result<usize, BulkError> {
        let link = self.link.here();
        let ground = || link.ground().map_err(|error| BulkError::nothing_sent(Error::Io(error)));
        let (ground, bulk) = match self.layers.is_empty() {
            true => {
                let bulk = write_all(link, calls)?;
                (ground()?, bulk)
            }
            false => {
                let (ground, calls) =
                    (ground()?, calls.into_iter().map(|call| call.into_call().untyped()).collect());
                let bulk = ground.handle.block_on(self.write_layered(calls))?;
                (ground, bulk)
            }
        };
        ground.handle.block_on(async {
            let session = ground.session(link.until()).await.map_err(BulkError::nothing_sent)?;
            session.enqueue_many(&bulk, || link.until()).await
        })
    }
}

fn at(url: &str) -> Config {
    Config { redis: RedisConfig::new(url), ..Config::default() }
}

/// Checks and encodes a call. Its span ends when the call is enqueued.
fn write<R>(link: &Link, call: Call<R>) -> Result<(Written, SendSpan), Error> {
    let call = call.in_current_trace();
    let queue = call.queue_name()?;
    let (call, span) = match otel::is_on() {
        true => sending(call, &queue),
        false => (call, SendSpan::default()),
    };
    let refused = |source| Error::Encode { task: call.task().to_owned(), source };
    let limit = link.config.client.max_message;
    let check = |size| match size > limit {
        true => Err(Error::TooLarge { task: call.task().to_owned(), size, limit }),
        false => Ok(()),
    };
    if let Some(BatchItem { name, batch, bytes }) = call.batch_item().map_err(refused)? {
        check(bytes.len())?;
        let written =
            Written { queue, id: None, due: None, options: None, batch: Some((name, batch)), bytes };
        return Ok((written, span));
    }
    let due = call.due().map_err(refused)?;
    let bound = Bound::new(call.max_waiting(), call.overflow_choice(), &link.config.dead);
    let has_options = call.is_tracked() || call.is_front() || bound != Bound::NONE;
    let id = call.own_id().or_else(|| (due.is_some() || call.has_options()).then(CallId::new));
    let bytes = call.encode_as(id).map_err(refused)?;
    check(bytes.len())?;
    let options = has_options.then(|| {
        let id = id.unwrap_or_else(CallId::new);
        let tracking = call.tracking(id).unwrap_or(Tracking { id, keep_ms: None, lock: None });
        let (task, front, period) = (call.task().to_owned(), call.is_front(), call.period());
        Box::new(Options { task, tracking, front, period, bound })
    });
    Ok((Written { queue, id, due, options, batch: None, bytes }, span))
}

/// Begins the span of an enqueue, to whose trace the call then belongs.
fn sending<R>(call: Call<R>, queue: &QueueName) -> (Call<R>, SendSpan) {
    let span = SendSpan::start(call.task(), queue.as_str(), &call.trace());
    let call = match span.trace() {
        Some(trace) => call.traceparent(trace.parent).tracestate(trace.state),
        None => call,
    };
    (call, span)
}

fn write_all<C: IntoCall>(link: &Link, calls: impl IntoIterator<Item = C>) -> Result<Bulk, BulkError> {
    let mut bulk = Bulk::default();
    for call in calls {
        let (written, span) = write(link, call.into_call()).map_err(BulkError::nothing_sent)?;
        bulk.push(written, span);
    }
    Ok(bulk)
}

/// The keys of a queue, for one request.
fn keys(queue: &QueueName) -> QueueKeys {
    QueueKeys::new(queue)
}
