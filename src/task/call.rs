//! What is a call: a task with its arguments, before it is sent.

use std::sync::LazyLock;

use crate::protocol::encode::{EncodeError, Encoder};
use crate::protocol::names::{NameError, QueueName};
use crate::task::registration::Task;

/// The id of a call. (stub: moves to the protocol)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallId([u8; 16]);

/// A task with its arguments and options, ready to be enqueued. `tasks::add::call(1, 2)` makes one.
///
/// ```
/// mod tasks {
///     #[delayed::task(queue = "sums")]
///     pub fn add(a: i64, b: i64) -> i64 {
///         a + b
///     }
/// }
/// let call = tasks::add::call(1, 2).retry(3);
/// assert_eq!(call.queue_name().unwrap().as_str(), "sums");
/// assert!(call.task().ends_with("::tasks::add"));
/// ```
#[derive(Debug, Clone)]
#[must_use = "a call does nothing until a client enqueues it"]
pub struct Call {
    task: &'static str,
    queue: QueueChoice,
    payload: Result<Vec<u8>, EncodeError>,
    retry: Option<i64>,
    id: Option<CallId>,
}

impl Call {
    /// A call of `T` with the arguments in `encoder`.
    #[doc(hidden)]
    pub fn new<T: Task>(encoder: Encoder) -> Self {
        let registration = T::registration();
        Self {
            task: registration.name,
            queue: registration.options.queue.map(QueueChoice::from).unwrap_or_default(),
            payload: encoder.finish(),
            retry: None,
            id: None,
        }
    }

    /// Into this queue: a `&str`, a `String` or a [`QueueName`]. A name that is not allowed is an error of
    /// [`queue_name`](Self::queue_name), and so of the client that enqueues the call.
    pub fn queue(self, name: impl Into<QueueChoice>) -> Self {
        Self { queue: name.into(), ..self }
    }

    /// May be retried so often, whatever the task's own `retry` says; negative is for ever.
    pub fn retry(self, retry: i64) -> Self {
        Self { retry: Some(retry), ..self }
    }

    /// With this id, which the task can read from its `Context`.
    pub fn id(self, id: CallId) -> Self {
        Self { id: Some(id), ..self }
    }

    /// The path of the task.
    #[must_use]
    pub fn task(&self) -> &str {
        self.task
    }

    /// The id, when the call has one.
    #[must_use]
    pub fn call_id(&self) -> Option<CallId> {
        self.id
    }

    /// The queue that the call goes to.
    ///
    /// # Errors
    /// [`queue`](Self::queue) was given a name that is not allowed.
    pub fn queue_name(&self) -> Result<QueueName, NameError> {
        self.queue.0.clone()
    }

    /// The bytes that stand in the queue.
    ///
    /// # Errors
    /// An argument that could not be written.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let payload = self.payload.clone()?;
        let mut message = Vec::with_capacity(payload.len() + self.task.len() + 16);
        let written = rmp::encode::write_array_len(&mut message, 2)
            .and_then(|_| rmp::encode::write_str(&mut message, self.task))
            .and_then(|()| rmp::encode::write_bin(&mut message, &payload));
        written.map(|()| message).map_err(|_| EncodeError)
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
