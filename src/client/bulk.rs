//! Enqueues many calls in chunks, and reports the fate of each call if one chunk fails.

use std::collections::HashSet;
use std::ops::Range;

use futures_util::future::join;

use crate::broker::{Broker, Ready};
use crate::client::patience::{Until, is_not_yet};
use crate::client::schedule::{self, Later};
use crate::client::{Written, keys};
use crate::error::Error;
use crate::otel::SendSpan;
use crate::protocol::keys::QueueKeys;
use crate::protocol::names::QueueName;

/// The largest number of calls in a chunk.
const CHUNK: usize = 1000;
/// The largest size of a chunk of several calls, in bytes.
const CHUNK_BYTES: usize = 4 << 20;
/// The argument size that Redis accepts with any `proto-max-bulk-len`. It closes the connection when an argument is too large,
/// which affects all requests in flight there. So a larger message is sent on a connection of its own.
pub(super) const ALWAYS_TAKEN: usize = 1 << 20;

/// The fate of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is in its queue.
    Applied,
    /// It may be in its queue: the connection broke.
    Uncertain,
    /// It is not in its queue.
    NotApplied,
}

/// The error of a bulk of which not all calls were enqueued.
///
/// `Debug` prints what `Display` does, with its causes: that is what a `main` shows that returns this error.
#[derive(thiserror::Error)]
#[error("{}", self.sentence())]
pub struct BulkError {
    applied: usize,
    uncertain: usize,
    not_applied: usize,
    fates: Vec<Fate>,
    #[source]
    source: Error,
}

impl std::fmt::Debug for BulkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&crate::task::error::chain(self))
    }
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

    /// The fate of each call, in the given order. Empty if nothing was sent, because a call could not be encoded or Redis failed
    /// before the first chunk: then no call is in its queue.
    #[must_use]
    pub fn fates(&self) -> &[Fate] {
        &self.fates
    }

    /// The number of calls that are in their queues for certain.
    #[must_use]
    pub fn applied(&self) -> usize {
        self.applied
    }

    /// The number of calls that may be in their queues.
    #[must_use]
    pub fn uncertain(&self) -> usize {
        self.uncertain
    }

    /// The error that stopped the bulk.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.source
    }
}

/// Calls that were checked and encoded, in order.
#[derive(Default)]
pub(super) struct Bulk {
    /// The messages, one after the other.
    bytes: Vec<u8>,
    /// Where each message ends.
    ends: Vec<usize>,
    /// For each run of calls with the same queue: that queue, and the end of its last message.
    runs: Vec<(QueueName, usize)>,
    /// The calls that are scheduled, have other options or are items of batches, which are sent last.
    later: Vec<Later>,
    /// End when all calls are sent.
    spans: Vec<SendSpan>,
}

impl Bulk {
    pub(super) fn push(&mut self, written: Written, span: SendSpan) {
        let Written { queue, id, due, options, batch, bytes } = written;
        if span.is_made() {
            self.spans.push(span);
        }
        if due.is_none() && options.is_none() && batch.is_none() {
            return self.push_now(queue, &bytes);
        }
        let place = self.ends.len() + self.later.len();
        self.later.push(Later { place, queue, id, due, options, batch, bytes });
    }

    fn push_now(&mut self, queue: QueueName, message: &[u8]) {
        self.bytes.extend_from_slice(message);
        self.ends.push(self.bytes.len());
        match self.runs.last_mut() {
            Some((last, end)) if *last == queue => *end = self.ends.len(),
            _ => self.runs.push((queue, self.ends.len())),
        }
    }

    pub(super) fn queues(&self) -> HashSet<&QueueName> {
        let later = self.later.iter().map(|call| &call.queue);
        self.runs.iter().map(|(queue, _)| queue).chain(later).collect()
    }

    fn message(&self, index: usize) -> &[u8] {
        let begin = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[begin..self.ends[index]]
    }

    fn messages(&self, chunk: Range<usize>) -> impl Iterator<Item = &[u8]> + Clone {
        chunk.map(|index| self.message(index))
    }

    /// The chunks, one per request, in order.
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

