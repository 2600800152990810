//! Makes calls of what can be enqueued: of Python and Go tasks, too.

use super::{Call, Kind, QueueChoice};
use crate::task::foreign::{GoTask, PyTask};

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
        Self::of(QueueChoice::default(), Kind::Python(Box::new(task)))
    }
}

impl From<GoTask> for Call {
    fn from(task: GoTask) -> Self {
        Self::of(QueueChoice::default(), Kind::Go(task))
    }
}
