//! A task queue on Redis: call a Rust function later, in another process, from Rust, Python or Go. No call is lost when
//! a worker is killed.
//!
//! The attribute turns a function into a task. The same program can run as worker, sweeper and command-line tool:
//!
//! ```no_run
//! mod tasks {
//!     /// Sends a mail.
//!     #[delayed::task(queue = "mail", retry = 3)]
//!     pub async fn send(to: String, text: Option<String>) -> Result<(), String> {
//!         println!("to {to}: {}", text.as_deref().unwrap_or("hello"));
//!         Ok(())
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     delayed::main()
//! }
//! ```
//!
//! `my_program worker --queue mail` runs the calls. This enqueues one:
//!
//! ```no_run
//! # mod tasks { #[delayed::task] pub async fn send(to: String, text: Option<String>) {} }
//! # async fn example() -> Result<(), delayed::Error> {
//! let client = delayed::Client::connect("redis://127.0.0.1:6379").await?;
//! client.enqueue(tasks::send::call("ann@example.org".into(), None)).await?;
//! # Ok(()) }
//! ```
//!
//! **The guarantee.** An enqueued call runs *at least once*. Apart from its retries, it runs again only if the end of a
//! run was not recorded in Redis: because its worker died, lost the connection for longer than its lease, or was
//! stopped before the run ended. So write tasks that can safely run twice. A call that cannot run becomes a dead letter
//! with a reason.
//!
//! # What to use
//!
//! | to | use |
//! |---|---|
//! | declare a task: its queue, retries, timeouts, isolation | [`#[delayed::task]`](macro@task), [`TaskError`] |
//! | share a pool or a client with the tasks of a program | [`App`], [`State`] |
//! | read the attempt and the headers, notice that a run should end | [`Context`] |
//! | wrap each run or enqueue with your own code | [`App::layer`], [`Client::layer`] |
//! | enqueue calls | [`Client`], [`Call`] |
//! | make a call at the times of a cron expression | `cron = "…"` in the [attribute](macro@task), [`Periodic`] |
//! | call functions of Python and Go | [`PyTask`], [`GoTask`] |
//! | run a worker in your own `main` | [`Worker`], [`Registry`], and [`Zygote`] for isolated tasks |
//! | requeue the calls of dead workers | [`Sweeper`]; each worker also does so for its own queues |
//! | accept calls over HTTP | [`Gateway`](gateway), with the feature `gateway` |
//! | see and operate all of it in a browser | [`Dashboard`](web), with the feature `web` |
//! | show metrics to Prometheus, answer probes | [`Exporter`], with the feature `metrics` |
//! | export the spans of calls to OpenTelemetry | [`otel`], with the feature `otel` |
//! | inspect queues, requeue dead letters | [`Inspector`], [`inspect`] |
//! | change a setting | [`config`] |
//! | test a program: its enqueued calls, its tasks, and network failures | `delayed::testing`, with the feature `testing` |
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `macros` | yes | [`#[delayed::task]`](macro@task) |
//! | `client` | yes | [`Client`] |
//! | `worker` | yes | [`Worker`], [`Zygote`] |
//! | `sweeper` | yes | [`Sweeper`] |
//! | `cli` | yes | [`delayed::main`](main()), [`App`] and the command line; includes `client`, `worker`, `sweeper` and `inspect` |
//! | `periodic` | yes | [`Periodic`]: calls at the times of a cron expression; included in `cli` |
//! | `tls` | yes | addresses that begin with `rediss://` |
//! | `inspect` | with `cli` | [`Inspector`] |
//! | `gateway` | no | [`Gateway`]: an HTTP front with axum, and the command `gateway`; includes `client` and `inspect` |
//! | `top` | no | the command `top`; includes `cli` |
//! | `web` | no | [`Dashboard`]: pages about queues, calls and workers, and the command `web`; includes `gateway` and `periodic` |
//! | `metrics` | no | [`Exporter`]: metrics for Prometheus and probes; includes `worker` and `inspect` |
//! | `otel` | no | [`otel`]: spans of calls, exported over OTLP; includes `client` and `worker` |
//! | `testing` | no | `delayed::testing`; includes `client`, `worker` and `inspect` |
//!
//! A program that only enqueues calls needs: `delayed = { version = "0.1", default-features = false, features = ["macros", "client"] }`.
//!
//! # Embedding a worker
//!
//! ```no_run
//! #[delayed::task]
//! async fn resize(image: String) {}
//!
//! #[tokio::main]
//! async fn main() -> Result<(), delayed::Error> {
//!     let worker = delayed::Worker::builder("redis://127.0.0.1:6379").signals(true).connect().await?;
//!     let stopped = worker.run().await?;
//!     println!("{} calls succeeded", stopped.stats.succeeded);
//!     Ok(())
//! }
//! ```
//!
//! # Inspecting queues
//!
//! ```no_run
//! # async fn example() -> Result<(), delayed::Error> {
//! let inspector = delayed::Inspector::connect("redis://127.0.0.1:6379").await?;
//! for queue in inspector.queues().await? {
//!     println!("{}: {} waiting, {} dead", queue.queue, queue.waiting, queue.dead);
//! }
//! # Ok(()) }
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

