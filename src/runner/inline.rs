//! Runs a task in this process: polls or calls it, and catches its panics.

use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as PollContext, Poll};
use std::thread;

use bytes::Bytes;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;

use crate::crash;
use crate::excerpt::{excerpt, shortened};
use crate::protocol::arguments::{ArgumentError, Arguments};
use crate::protocol::message::Message;
use crate::protocol::names::{QueueName, WorkerId};
use crate::runner::outcome::Outcome;
use crate::runner::{layered, span, streams};
use crate::task::handler::{Answered, Handler, RunFuture};
use crate::task::progress::Reporter;
use crate::task::trace::{traced, within};
use crate::task::{Cancellation, Layers, Registration, Scope, States, TaskError};

thread_local! {
    /// The task whose code this thread is running. It has no destructor, so it can be read while the process exits.
    static RUNNING: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// As long as this exists, the thread is running the code of a task.
struct InTask {
    before: Option<&'static str>,
}

impl InTask {
    fn enter(task: &'static str) -> Self {
        Self { before: RUNNING.replace(Some(task)) }
    }
}

impl Drop for InTask {
    fn drop(&mut self) {
        RUNNING.set(self.before);
    }
}

/// The task whose code this thread is running.
pub(crate) fn running_here() -> Option<&'static str> {
    RUNNING.get()
}

/// A run of an asynchronous task. Resolves to its outcome; never panics.
///
/// Cancel-safe in the sense that dropping it drops the task's future at its current `await`.
pub(crate) struct Run {
    task: &'static str,
    future: Stage,
}

enum Stage {
    /// The task's own future.
    Begun(RunFuture),
    /// A future that waits for the states of its task first, and resolves to the outcome.
    Waiting(Pin<Box<dyn Future<Output = Outcome> + Send>>),
}

/// Decodes the arguments of an asynchronous task and creates its run. Not for blocking tasks.
pub(crate) fn start(
    task: &'static Registration,
    arguments: Arguments<'_>,
    scope: &Scope<'_>,
    layers: &Layers,
) -> Result<Run, Outcome> {
    let Handler::Async(function) = task.handler else {
        return Err(run_blocking(task, arguments, scope, layers, None));
    };
    crash::point("run", "before");
    match catch_unwind(AssertUnwindSafe(|| surrounded(function, arguments, scope, layers))) {
        Ok(Ok(future)) => {
            let future = span::within(future, scope);
            let future = match scope.trace() {
                None => future,
                Some(trace) => traced(future, trace),
            };
            Ok(Run { task: task.name, future: Stage::Begun(future) })
        }
        Ok(Err(error)) => Err(Outcome::Arguments { problem: excerpt(error) }),
        Err(payload) => Err(panicked(payload)),
    }
}

/// The future of a task within the layers of its program.
#[inline]
fn surrounded(
    function: for<'a> fn(Arguments<'a>, &Scope<'_>) -> Result<RunFuture, ArgumentError>,
    arguments: Arguments<'_>,
    scope: &Scope<'_>,
    layers: &Layers,
) -> Result<RunFuture, ArgumentError> {
    if layers.is_empty() {
        return function(arguments, scope);
    }
    let context = scope.context();
    let future = function(arguments, &scope.with_context(&context))?;
    Ok(layers.around(context, future))
}

/// The run of an asynchronous task whose states are not created yet.
pub(crate) fn start_with_states(
    task: &'static Registration,
    message: Bytes,
    queue: QueueName,
    (states, layers, reporter): (Arc<States>, Layers, Option<Reporter>),
    cancellation: Cancellation,
    (worker, slot): (WorkerId, usize),
) -> Run {
    let future = Box::pin(async move {
        if let Err(outcome) = make_states(task, &states).await {
            return outcome;
        }
        // The message was decoded before it came here, so decoding succeeds again.
        let message = match Message::decode(&message) {
            Ok(message) => message,
            Err(error) => return Outcome::Malformed { problem: excerpt(error) },
        };
        let scope = Scope::new(task.name, &queue, &states, &cancellation)
            .message(&message)
            .reporter(reporter.as_ref())
            .place(&worker, slot);
        match start(task, message.arguments(), &scope, &layers) {
            Ok(run) => run.await,
            Err(outcome) => outcome,
        }
    });
    Run { task: task.name, future: Stage::Waiting(future) }
}

/// Creates the missing states of a task on a separate thread, because their constructors may block and may use the runtime.
/// Fails if a constructor panicked.
pub(super) async fn make_states(task: &'static Registration, states: &Arc<States>) -> Result<(), Outcome> {
    if states.are_made(task.states) {
        return Ok(());
    }
    let (done, made) = oneshot::channel();
    let (handle, states) = (Handle::current(), Arc::clone(states));
    let make = move || {
        let _within = handle.enter();
        // The receiver is gone if the run was dropped.
        let _ = done.send(catch_unwind(AssertUnwindSafe(|| states.make(task.states))));
    };
    let Ok(thread) = thread::Builder::new().name("delayed-state".into()).spawn(make) else {
        // No thread is available: the states are created where the task uses them.
        return Ok(());
    };
    let made = made.await;
    // The thread has finished its work.
    let _ = thread.join();
    match made {
        Ok(Err(payload)) => Err(panicked(payload)),
        Ok(Ok(())) | Err(_) => Ok(()),
    }
}

/// Runs a blocking task to its end on this thread. Layers around it wait in `runtime`, or in the runtime of this thread.
pub(crate) fn run_blocking(
    task: &'static Registration,
    arguments: Arguments<'_>,
    scope: &Scope<'_>,
    layers: &Layers,
    runtime: Option<&Runtime>,
) -> Outcome {
    let Handler::Blocking(function) = task.handler else {
        return Outcome::Failed(TaskError::fatal("an asynchronous task cannot run on a blocking thread"));
    };
    crash::point("run", "before");
    let _in_task = InTask::enter(task.name);
    let span = span::of_scope(scope);
    let _entered = span.enter();
    let function = || match layers.is_empty() {
        true => function(arguments, scope),
        false => layered::run(task, function, arguments, scope, layers, runtime),
    };
    let function = || match scope.trace() {
        None => function(),
        Some(trace) => within(trace, function),
    };
    match catch_unwind(AssertUnwindSafe(function)) {
        Ok(Ok(result)) => returned(result),
        Ok(Err(error)) => Outcome::Arguments { problem: excerpt(error) },
        Err(payload) => panicked(payload),
    }
}

impl Future for Run {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut PollContext<'_>) -> Poll<Outcome> {
        let _in_task = InTask::enter(self.task);
        let future = match &mut self.future {
            Stage::Begun(future) => future,
            Stage::Waiting(future) => return future.as_mut().poll(cx),
        };
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(result)) => Poll::Ready(returned(result)),
            Err(payload) => Poll::Ready(panicked(payload)),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Dropping the task's future may panic, which must not lose a slot.
        let gone = Stage::Begun(Box::pin(std::future::pending()));
        let future = std::mem::replace(&mut self.future, gone);
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(future))) {
            drop(panicked(payload));
        }
    }
}

fn returned(result: Answered) -> Outcome {
    crash::point("run", "effect");
    result.into()
}

impl From<Answered> for Outcome {
    fn from(result: Answered) -> Self {
        match result {
            Ok(value) => Self::Succeeded(value),
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
                // Dropping a panic payload of a custom type may panic; the second payload is leaked.
                if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                    std::mem::forget(another);
                }
                "a panic without a text".to_owned()
            }
        },
    };
    if streams::excuses(&message) {
        return Outcome::Lost { problem: message };
    }
    Outcome::Panicked { message: shortened(message) }
}
