//! Implements `docs/protocol.md`: bytes and keys, without Redis and without tokio.

pub mod annotations;
pub mod arguments;
pub mod backoff;
pub mod call_id;
pub(crate) mod call_state;
pub mod decode;
pub mod encode;
pub(crate) mod flow;
pub mod info;
pub mod keys;
pub mod limit;
pub mod message;
pub(crate) mod meta;
pub mod names;
pub(crate) mod plan_error;
pub mod timestamp;
pub mod tracking;
pub mod value;

/// The version of `docs/protocol.md` that this crate speaks.
pub const VERSION: u32 = 1;