// Lets `#[delayed::task]` be used inside this crate's own tests.
extern crate self as delayed;

#[cfg(feature = "cli")]
mod acl;
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
// Short texts are a matter of all features, packets and output of one.
#[cfg_attr(not(feature = "worker"), allow(dead_code))]
mod excerpt;
#[cfg(feature = "metrics")]
mod exporter;
#[cfg(feature = "broker")]
#[cfg_attr(
    not(all(feature = "client", feature = "sweeper", feature = "inspect")),
    allow(dead_code, unused_imports, unreachable_pub)
)]
mod flow;
#[cfg(feature = "gateway")]
pub mod gateway;
#[cfg(any(feature = "gateway", feature = "metrics"))]
mod http;
#[cfg(feature = "inspect")]
pub mod inspect;
pub mod isolation;
#[cfg(any(feature = "cli", feature = "gateway"))]
#[cfg_attr(not(all(feature = "cli", feature = "gateway")), allow(dead_code))]
mod json;
// Counts are kept by a worker, and read by an exporter.
#[cfg(feature = "worker")]
#[cfg_attr(not(feature = "metrics"), allow(dead_code))]
mod meter;
#[cfg(feature = "otel")]
pub mod otel;
#[cfg(all(any(feature = "client", feature = "worker"), not(feature = "otel")))]
#[cfg_attr(not(all(feature = "client", feature = "worker")), allow(dead_code, unused_imports))]
mod otel;
mod protocol;
#[cfg(feature = "broker")]
#[cfg_attr(not(all(feature = "worker", feature = "cli")), allow(dead_code))]
mod repeats;
#[cfg(feature = "worker")]
mod runner;
#[cfg(feature = "sweeper")]
mod sweeper;
#[cfg(any(feature = "client", feature = "worker"))]
// A client asks only whether it was forked.
#[cfg_attr(not(feature = "worker"), allow(dead_code, unused_imports))]
mod sys;
mod task;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "web")]
pub mod web;
#[cfg(feature = "worker")]
pub mod worker;

