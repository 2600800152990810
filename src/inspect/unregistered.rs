//! Which lists look like queues that no sweeper finds by itself? Only looks: a list may be another program's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::broker::{BrokerError, ScanCursor};
use crate::inspect::consistency::SCAN;
use crate::inspect::health::plural;
use crate::inspect::{Finding, Inspector};
use crate::protocol::message::Message;
use crate::protocol::names::QueueName;

/// How many lists are looked into.
const LISTS: usize = 10_000;
/// How many lists are asked for their head at a time: a message may be large.
const CHUNK: usize = 20;

impl Inspector {
    /// Lists that begin with a message, have no notification, and are none of these queues: what a producer of Python or
    /// Go leaves that dies between its two pushes.
    pub(super) async fn unregistered(
        &self,
        known: &BTreeSet<QueueName>,
    ) -> Result<Vec<Finding>, BrokerError> {
        let (mut found, mut looked, mut cursor) = (BTreeMap::new(), 0, ScanCursor::default());
        let began = Instant::now();
        loop {
            let (next, keys) = self.broker.scan_step(cursor, "*", Some("list")).await?;
            let names = keys.iter().filter_map(|key| QueueName::parse(std::str::from_utf8(key).ok()?).ok());
            let names: Vec<_> = names.filter(|name| !known.contains(name)).collect();
            for chunk in names.chunks(CHUNK) {
                let lists: Vec<&str> = chunk.iter().map(QueueName::as_str).collect();
                for (name, head) in chunk.iter().zip(self.broker.heads(&lists).await?) {
                    let messages = head.filter(|(head, _)| Message::decode(head).is_ok());
                    found.extend(messages.map(|(_, length)| (name.clone(), length)));
                }
            }
            looked += names.len();
            cursor = next;
            if cursor == ScanCursor::default() || looked >= LISTS || began.elapsed() >= SCAN {
                break;
            }
        }
        let mut findings: Vec<Finding> = found.iter().map(|(name, length)| finding(name, *length)).collect();
        if cursor != ScanCursor::default() {
            let text =
                format!("checked only {} for unregistered queues", plural(looked as u64, "list", "lists"));
            findings.push(Finding::ok("unfound", text));
        }
        Ok(findings)
    }
}

fn finding(queue: &QueueName, length: u64) -> Finding {
    let text = format!(
        "this list begins with a message ({length} in all) and has no notification, so no sweeper finds it on its own"
    );
    let fix = format!("if it is a queue: `sweeper --queue '{queue}'`, or a worker that serves it");
    Finding { queue: Some(queue.to_string()), ..Finding::warning("unfound", text, fix) }
}
