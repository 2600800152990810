//! What is a call: a task with its arguments, before it is sent.

use crate::protocol::encode::{EncodeError, Encoder};
use crate::task::registry::Task;

/// A task with its arguments and options, ready to be enqueued. `tasks::add::call(1, 2)` makes one.
#[derive(Debug, Clone)]
#[must_use = "a call does nothing until a client enqueues it"]
pub struct Call {
    task: &'static str,
    queue: Option<&'static str>,
    payload: Result<Vec<u8>, EncodeError>,
}

impl Call {
    /// A call of `T` with the arguments in `encoder`.
    #[doc(hidden)]
    pub fn new<T: Task>(encoder: Encoder) -> Self {
        let registration = T::registration();
        Self { task: registration.name, queue: registration.options.queue, payload: encoder.finish() }
    }
}
