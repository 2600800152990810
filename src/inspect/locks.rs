//! Checks the locks of unique calls: whether each belongs to a call that has not ended and has a message, and expires.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::broker::{BrokerError, BrokerErrorKind, Record, ScanCursor};
use crate::inspect::consistency::SCAN;
use crate::inspect::health::plural;
use crate::inspect::{Finding, Inspector};
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::CallState;
use crate::protocol::keys::{self, LOCK, QueueKeys};
use crate::protocol::names::QueueName;

/// How many locks are checked.
const LOCKS: usize = 10_000;
/// How many locks are read at a time.
const CHUNK: usize = 500;
/// How often messages are searched before they count as lost.
const SEARCHES: usize = 2;
/// The length of a digest in hexadecimal.
const DIGITS: usize = 32;

/// The locks of a queue that are not as they should be.
#[derive(Default)]
struct Locks {
    /// Of calls that have ended.
    ended: u64,
    /// Of calls of which nothing is known.
    unknown: u64,
    /// Of calls that have not ended, but are not in the timetable.
    open: Vec<Held>,
    /// Those of them whose calls have no message at all.
    lost: Vec<Held>,
    /// Those that never expire.
    eternal: Vec<String>,
    /// Keys that do not hold the id of a call.
    foreign: Vec<String>,
}

/// A lock, and the call that holds it.
struct Held {
    key: String,
    id: CallId,
    record: Record,
}

impl Inspector {
    /// Looks at the locks that are found within a while.
    pub(super) async fn locks(&self) -> Result<Vec<Finding>, BrokerError> {
        let pattern = format!("*{LOCK}{}", "?".repeat(DIGITS));
        let (mut found, mut looked, mut cursor) =
            (BTreeMap::<QueueName, Locks>::new(), 0, ScanCursor::default());
        let began = Instant::now();
        loop {
            let (next, keys) = self.broker.scan_step(cursor, &pattern, Some("string")).await?;
            let mut by_queue = BTreeMap::<QueueName, Vec<String>>::new();
            for key in keys.into_iter().filter_map(|key| String::from_utf8(key).ok()) {
                if let Some(queue) = queue_of(&key) {
                    by_queue.entry(queue).or_default().push(key);
                }
            }
            for (queue, keys) in by_queue {
                looked += keys.len();
                let locks = found.entry(queue.clone()).or_default();
                for keys in keys.chunks(CHUNK) {
                    self.look_at_locks(&queue, keys, locks).await?;
                }
            }
            cursor = next;
            if cursor == ScanCursor::default() || looked >= LOCKS || began.elapsed() >= SCAN {
                break;
            }
        }
        for (queue, locks) in &mut found {
            locks.lost = self.lost(queue, std::mem::take(&mut locks.open)).await?;
        }
        let mut findings: Vec<Finding> =
            found.iter().flat_map(|(queue, locks)| locks.findings(queue)).collect();
        if cursor != ScanCursor::default() {
            let text = format!("checked only {} of unique calls", plural(looked as u64, "lock", "locks"));
            findings.push(Finding::ok("locks", text));
        }
        Ok(findings)
    }

    async fn look_at_locks(
        &self,
        queue: &QueueName,
        keys: &[String],
        locks: &mut Locks,
    ) -> Result<(), BrokerError> {
        let names: Vec<&str> = keys.iter().map(String::as_str).collect();
        let holders = self.broker.values(&names).await?;
        let expiries = self.broker.expiries(&names).await?;
        let mut held = Vec::with_capacity(keys.len());
        for ((key, holder), expiry) in keys.iter().zip(holders).zip(expiries) {
            // One without a value was freed in between.
            let Some(holder) = holder else { continue };
            match <[u8; 16]>::try_from(holder) {
                Ok(id) => held.push((key, CallId::from_bytes(id))),
                Err(_) => locks.foreign.push(key.clone()),
            }
            if expiry == -1 {
                locks.eternal.push(key.clone());
            }
        }
        let ids: Vec<CallId> = held.iter().map(|(_, id)| *id).collect();
        let records = self.broker.records(queue, &ids).await?;
        let later = self.broker.later(&QueueKeys::new(queue), &ids).await?;
        for (((key, id), record), later) in held.into_iter().zip(records).zip(later) {
            let state = record.as_ref().and_then(Record::state);
            match (record, state) {
                _ if later.is_some() => {}
                (_, Some(state)) if state.is_final() => locks.ended += 1,
                (Some(record), Some(_)) => locks.open.push(Held { key: key.clone(), id, record }),
                _ => locks.unknown += 1,
            }
        }
        Ok(())
    }

