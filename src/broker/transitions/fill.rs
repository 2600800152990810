//! Fill: adds items to filling batches.

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::protocol::batch::BatchName;
use crate::protocol::keys::QueueKeys;
use crate::protocol::meta;
use crate::task::TaskBatch;

/// Maximum number of items that one script call adds.
pub(crate) const MAX_FILLED: usize = 1000;
/// With this many bytes of items a batch is full, as `fill` has it.
const ENOUGH: usize = 4 << 20;

/// Items for one batch.
#[derive(Debug)]
pub(crate) struct Filling<'a> {
    pub(crate) name: &'a BatchName,
    pub(crate) batch: &'a TaskBatch,
    /// Encoded.
    pub(crate) items: Vec<&'a [u8]>,
}

impl Broker {
    /// Adds up to [`MAX_FILLED`] items to batches of a queue. Returns how many messages were made of full ones.
    pub(crate) async fn fill(&self, keys: &QueueKeys, fillings: &[Filling<'_>]) -> Result<u64, BrokerError> {
        let script_keys = [keys.queue.as_str(), &keys.notifications, &keys.due, &keys.timetable];
        let items = fillings.iter().flat_map(|filling| &filling.items);
        let count = items.clone().count() + 6 * fillings.len();
        let bytes = items.map(|item| item.len() + 8).sum::<usize>() + 128 * fillings.len();
        let mut command = script::FILL.command(&script_keys, 1 + count, bytes);
        command.arg(&keys.due_channel);
        for Filling { name, batch, items } in fillings {
            let (full, rest) = full_batches(items, batch.max as usize);
            let grace = batch.grace.map_or(0, meta::milliseconds);
            command.arg(name.as_str()).arg(batch.max).arg(meta::milliseconds(batch.within)).arg(grace);
            command.arg(full.len()).arg(rest.len());
            for batch in &full {
                command.arg(batch.as_slice());
            }
            for item in rest {
                command.arg(*item);
            }
        }
        match script::FILL.run(&mut self.commands.clone(), command).await? {
            Value::Int(made) => Ok(made.unsigned_abs()),
            reply => Err(script::FILL.unexpected(&reply)),
        }
    }
}

/// The full batches among the items, each one after the other, and the items that are left over.
fn full_batches<'a, 'b>(items: &'b [&'a [u8]], most: usize) -> (Vec<Vec<u8>>, &'b [&'a [u8]]) {
    let full: Vec<Vec<u8>> = items
        .chunks_exact(most)
        .map_while(|batch| {
            let bytes: usize = batch.iter().map(|item| item.len()).sum();
            (bytes <= ENOUGH).then(|| batch.concat())
        })
        .collect();
    let rest = &items[full.len() * most..];
    (full, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_batches_are_made_of_items_that_are_not_too_large() {
        let (small, large) = ([7_u8; 2], vec![8; ENOUGH]);
        let items = [&small[..]; 7];
        let (full, rest) = full_batches(&items, 3);
        assert_eq!((full, rest.len()), (vec![vec![7; 6]; 2], 1));
        assert_eq!(full_batches(&items, 8).1.len(), 7);
        let items = [&small[..], &small, &large, &small];
        let (full, rest) = full_batches(&items, 2);
        assert_eq!((full, rest.len()), (vec![vec![7; 4]], 2));
    }
}
