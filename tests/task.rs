//! Does `#[delayed::task]` write what it says? Handlers are called here as a worker calls them, with MessagePack
//! that stands there byte for byte.
#![cfg(feature = "macros")]
#![allow(clippy::unwrap_used, reason = "a test may panic, and so may its helpers")]

#[path = "task/answers.rs"]
mod answers;
#[path = "task/arguments.rs"]
mod arguments;
#[path = "task/calls.rs"]
mod calls;
#[path = "task/injected.rs"]
mod injected;
#[path = "task/registry.rs"]
mod registry;
#[path = "task/run.rs"]
mod run;
