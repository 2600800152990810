//! Publishes the tasks of a worker, so that a gateway of another program can check calls.

use std::time::Duration;

use crate::broker::Broker;
use crate::meter::now_ms;
use crate::protocol::arguments::Param;
use crate::protocol::published::{Published, PublishedParam};
use crate::task::{Registration, Registry};

/// The interval between two publications.
const PERIOD: Duration = Duration::from_secs(3600);

/// Publishes all tasks. If that fails, the worker runs all the same, but gateways of other programs may refuse its calls.
pub(super) async fn publish(broker: &Broker, registry: &Registry) {
    let tasks: Vec<_> = registry.iter().map(|task| (task.name, describe(task).encode())).collect();
    if let Err(error) = broker.publish(&tasks).await {
        tracing::debug!(%error, "tasks not published");
    }
}

/// Publishes all tasks every hour, and deletes the descriptions of tasks that no worker has had for a week.
pub(super) async fn keep_publishing(broker: Broker, registry: Registry) {
    loop {
        tokio::time::sleep(PERIOD).await;
        publish(&broker, &registry).await;
        let Ok(all) = broker.published().await else { continue };
        let now = now_ms();
        // A malformed one may be from a later version.
        let is_stale = |bytes: &[u8]| Published::decode(bytes).is_some_and(|task| task.is_stale(now));
        let stale: Vec<_> =
            all.into_iter().filter(|(_, bytes)| is_stale(bytes)).map(|(path, _)| path).collect();
        if let Err(error) = broker.unpublish(&stale).await {
            tracing::debug!(%error, "tasks not published");
        }
    }
}

fn describe(task: &Registration) -> Published {
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
