//! Describes a call: a task with its arguments, before it is sent.

mod annotations;

use std::fmt;
use std::marker::PhantomData;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use crate::protocol::annotations::Annotations;
use crate::protocol::backoff::Backoff;
use crate::protocol::call_id::CallId;
use crate::protocol::encode::{self, EncodeError, Encoder, Meta};
use crate::protocol::limit::{LimitError, MAX_LIMITS};
use crate::protocol::meta;
use crate::protocol::names::{NameError, QueueName};
use crate::protocol::tracking::{Lock, LockMode, Tracking};
use crate::task::foreign::{GoTask, PyTask};
use crate::task::registration::Task;
use crate::task::unique::Unique;

/// A task with its arguments and options, ready to be enqueued. `tasks::add::call(1, 2)` creates one; a [`PyTask`] or a
/// [`GoTask`] can be converted into one.
///
/// ```
/// mod tasks {
///     #[delayed::task(queue = "sums")]
///     pub fn add(a: i64, b: i64) -> i64 {
///         a + b
///     }
/// }
///
/// let call = tasks::add::call(1, 2).retry(3);
/// assert_eq!(call.queue_name().unwrap().as_str(), "sums");
/// assert!(call.task().ends_with("::tasks::add"));
/// ```
///
/// `R` is what the task returns, as [`Handle::wait`](crate::Handle::wait) gives it: the `T` of a `Result<T, …>`.
#[must_use = "a call does nothing until a client enqueues it"]
pub struct Call<R = ()> {
    queue: QueueChoice,
    due: Option<Due>,
    unique: Option<Unique>,
    unique_key: Option<String>,
    is_front: bool,
    max_len: Option<u64>,
    kind: Kind,
    returns: PhantomData<fn() -> R>,
}

impl<R> Clone for Call<R> {
    fn clone(&self) -> Self {
        Self {
            queue: self.queue.clone(),
            unique_key: self.unique_key.clone(),
            kind: self.kind.clone(),
            ..*self
        }
    }
}

impl<R> fmt::Debug for Call<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, due, unique, unique_key, is_front, max_len, kind, returns: _ } = self;
        f.debug_struct("Call")
            .field("queue", queue)
            .field("due", due)
            .field("unique", unique)
            .field("unique_key", unique_key)
            .field("is_front", is_front)
            .field("max_len", max_len)
            .field("kind", kind)
            .finish()
    }
}

/// What can be enqueued: a [`Call`], a [`PyTask`] or a [`GoTask`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a call of a task",
    label = "expected a call, such as `my_task::call(…)`",
    note = "`my_task(…)` calls the function itself, here and now; `my_task::call(…)` makes a call that a worker runs"
)]
pub trait IntoCall {
    /// What the task returns.
    type Output;

    /// The call.
    fn into_call(self) -> Call<Self::Output>;
}

impl<R> IntoCall for Call<R> {
    type Output = R;

    fn into_call(self) -> Self {
        self
    }
}

impl IntoCall for PyTask {
    type Output = ();

    fn into_call(self) -> Call {
        self.into()
    }
}

impl IntoCall for GoTask {
    type Output = ();

    fn into_call(self) -> Call {
        self.into()
    }
}

/// When a scheduled call is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// This long after it was enqueued, by the clock of Redis.
    After(Duration),
    /// At this moment, or at once if it has passed.
    At(SystemTime),
}

#[cfg_attr(not(feature = "client"), allow(dead_code))]
impl Due {
    /// The furthest: more than a hundred years.
    const LATEST: Duration = Duration::from_secs(101 * 366 * 24 * 60 * 60);

    /// Whether a timetable takes it.
    pub(crate) fn check(self) -> Result<Self, EncodeError> {
        let ahead = match self {
            Self::After(delay) => delay,
            Self::At(moment) => moment.duration_since(SystemTime::now()).unwrap_or_default(),
        };
        if ahead > Self::LATEST { Err(EncodeError::TooFarAhead) } else { Ok(self) }
    }
}

/// Who is to run it.
#[derive(Debug, Clone)]
enum Kind {
    Native {
        task: &'static str,
        payload: Result<Vec<u8>, EncodeError>,
        meta: Meta,
        annotations: Annotations,
        /// The name of a limit that is not valid.
        refused: Option<Box<LimitError>>,
    },
    Python(PyTask),
    Go(GoTask),
}

