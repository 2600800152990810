//! How is a task run in this process? Polled or called, with its panics caught.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context as PollContext, Poll};

use crate::crash;
use crate::protocol::arguments::Arguments;
use crate::runner::outcome::Outcome;
use crate::task::handler::Handler;
use crate::task::handler::RunFuture;
use crate::task::{Registration, Scope, TaskError};

/// A run of an asynchronous task. Resolves to its outcome; never panics.
///
/// Cancel-safe in the sense that dropping it drops the task's future where it stands.
pub(crate) struct Run {
    future: RunFuture,
}

/// Reads the arguments of an asynchronous task and makes its run. A task that blocks is not for here.
pub(crate) fn start(
    task: &'static Registration,
    arguments: Arguments<'_>,
    scope: &Scope<'_>,
) -> Result<Run, Outcome> {
    let Handler::Async(function) = task.handler else {
        return Err(run_blocking(task, arguments, scope));
    };
    crash::point("run", "before");
    match catch_unwind(AssertUnwindSafe(|| function(arguments, scope))) {
        Ok(Ok(future)) => Ok(Run { future }),
        Ok(Err(error)) => Err(Outcome::Arguments { problem: error.to_string() }),
        Err(payload) => Err(panicked(payload)),
    }
}

/// Runs a task that blocks to its end, on this thread.
pub(crate) fn run_blocking(
    task: &'static Registration,
    arguments: Arguments<'_>,
    scope: &Scope<'_>,
) -> Outcome {
    let Handler::Blocking(function) = task.handler else {
        return Outcome::Failed(TaskError::fatal("an asynchronous task cannot run on a blocking thread"));
    };
    crash::point("run", "before");
    match catch_unwind(AssertUnwindSafe(|| function(arguments, scope))) {
        Ok(Ok(result)) => returned(result),
        Ok(Err(error)) => Outcome::Arguments { problem: error.to_string() },
        Err(payload) => panicked(payload),
    }
}

impl Future for Run {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut PollContext<'_>) -> Poll<Outcome> {
        match catch_unwind(AssertUnwindSafe(|| self.future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(result)) => Poll::Ready(returned(result)),
            Err(payload) => Poll::Ready(panicked(payload)),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // What the task's future owns may panic when it is dropped; that is no reason to lose a slot.
        let future = std::mem::replace(&mut self.future, Box::pin(std::future::pending()));
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(future))) {
            drop(panicked(payload));
        }
    }
}

fn returned(result: Result<(), TaskError>) -> Outcome {
    crash::point("run", "effect");
    result.into()
}

impl From<Result<(), TaskError>> for Outcome {
    fn from(result: Result<(), TaskError>) -> Self {
        match result {
            Ok(()) => Self::Succeeded,
            Err(error) => Self::Failed(error),
        }
    }
}

fn panicked(payload: Box<dyn Any + Send>) -> Outcome {
    let message = match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => match payload.downcast::<&'static str>() {
            Ok(text) => (*text).to_owned(),
            Err(payload) => {
                // A payload of the task's own type may panic when it is dropped: what comes of that is leaked.
                if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                    std::mem::forget(another);
                }
                "a panic without a text".to_owned()
            }
        },
    };
    Outcome::Panicked { message }
}
