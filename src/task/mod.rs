//! Tasks and calls: the handler and the registry of a task, what it may ask for and what it may return.
//! Knows neither Redis nor processes.

pub(crate) mod argument;
pub(crate) mod batch;
mod call;
mod cancellation;
mod context;
pub(crate) mod error;
mod flow;
mod foreign;
pub(crate) mod handler;
// Only a worker has runs to surround.
#[cfg_attr(not(feature = "worker"), allow(dead_code))]
mod layer;
mod overflow;
// Clients define them, workers declare those of their programs, and the command line checks others.
#[cfg(feature = "periodic")]
#[cfg_attr(not(all(feature = "client", feature = "worker", feature = "cli")), allow(dead_code))]
mod periodic;
pub(crate) mod progress;
mod registration;
mod registry;
pub(crate) mod return_value;
mod state;
mod unique;
// A client asks in which trace it is, a worker says so.
#[cfg_attr(not(all(feature = "client", feature = "worker")), allow(dead_code))]
pub(crate) mod trace;

#[cfg(feature = "client")]
pub(crate) use self::call::BatchItem;
#[cfg(feature = "broker")]
pub(crate) use self::call::Due;
#[cfg(any(feature = "cli", feature = "gateway"))]
pub(crate) use self::call::Expiry;
#[cfg(feature = "gateway")]
pub(crate) use self::call::Payload;
pub use self::call::{Call, IntoCall, QueueChoice};
pub use self::cancellation::Cancellation;
pub use self::context::{Context, Scope};
pub use self::error::TaskError;
#[cfg(feature = "worker")]
pub(crate) use self::error::{FailedItem, FailedItems, RetryWhen};
pub use self::flow::{
    Chain, Flow, FlowFailure, FlowPart, Group, IntoFlow, Members, Step, Takes, chain, group, group_of,
};
pub use self::foreign::{GoTask, PyTask};
#[cfg(feature = "worker")]
pub(crate) use self::layer::Layers;
pub use self::layer::Next;
pub use self::overflow::Overflow;
#[cfg(feature = "periodic")]
pub use self::periodic::Periodic;
#[cfg(feature = "periodic")]
pub(crate) use self::periodic::PeriodicEntry;
pub use self::registration::{Registration, Task, TaskBatch, TaskCron, TaskOptions};
pub use self::registry::{MissingState, Registry, RegistryError};
pub use self::state::{State, StateType, States};
pub use self::unique::Unique;
