//! Puts calls into the timetable.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use futures_util::stream::{self, StreamExt as _};

use crate::broker::{Broker, BrokerError, Entry, MAX_FILLED, MAX_SCHEDULED, MAX_SUBMITTED, Submission};
use crate::client::bulk::{Fate, next_chunk};
use crate::client::patience::Until;
use crate::client::{Options, fill, keys, submit};
use crate::error::Error;
use crate::protocol::batch::BatchName;
use crate::protocol::call_id::CallId;
use crate::protocol::names::QueueName;
use crate::task::{Due, TaskBatch};

/// How many requests for items of batches are in flight.
const FILLS: usize = 4;

/// Schedules one call.
pub(super) async fn one(
    broker: &Broker,
    queue: &QueueName,
    entry: Entry<'_>,
    until: Until,
) -> Result<(), Error> {
    let (keys, id) = (keys(queue), entry.id);
    let entries = [entry];
    let dues = until.retry(async |end| broker.by(end).schedule(&keys, &entries).await).await?;
    match dues.first() {
        Some(Some(_)) => Ok(()),
        _ => Err(Error::AlreadyScheduled { id, queue: queue.clone() }),
    }
}

/// A call of a bulk that is scheduled, or has other options.
pub(super) struct Later {
    /// Its place among all calls of the bulk.
    pub(super) place: usize,
    pub(super) queue: QueueName,
    /// Always `Some` for a scheduled call.
    pub(super) id: Option<CallId>,
    pub(super) due: Option<Due>,
    pub(super) options: Option<Box<Options>>,
    /// The batch for which `bytes` is an item, not a message.
    pub(super) batch: Option<(BatchName, &'static TaskBatch)>,
    pub(super) bytes: Vec<u8>,
}

impl Later {
    fn entry(&self) -> Option<Entry<'_>> {
        Some(Entry { id: self.id?, due: self.due?, message: &self.bytes })
    }

    /// As `submit` takes it.
    pub(super) fn submission(&self) -> Option<Submission<'_>> {
        let Options { task, tracking, front, period, .. } = self.options.as_deref()?;
        let (tracking, front, period) = (*tracking, *front, *period);
        Some(Submission { tracking, due: self.due, front, period, task, message: &self.bytes })
    }
}

/// Schedules or submits many calls, in chunks of one queue. Returns the fate of each, and the first error; after an error of
/// Redis it sends nothing more. A unique call that comes second is no error.
pub(super) async fn many(
    broker: &Broker,
    calls: &[Later],
    begin: impl Fn() -> Until,
) -> (Vec<Fate>, Option<Error>) {
    let (mut fates, mut problem) = (vec![Fate::NotApplied; calls.len()], None);
    let mut at = 0;
    while at < calls.len() {
        let chunk = chunk_from(calls, at);
        let part = &calls[chunk.clone()];
        if part.first().is_some_and(|first| first.batch.is_some()) {
            let (filled, error) = fill_all(broker, &calls[at..], &begin).await;
            let end = at + filled.len();
            fates[at..end].copy_from_slice(&filled);
            if error.is_some() {
                return (fates, error);
            }
            at = end;
            continue;
        }
        let sent = match part.first().and_then(|first| first.options.as_ref()) {
            None => send(broker, part, begin()).await,
            Some(options) => submit::many(broker, part, options.bound, begin()).await,
        };
        match sent {
            Ok(results) => {
                for (fate, result) in fates[chunk.clone()].iter_mut().zip(results) {
                    match result {
                        Ok(()) => *fate = Fate::Applied,
                        Err(error) => drop(problem.get_or_insert(error)),
                    }
                }
            }
            Err(error) => {
                if error.may_have_been_applied() {
                    fates[chunk].fill(Fate::Uncertain);
                }
                return (fates, Some(error.into()));
            }
        }
        at = chunk.end;
    }
    (fates, problem)
}

/// Adds the first of the calls to batches, as far as they are items. Returns their fates, and the first error.
async fn fill_all(broker: &Broker, calls: &[Later], begin: impl Fn() -> Until) -> (Vec<Fate>, Option<Error>) {
    let has_failed = AtomicBool::new(false);
    let items = calls.iter().take_while(|call| call.batch.is_some()).count();
    let mut next = 0;
    let chunks = std::iter::from_fn(|| {
        let chunk = (next < items).then(|| chunk_from(calls, next))?;
        next = chunk.end;
        Some(chunk)
    });
    // While Redis works on some, the next ones are made. Their order stays, as all of them share a connection.
    let mut sent = stream::iter(chunks)
        .map(|chunk| async {
            let filled = match has_failed.load(Relaxed) {
                true => None,
                false => Some(fill::many(broker, &calls[chunk.clone()], begin()).await),
            };
            (chunk, filled)
        })
        .buffered(FILLS);
    let (mut fates, mut problem) = (vec![Fate::NotApplied; items], None);
    while let Some((chunk, filled)) = sent.next().await {
        match filled {
            None => {}
            Some(Ok(())) => fates[chunk].fill(Fate::Applied),
            Some(Err(error)) => {
                has_failed.store(true, Relaxed);
                if error.may_have_been_applied() {
                    fates[chunk].fill(Fate::Uncertain);
                }
                problem.get_or_insert(error.into());
            }
        }
    }
    (fates, problem)
}

async fn send(broker: &Broker, calls: &[Later], until: Until) -> Result<Vec<Result<(), Error>>, BrokerError> {
    let Some(first) = calls.first() else { return Ok(Vec::new()) };
    let keys = keys(&first.queue);
    let entries: Vec<Entry<'_>> = calls.iter().filter_map(Later::entry).collect();
    let dues = until.retry(async |end| broker.by(end).schedule(&keys, &entries).await).await?;
    let result = |(entry, due): (&Entry<'_>, Option<u64>)| match due {
        Some(_) => Ok(()),
        None => Err(Error::AlreadyScheduled { id: entry.id, queue: first.queue.clone() }),
    };
    Ok(entries.iter().zip(dues).map(result).collect())
}

/// The calls from `at` on that fit into one request: of one queue and one kind, limited in number and size.
fn chunk_from(calls: &[Later], at: usize) -> Range<usize> {
    let kind_of = |call: &Later| (call.batch.is_some(), call.options.as_ref().map(|options| options.bound));
    let (queue, kind) = (&calls[at].queue, kind_of(&calls[at]));
    let limit = match kind {
        (true, _) => MAX_FILLED,
        (false, Some(_)) => MAX_SUBMITTED,
        (false, None) => MAX_SCHEDULED,
    };
    let alike = |call: &&Later| call.queue == *queue && kind_of(call) == kind;
    let count = calls[at..].iter().take_while(alike).take(limit).count();
    next_chunk(at, at + count, |index| calls[index].bytes.len())
}
