//! Tells others of the tasks of this worker, so that a gateway without them can check calls.

use std::time::Duration;

use crate::broker::Broker;
use crate::meter::now_ms;
use crate::protocol::arguments::Param;
use crate::protocol::published::{Published, PublishedParam};
use crate::task::{Registration, Registry};

/// How often a worker tells.
const PERIOD: Duration = Duration::from_secs(3600);

/// Tells of all tasks. A gateway that does not hear of them refuses their calls, and all else works: an error is no reason to
/// end.
pub(super) async fn publish(broker: &Broker, registry: &Registry) {
    let tasks: Vec<_> = registry.iter().map(|task| (task.name, told(task).encode())).collect();
    if let Err(error) = broker.publish(&tasks).await {
        tracing::debug!(%error, "tasks not published");
    }
}

/// Tells of them again and again, and forgets those of which nobody does any more.
pub(super) async fn keep_publishing(broker: Broker, registry: Registry) {
    loop {
        tokio::time::sleep(PERIOD).await;
        publish(&broker, &registry).await;
        let Ok(all) = broker.published().await else { continue };
        let now = now_ms();
        let is_old = |told: &Vec<u8>| Published::decode(told, now).is_none();
        let old: Vec<Vec<u8>> =
            all.into_iter().filter(|(_, told)| is_old(told)).map(|(path, _)| path).collect();
        if let Err(error) = broker.unpublish(&old).await {
            tracing::debug!(%error, "tasks not published");
        }
    }
}

fn told(task: &Registration) -> Published {
    let param = |param: &Param| PublishedParam {
        name: param.name.to_owned(),
        ty: param.ty.to_owned(),
        presence: param.presence,
    };
    Published {
        seen_ms: now_ms(),
        queue: task.options.queue.unwrap_or("default").to_owned(),
        signature: task.signature(),
        doc: task.doc.trim().to_owned(),
        params: task.params.iter().map(param).collect(),
    }
}
