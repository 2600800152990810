//! Describes a call: a task with its arguments, before it is sent.

mod annotations;
mod batch;
mod builder;
mod due;
mod expiry;
mod flow;
mod into_call;
mod options;
mod payload;
#[cfg(feature = "periodic")]
#[cfg_attr(not(all(feature = "client", feature = "worker", feature = "cli")), allow(dead_code))]
mod periodic;
mod queue_choice;
mod submission;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

#[cfg(feature = "client")]
pub(crate) use self::batch::BatchItem;
#[cfg(feature = "broker")]
pub(crate) use self::due::Due;
#[cfg(any(feature = "cli", feature = "gateway"))]
pub(crate) use self::expiry::Expiry;
pub use self::into_call::IntoCall;
use self::options::CallOptions;
use self::payload::Encoded;
pub(crate) use self::payload::Payload;
pub use self::queue_choice::QueueChoice;
use crate::protocol::annotations::Annotations;
use crate::protocol::call_id::CallId;
use crate::protocol::encode::{EncodeError, Encoder, Meta};
use crate::protocol::names::{NameError, QueueName, check_path};
use crate::task::foreign::{GoTask, PyTask};
use crate::task::registration::{Task, TaskBatch, TaskOptions};

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
    kind: Kind,
    /// `None` for a plain call, which stays small and allocates its payload alone.
    options: Option<Box<CallOptions>>,
    returns: PhantomData<fn() -> R>,
}

/// Who is to run it.
#[derive(Debug, Clone)]
enum Kind {
    Native {
        task: &'static str,
        /// That of one item, if the task runs in batches.
        payload: Result<Vec<u8>, Box<EncodeError>>,
        batch: Option<&'static TaskBatch>,
    },
    /// Of a task that is named at run time.
    #[cfg_attr(not(feature = "gateway"), allow(dead_code))]
    Named(Box<Named>),
    Python(Box<PyTask>),
    Go(GoTask),
}

/// A call of a task that is named at run time, its arguments encoded.
#[derive(Debug, Clone)]
struct Named {
    task: String,
    payload: Payload,
}

/// What a message of ours is made of.
struct Native<'a> {
    task: &'a str,
    payload: Result<Encoded<'a>, &'a EncodeError>,
}

impl<R> Call<R> {
    /// A call of `T` with the arguments in `encoder`.
    #[doc(hidden)]
    pub fn new<T: Task>(encoder: Encoder) -> Self {
        let registration = T::registration();
        let payload = encoder.finish().map_err(Box::new);
        let kind =
            Kind::Native { task: registration.name, payload, batch: registration.options.batch.as_ref() };
        let queue = registration.options.queue.map(QueueChoice::from).unwrap_or_default();
        Self { options: CallOptions::of_task(&registration.options), ..Self::of(queue, kind) }
    }

    /// A call of a task that is named at run time, with the options of its task where that is known. `by_place`: the payload
    /// means the same only if it is read by place.
    #[cfg_attr(not(feature = "gateway"), allow(dead_code))]
    pub(crate) fn named(task: String, payload: Payload, by_place: bool, of: Option<&TaskOptions>) -> Self {
        let queue = of.and_then(|task| task.queue).map(QueueChoice::from).unwrap_or_default();
        let options = of.and_then(CallOptions::of_task);
        let call = Self { options, ..Self::of(queue, Kind::Named(Box::new(Named { task, payload }))) };
        if by_place { call.with(|options| options.meta.by_place = true) } else { call }
    }

    fn of(queue: QueueChoice, kind: Kind) -> Self {
        Self { queue, kind, options: None, returns: PhantomData }
    }

    /// The same call without the type of its result, so that calls of several tasks can stand in one list.
    pub fn untyped(self) -> Call {
        let Self { queue, kind, options, returns: _ } = self;
        Call { queue, kind, options, returns: PhantomData }
    }

    /// Sets the queue: a `&str`, a `String` or a [`QueueName`]. An invalid name is an error of [`queue_name`](Self::queue_name), and
    /// so of the client that enqueues the call.
    pub fn queue(self, name: impl Into<QueueChoice>) -> Self {
        Self { queue: name.into(), ..self }
    }

    /// The path of the task.
    #[must_use]
    pub fn task(&self) -> &str {
        match &self.kind {
            Kind::Native { task, .. } => task,
            Kind::Named(named) => &named.task,
            Kind::Python(task) => task.path(),
            Kind::Go(task) => task.path(),
        }
    }

    /// The queue of the call.
    ///
    /// # Errors
    /// [`queue`](Self::queue) was given an invalid name.
    pub fn queue_name(&self) -> Result<QueueName, NameError> {
        self.queue.name()
    }

    /// Encodes the message. Without options, its bytes are those of Go for the same call.
    ///
    /// # Errors
    /// An argument cannot be encoded, the headers are too many or too large, or the trace context is invalid.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        self.encode_as(self.call_id())
    }

    /// Encodes the message with this id in place of its own.
    pub(crate) fn encode_as(&self, id: Option<CallId>) -> Result<Vec<u8>, EncodeError> {
        match &self.kind {
            Kind::Python(task) => return task.encode(),
            Kind::Go(task) => return task.encode(),
            Kind::Named(named) => check_path(&named.task)?,
            Kind::Native { .. } => {}
        }
        let Some(Native { task, payload }) = self.native() else { return Ok(Vec::new()) };
        let payload = payload.map_err(Clone::clone)?;
        match &self.options {
            Some(options) => options.encode(task, &payload, id),
            None => Ok(payload.message(task, &Meta { id, ..Meta::default() }, &Annotations::default())),
        }
    }

    /// What the message of a call of ours is made of.
    fn native(&self) -> Option<Native<'_>> {
        match &self.kind {
            Kind::Native { task, payload, batch } => {
                let payload = payload.as_ref().map(|payload| Encoded::ByPlace(arguments(payload, *batch)));
                Some(Native { task, payload: payload.map_err(|error| &**error) })
            }
            Kind::Named(named) => {
                let payload = match &named.payload {
                    Payload::ByPlace(payload) => Encoded::ByPlace(Cow::Borrowed(payload)),
                    Payload::ByName(keywords) => Encoded::ByName(keywords),
                };
                Some(Native { task: &named.task, payload: Ok(payload) })
            }
            Kind::Python(_) | Kind::Go(_) => None,
        }
    }

    fn is_native(&self) -> bool {
        matches!(self.kind, Kind::Native { .. } | Kind::Named(_))
    }
}

/// The payload of a call that runs by itself: of a task that runs in batches, the list of one item.
fn arguments<'a>(payload: &'a [u8], batch: Option<&TaskBatch>) -> Cow<'a, [u8]> {
    match batch {
        Some(_) => Cow::Owned([&[0x91], payload].concat()),
        None => Cow::Borrowed(payload),
    }
}

impl<R> Clone for Call<R> {
    fn clone(&self) -> Self {
        let Self { queue, kind, options, returns: _ } = self;
        Self { queue: queue.clone(), kind: kind.clone(), options: options.clone(), returns: PhantomData }
    }
}

impl<R> fmt::Debug for Call<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, kind, options, returns: _ } = self;
        let mut call = f.debug_struct("Call");
        call.field("queue", queue).field("kind", kind).field("options", options).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_call_is_small() {
        assert!(size_of::<Call>() <= 80, "{} bytes", size_of::<Call>());
    }
}
