//! Does what stands under the keys of a queue fit together?

use crate::broker::{Broker, BrokerError, BrokerErrorKind};
use crate::error::Error;
use crate::inspect::queues::BESIDE;
use crate::inspect::{Finding, Inspector, WorkerKind, WorkerStatus};
use crate::protocol;
use crate::protocol::keys::{QUEUES, QueueKeys};
use crate::protocol::names::{QueueName, WorkerId};

const RUN_SWEEPER: &str = "a sweeper mends it: run `worker` or `sweeper`";

impl Inspector {
    /// Looks at every queue, and for what may be one.
    pub(super) async fn check_queues(&self) -> Result<Vec<Finding>, Error> {
        let mut findings = Vec::new();
        let queues = match self.queue_names().await {
            Err(error) if error.kind() == BrokerErrorKind::WrongType => {
                findings.extend(wrong_types(&self.broker, &[(QUEUES, "set")]).await?);
                self.broker.queues_beside(&BESIDE).await?
            }
            queues => queues?,
        };
        for queue in &queues {
            findings.extend(self.check_queue(queue).await?);
        }
        findings.extend(self.unfound(&queues).await?);
        Ok(findings)
    }

    /// Looks at one queue.
    async fn check_queue(&self, queue: &QueueName) -> Result<Vec<Finding>, Error> {
        let keys = QueueKeys::new(queue);
        let expected: [(&str, _); 8] = [
            (&keys.queue, "list"),
            (&keys.notifications, "list"),
            (&keys.hand, "list"),
            (&keys.processing, "hash"),
            (&keys.workers, "zset"),
            (&keys.dead, "stream"),
            (&keys.deaths, "hash"),
            (&keys.sweep, "string"),
        ];
        let mut findings = wrong_types(&self.broker, &expected).await?;
        if findings.is_empty() {
            findings.extend(tokens(&self.broker, &keys).await?);
            let workers = self.workers(std::slice::from_ref(queue), 0).await?;
            findings.extend(owners(&workers));
            findings.extend(versions(&workers));
            findings.extend(eternal(&self.broker, queue, &workers).await?);
            let [waiting, _, _, dead, _] = self.broker.lengths(&keys).await?;
            findings.extend(served(waiting, &workers));
            findings.extend((dead > 0).then(|| {
                let fix =
                    format!("`dead list --queue {queue}` shows why; then `dead requeue` or `dead delete`");
                Finding::warning(
                    "dead",
                    format!("{dead} dead letter{}", if dead == 1 { "" } else { "s" }),
                    fix,
                )
            }));
        }
        if findings.is_empty() {
            findings.push(Finding::ok("keys", "all is well"));
        }
        for finding in &mut findings {
            finding.queue = Some(queue.to_string());
        }
        Ok(findings)
    }
}

/// Those of these keys that are there with another type than they should have.
async fn wrong_types(broker: &Broker, expected: &[(&str, &str)]) -> Result<Vec<Finding>, BrokerError> {
    let names: Vec<&str> = expected.iter().map(|(key, _)| *key).collect();
    let types = broker.key_types(&names).await?;
    let wrong =
        expected.iter().zip(types).filter(|((_, expected), found)| found != "none" && found != expected);
    Ok(wrong
        .map(|((key, expected), found)| {
            let text = format!("the key `{key}` is a {found} and should be a {expected}");
            let fix = match *key {
                QUEUES => "rename or delete that key: workers and clients make it anew",
                _ => "rename or delete that key, or use another queue name",
            };
            Finding::problem("keys", text, fix)
        })
        .collect())
}

async fn tokens(broker: &Broker, keys: &QueueKeys) -> Result<Option<Finding>, BrokerError> {
    let gap = broker.gap(keys).await?;
    let text = match gap {
        0 => return Ok(None),
        1.. => format!("{gap} messages wait without a notification, so no worker is woken for them"),
        _ => format!("{} notifications have no message", gap.unsigned_abs()),
    };
    Ok(Some(Finding::warning("tokens", text, RUN_SWEEPER)))
}

fn owners(workers: &[WorkerStatus]) -> Vec<Finding> {
    let left = |kind| -> usize {
        let dead = workers.iter().filter(|worker| worker.kind == kind && !worker.alive);
        dead.map(|worker| worker.running.len()).sum()
    };
    let found = [(WorkerKind::Ours, "dead workers"), (WorkerKind::Foreign, "dead workers of Python or Go")];
    found
        .into_iter()
        .filter(|(kind, _)| left(*kind) > 0)
        .map(|(kind, who)| {
            Finding::warning("owners", format!("{} messages are owned by {who}", left(kind)), RUN_SWEEPER)
        })
        .collect()
}

/// Live keys that do not expire: what their slots own would never come back.
async fn eternal(
    broker: &Broker,
    queue: &QueueName,
    workers: &[WorkerStatus],
) -> Result<Option<Finding>, BrokerError> {
    let mut keys: Vec<String> = workers
        .iter()
        .flat_map(|worker| &worker.running)
        .map(|running| running.wire_id.clone())
        .filter(|id| WorkerId::of_wire_id(queue, id).is_none())
        .collect();
    let mut cursor = 0;
    loop {
        let (next, found) =
            broker.scan_keys(cursor, &format!("{}:*", literal(queue.as_str())), "string").await?;
        keys.extend(
            found
                .into_iter()
                .filter_map(|key| String::from_utf8(key).ok())
                .filter(|key| WorkerId::of_wire_id(queue, key).is_some()),
        );
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    let mut eternal = Vec::new();
    for chunk in keys.chunks(500) {
        let names: Vec<&str> = chunk.iter().map(String::as_str).collect();
        let expiries = broker.expiries(&names).await?;
        eternal
            .extend(names.into_iter().zip(expiries).filter(|(_, expiry)| *expiry == -1).map(|(key, _)| key));
    }
    let Some(first) = eternal.first() else { return Ok(None) };
    Ok(Some(Finding::problem(
        "live_keys",
        format!(
            "{} live keys never expire, `{first}` for one: what their slots own stays there",
            eternal.len()
        ),
        format!("redis-cli EXPIRE '{first}' 60: a worker that lives renews it"),
    )))
}

fn versions(workers: &[WorkerStatus]) -> Vec<Finding> {
    let ours = (env!("CARGO_PKG_VERSION"), protocol::VERSION);
    let infos = workers.iter().filter(|worker| worker.alive).filter_map(|worker| worker.info.as_ref());
    infos
        .filter(|info| numbers(&info.version) < numbers(ours.0) || info.protocol < ours.1)
        .map(|info| {
            let text =
                format!("{} (pid {}) runs version {}, this is {}", info.host, info.pid, info.version, ours.0);
            Finding::warning("versions", text, "build it anew and restart it")
        })
        .collect()
}

fn numbers(version: &str) -> Vec<u64> {
    version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}

fn served(waiting: u64, workers: &[WorkerStatus]) -> Option<Finding> {
    let alive = workers.iter().any(|worker| worker.alive);
    (waiting > 0 && !alive).then(|| {
        let text = format!("{waiting} messages wait and no worker is to be seen");
        Finding::warning(
            "workers",
            text,
            "run `worker` with this queue; idle workers of Python and Go cannot be seen",
        )
    })
}

/// A pattern that only the text itself matches.
fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if "*?[]^\\".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(numbers("0.9.0") < numbers("0.10.0"));
        assert!(numbers("1.0.0-rc.1") >= numbers("1.0.0"));
        assert_eq!(literal("a*{b}[c]"), "a\\*{b}\\[c\\]");
    }
}
