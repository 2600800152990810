#![doc = include_str!("../../docs/testing.md")]

mod arguments;
mod background;
mod connection;
mod drain;
mod enqueued;
mod expectation;
mod inline;
mod macros;
mod network;
mod private_redis;
mod run;
mod server;
mod timetable;
mod value;

pub use self::drain::Drain;
pub use self::enqueued::EnqueuedCall;
pub use self::inline::{Inline, run};
#[doc(inline)]
pub use self::macros::{assert_enqueued, refute_enqueued};
pub use self::network::{Fault, Mode, Proxy, Requests, Side, Trap};
pub use self::private_redis::Redis;
pub use self::run::{Run, RunOutcome, Runs};

/// Used by the code that the macros of this module generate. May change in any release.
#[doc(hidden)]
pub mod __private {
    pub use super::arguments::{Comparable, next};
    pub use super::expectation::{Due, Expectation, Position, assert_enqueued, refute_enqueued};
    pub use super::macros::{expected_args, expected_call};
}