impl<R> Call<R> {
    /// A call of `T` with the arguments in `encoder`.
    #[doc(hidden)]
    pub fn new<T: Task>(encoder: Encoder) -> Self {
        let registration = T::registration();
        let options = &registration.options;
        let meta = Meta { keep_ms: options.keep.map(meta::milliseconds), ..Meta::default() };
        let annotations = Annotations::default();
        let (task, payload) = (registration.name, encoder.finish());
        let kind = Kind::Native { task, payload, meta, annotations, refused: None };
        let queue = options.queue.map(QueueChoice::from).unwrap_or_default();
        Self { unique: options.unique, ..Self::of(queue, kind) }
    }

    fn of(queue: QueueChoice, kind: Kind) -> Self {
        Self {
            queue,
            due: None,
            unique: None,
            unique_key: None,
            is_front: false,
            max_len: None,
            kind,
            returns: PhantomData,
        }
    }

    /// The same call without the type of its result, so that calls of several tasks can stand in one list.
    pub fn untyped(self) -> Call {
        let Self { queue, due, unique, unique_key, is_front, max_len, kind, returns: _ } = self;
        Call { queue, due, unique, unique_key, is_front, max_len, kind, returns: PhantomData }
    }

    /// Sets the queue: a `&str`, a `String` or a [`QueueName`]. An invalid name is an error of [`queue_name`](Self::queue_name), and
    /// so of the client that enqueues the call.
    pub fn queue(self, name: impl Into<QueueChoice>) -> Self {
        Self { queue: name.into(), ..self }
    }

    /// Runs the call this long after it was enqueued, by the clock of Redis, in whole milliseconds. Until then it is in the
    /// timetable of its queue, under its [`id`](Self::id) or a new one: see [`Enqueued::id`](crate::Enqueued::id). Replaces an
    /// earlier `after` or [`at`](Self::at).
    ///
    /// ```
    /// # mod tasks { #[delayed::task] pub fn remind(who: String) {} }
    /// use std::time::Duration;
    ///
    /// let call = tasks::remind::call("ann".into()).after(Duration::from_secs(60));
    /// let python = delayed::PyTask::new("mails:remind").arg("ann").queue("mail").after(Duration::from_secs(60));
    /// # drop((call, python));
    /// ```
    pub fn after(self, delay: Duration) -> Self {
        Self { due: Some(Due::After(delay)), ..self }
    }

    /// Runs the call at this moment, by the clock of Redis, or at once if it has passed. See [`after`](Self::after).
    pub fn at(self, moment: SystemTime) -> Self {
        Self { due: Some(Due::At(moment)), ..self }
    }

    /// Keeps a record of the call for this long after its end: its state, its times, and what it returned. Then
    /// [`Handle::wait`](crate::Handle::wait) gives the result, and `calls show` shows it. In whole milliseconds.
    ///
    /// No effect on a [`PyTask`] or a [`GoTask`], whose messages have no field for it.
    pub fn keep(mut self, time: Duration) -> Self {
        if let Kind::Native { meta, .. } = &mut self.kind {
            meta.keep_ms = Some(meta::milliseconds(time));
        }
        self
    }

    /// Makes the call unique among those of the same task with the same arguments, or the same
    /// [`unique_key`](Self::unique_key). One that comes second is not enqueued: its [`Handle`](crate::Handle) is that of the
    /// first, and says so.
    ///
    /// No effect on a [`PyTask`] or a [`GoTask`], whose messages have no field for it.
    ///
    /// ```
    /// # mod tasks { #[delayed::task] pub fn index(page: u64) {} }
    /// use std::time::Duration;
    /// use delayed::Unique;
    ///
    /// let once = tasks::index::call(7).unique(Unique::UntilDone);
    /// let at_most_hourly = tasks::index::call(7).unique(Unique::For(Duration::from_secs(3600)));
    /// let last_one_wins = tasks::index::call(7).unique(Unique::Replace).after(Duration::from_secs(5));
    /// # drop((once, at_most_hourly, last_one_wins));
    /// ```
    pub fn unique(self, unique: Unique) -> Self {
        Self { unique: Some(unique), ..self }
    }

    /// Compares unique calls of the task by this key, instead of by their arguments. Without [`unique`](Self::unique), and
    /// without that option of the task, the key holds [until the call has ended](Unique::UntilDone).
    pub fn unique_key(self, key: impl Into<String>) -> Self {
        Self { unique_key: Some(key.into()), unique: self.unique.or(Some(Unique::UntilDone)), ..self }
    }