    /// Sends all calls.
    pub(super) async fn send(&self, broker: &Broker, begin: impl Fn() -> Until) -> Result<usize, BulkError> {
        let now = self.send_now(broker, &begin).await;
        if self.later.is_empty() {
            return match now {
                Ok(()) => Ok(self.ends.len()),
                Err((fates, error)) => Err(BulkError::new(fates, error)),
            };
        }
        let (now, (later, problem)) = match now {
            Ok(()) => {
                (vec![Fate::Applied; self.ends.len()], schedule::many(broker, &self.later, begin).await)
            }
            Err((fates, error)) => (fates, (vec![Fate::NotApplied; self.later.len()], Some(error))),
        };
        match problem {
            None => Ok(now.len() + later.len()),
            Some(error) => Err(BulkError::new(self.in_order(now, later), error)),
        }
    }

    /// The fates of all calls, in the given order.
    fn in_order(&self, now: Vec<Fate>, later: Vec<Fate>) -> Vec<Fate> {
        let mut fates = now;
        // The places increase, so each call finds those before it in place.
        for (call, fate) in self.later.iter().zip(later) {
            fates.insert(call.place, fate);
        }
        fates
    }

    /// Sends the calls that are not scheduled. An error comes with the fate of each call. While Redis works on a chunk, the next
    /// one is prepared but not sent: it would be out of order if the one before it had to be sent again.
    async fn send_now(&self, broker: &Broker, begin: impl Fn() -> Until) -> Result<(), (Vec<Fate>, Error)> {
        let total = self.ends.len();
        let mut chunks = self.chunks().map(|(keys, chunk)| {
            let ready = Ready::new(&keys, self.messages(chunk.clone()));
            (keys, chunk, ready)
        });
        let mut next = chunks.next();
        while let Some((keys, chunk, ready)) = next.take() {
            let prepared = async {
                // The sending future may have to run on this thread, so it comes first.
                tokio::task::yield_now().await;
                chunks.next()
            };
            // Polled in this order.
            let until = begin();
            let hurried = broker.by(until.attempt());
            let (first, following) = join(hurried.enqueue(ready), prepared).await;
            next = following;
            let result = match first {
                Err(error) if is_not_yet(&error) => {
                    let again = async |end| {
                        let ready = Ready::new(&keys, self.messages(chunk.clone()));
                        broker.by(end).enqueue(ready).await
                    };
                    until.retry(again).await
                }
                done => done,
            };
            if let Err(error) = result {
                let fate = if error.may_have_been_applied() { Fate::Uncertain } else { Fate::NotApplied };
                let mut fates = vec![Fate::Applied; chunk.start];
                fates.resize(chunk.end, fate);
                fates.resize(total, Fate::NotApplied);
                return Err((fates, error.into()));
            }
        }
        Ok(())
    }
}

/// The messages from `at` on that fit into one request: limited in number and size.
pub(super) fn next_chunk(at: usize, end: usize, size: impl Fn(usize) -> usize) -> Range<usize> {
    let mut bytes = 0;
    let fits = |index: &usize| {
        let size = size(*index);
        bytes += if size > ALWAYS_TAKEN { CHUNK_BYTES + 1 } else { size };
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
        assert_eq!(next_chunk(0, 9, |_| ALWAYS_TAKEN), 0..CHUNK_BYTES / ALWAYS_TAKEN);
        assert_eq!(next_chunk(0, 3, |index| if index == 1 { ALWAYS_TAKEN + 1 } else { 1 }), 0..1);
        assert_eq!(next_chunk(1, 3, |index| if index == 1 { ALWAYS_TAKEN + 1 } else { 1 }), 1..2);
        assert_eq!(next_chunk(0, 2, |index| if index == 0 { CHUNK_BYTES * 2 } else { 1 }), 0..1);
    }

    #[test]
    fn a_chunk_is_of_one_queue() {
        let mut bulk = Bulk::default();
        for (queue, count) in [("a", 1), ("b", 1500), ("a", 2)] {
            for n in 0..count {
                bulk.push_now(QueueName::parse(queue).expect("a name"), format!("{queue}{n}").as_bytes());
            }
        }
        let chunks: Vec<_> = bulk.chunks().map(|(keys, chunk)| (keys.queue, chunk)).collect();
        let expected = [("a", 0..1), ("b", 1..1001), ("b", 1001..1501), ("a", 1501..1503)];
        assert_eq!(chunks, expected.map(|(queue, chunk)| (queue.to_owned(), chunk)));
        let messages: Vec<_> = bulk.messages(1500..1503).collect();
        assert_eq!(messages, [&b"b1499"[..], b"a0", b"a1"]);
    }
}
