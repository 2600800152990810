#![doc = include_str!("../README.md")]

// Lets `#[delayed::task]` be used inside this crate's own tests.
extern crate self as delayed;

#[cfg(feature = "cli")]
mod app;
// Each feature uses a part of it.
#[cfg(feature = "broker")]
#[cfg_attr(
    not(all(feature = "client", feature = "worker", feature = "inspect")),
    allow(dead_code, unused_imports)
)]
mod broker;
#[cfg(feature = "cli")]
mod cli;
#[cfg(feature = "client")]
mod client;
pub mod config;
#[cfg(feature = "broker")]
mod crash;
#[cfg(feature = "broker")]
mod error;
#[cfg(feature = "inspect")]
pub mod inspect;
pub mod isolation;
pub mod protocol;
#[cfg(feature = "worker")]
mod runner;
#[cfg(feature = "sweeper")]
mod sweeper;
#[cfg(feature = "worker")]
mod sys;
pub mod task;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "worker")]
pub mod worker;

#[cfg(feature = "cli")]
pub use crate::app::App;
#[cfg(feature = "broker")]
pub use crate::broker::{BrokerError, BrokerErrorKind};
#[cfg(feature = "cli")]
pub use crate::cli::main;
#[cfg(feature = "client")]
pub use crate::client::{BulkError, Client, Enqueued, Fate};
#[cfg(feature = "broker")]
pub use crate::error::Error;
#[cfg(feature = "inspect")]
pub use crate::inspect::Inspector;
pub use crate::protocol::call_id::CallId;
pub use crate::protocol::timestamp::Timestamp;
#[cfg(feature = "worker")]
pub use crate::runner::{Zygote, ZygoteBuilder, ZygoteError};
#[cfg(feature = "sweeper")]
pub use crate::sweeper::{SweepReport, Sweeper};
pub use crate::task::{Call, Context, GoTask, PyTask, Registry, State, Task, TaskError};
#[cfg(feature = "worker")]
pub use crate::worker::Worker;
#[cfg(feature = "macros")]
#[doc = include_str!("task/attribute.md")]
pub use delayed_macros::task;

#[doc(hidden)]
pub mod __private {
    //! What the code that `#[delayed::task]` writes refers to. Not for use by hand.
    #[cfg(all(feature = "testing", feature = "cli"))]
    pub use crate::cli::json_message;
    #[cfg(all(feature = "testing", feature = "broker"))]
    pub use crate::crash::point as crash_point;
    pub use crate::isolation::{Isolation, Limits, Timeouts};
    pub use crate::protocol::arguments::{ArgumentError, Arguments, Param, Presence};
    pub use crate::protocol::encode::Encoder;
    #[cfg(all(feature = "testing", feature = "worker"))]
    pub use crate::runner::read_frames;
    pub use crate::task::argument;
    pub use crate::task::handler::{
        Handler, Returned, RunFuture, SettleError, SettleResult, SettleValue, boxed,
    };
    pub use crate::task::{Registration, Scope, StateType, TaskOptions};
    pub use inventory;
}
