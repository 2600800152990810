//! Adds items to filling batches.

use crate::broker::{Broker, BrokerError, Filling};
use crate::client::keys;
use crate::client::patience::Until;
use crate::client::schedule::Later;
use crate::protocol::batch::BatchName;
use crate::protocol::names::QueueName;
use crate::task::TaskBatch;

/// Adds one item.
pub(super) async fn one(
    broker: &Broker,
    queue: &QueueName,
    (name, batch): &(BatchName, &TaskBatch),
    item: &[u8],
    until: Until,
) -> Result<(), BrokerError> {
    send(broker, queue, &[Filling { name, batch, items: vec![item] }], until).await
}

/// Adds the items of one queue, each to its batch.
pub(super) async fn many(broker: &Broker, calls: &[Later], until: Until) -> Result<(), BrokerError> {
    let mut fillings: Vec<Filling<'_>> = Vec::new();
    for call in calls {
        let Some((name, batch)) = &call.batch else { continue };
        match fillings.iter_mut().find(|filling| filling.name == name) {
            Some(filling) => filling.items.push(&call.bytes),
            None => fillings.push(Filling { name, batch, items: vec![&call.bytes] }),
        }
    }
    match calls.first() {
        Some(first) => send(broker, &first.queue, &fillings, until).await,
        None => Ok(()),
    }
}

async fn send(
    broker: &Broker,
    queue: &QueueName,
    fillings: &[Filling<'_>],
    until: Until,
) -> Result<(), BrokerError> {
    let keys = keys(queue);
    until.retry(async |end| broker.by(end).fill(&keys, fillings).await).await.map(drop)
}
