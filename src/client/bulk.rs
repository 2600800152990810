//! How are many calls enqueued? In chunks, each applied whole or not at all, with a word on each call when one fails.

use std::ops::Range;

use crate::broker::Broker;
use crate::client::{Written, keys, patiently};
use crate::error::Error;

/// The most calls in a chunk.
const CHUNK: usize = 1000;
/// The most bytes in a chunk, where it has more than one call.
const CHUNK_BYTES: usize = 4 << 20;

/// What became of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is in its queue.
    Applied,
    /// It may be in its queue: the connection broke.
    Uncertain,
    /// It is not in its queue.
    NotApplied,
}

/// Why not all of many calls are in their queues.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.sentence())]
pub struct BulkError {
    applied: usize,
    uncertain: usize,
    not_applied: usize,
    fates: Vec<Fate>,
    #[source]
    source: Error,
}

impl BulkError {
    /// An error before anything was sent.
    pub(super) fn nothing_sent(source: Error) -> Self {
        Self { applied: 0, uncertain: 0, not_applied: 0, fates: Vec::new(), source }
    }

    fn sentence(&self) -> String {
        if self.fates.is_empty() {
            return "none of the calls is enqueued".to_owned();
        }
        let Self { applied, uncertain, not_applied, .. } = self;
        format!("{applied} calls are enqueued, {uncertain} may be, {not_applied} are not")
    }

    fn new(fates: Vec<Fate>, source: Error) -> Self {
        let count = |fate| fates.iter().filter(|other| **other == fate).count();
        Self {
            applied: count(Fate::Applied),
            uncertain: count(Fate::Uncertain),
            not_applied: count(Fate::NotApplied),
            fates,
            source,
        }
    }

    /// What became of each call, in the order in which they were given. Empty when a call could not be written: then
    /// nothing was sent.
    #[must_use]
    pub fn fates(&self) -> &[Fate] {
        &self.fates
    }

    /// How many calls are in their queues for certain.
    #[must_use]
    pub fn applied(&self) -> usize {
        self.applied
    }

    /// How many calls may be in their queues.
    #[must_use]
    pub fn uncertain(&self) -> usize {
        self.uncertain
    }

    /// The error that ended it.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.source
    }
}

pub(super) async fn enqueue(broker: &Broker, calls: Vec<Written>) -> Result<usize, BulkError> {
    let total = calls.len();
    let mut fates = Vec::with_capacity(total);
    let mut messages = Vec::with_capacity(total);
    let mut queues = Vec::with_capacity(total);
    for Written { queue, bytes, .. } in calls {
        queues.push(queue);
        messages.push(bytes);
    }
    let mut at = 0;
    while at < total {
        let one_queue = queues[at..].iter().take_while(|queue| **queue == queues[at]).take(CHUNK).count();
        let chunk = next_chunk(at, &messages[..at + one_queue]);
        let keys = keys(&queues[at]);
        if let Err(error) = patiently(|| broker.enqueue(&keys, &messages[chunk.clone()])).await {
            let fate = if error.may_have_been_applied() { Fate::Uncertain } else { Fate::NotApplied };
            fates.resize(chunk.start, Fate::Applied);
            fates.resize(chunk.end, fate);
            fates.resize(total, Fate::NotApplied);
            return Err(BulkError::new(fates, error.into()));
        }
        at = chunk.end;
    }
    Ok(total)
}

/// The messages from `at` on that go into one request: not too many, not too large.
pub(super) fn next_chunk(at: usize, messages: &[Vec<u8>]) -> Range<usize> {
    let mut bytes = 0;
    let fits = |index: &usize| {
        bytes += messages[*index].len();
        bytes <= CHUNK_BYTES || *index == at
    };
    let count = (at..messages.len().min(at + CHUNK)).take_while(fits).count();
    at..at + count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_has_bounds() {
        let small = vec![vec![0]; 2500];
        assert_eq!(next_chunk(1000, &small), 1000..2000);
        assert_eq!(next_chunk(2000, &small), 2000..2500);
        let large = vec![vec![0; CHUNK_BYTES / 2 + 1]; 3];
        assert_eq!(next_chunk(0, &large), 0..1);
        assert_eq!(next_chunk(0, &[vec![0; CHUNK_BYTES * 2], vec![0]]), 0..1);
    }
}
