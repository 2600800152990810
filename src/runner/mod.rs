//! Runs one message and says what happened. Knows nothing of queues, and never imports the broker.

mod child;
mod forward;
mod frame;
mod inline;
mod job;
mod layered;
mod leftovers;
mod link;
mod one_shot;
mod outcome;
mod output;
mod pool;
mod pooled_child;
mod process;
mod sigterm;
mod span;
mod speed;
pub(crate) mod streams;
mod timeout;
mod watch;
mod zygote;

#[cfg(feature = "testing")]
pub use self::frame::read_frames;
pub(crate) use self::inline::{Run, run_blocking, running_here, start, start_with_states};
pub(crate) use self::job::{Done, Job};
#[cfg(test)]
pub(crate) use self::outcome::{Exit, Resource};
pub(crate) use self::outcome::{Outcome, ProcessStats, TimeLimit};
pub(crate) use self::pool::{PoolOptions, Processes, RunHandle};
pub(crate) use self::speed::Speed;
pub use self::zygote::{Zygote, ZygoteBuilder, ZygoteError};
