//! Puts calls into the timetable.

use std::ops::Range;

use crate::broker::{Broker, BrokerError, Entry, MAX_SCHEDULED};
use crate::client::bulk::{Fate, next_chunk};
use crate::client::keys;
use crate::client::patience::Until;
use crate::error::Error;
use crate::protocol::call_id::CallId;
use crate::protocol::names::QueueName;
use crate::task::Due;

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

/// A scheduled call of a bulk.
pub(super) struct Later {
    /// Its place among all calls of the bulk.
    pub(super) place: usize,
    pub(super) queue: QueueName,
    pub(super) id: CallId,
    pub(super) due: Due,
    pub(super) bytes: Vec<u8>,
}

/// Schedules many calls, in chunks of one queue. Returns the fate of each, and the first error; after an error of Redis it
/// sends nothing more.
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
        match send(broker, part, begin()).await {
            Ok(dues) => {
                for ((fate, call), due) in fates[chunk.clone()].iter_mut().zip(part).zip(dues) {
                    match due {
                        Some(_) => *fate = Fate::Applied,
                        None => drop(problem.get_or_insert_with(|| Error::AlreadyScheduled {
                            id: call.id,
                            queue: call.queue.clone(),
                        })),
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

async fn send(broker: &Broker, calls: &[Later], until: Until) -> Result<Vec<Option<u64>>, BrokerError> {
    let Some(first) = calls.first() else { return Ok(Vec::new()) };
    let keys = keys(&first.queue);
    let entries: Vec<Entry<'_>> =
        calls.iter().map(|call| Entry { id: call.id, due: call.due, message: &call.bytes }).collect();
    until.retry(async |end| broker.by(end).schedule(&keys, &entries).await).await
}

/// The calls from `at` on that fit into one request: of one queue, limited in number and size.
fn chunk_from(calls: &[Later], at: usize) -> Range<usize> {
    let of_queue =
        calls[at..].iter().take_while(|call| call.queue == calls[at].queue).take(MAX_SCHEDULED).count();
    next_chunk(at, at + of_queue, |index| calls[index].bytes.len())
}
