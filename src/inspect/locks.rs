//! Checks the locks of unique calls: whether each belongs to a call that has not ended, and expires.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::broker::{BrokerError, Record};
use crate::inspect::consistency::SCAN;
use crate::inspect::health::plural;
use crate::inspect::{Finding, Inspector};
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::CallState;
use crate::protocol::keys::{LOCK, QueueKeys};
use crate::protocol::names::QueueName;

/// How many locks are checked.
const LOCKS: usize = 10_000;
/// How many locks are read at a time.
const CHUNK: usize = 500;
/// The length of a digest in hexadecimal.
const DIGITS: usize = 32;

/// The locks of a queue that are not as they should be.
#[derive(Default)]
struct Locks {
    /// Of calls that have ended, or are not known any more.
    left: u64,
    /// Those that never expire.
    eternal: Vec<String>,
    /// Keys that do not hold the id of a call.
    foreign: Vec<String>,
}

impl Inspector {
    /// Looks at the locks that are found within a while.
    pub(super) async fn locks(&self) -> Result<Vec<Finding>, BrokerError> {
        let pattern = format!("*{LOCK}{}", "?".repeat(DIGITS));
        let (mut found, mut looked, mut cursor) = (BTreeMap::<QueueName, Locks>::new(), 0, 0);
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
            if cursor == 0 || looked >= LOCKS || began.elapsed() >= SCAN {
                break;
            }
        }
        let mut findings: Vec<Finding> =
            found.iter().flat_map(|(queue, locks)| locks.findings(queue)).collect();
        if cursor != 0 {
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
        let mut ids = Vec::with_capacity(keys.len());
        for ((key, holder), expiry) in keys.iter().zip(holders).zip(expiries) {
            // One without a value was freed in between.
            let Some(holder) = holder else { continue };
            match <[u8; 16]>::try_from(holder) {
                Ok(id) => ids.push(CallId::from_bytes(id)),
                Err(_) => locks.foreign.push(key.clone()),
            }
            if expiry == -1 {
                locks.eternal.push(key.clone());
            }
        }
        let records = self.broker.records(queue, &ids).await?;
        let later = self.broker.later(&QueueKeys::new(queue), &ids).await?;
        let has_ended = |(record, message): &(Option<Record>, Option<Vec<u8>>)| {
            let state = record.as_ref().and_then(Record::state);
            message.is_none() && state.is_none_or(CallState::is_final)
        };
        locks.left += records.into_iter().zip(later).filter(has_ended).count() as u64;
        Ok(())
    }
}

impl Locks {
    fn findings(&self, queue: &QueueName) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.left > 0 {
            let locks = plural(self.left, "unique lock is", "unique locks are");
            findings.push(Finding::ok(
                "locks",
                format!(
                    "{locks} held by calls that have ended, until the lock expires or the next call takes it over"
                ),
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
