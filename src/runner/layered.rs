//! Runs a blocking task within layers, which are asynchronous.

use std::sync::Arc;
use std::task::{Context as PollContext, Poll, Wake, Waker};

use tokio::runtime::{Handle, Runtime};
use tokio::sync::Notify;

use crate::protocol::arguments::{ArgumentError, Arguments, OwnedArguments};
use crate::task::handler::{Answered, RunFuture, boxed};
use crate::task::{Layers, Registration, Scope, TaskError};

/// A blocking function with its types erased.
pub(super) type Blocking = for<'a> fn(Arguments<'a>, &Scope<'_>) -> Result<Answered, ArgumentError>;

/// Runs the function of a task within layers on this thread.
pub(super) fn run(
    task: &'static Registration,
    function: Blocking,
    arguments: Arguments<'_>,
    scope: &Scope<'_>,
    layers: &Layers,
    runtime: Option<&Runtime>,
) -> Result<Answered, ArgumentError> {
    // As for an asynchronous task, a call whose arguments do not fit does not reach the layers.
    (task.check)(arguments)?;
    let context = scope.context();
    let (inner, owned) = (context.clone(), OwnedArguments::from(arguments));
    let call = async move {
        let answered = function(owned.borrow(), &inner.scope());
        answered.unwrap_or_else(|error| Err(TaskError::fatal(error)))
    };
    Ok(drive(layers.around(context, boxed(call)), runtime))
}

/// Polls a future to its end. Does not use `block_on`: a poll calls the function of the task, which may use `block_on`
/// itself, as `Client::enqueue_blocking` does. While the future waits, `runtime` drives the timers and sockets of the
/// layers, or the other threads of this thread's runtime do.
fn drive(mut future: RunFuture, runtime: Option<&Runtime>) -> Answered {
    let _entered = runtime.map(Runtime::enter);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    loop {
        if let Poll::Ready(answered) = future.as_mut().poll(&mut PollContext::from_waker(&waker)) {
            return answered;
        }
        match runtime {
            Some(runtime) => runtime.block_on(woken.0.notified()),
            None => Handle::current().block_on(woken.0.notified()),
        }
    }
}

/// Stores a wake-up until the next wait.
#[derive(Default)]
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}