    /// Puts the call at the head of its queue: it runs before those that wait. No effect on a scheduled call.
    pub fn front(self) -> Self {
        Self { is_front: true, ..self }
    }

    /// Refuses the call if this many already wait in its queue: see [`Error::QueueFull`](crate::Error::QueueFull). No effect
    /// on a scheduled call.
    pub fn max_len(self, most: u64) -> Self {
        Self { max_len: Some(most.max(1)), ..self }
    }

    /// Sets how often the call is retried, in place of the task's `retry`. A negative number: without limit.
    ///
    /// No effect on a [`GoTask`]: Go's worker does not retry.
    pub fn retry(mut self, retry: i64) -> Self {
        match &mut self.kind {
            Kind::Native { meta, .. } => meta.retry = Some(retry),
            Kind::Python(task) => task.set_retry(retry),
            Kind::Go(_) => {}
        }
        self
    }

    /// Sets the number of attempts, at least 1: [`retry`](Self::retry) plus one.
    ///
    /// No effect on a [`GoTask`]: Go's worker does not retry.
    pub fn max_attempts(self, attempts: u32) -> Self {
        self.retry(i64::from(attempts.max(1)) - 1)
    }

    /// Sets how long the call waits after each failed attempt, in place of the task's and the worker's `backoff`.
    ///
    /// No effect on a [`PyTask`] or a [`GoTask`], whose messages have no field for it.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        if let Kind::Native { meta, .. } = &mut self.kind {
            meta.backoff = Some(backoff);
        }
        self
    }

    /// Sets how long one run may take, in place of the task's `timeout`. In whole milliseconds, at least 1.
    ///
    /// No effect on a [`PyTask`] or a [`GoTask`], whose messages have no field for it.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        if let Kind::Native { meta, .. } = &mut self.kind {
            meta.timeout_ms = Some(meta::milliseconds(timeout).max(1));
        }
        self
    }

    /// Sets the moment after which the call is useless: it does not begin later, and a run that has begun is asked to end. By the
    /// clocks of the two hosts. A call that is too late becomes a dead letter, and is not retried.
    ///
    /// No effect on a [`PyTask`] or a [`GoTask`], whose messages have no field for it.
    pub fn deadline(mut self, deadline: SystemTime) -> Self {
        if let Kind::Native { meta, .. } = &mut self.kind {
            meta.deadline_ms = Some(meta::since_1970(deadline));
        }
        self
    }

    /// Sets the id, which the task can read from its [`Context`](crate::Context).
    ///
    /// No effect on a [`PyTask`] or a [`GoTask`], whose messages have no field for it.
    pub fn id(mut self, id: CallId) -> Self {
        if let Kind::Native { meta, .. } = &mut self.kind {
            meta.id = Some(id);
        }
        self
    }

    /// Sets a new id: see [`call_id`](Self::call_id).
    pub fn with_id(self) -> Self {
        self.id(CallId::new())
    }

    /// The path of the task.
    #[must_use]
    pub fn task(&self) -> &str {
        match &self.kind {
            Kind::Native { task, .. } => task,
            Kind::Python(task) => task.path(),
            Kind::Go(task) => task.path(),
        }
    }

    /// The id, if the call has one.
    #[must_use]
    pub fn call_id(&self) -> Option<CallId> {
        match &self.kind {
            Kind::Native { meta, .. } => meta.id,
            Kind::Python(_) | Kind::Go(_) => None,
        }
    }

    /// The queue of the call.
    ///
    /// # Errors
    /// [`queue`](Self::queue) was given an invalid name.
    pub fn queue_name(&self) -> Result<QueueName, NameError> {
        self.queue.0.clone()
    }

    #[cfg_attr(not(feature = "client"), expect(dead_code))]
    /// When the call is due; `None`: at once.
    ///
    /// # Errors
    /// The time is more than a hundred years ahead.
    pub(crate) fn due(&self) -> Result<Option<Due>, EncodeError> {
        self.due.map(Due::check).transpose()
    }

    /// How the call is followed, under this id; `None`: not at all.
    #[cfg_attr(not(feature = "client"), allow(dead_code))]
    pub(crate) fn tracking(&self, id: CallId) -> Option<Tracking> {
        let Kind::Native { task, payload: Ok(payload), meta, .. } = &self.kind else { return None };
        let lock = self.lock(task, payload);
        let keep_ms = meta.keep_ms.or(lock.map(|_| 0));
        keep_ms.map(|keep_ms| Tracking { id, keep_ms: Some(keep_ms), lock })
    }

    /// Whether the call keeps a record or is unique, and so has an id.
    #[cfg_attr(not(feature = "client"), allow(dead_code))]
    pub(crate) fn is_tracked(&self) -> bool {
        matches!(self.kind, Kind::Native { meta: Meta { keep_ms: Some(_), .. }, .. })
            || (self.unique.is_some() && matches!(self.kind, Kind::Native { .. }))
    }

    /// Whether the call goes to the head of its queue.
    #[cfg_attr(not(feature = "client"), allow(dead_code))]
    pub(crate) fn is_front(&self) -> bool {
        self.is_front
    }

    /// How many calls may wait in its queue before it.
    #[cfg_attr(not(feature = "client"), allow(dead_code))]
    pub(crate) fn most_waiting(&self) -> Option<u64> {
        self.max_len
    }

    /// For how long its lock holds, where it holds for a time.
    #[cfg_attr(not(feature = "client"), allow(dead_code))]
    pub(crate) fn period(&self) -> Duration {
        match self.unique {
            Some(Unique::For(period)) => period,
            _ => Duration::ZERO,
        }
    }

    fn lock(&self, task: &str, payload: &[u8]) -> Option<Lock> {
        let mode = match self.unique? {
            Unique::UntilStarted => LockMode::UntilStarted,
            Unique::UntilDone => LockMode::UntilDone,
            Unique::For(_) => LockMode::Period,
            Unique::Replace => LockMode::Replace,
        };
        Some(match &self.unique_key {
            Some(key) => Lock::of_key(mode, task, key),
            None => Lock::of_arguments(mode, task, payload),
        })
    }

    /// Encodes the message. Without options, its bytes are those of Go for the same call.
    ///
    /// # Errors
    /// An argument cannot be encoded, the headers are too many or too large, or the trace context is invalid.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        match &self.kind {
            Kind::Native { task, payload, meta, annotations, refused } => {
                let payload = payload.as_ref().map_err(Clone::clone)?;
                if let Some(refused) = refused {
                    return Err(LimitError::clone(refused).into());
                }
                let count = annotations.limits.len();
                if count > MAX_LIMITS {
                    return Err(LimitError::TooMany { count }.into());
                }
                annotations.headers.check()?;
                annotations.trace.check()?;
                let lock = self.lock(task, payload);
                let keep_ms = meta.keep_ms.or(lock.map(|_| 0));
                Ok(encode::annotated(task, payload, &Meta { keep_ms, lock, ..*meta }, annotations))
            }
            Kind::Python(task) => task.encode(),
            Kind::Go(task) => task.encode(),
        }
    }
}

