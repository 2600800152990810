//! Runs a task that blocks inside of layers, which are asynchronous.

use std::sync::Arc;
use std::task::{Context as PollContext, Poll, Wake, Waker};

use tokio::runtime::{Handle, Runtime};
use tokio::sync::Notify;

use crate::protocol::arguments::{ArgumentError, Arguments, OwnedArguments};
use crate::task::handler::{Answered, RunFuture, boxed};
use crate::task::{Layers, Registration, Scope, TaskError};

/// A function that blocks, its types erased.
pub(super) type Blocking = for<'a> fn(Arguments<'a>, &Scope<'_>) -> Result<Answered, ArgumentError>;

/// Runs the function of a task inside of layers, on this thread.
pub(super) fn run(
    task: &'static Registration,
    function: Blocking,
    arguments: Arguments<'_>,
    scope: &Scope<'_>,
    layers: &Layers,
    runtime: Option<&Runtime>,
) -> Result<Answered, ArgumentError> {
    // As for a task that is asynchronous: a call whose arguments do not fit does not come to the layers.
    (task.check)(arguments)?;
    let context = scope.context();
    let (inner, owned) = (context.clone(), OwnedArguments::from(arguments));
    let call = async move {
        let answered = function(owned.borrow(), &inner.scope());
        answered.unwrap_or_else(|error| Err(TaskError::fatal(error)))
    };
    Ok(drive(layers.around(context, boxed(call)), runtime))
}

/// Polls a future to its end. Not within `block_on`: the function of the task is called by a poll, and may use `block_on` itself,
/// as `Client::enqueue_blocking` does. Timers and sockets of the layers are driven while the future waits: by `runtime`, or by the
/// other threads of the runtime that this thread belongs to.
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

/// Keeps a wake-up until somebody waits for it.
#[derive(Default)]
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}
