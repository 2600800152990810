//! Enqueues flows, follows them, and begins them: the task that is built into each worker.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::broker::{Broker, FlowKeys};
use crate::client::{Client, Handle};
use crate::error::Error;
use crate::flow::{FlowTree, Flows};
use crate::isolation::{Isolation, Timeouts};
use crate::protocol::arguments::{ArgumentError, Arguments, Param, Presence};
use crate::protocol::backoff::Backoff;
use crate::protocol::call_id::CallId;
use crate::protocol::flow::{Plan, SHORTEST_KEEP_MS, TASK};
use crate::protocol::names::QueueName;
use crate::task::error::TaskError;
use crate::task::handler::{Answered, Handler, RunFuture, boxed};
use crate::task::return_value::ReturnValue;
use crate::task::{IntoFlow, Registration, Scope, TaskOptions};

/// A flow that was enqueued: a [`Handle`] with which it is waited for and cancelled, and more.
///
/// ```no_run
/// mod tasks {
///     #[delayed::task]
///     pub async fn square(number: u64) -> u64 { number * number }
///
///     #[delayed::task]
///     pub async fn sum(numbers: Vec<u64>) -> u64 { numbers.iter().sum() }
/// }
///
/// # async fn example(client: delayed::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let flow = delayed::group([1, 2, 3].map(tasks::square::call)).then(tasks::sum::step());
/// let handle = client.enqueue_flow(flow).await?;
/// let sum: u64 = handle.wait(Duration::from_secs(10)).await?;
/// if let Some(tree) = handle.tree().await? {
///     println!("{tree}");
/// }
/// # Ok(()) }
/// ```
pub struct FlowHandle<R = ()> {
    handle: Handle<R>,
}

impl<R> Deref for FlowHandle<R> {
    type Target = Handle<R>;

    fn deref(&self) -> &Handle<R> {
        &self.handle
    }
}

impl<R> Clone for FlowHandle<R> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone() }
    }
}

impl<R> fmt::Debug for FlowHandle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowHandle").field("handle", &self.handle).finish()
    }
}

impl<R> From<Handle<R>> for FlowHandle<R> {
    /// The handle of a flow, from that of the [call](crate::Flow::call) that begins it.
    fn from(handle: Handle<R>) -> Self {
        Self { handle }
    }
}

impl<R> FlowHandle<R> {
    /// The flow as a tree, with what is known of each step. `None` if it has not begun, or is not kept any more.
    ///
    /// # Errors
    /// Redis cannot be reached or used.
    pub async fn tree(&self) -> Result<Option<FlowTree>, Error> {
        let Some((flows, keys)) = self.flow().await? else { return Ok(None) };
        Ok(flows.tree(&keys).await?)
    }

    /// Lets a flow go on that failed or was cancelled: its steps that did not succeed run again, and those that follow them. Returns
    /// how many steps that are; `None` if the flow has not ended, succeeded, or is not known.
    ///
    /// # Errors
    /// Redis cannot be reached or used. Calling it again is harmless.
    pub async fn retry(&self) -> Result<Option<u64>, Error> {
        let Some((flows, keys)) = self.flow().await? else { return Ok(None) };
        Ok(flows.reopen(&keys).await?)
    }

    async fn flow(&self) -> Result<Option<(Flows, FlowKeys)>, Error> {
        let Some(id) = self.handle.id() else { return Ok(None) };
        let broker = self.handle.client().broker().await?;
        Ok(Some((Flows::new(broker), FlowKeys::new(self.handle.queue(), id))))
    }
}

impl Client {
    /// Enqueues a flow: a [`chain`](crate::chain), a [`group`](crate::group), or a [`Flow`](crate::Flow) of them.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub async fn enqueue_flow<F: IntoFlow>(&self, flow: F) -> Result<FlowHandle<F::Output>, Error> {
        self.enqueue(flow.into_flow()).await.map(FlowHandle::from)
    }

    /// The handle of a flow that was enqueued elsewhere.
    #[must_use]
    pub fn flow_of<R: DeserializeOwned>(&self, queue: &QueueName, id: impl Into<CallId>) -> FlowHandle<R> {
        self.handle_of(queue, id).into()
    }

    /// The connection of this client.
    pub(super) async fn broker(&self) -> Result<Broker, Error> {
        let link = self.link.here();
        Ok(link.session(link.until()).await?.broker().clone())
    }
}

static PARAMS: &[Param] = &[Param { name: "flow", ty: "Flow", presence: Presence::Required }];

/// The wait before each further attempt to begin a flow. The worker's back-off is meant for tasks: with `none`, all attempts could
/// fail before Redis is back.
const PAUSE: Backoff =
    Backoff::Exponential { first: Duration::from_millis(200), max: Duration::from_secs(10) };

/// The task that begins a flow.
#[cfg_attr(not(feature = "worker"), allow(dead_code))]
pub(crate) static BEGIN: Registration = Registration {
    name: TASK,
    location: concat!(file!(), ":", line!()),
    doc: "Begins a flow.",
    params: PARAMS,
    returns: "()",
    options: TaskOptions::DEFAULT
        .with_retry(20)
        .with_backoff(PAUSE)
        .with_isolation(Isolation::Inline)
        .with_timeouts(Timeouts::NONE),
    states: &[],
    context: false,
    check,
    handler: Handler::Async(run),
};

fn check(arguments: Arguments<'_>) -> Result<(), ArgumentError> {
    let mut reader = arguments.reader(PARAMS)?;
    reader.required::<Plan>()?;
    reader.finish()
}

fn run<'a>(arguments: Arguments<'a>, scope: &Scope<'_>) -> Result<RunFuture, ArgumentError> {
    let mut reader = arguments.reader(PARAMS)?;
    let plan: Plan = reader.required()?;
    reader.finish()?;
    let (context, tracking) = (scope.context(), scope.tracking());
    let queue = scope.queue.clone();
    Ok(boxed(async move {
        let Some(tracking) = tracking else {
            return Err(TaskError::fatal(
                "the message of a flow has an id and is kept: use `Client::enqueue_flow`",
            ));
        };
        let plan = plan.flatten().map_err(TaskError::fatal)?;
        let keep_ms = tracking.keep_ms.unwrap_or(0).max(SHORTEST_KEEP_MS);
        let client = context.client();
        let keys = FlowKeys::new(&queue, tracking.id);
        let record = client.record(&queue, tracking.id).await.map_err(TaskError::retry)?;
        if record.and_then(|record| record.state()).is_some_and(|state| state.is_final()) {
            return Ok(ReturnValue::default());
        }
        let flows = Flows::new(client.broker().await.map_err(TaskError::retry)?);
        let begun: Answered = flows
            .begin(&keys, &plan, keep_ms, tracking.lock)
            .await
            .map(|()| ReturnValue::default())
            .map_err(TaskError::retry);
        begun
    }))
}
