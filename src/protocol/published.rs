//! What workers tell of their tasks, for those who enqueue without the program.

use serde::{Deserialize, Serialize};

use crate::protocol::arguments::{Parameter, Presence};

/// How much is told of a doc comment, in bytes.
const LONGEST_DOC: usize = 2000;
/// How long a task is known after a worker last told of it: workers tell every hour.
const KNOWN_MS: u64 = 48 * 3_600_000;

/// A task of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Published {
    /// When it was told, in milliseconds since 1970 by the worker's clock.
    pub(crate) seen_ms: u64,
    /// The queue of its calls, unless they name another.
    pub(crate) queue: String,
    /// How it is called, for people.
    pub(crate) signature: String,
    pub(crate) doc: String,
    pub(crate) params: Vec<PublishedParam>,
}

/// A parameter of such a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PublishedParam {
    pub(crate) name: String,
    /// Its type in Rust, as written.
    #[serde(rename = "type")]
    pub(crate) ty: String,
    pub(crate) presence: Presence,
}

impl Published {
    /// Encodes it, its doc comment no longer than it may be.
    pub(crate) fn encode(mut self) -> Vec<u8> {
        let mut end = self.doc.len().min(LONGEST_DOC);
        while !self.doc.is_char_boundary(end) {
            end -= 1;
        }
        self.doc.truncate(end);
        rmp_serde::to_vec_named(&self).expect("numbers, texts and lists of them can be encoded")
    }

    /// Decodes one that is still known. `None` if it is too old, or not one.
    pub(crate) fn decode(bytes: &[u8], now_ms: u64) -> Option<Self> {
        let published: Self = rmp_serde::from_slice(bytes).ok()?;
        (published.seen_ms.saturating_add(KNOWN_MS) > now_ms).then_some(published)
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

    #[test]
    fn what_is_told_is_read_until_it_is_old() {
        let param = PublishedParam { name: "to".into(), ty: "String".into(), presence: Presence::Required };
        let doc = "ä".repeat(LONGEST_DOC);
        let (queue, signature) = ("mail".to_owned(), "send(to: String)".to_owned());
        let told = Published { seen_ms: 7, queue, signature, doc, params: vec![param] };
        let bytes = told.clone().encode();
        let read = Published::decode(&bytes, 8).expect("expected it to be read");
        assert_eq!(read.doc.len(), LONGEST_DOC);
        assert_eq!(Published { doc: told.doc.clone(), ..read }, told);
        assert_eq!(Published::decode(&bytes, 7 + KNOWN_MS), None);
        assert_eq!(Published::decode(b"no task", 8), None);
        assert_eq!(Published::decode(&bytes[..20], 8), None);
    }
}
