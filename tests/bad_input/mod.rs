//! What others leave in the queue: nothing of it stops a worker, and nothing is lost.

mod bytes;
mod calls;
mod failing;
mod fatal;
mod foreign;
mod gaps;
mod keys;
mod many_keys;
mod server;
mod unknown;
mod wrong_types;
