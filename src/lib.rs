//! Delayed calls across Rust, Python and Go through Redis.

// Lets `#[delayed::task]` be used inside this crate's own tests.
extern crate self as delayed;

pub mod protocol;
pub mod task;

pub use crate::protocol::call_id::CallId;
pub use crate::protocol::timestamp::Timestamp;
pub use crate::task::{Call, Context, GoTask, PyTask, State, Task, TaskError};
#[cfg(feature = "macros")]
pub use delayed_macros::task;

#[doc(hidden)]
pub mod __private {
    //! What the code that `#[delayed::task]` writes refers to. Not for use by hand.
    pub use crate::protocol::arguments::{ArgumentError, Arguments, Param, Presence};
    pub use crate::protocol::encode::Encoder;
    pub use crate::task::argument;
    pub use crate::task::handler::{
        Handler, Returned, RunFuture, SettleError, SettleResult, SettleValue, boxed,
    };
    pub use crate::task::{Registration, Scope, StateType, TaskOptions};
    pub use inventory;
}
