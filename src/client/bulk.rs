//! How are many calls enqueued? In chunks, each applied whole or not at all, with a word on each call when one fails.

use std::collections::HashSet;
use std::ops::Range;

use futures_util::future::join;

use crate::broker::{Broker, Ready};
use crate::client::{is_not_yet, keys, patiently};
use crate::error::Error;
use crate::protocol::keys::QueueKeys;
use crate::protocol::names::QueueName;

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

    /// What became of each call, in the order in which they were given. Empty when nothing was sent, since a call could not be
    /// written or Redis failed before the first chunk: then none is in its queue.
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

/// Calls that were checked and written, in their order.
#[derive(Default)]
pub(super) struct Bulk {
    /// One message behind the other.
    bytes: Vec<u8>,
    /// Where each message ends.
    ends: Vec<usize>,
    /// Queues, and behind which message the calls in a row that go there end.
    runs: Vec<(QueueName, usize)>,
}

impl Bulk {
    pub(super) fn push(&mut self, queue: QueueName, message: &[u8]) {
        self.bytes.extend_from_slice(message);
        self.ends.push(self.bytes.len());
        match self.runs.last_mut() {
            Some((last, end)) if *last == queue => *end = self.ends.len(),
            _ => self.runs.push((queue, self.ends.len())),
        }
    }

    pub(super) fn queues(&self) -> HashSet<&QueueName> {
        self.runs.iter().map(|(queue, _)| queue).collect()
    }

    fn message(&self, index: usize) -> &[u8] {
        let begin = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[begin..self.ends[index]]
    }

    fn messages(&self, chunk: Range<usize>) -> impl Iterator<Item = &[u8]> + Clone {
        chunk.map(|index| self.message(index))
    }

    /// What goes into one request each, in order.
    fn chunks(&self) -> impl Iterator<Item = (QueueKeys, Range<usize>)> {
        let mut begin = 0;
        self.runs.iter().flat_map(move |(queue, end)| {
            let mut at = std::mem::replace(&mut begin, *end);
            let size = |index: usize| self.message(index).len();
            std::iter::from_fn(move || {
                let chunk = (at < *end).then(|| next_chunk(at, *end, size))?;
                at = chunk.end;
                Some((keys(queue), chunk))
            })
        })
    }

    /// Sends all of them. While Redis works on a chunk the next one is made ready, but not sent: it would be out of order
    /// where the one before it has to be sent again.
    pub(super) async fn send(&self, broker: &Broker) -> Result<usize, BulkError> {
        let total = self.ends.len();
        let mut chunks = self.chunks().map(|(keys, chunk)| {
            let ready = Ready::new(&keys, self.messages(chunk.clone()));
            (keys, chunk, ready)
        });
        let mut next = chunks.next();
        while let Some((keys, chunk, ready)) = next.take() {
            let prepared = async {
                // What sends may have to run on this thread, and comes first.
                tokio::task::yield_now().await;
                chunks.next()
            };
            // Polled in this order.
            let (first, following) = join(broker.enqueue(ready), prepared).await;
            next = following;
            let result = match first {
                Err(error) if is_not_yet(&error) => {
                    patiently(|| broker.enqueue(Ready::new(&keys, self.messages(chunk.clone())))).await
                }
                done => done,
            };
            if let Err(error) = result {
                let fate = if error.may_have_been_applied() { Fate::Uncertain } else { Fate::NotApplied };
                let mut fates = vec![Fate::Applied; chunk.start];
                fates.resize(chunk.end, fate);
                fates.resize(total, Fate::NotApplied);
                return Err(BulkError::new(fates, error.into()));
            }
        }
        Ok(total)
    }
}

/// The messages from `at` on that go into one request: not too many, not too large.
pub(super) fn next_chunk(at: usize, end: usize, size: impl Fn(usize) -> usize) -> Range<usize> {
    let mut bytes = 0;
    let fits = |index: &usize| {
        bytes += size(*index);
        bytes <= CHUNK_BYTES || *index == at
    };
    let count = (at..end.min(at + CHUNK)).take_while(fits).count();
    at..at + count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_has_bounds() {
        assert_eq!(next_chunk(1000, 2500, |_| 1), 1000..2000);
        assert_eq!(next_chunk(2000, 2500, |_| 1), 2000..2500);
        assert_eq!(next_chunk(0, 3, |_| CHUNK_BYTES / 2 + 1), 0..1);
        assert_eq!(next_chunk(0, 2, |index| if index == 0 { CHUNK_BYTES * 2 } else { 1 }), 0..1);
    }

    #[test]
    fn a_chunk_is_of_one_queue() {
        let mut bulk = Bulk::default();
        for (queue, count) in [("a", 1), ("b", 1500), ("a", 2)] {
            for n in 0..count {
                bulk.push(QueueName::parse(queue).expect("a name"), format!("{queue}{n}").as_bytes());
            }
        }
        let chunks: Vec<_> = bulk.chunks().map(|(keys, chunk)| (keys.queue, chunk)).collect();
        let expected = [("a", 0..1), ("b", 1..1001), ("b", 1001..1501), ("a", 1501..1503)];
        assert_eq!(chunks, expected.map(|(queue, chunk)| (queue.to_owned(), chunk)));
        let messages: Vec<_> = bulk.messages(1500..1503).collect();
        assert_eq!(messages, [&b"b1499"[..], b"a0", b"a1"]);
    }
}
