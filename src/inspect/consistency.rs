//! Does what stands under the keys of a queue fit together?

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::broker::{Broker, BrokerError, BrokerErrorKind, KeyKind, Paused, ScanCursor};
use crate::error::Error;
use crate::inspect::health::plural;
use crate::inspect::{Finding, Inspector, WorkerKind, WorkerStatus};
use crate::protocol;
use crate::protocol::keys::{QUEUES, QueueKeys};
use crate::protocol::message::{Form, Message};
use crate::protocol::names::{QueueName, WorkerId};

/// How long each scan over the keys of the database lasts at the most.
pub(super) const SCAN: Duration = Duration::from_secs(2);
/// How many waiting messages are looked at for options.
const LOOKED_AT: u64 = 100;

const RUN_SWEEPER: &str = "a sweeper repairs this: run `worker` or `sweeper`";

impl Inspector {
    /// Looks at every queue, and for what may be one.
    pub(super) async fn check_queues(&self) -> Result<Vec<Finding>, Error> {
        let mut findings = Vec::new();
        let registered = match self.broker.registered_queues().await {
            Err(error) if error.kind() == BrokerErrorKind::WrongType => {
                findings.extend(wrong_types(&self.broker, &[(QUEUES, "set")]).await?);
                Vec::new()
            }
            // One node of a Cluster, which is told of elsewhere.
            Err(error) if error.is_silence() && self.broker.is_of_cluster() => Vec::new(),
            names => names?,
        };
        let found = self.scan(SCAN).await?;
        let mut queues = found.queues.clone();
        queues.extend(registered.iter().filter_map(|name| QueueName::parse(name).ok()));
        let live_keys = self.live_keys().await?;
        for queue in &queues {
            let keys = live_keys.get(queue.as_str()).map_or(&[][..], Vec::as_slice);
            let checked = self.or_silent(self.check_queue(queue, keys).await)?;
            let name = || Some(queue.to_string());
            findings.extend(
                checked.into_iter().map(|found| Finding { queue: found.queue.or_else(name), ..found }),
            );
        }
        findings.extend(found.refused.iter().map(|(name, error)| {
            let text = format!("`{name}` looks like a queue, and {error}");
            let fix = "use another name for it: Rust workers, clients and sweepers do not serve it";
            Finding::warning("names", text, fix)
        }));
        // Those of a queue that is known were looked at with it.
        let is_known = |key: &&String| {
            let of_queue =
                KeyKind::of_key(key, &KeyKind::ALL).and_then(|(_, name)| QueueName::parse(name).ok());
            of_queue.is_some_and(|queue| queues.contains(&queue))
        };
        findings.extend(found.foreign.iter().filter(|key| !is_known(key)).map(|key| {
            let text = format!("the key `{key}` has the name of a key of a queue, but holds something else");
            let fix = "nothing, if it belongs to another program: it is not touched";
            Finding::warning("foreign", text, fix)
        }));
        if !found.is_complete {
            let text = "not all keys were checked for unregistered queues: there are too many";
            findings.push(Finding::ok("unfound", text));
        }
        findings.extend(self.or_silent(self.unregistered(&queues).await.map_err(Error::from))?);
        findings.extend(self.or_silent(self.locks().await.map_err(Error::from))?);
        Ok(findings)
    }

    /// The live keys of slots of ours, by queue, as far as they are found within a while.
    async fn live_keys(&self) -> Result<BTreeMap<String, Vec<String>>, BrokerError> {
        let (mut found, mut cursor, began) =
            (BTreeMap::<_, Vec<_>>::new(), ScanCursor::default(), Instant::now());
        let pattern = format!("*:{}:*", "?".repeat(WorkerId::LENGTH));
        loop {
            let (next, keys) = self.broker.scan_step(cursor, &pattern, Some("string")).await?;
            for key in keys.into_iter().filter_map(|key| String::from_utf8(key).ok()) {
                let Some((rest, _)) = key.rsplit_once(':') else { continue };
                let Some((name, _)) = rest.rsplit_once(':') else { continue };
                let Ok(queue) = QueueName::parse(name) else { continue };
                if WorkerId::of_wire_id(&queue, &key).is_some() {
                    found.entry(name.to_owned()).or_default().push(key);
                }
            }
            cursor = next;
            if cursor == ScanCursor::default() || began.elapsed() >= SCAN {
                return Ok(found);
            }
        }
    }

