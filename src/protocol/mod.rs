//! Implements `docs/protocol.md`: bytes and keys, without Redis and without tokio.

pub mod annotations;
pub mod arguments;
pub mod backoff;
pub mod batch;
pub mod call_id;
pub(crate) mod call_state;
#[cfg(feature = "periodic")]
pub mod cron;
pub mod decode;
pub mod encode;
// A client writes flows, and a worker reads of which flow a call is a step.
#[cfg_attr(not(all(feature = "client", feature = "worker")), allow(dead_code))]
pub(crate) mod flow;
// A worker writes it, and an inspector reads it.
#[cfg_attr(not(all(feature = "inspect", feature = "worker")), allow(dead_code))]
pub(crate) mod history;
pub mod info;
pub mod keys;
pub mod limit;
pub mod message;
pub(crate) mod meta;
pub mod names;
pub mod periodic;
pub(crate) mod plan_error;
// A worker writes it, and a gateway reads it.
#[cfg_attr(not(all(feature = "gateway", feature = "worker")), allow(dead_code))]
pub(crate) mod published;
// What talks to Redis reads it.
#[cfg_attr(
    not(any(feature = "client", feature = "worker", feature = "sweeper", feature = "inspect")),
    allow(dead_code)
)]
pub(crate) mod slot;
pub mod timestamp;
pub mod tracking;
pub mod value;

/// The version of `docs/protocol.md` that this crate speaks.
pub const VERSION: u32 = 1;
