//! What others leave in the queue: nothing of it stops a worker, and nothing is lost.

mod bytes;
mod calls;
mod cluster;
mod failing;
mod fatal;
mod gaps;
mod keys;
mod server;
mod unknown;