    /// Looks at one queue.
    async fn check_queue(&self, queue: &QueueName, live_keys: &[String]) -> Result<Vec<Finding>, Error> {
        let keys = QueueKeys::new(queue);
        let expected: [(&str, _); 16] = [
            (&keys.queue, "list"),
            (&keys.notifications, "list"),
            (&keys.hand, "list"),
            (&keys.processing, "hash"),
            (&keys.workers, "zset"),
            (&keys.dead, "stream"),
            (&keys.deaths, "hash"),
            (&keys.sweep, "string"),
            (&keys.due, "zset"),
            (&keys.later, "hash"),
            (&keys.timetable, "string"),
            (&keys.paused, "string"),
            (&keys.cancelled, "zset"),
            (&keys.done, "zset"),
            (&keys.finished, "stream"),
            (&keys.outbox, "hash"),
        ];
        let mut findings = wrong_types(&self.broker, &expected).await?;
        if findings.is_empty() {
            let foreign = foreign(&self.broker, queue).await?;
            // What another program's list lacks or has too much is no gap.
            if foreign.is_empty() {
                findings.extend(tokens(&self.broker, &keys).await?);
            }
            findings.extend(foreign);
            let workers = self.workers(std::slice::from_ref(queue), 0).await?;
            findings.extend(owners(&workers));
            findings.extend(versions(&workers));
            findings.extend(eternal(&self.broker, queue, &workers, live_keys).await?);
            findings.extend(self.options(&keys, &workers).await?);
            findings.extend(self.outbox(&keys, &workers).await?);
            let [waiting, _, _, dead, ..] = self.broker.lengths(&keys).await?;
            findings.extend(served(waiting, &workers));
            if waiting > 0 {
                let pause = self.broker.paused(&keys).await?;
                findings.extend(pause.map(|pause| paused(queue, waiting, &pause)));
            }
            findings.extend((dead > 0).then(|| {
                let fix =
                    format!("`dead list --queue {queue}` shows why; then `dead requeue` or `dead delete`");
                Finding::warning("dead", plural(dead, "dead letter", "dead letters"), fix)
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

impl Inspector {
    /// Calls with options in a queue that a worker of Python or Go serves. Looks at what workers own, and at the messages
    /// that are next.
    async fn options(
        &self,
        keys: &QueueKeys,
        workers: &[WorkerStatus],
    ) -> Result<Option<Finding>, BrokerError> {
        let foreign = || workers.iter().filter(|worker| worker.alive && worker.kind == WorkerKind::Foreign);
        if foreign().next().is_none() {
            return Ok(None);
        }
        let with_options =
            |bytes: &[u8]| Message::decode(bytes).is_ok_and(|message| message.form() == Form::Native);
        let waiting = self.broker.waiting(keys, 0, LOOKED_AT).await?;
        let waiting = waiting.iter().filter(|message| with_options(message)).count();
        let owned = workers
            .iter()
            .flat_map(|worker| &worker.running)
            .filter(|running| running.message.form == Some("native"))
            .count();
        let count = waiting + owned;
        if count == 0 {
            return Ok(None);
        }
        let (who, does) = match foreign().find(|worker| is_go(&worker.id)) {
            Some(_) => ("Go", "runs a call without its id, retries, timeout, expiry and keyword arguments"),
            None => ("Python", "drops a call with options"),
        };
        let calls = plural(count as u64, "call has", "calls have");
        Ok(Some(Finding::problem(
            "options",
            format!("{calls} options, and a {who} worker serves this queue: it {does}"),
            "send calls with options to a queue that only Rust workers serve",
        )))
    }
}

/// Whether a foreign worker is Go's, by its id: 16 random bytes in hexadecimal. Python's is a decimal number.
fn is_go(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|digit| digit.is_ascii_digit() || matches!(digit, b'a'..=b'f'))
}

/// Those of these keys that are there with another type than they should have.
async fn wrong_types(broker: &Broker, expected: &[(&str, &str)]) -> Result<Vec<Finding>, BrokerError> {
    let names: Vec<&str> = expected.iter().map(|(key, _)| *key).collect();
    let types = broker.key_types(&names).await?;
    let wrong =
        expected.iter().zip(types).filter(|((_, expected), found)| found != "none" && found != expected);
    Ok(wrong
        .map(|((key, expected), found)| {
            let text = format!("the key `{key}` is a {found}, but should be a {expected}");
            let fix = match *key {
                QUEUES => "rename or delete that key: workers and clients create it again",
                _ => "rename or delete that key, or use another queue name",
            };
            Finding::problem("keys", text, fix)
        })
        .collect())
}

/// Keys beside a queue that hold another program's data.
async fn foreign(broker: &Broker, queue: &QueueName) -> Result<Vec<Finding>, BrokerError> {
    // What slots own is looked at by what their owners are.
    let kinds = KeyKind::ALL.into_iter().filter(|kind| *kind != KeyKind::Processing);
    let keys: Vec<(String, KeyKind)> =
        kinds.map(|kind| (format!("{queue}{}", kind.suffix()), kind)).collect();
    let looks: Vec<(&str, KeyKind)> = keys.iter().map(|(key, kind)| (key.as_str(), *kind)).collect();
    let seen = broker.look(&looks).await?;
    let foreign = looks.iter().zip(seen).filter(|(_, fits)| *fits == Some(false)).map(|(look, _)| look);
    Ok(foreign
        .map(|(key, kind)| {
            let text = format!(
                "the key `{key}` should hold {}, but holds something else, and may belong to another program: nothing \
                is taken from it",
                kind.content()
            );
            let fix = "rename that key, or use another queue name";
            match kind {
                KeyKind::Notifications | KeyKind::Hand | KeyKind::Dead => Finding::problem("foreign", text, fix),
                _ => Finding::warning("foreign", text, fix),
            }
        })
        .collect())
}

async fn tokens(broker: &Broker, keys: &QueueKeys) -> Result<Option<Finding>, BrokerError> {
    let gap = broker.gap(keys).await?;
    let text = match gap {
        0 => return Ok(None),
        1.. => {
            let waiting = plural(gap.unsigned_abs(), "message waits", "messages wait");
            format!("{waiting} without a notification, so no worker is woken")
        }
        _ => {
            format!("{} no message", plural(gap.unsigned_abs(), "notification has", "notifications have"))
        }
    };
    Ok(Some(Finding::warning("tokens", text, RUN_SWEEPER)))
}

fn owners(workers: &[WorkerStatus]) -> Vec<Finding> {
    let left = |kind| -> usize {
        let dead = workers.iter().filter(|worker| worker.kind == kind && !worker.alive);
        dead.map(|worker| worker.running.len()).sum()
    };
    let found = [(WorkerKind::Ours, "dead workers"), (WorkerKind::Foreign, "dead Python or Go workers")];
    found
        .into_iter()
        .filter(|(kind, _)| left(*kind) > 0)
        .map(|(kind, who)| {
            let owned = plural(left(kind) as u64, "message is", "messages are");
            Finding::warning("owners", format!("{owned} owned by {who}"), RUN_SWEEPER)
        })
        .collect()
}

/// Live keys that do not expire: what their slots own would never come back.
async fn eternal(
    broker: &Broker,
    queue: &QueueName,
    workers: &[WorkerStatus],
    live_keys: &[String],
) -> Result<Option<Finding>, BrokerError> {
    let owners = workers.iter().flat_map(|worker| &worker.running).map(|running| running.wire_id.as_str());
    let keys: Vec<&str> = owners
        .filter(|id| WorkerId::of_wire_id(queue, id).is_none())
        .chain(live_keys.iter().map(String::as_str))
        .collect();
    let mut eternal = Vec::new();
    for names in keys.chunks(500) {
        let expiries = broker.expiries(names).await?;
        eternal.extend(names.iter().zip(expiries).filter(|(_, expiry)| *expiry == -1).map(|(key, _)| *key));
    }
    let Some(first) = eternal.first() else { return Ok(None) };
    Ok(Some(Finding::problem(
        "live_keys",
        format!(
            "{}, such as `{first}`: the message of such a slot is never requeued",
            plural(eternal.len() as u64, "live key never expires", "live keys never expire")
        ),
        format!("redis-cli EXPIRE '{first}' 60: a living worker renews it"),
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
            Finding::warning("versions", text, "rebuild and restart it")
        })
        .collect()
}

fn numbers(version: &str) -> Vec<u64> {
    version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}

fn served(waiting: u64, workers: &[WorkerStatus]) -> Option<Finding> {
    let alive = workers.iter().any(|worker| worker.alive);
    (waiting > 0 && !alive).then(|| {
        let waiting = plural(waiting, "message waits", "messages wait");
        let text = format!("{waiting}, and no worker is visible");
        Finding::warning(
            "workers",
            text,
            "run `worker` with this queue; idle Python and Go workers are not visible",
        )
    })
}

fn paused(queue: &QueueName, waiting: u64, pause: &Paused) -> Finding {
    let waiting = plural(waiting, "message waits", "messages wait");
    let fix = format!("`queues resume {queue}`, unless it is meant to stay paused");
    Finding::warning("paused", format!("{waiting}, and the queue was paused by {}", pause.by), fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert!(numbers("0.9.0") < numbers("0.10.0"));
        assert!(numbers("1.0.0-rc.1") >= numbers("1.0.0"));
    }
}
