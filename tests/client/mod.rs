//! What a client promises: no doubt without a reason, no wait beyond its time, and use from wherever a program stands.

mod address;
mod forks;
mod idle;
mod ids;
mod lazy;
mod schedules;
mod waits;

use delayed::GoTask;
use delayed::config::Config;

use crate::support::trial::QUEUE;

fn marking(n: impl ToString) -> delayed::Call {
    GoTask::new("trial.mark").arg(n.to_string()).queue(QUEUE)
}

#[delayed::task(name = "client.native")]
fn native_task(_n: u32) {}

/// A call of our form, which has room for an id.
fn native(n: u32) -> delayed::Call {
    native_task::call(n).queue(QUEUE)
}

/// Settings that lead to a Redis.
fn settings(url: &str, timeout_ms: u64) -> Config {
    let mut config = Config::default();
    config.redis.url = url.into();
    config.redis.timeout = std::time::Duration::from_millis(timeout_ms);
    config
}
