//! Registers the queues of a worker, and tries requests of its start once more.

use crate::broker::{Broker, BrokerError, BrokerErrorKind};
use crate::worker::queue::served::ServedQueue;

/// Registers the queue for sweepers. If Redis is full, the worker drains the queue all the same; a sweeper finds it by its
/// keys.
pub(super) async fn register(broker: &Broker, queue: &ServedQueue) -> Result<(), BrokerError> {
    match once_more(|| broker.register_queue(queue.queue.as_str())).await {
        Err(error) if error.kind() == BrokerErrorKind::Full => {
            tracing::warn!(queue = %queue.queue, %error, "queue not registered");
            Ok(())
        }
        registered => registered,
    }
}

/// Tries once more if there was no reply: the connection is as old as the worker and may have been closed meanwhile. The
/// next one is new.
pub(super) async fn once_more<F: Future<Output = Result<(), BrokerError>>>(
    ask: impl Fn() -> F,
) -> Result<(), BrokerError> {
    match ask().await {
        Err(error) if error.is_silence() => ask().await,
        answer => answer,
    }
}
