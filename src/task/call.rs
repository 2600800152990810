//! What is a call: a task with its arguments, before it is sent.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use crate::protocol::call_id::CallId;
use crate::protocol::encode::{self, EncodeError, Encoder, Meta};
use crate::protocol::meta;
use crate::protocol::names::{NameError, QueueName};
use crate::task::foreign::{GoTask, PyTask};
use crate::task::registration::Task;

/// A task with its arguments and options, ready to be enqueued. `tasks::add::call(1, 2)` makes one; a [`PyTask`]
/// or a [`GoTask`] becomes one.
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
#[derive(Debug, Clone)]
#[must_use = "a call does nothing until a client enqueues it"]
pub struct Call {
    queue: QueueChoice,
    kind: Kind,
}

/// Who is to run it.
#[derive(Debug, Clone)]
enum Kind {
    Native { task: &'static str, payload: Result<Vec<u8>, EncodeError>, meta: Meta },
    Python(PyTask),
    Go(GoTask),
}

impl Call {
    /// A call of `T` with the arguments in `encoder`.
    #[doc(hidden)]
    pub fn new<T: Task>(encoder: Encoder) -> Self {
        let registration = T::registration();
        let kind = Kind::Native { task: registration.name, payload: encoder.finish(), meta: Meta::default() };
        Self { queue: registration.options.queue.map(QueueChoice::from).unwrap_or_default(), kind }
    }

    /// Into this queue: a `&str`, a `String` or a [`QueueName`]. A name that is not allowed is an error of
    /// [`queue_name`](Self::queue_name), and so of the client that enqueues the call.
    pub fn queue(self, name: impl Into<QueueChoice>) -> Self {
        Self { queue: name.into(), ..self }
    }

    /// May be retried so often, whatever the task's own `retry` says; negative is for ever.
    ///
    /// It means nothing to a [`GoTask`]: Go's worker does not retry.
    pub fn retry(mut self, retry: i64) -> Self {
        match &mut self.kind {
            Kind::Native { meta, .. } => meta.retry = Some(retry),
            Kind::Python(task) => task.set_retry(retry),
            Kind::Go(_) => {}
        }
        self
    }

    /// One run of it may go on for this time, whatever the task's own `timeout` says. In whole milliseconds, at least 1.
    ///
    /// It means nothing to a [`PyTask`] or a [`GoTask`], whose messages have no place for it.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        if let Kind::Native { meta, .. } = &mut self.kind {
            meta.timeout_ms = Some(meta::milliseconds(timeout).max(1));
        }
        self
    }

    /// It is of no use after this moment: a run that has not begun does not begin, and one that has is asked to end. By
    /// the clocks of the two hosts. A call that is too late goes to the dead letters, and is not retried.
    ///
    /// It means nothing to a [`PyTask`] or a [`GoTask`], whose messages have no place for it.
    pub fn deadline(mut self, deadline: SystemTime) -> Self {
        if let Kind::Native { meta, .. } = &mut self.kind {
            meta.deadline_ms = Some(meta::since_1970(deadline));
        }
        self
    }

    /// With this id, which the task can read from its [`Context`](crate::Context).
    ///
    /// It means nothing to a [`PyTask`] or a [`GoTask`], whose messages have no place for one.
    pub fn id(mut self, id: CallId) -> Self {
        if let Kind::Native { meta, .. } = &mut self.kind {
            meta.id = Some(id);
        }
        self
    }

    /// With a new id: [`call_id`](Self::call_id) tells it.
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

    /// The id, when the call has one.
    #[must_use]
    pub fn call_id(&self) -> Option<CallId> {
        match &self.kind {
            Kind::Native { meta, .. } => meta.id,
            Kind::Python(_) | Kind::Go(_) => None,
        }
    }

    /// The queue that the call goes to.
    ///
    /// # Errors
    /// [`queue`](Self::queue) was given a name that is not allowed.
    pub fn queue_name(&self) -> Result<QueueName, NameError> {
        self.queue.0.clone()
    }

    /// The bytes that stand in the queue. Without options they are what Go makes of the same call.
    ///
    /// # Errors
    /// An argument that could not be written.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        match &self.kind {
            Kind::Native { task, payload, meta } => {
                payload.as_ref().map(|payload| encode::native(task, payload, meta)).map_err(Clone::clone)
            }
            Kind::Python(task) => task.encode(),
            Kind::Go(task) => task.encode(),
        }
    }
}

impl From<PyTask> for Call {
    fn from(task: PyTask) -> Self {
        Self { queue: QueueChoice::default(), kind: Kind::Python(task) }
    }
}

impl From<GoTask> for Call {
    fn from(task: GoTask) -> Self {
        Self { queue: QueueChoice::default(), kind: Kind::Go(task) }
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
