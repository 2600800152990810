//! Describes tasks for producers that do not have the program: workers publish these descriptions.

use serde::{Deserialize, Serialize};

use crate::protocol::arguments::{Parameter, Presence};
use crate::protocol::names::QueueName;

/// Longer doc comments are cut to this many bytes.
const LONGEST_DOC: usize = 2000;
/// How old a description may be. Workers publish every hour.
const MAX_AGE_MS: u64 = 48 * 3_600_000;
/// The age from which a description may be deleted.
const STALE_MS: u64 = 7 * 24 * 3_600_000;

/// The description of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Published {
    /// When it was published, in milliseconds since 1970 by the worker's clock.
    pub(crate) seen_ms: u64,
    /// The queue of its calls, unless they name another.
    pub(crate) queue: String,
    /// The signature in Rust.
    pub(crate) signature: String,
    pub(crate) doc: String,
    pub(crate) params: Vec<PublishedParam>,
}

/// A parameter of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PublishedParam {
    pub(crate) name: String,
    /// Its type in Rust, as written.
    #[serde(rename = "type")]
    pub(crate) ty: String,
    pub(crate) presence: Presence,
}

impl Published {
    /// Encodes the description, and cuts a long doc comment.
    pub(crate) fn encode(mut self) -> Vec<u8> {
        let mut end = self.doc.len().min(LONGEST_DOC);
        while !self.doc.is_char_boundary(end) {
            end -= 1;
        }
        self.doc.truncate(end);
        rmp_serde::to_vec_named(&self).expect("numbers, texts and lists of them can be encoded")
    }

    /// Decodes a description. `None` if it is malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let published: Self = rmp_serde::from_slice(bytes).ok()?;
        QueueName::parse(&published.queue).is_ok().then_some(published)
    }

    /// Whether it is recent enough to be used, by a clock that may differ from the worker's.
    pub(crate) fn is_valid(&self, now_ms: u64) -> bool {
        self.seen_ms.abs_diff(now_ms) < MAX_AGE_MS
    }

    /// Whether no worker has published it for so long that it may be deleted.
    pub(crate) fn is_stale(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.seen_ms) > STALE_MS
    }
}

impl Parameter for PublishedParam {
    fn name(&self) -> &str {
        &self.name
    }

    fn presence(&self) -> Presence {
        self.presence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(queue: &str) -> Published {
        let param = PublishedParam { name: "to".into(), ty: "String".into(), presence: Presence::Required };
        let (queue, signature) = (queue.to_owned(), "send(to: String)".to_owned());
        let doc = "ä".repeat(LONGEST_DOC);
        Published { seen_ms: 7, queue, signature, doc, params: vec![param] }
    }

    #[test]
    fn description_survives_encoding_with_a_shorter_doc() {
        let bytes = published("mail").encode();
        let read = Published::decode(&bytes).expect("expected a description");
        assert_eq!(read.doc.len(), LONGEST_DOC);
        assert_eq!(Published { doc: published("mail").doc, ..read }, published("mail"));
        for malformed in [&b"no task"[..], &bytes[..20], &published("no queue").encode()] {
            assert_eq!(Published::decode(malformed), None);
        }
    }

    #[test]
    fn description_is_valid_for_two_days_and_stale_after_a_week() {
        let published = Published { seen_ms: 2 * STALE_MS, ..published("mail") };
        let at = |now_ms| (published.is_valid(now_ms), published.is_stale(now_ms));
        let seen = published.seen_ms;
        assert_eq!(at(seen), (true, false));
        assert_eq!(at(seen + MAX_AGE_MS - 1), (true, false));
        assert_eq!(at(seen + MAX_AGE_MS), (false, false));
        assert_eq!(at(seen + STALE_MS + 1), (false, true));
        assert_eq!(at(seen - MAX_AGE_MS + 1), (true, false));
        assert_eq!(at(seen - MAX_AGE_MS), (false, false));
    }
}
