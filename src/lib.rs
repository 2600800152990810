//! Delayed calls across Rust, Python and Go through Redis.

// Lets `#[delayed::task]` be used inside this crate's own tests.
extern crate self as delayed;

#[cfg(feature = "broker")]
mod broker;
pub mod config;
pub mod protocol;
pub mod task;

pub use crate::task::{Call, Context, State, Task, TaskError};
#[cfg(feature = "macros")]
pub use delayed_macros::task;

#[doc(hidden)]
pub mod __private {
    //! What the code that `#[delayed::task]` writes refers to. Not for use by hand.
    pub use crate::protocol::arguments::{ArgumentError, Arguments, Param, Presence};
    pub use crate::protocol::encode::Encoder;
    pub use crate::task::handler::{
        Handler, Returned, RunFuture, SettleError, SettleResult, SettleValue, boxed,
    };
    pub use crate::task::{Registration, Scope, StateType, TaskOptions};
    pub use inventory;
}
