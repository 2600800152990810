//! What is the value of a setting, for people and as JSON?

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::cli::output;
use crate::config::{Config, LogFormat, Prefetch, QueueWeight, Unknown, shown_size};

/// A setting as it would stand in the file.
pub(in crate::cli) fn value(config: &Config, key: &str) -> Value {
    let limits = &config.worker.limits;
    let time = |time| output::duration(time).into();
    let path = |path: Option<&Path>| path.map(Path::to_string_lossy).into();
    match key {
        "redis.url" => config.redis.redacted_url().into(),
        "redis.timeout" => time(config.redis.timeout),
        "redis.tls_ca" => path(config.redis.tls_ca.as_deref()),
        "redis.tls_cert" => path(config.redis.tls_cert.as_deref()),
        "redis.tls_key" => path(config.redis.tls_key.as_deref()),
        "client.max_message" => config.client.max_message.into(),
        "client.durability" => config.client.durability.to_string().into(),
        "client.patience" => config.client.patience.map(output::duration).into(),
        "worker.queues" => config.worker.queues.iter().map(queue).collect(),
        "worker.queue_limits" => config.worker.queue_limits.iter().map(ToString::to_string).collect(),
        "worker.concurrency" => config.worker.concurrency.into(),
        "worker.prefetch" => match config.worker.prefetch {
            Prefetch::Auto => "auto".into(),
            Prefetch::Fixed(count) => count.into(),
        },
        "worker.lease" => time(config.worker.lease),
        "worker.shutdown" => time(config.worker.shutdown),
        "worker.unknown" => match config.worker.unknown {
            Unknown::Bury => "bury",
            Unknown::Requeue => "requeue",
            Unknown::Ignore => "ignore",
        }
        .into(),
        "worker.retry" => config.worker.retry.into(),
        "worker.retry_for" => config.worker.retry_for.map(output::duration).into(),
        "worker.backoff" => config.worker.backoff.to_string().into(),
        "worker.sweep" => config.worker.sweep.into(),
        "worker.burst" => config.worker.burst.into(),
        "worker.keep_finished" => config.worker.keep_finished.into(),
        "worker.isolation" => config.worker.isolation.as_str().into(),
        "worker.timeout" => config.worker.timeout.map(output::duration).into(),
        "worker.grace" => time(config.worker.timeouts().grace()),
        "worker.limits.memory" => limits.memory.map(shown_size).into(),
        "worker.limits.address_space" => limits.address_space.map(shown_size).into(),
        "worker.limits.cpu" => limits.cpu_seconds.map(Duration::from_secs).map(output::duration).into(),
        "worker.limits.open_files" => limits.open_files.into(),
        "worker.limits.output" => limits.output.map(shown_size).into(),
        "worker.limits.nice" => limits.nice.into(),
        "worker.limits.no_new_privileges" => limits.no_new_privileges.into(),
        "worker.limits.private_network" => limits.private_network.into(),
        "worker.limits.private_mounts" => limits.private_mounts.into(),
        "prefork.children" => config.prefork.children(&config.worker).into(),
        "prefork.max_tasks" => config.prefork.max_tasks.map_or_else(|| "never".into(), Value::from),
        "prefork.max_memory" => config.prefork.max_memory.map(shown_size).into(),
        "sweeper.queues" => config.sweeper.queues.iter().map(ToString::to_string).collect(),
        "sweeper.interval" => time(config.sweeper.interval),
        "sweeper.max_deaths" => config.sweeper.max_deaths.into(),
        "dead.max_count" => config.dead.max_count.into(),
        "dead.max_age" => time(config.dead.max_age),
        "log.level" => config.log.level.clone().into(),
        "log.format" => match config.log.format {
            LogFormat::Pretty => "pretty",
            LogFormat::Json => "json",
        }
        .into(),
        _ => Value::Null,
    }
}

fn queue(entry: &QueueWeight) -> String {
    match entry.weight {
        Some(weight) => format!("{}={weight}", entry.queue),
        None => entry.queue.to_string(),
    }
}

/// What holds when nobody sets it, of a setting in one of these sections that is called so, for its help. None where it is
/// off.
pub(in crate::cli) fn default_of(sections: &[&str], name: &str) -> Option<String> {
    let is_it = |key: &str| {
        key.rsplit_once('.').is_some_and(|(section, last)| sections.contains(&section) && last == name)
    };
    let setting = super::ALL.iter().find(|setting| is_it(setting.key))?;
    match value(&Config::default(), setting.key) {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(names) => Some(names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
        Value::Null | Value::Bool(_) | Value::Object(_) => None,
    }
}