impl PyTask {
    /// Sets the queue, in place of `default`: see [`Call::queue`].
    pub fn queue(self, name: impl Into<QueueChoice>) -> Call {
        Call::from(self).queue(name)
    }
}

impl GoTask {
    /// Sets the queue, in place of `default`: see [`Call::queue`].
    pub fn queue(self, name: impl Into<QueueChoice>) -> Call {
        Call::from(self).queue(name)
    }
}

impl From<PyTask> for Call {
    fn from(task: PyTask) -> Self {
        Self::of(QueueChoice::default(), Kind::Python(task))
    }
}

impl From<GoTask> for Call {
    fn from(task: GoTask) -> Self {
        Self::of(QueueChoice::default(), Kind::Go(task))
    }
}

/// What [`Call::queue`] takes.
#[derive(Debug, Clone)]
pub struct QueueChoice(Result<QueueName, NameError>);

impl Default for QueueChoice {
    fn default() -> Self {
        static DEFAULT: LazyLock<QueueName> = LazyLock::new(QueueName::default);
        DEFAULT.clone().into()
    }
}

impl From<QueueName> for QueueChoice {
    fn from(name: QueueName) -> Self {
        Self(Ok(name))
    }
}

impl From<&QueueName> for QueueChoice {
    fn from(name: &QueueName) -> Self {
        Self(Ok(name.clone()))
    }
}

impl From<&str> for QueueChoice {
    fn from(name: &str) -> Self {
        Self(QueueName::parse(name))
    }
}

impl From<String> for QueueChoice {
    fn from(name: String) -> Self {
        name.as_str().into()
    }
}
