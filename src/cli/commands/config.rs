//! `config`: which settings hold, and where they come from.

use serde_json::{Value, json};

use crate::cli::args::Json;
use crate::cli::exit::Failure;
use crate::cli::output;
use crate::cli::settings::{ALL, Settings};
use crate::config::{LogFormat, QueueWeight, Unknown};

pub(super) fn run(settings: &Settings, output: Json) -> Result<(), Failure> {
    if output.json {
        let all = ALL.iter().map(|setting| {
            json!({
                "key": setting.key,
                "value": value(settings, setting.key),
                "origin": settings.origin(setting.key).to_string(),
                "variable": setting.variable,
            })
        });
        return output::json(&all.collect::<Vec<_>>());
    }
    let rows = ALL.iter().map(|setting| {
        let value = value(settings, setting.key);
        [setting.key.to_owned(), value.to_string(), settings.origin(setting.key).to_string()]
    });
    output::table(["setting", "value", "from"], rows.collect())
}

/// A setting as it would stand in the file.
fn value(settings: &Settings, key: &str) -> Value {
    let config = &settings.config;
    let time = |time| output::duration(time).into();
    match key {
        "redis.url" => settings.config.redis.redacted_url().into(),
        "redis.timeout" => time(config.redis.timeout),
        "client.max_message" => config.client.max_message.into(),
        "worker.queues" => config.worker.queues.iter().map(queue).collect(),
        "worker.concurrency" => config.worker.concurrency.into(),
        "worker.lease" => time(config.worker.lease),
        "worker.shutdown" => time(config.worker.shutdown),
        "worker.unknown" => match config.worker.unknown {
            Unknown::Bury => "bury",
            Unknown::Requeue => "requeue",
            Unknown::Ignore => "ignore",
        }
        .into(),
        "worker.sweep" => config.worker.sweep.into(),
        "worker.burst" => config.worker.burst.into(),
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
