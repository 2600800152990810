//! Runs one call in the process of the test, without Redis.

use std::future::IntoFuture;
use std::pin::Pin;

#[cfg(feature = "cli")]
use crate::app::App;
use crate::protocol::message::Message;
use crate::task::{Call, IntoCall, Registry, States};
use crate::testing::background::Background;
use crate::testing::run::Run;
use crate::worker::run_single;

/// Runs one call here and now, without Redis: `testing::run(tasks::send::call(…)).await`, or [`blocking`](Inline::blocking) from a
/// thread that may block. The call is encoded and decoded as on its way to a worker, its task gets its states and its
/// [`Context`](crate::Context), a panic is caught, and its timeout applies.
///
/// ```standalone_crate
/// use delayed::testing;
///
/// mod mail {
///     #[delayed::task(retry = 3)]
///     pub async fn send(to: String, ctx: delayed::Context) -> Result<(), String> {
///         if to.contains('@') { Ok(()) } else { Err(format!("{to:?} is not an address, in attempt {}", ctx.attempt())) }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// assert!(testing::run(mail::send::call("ann@example.org".into())).await.succeeded());
///
/// let run = testing::run(mail::send::call("ann".into())).attempt(4).await;
/// assert_eq!(run.error(), Some("\"ann\" is not an address, in attempt 4"));
/// assert!(run.is_dead(), "three retries were all");
/// # }
/// ```
///
/// The outcome is what a worker would do with the call. Nothing is enqueued; for a task that enqueues calls itself, see
/// [`Inline::state`].
///
/// # Panics
/// When it is awaited: the call cannot be encoded, the name of its queue is invalid, or the program has no task. The panic of a
/// task is an outcome.
pub fn run(call: impl IntoCall) -> Inline {
    Inline { call: call.into_call().untyped(), states: States::new(), attempt: 1 }
}

/// A call that is to run here: see [`run`].
#[derive(Debug)]
#[must_use = "nothing runs until it is awaited, or `blocking` is called"]
pub struct Inline {
    call: Call,
    states: States,
    attempt: u32,
}

impl Inline {
    /// Shares a value with the task, as [`App::state`](crate::App::state) does. A [`Client`](crate::Client) is also that of
    /// [`Context::client`](crate::Context::client): `.state(redis.client())`.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// Shares all of these values with the task, in place of those given before.
    pub fn states(mut self, states: States) -> Self {
        self.states = states;
        self
    }

    /// Shares the values of a program with the task, in place of those given before.
    #[cfg(feature = "cli")]
    pub fn app(self, app: App) -> Self {
        self.states(app.into_parts().states)
    }

    /// Sets the number of the attempt. Default: 1.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// Runs the call, from a thread that may block.
    ///
    /// # Panics
    /// See [`run`].
    #[must_use = "a run that failed is no panic"]
    pub fn blocking(self) -> Run {
        Background::start().unwrap_or_else(|error| refuse(&error)).wait(self.into_future())
    }

    async fn run(self) -> Run {
        let queue = self.call.queue_name().unwrap_or_else(|error| refuse(&error));
        let mut message = self.call.encode().unwrap_or_else(|error| refuse(&error));
        for _ in 1..self.attempt {
            message = Message::decode(&message).unwrap_or_else(|error| refuse(&error)).retried();
        }
        let registry = Registry::collect().unwrap_or_else(|error| refuse(&error));
        let ended = run_single(message, queue, &registry, self.states).await;
        let lost = ended.outcome.to_string();
        Run::of(ended).unwrap_or_else(|| refuse(&lost))
    }
}

impl IntoFuture for Inline {
    type Output = Run;
    type IntoFuture = Pin<Box<dyn Future<Output = Run> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

fn refuse(problem: &dyn std::fmt::Display) -> ! {
    panic!("delayed::testing::run: {problem}")
}