    /// Which of these locks are held by calls without a message. A flow has none after its begin, and its steps may be in
    /// other queues.
    async fn lost(&self, queue: &QueueName, mut held: Vec<Held>) -> Result<Vec<Held>, BrokerError> {
        let keys = QueueKeys::new(queue);
        // Twice: a call may move to a place that was searched before.
        for _ in 0..SEARCHES {
            if held.is_empty() {
                break;
            }
            let ids: Vec<CallId> = held.iter().map(|held| held.id).collect();
            let absent = match self.broker.without_message(&keys, &ids).await {
                // A finding of its own.
                Err(error) if error.kind() == BrokerErrorKind::WrongType => return Ok(Vec::new()),
                absent => absent?,
            };
            let Some(absent) = absent else { return Ok(Vec::new()) };
            held.retain(|held| absent.contains(&held.id));
            let mut still = Vec::new();
            for held in held.chunks(CHUNK) {
                still.extend(self.still_held(queue, held).await?);
            }
            let mut still = still.into_iter();
            held.retain(|_| still.next() == Some(true));
        }
        Ok(held)
    }

    /// Whether each of these calls still holds its lock, is not in the timetable, is no flow, and has the same record.
    async fn still_held(&self, queue: &QueueName, held: &[Held]) -> Result<Vec<bool>, BrokerError> {
        let ids: Vec<CallId> = held.iter().map(|held| held.id).collect();
        let flows: Vec<String> = ids.iter().map(|id| keys::flow(queue, *id)).collect();
        let flows: Vec<&str> = flows.iter().map(String::as_str).collect();
        let locks: Vec<&str> = held.iter().map(|held| held.key.as_str()).collect();
        let later = self.broker.later(&QueueKeys::new(queue), &ids).await?;
        let are_flows = self.broker.alive(&flows).await?;
        let records = self.broker.records(queue, &ids).await?;
        let holders = self.broker.values(&locks).await?;
        let is_still = |(nth, held): (usize, &Held)| {
            let holds = holders[nth].as_deref() == Some(held.id.as_bytes());
            holds && later[nth].is_none() && !are_flows[nth] && records[nth].as_ref() == Some(&held.record)
        };
        Ok(held.iter().enumerate().map(is_still).collect())
    }
}

impl Locks {
    fn findings(&self, queue: &QueueName) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.ended > 0 {
            let locks = plural(self.ended, "unique lock is", "unique locks are");
            findings.push(Finding::ok(
                "locks",
                format!(
                    "{locks} held by calls that have ended, until the lock expires or the next call takes it over"
                ),
            ));
        }
        if self.unknown > 0 {
            let locks = plural(self.unknown, "unique lock is", "unique locks are");
            let text = format!(
                "{locks} held by calls without a record, which may have ended: each expires by itself"
            );
            findings.push(Finding::ok("locks", text));
        }
        if let Some(Held { key, id, record }) = self.lost.first() {
            let locks = plural(self.lost.len() as u64, "unique lock is", "unique locks are");
            let state = record.state().map_or("open", CallState::name);
            findings.push(Finding::warning(
                "locks",
                format!(
                    "{locks} held by calls whose messages are lost, such as `{key}` by the call {id}, which is {state} \
                    according to its record: no other call with this lock can be enqueued until it expires"
                ),
                format!("redis-cli DEL '{key}'"),
            ));
        }
        if let Some(first) = self.eternal.first() {
            let locks = plural(self.eternal.len() as u64, "lock never expires", "locks never expire");
            findings.push(Finding::warning(
                "locks",
                format!(
                    "{locks}, such as `{first}`: if its call is lost, no other call with this lock can be enqueued"
                ),
                format!("redis-cli EXPIRE '{first}' 86400"),
            ));
        }
        if let Some(first) = self.foreign.first() {
            findings.push(Finding::warning(
                "locks",
                format!("the key `{first}` should hold the id of a call, but holds something else"),
                "rename that key if it belongs to another program, or delete it",
            ));
        }
        let of_queue = |finding| Finding { queue: Some(queue.to_string()), ..finding };
        findings.into_iter().map(of_queue).collect()
    }
}

/// The queue of the lock with this key.
fn queue_of(key: &str) -> Option<QueueName> {
    let (name, digest) = key.rsplit_once(LOCK)?;
    let is_digest = digest.len() == DIGITS && digest.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_digest.then(|| QueueName::parse(name).ok()).flatten()
}