#[cfg(feature = "cli")]
pub use crate::app::App;
#[cfg(feature = "broker")]
pub use crate::broker::{BrokerError, BrokerErrorKind};
#[cfg(feature = "cli")]
pub use crate::cli::main;
#[cfg(feature = "client")]
pub use crate::client::{
    BulkError, Client, Conflict, Enqueued, Fate, FlowHandle, Handle, NextEnqueue, Progress, WaitError,
};
#[cfg(feature = "broker")]
pub use crate::error::Error;
#[cfg(feature = "metrics")]
pub use crate::exporter::Exporter;
#[cfg(any(feature = "client", feature = "inspect"))]
pub use crate::flow::{FlowNode, FlowTree};
#[cfg(feature = "gateway")]
#[doc(inline)]
pub use crate::gateway::Gateway;
#[cfg(feature = "inspect")]
#[doc(inline)]
pub use crate::inspect::Inspector;
pub use crate::protocol::annotations::{HeaderError, TraceError};
pub use crate::protocol::call_id::{CallId, CallIdError};
pub use crate::protocol::call_state::{CallState, Cancelled};
#[cfg(feature = "periodic")]
pub use crate::protocol::cron::ScheduleError;
pub use crate::protocol::encode::EncodeError;
pub use crate::protocol::limit::{Limit, LimitError, LimitName, Period};
pub use crate::protocol::names::{NameError, PathError, QueueName};
pub use crate::protocol::periodic::{Missed, Overlap, PeriodicError, PolicyError};
pub use crate::protocol::plan_error::PlanError;
pub use crate::protocol::timestamp::{Timestamp, TimestampRangeError};
#[cfg(feature = "worker")]
pub use crate::runner::{Zygote, ZygoteBuilder, ZygoteError};
#[cfg(feature = "sweeper")]
pub use crate::sweeper::{SweepReport, Sweeper};
#[cfg(feature = "periodic")]
pub use crate::task::Periodic;
pub use crate::task::{
    Call, Chain, Context, Flow, FlowFailure, FlowPart, GoTask, Group, IntoCall, IntoFlow, Members,
    MissingState, Next, Overflow, PyTask, QueueChoice, Registry, RegistryError, State, States, Step, Takes,
    Task, TaskError, Unique, chain, group, group_of,
};
#[cfg(feature = "web")]
#[doc(inline)]
pub use crate::web::Dashboard;
#[cfg(feature = "worker")]
#[doc(inline)]
pub use crate::worker::Worker;
#[cfg(feature = "macros")]
#[doc = include_str!("task/attribute.md")]
pub use delayed_macros::task;

/// Compiles the programs of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[derive(Debug)]
pub struct Readme;

/// Compiles the program of the document on flows as a test.
#[cfg(doctest)]
#[doc = include_str!("../docs/flows.md")]
#[derive(Debug)]
pub struct Flows;

/// Used by the code that `#[delayed::task]` generates, and by our own tests. May change in any release.
#[doc(hidden)]
pub mod __private {
    #[cfg(feature = "cli")]
    pub use crate::acl::{Rights, Role};
    #[cfg(feature = "broker")]
    pub use crate::broker::script_text;
    #[cfg(all(feature = "testing", feature = "cli"))]
    pub use crate::cli::json_message;
    #[cfg(all(feature = "testing", feature = "broker"))]
    pub use crate::crash::point as crash_point;
    pub use crate::isolation::{Isolation, Limits, Timeouts};
    pub use crate::protocol::arguments::{ArgumentError, Arguments, Param, Presence};
    pub use crate::protocol::backoff::Backoff;
    pub use crate::protocol::encode::Encoder;
    #[cfg(all(feature = "testing", feature = "worker"))]
    pub use crate::runner::read_frames;
    pub use crate::task::argument::{DecodeArgument, EncodeArgument};
    pub use crate::task::batch::{BatchReturn, settle_batch};
    pub use crate::task::handler::{
        Answer, Answered, Failure, Handler, Returned, RunFuture, SettleError, SettleResult, SettleValue,
        boxed,
    };
    pub use crate::task::{Cancellation, Registration, Scope, StateType, TaskBatch, TaskCron, TaskOptions};
    pub use inventory;

    /// The wire protocol.
    pub mod protocol {
        #[cfg(feature = "periodic")]
        pub use crate::protocol::cron;
        pub use crate::protocol::{
            VERSION, annotations, arguments, backoff, batch, call_id, decode, encode, info, keys, limit,
            message, names, periodic, timestamp, tracking, value,
        };
    }
}
