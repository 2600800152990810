//! The protocol as a model: every order of steps and faults in small worlds, and its scripts against the real ones.
//!
//! `docs/guarantees.md` says what is modelled and what is not.

mod against_redis;
mod batches_against_redis;
pub(crate) mod deaths;
mod flow_rules;
mod flows;
mod flows_against_redis;
mod life;
mod life_against_redis;
mod life_rules;
mod life_steps;
mod life_world;
mod limits;
mod limits_against_redis;
mod notes_against_redis;
pub(crate) mod pair;
mod properties;
pub(crate) mod protections;
mod scenarios;
mod steps;
mod suspects;
mod system;
mod ticks_against_redis;
mod wait;
mod worker;
pub(crate) mod world;
