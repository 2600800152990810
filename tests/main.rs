//! All tests that need a Redis, a process or the source tree, in one binary: they link once and share `support`.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests die and print")]

mod acl;
mod architecture;
mod bad_input;
mod batches;
mod benchmarks;
#[path = "chaos/ends.rs"]
mod chaos_ends;
#[path = "chaos/spans.rs"]
#[allow(dead_code, reason = "the chaos counts with it")]
mod chaos_spans;
mod client;
mod conventions;
mod deploy;
mod exporter;
mod faults;
mod flows;
mod followed;
mod gateway;
mod interop;
mod isolation;
mod layers;
mod limited;
mod lua;
mod lua_headers;
mod model;
mod otel;
mod proxy;
mod readme;
mod recipes;
mod support;
mod telemetry;
mod tls;
mod web;
mod worker_behaviour;
