//! Delivers what the settlements of this worker leave in the outboxes of its queues: how steps of flows ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, watch};

use crate::broker::Broker;
use crate::flow::Flows;
use crate::protocol::call_id::CallId;
use crate::worker::queue::served::ServedQueue;

/// How many outcomes are delivered together, and how many such batches at the same time: the steps that follow may take a while
/// to begin.
const BATCH: usize = 100;
const BATCHES: usize = 16;
/// Its name in the log.
const DELIVER: &str = "delivering outcomes of flows";

/// A step that has ended: the index of its queue, and the id of its call.
type Left = (usize, CallId);

/// How many steps were noted, and how many of them are not delivered.
type Counts = (u64, usize);

/// Notes what is to be delivered. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Outbox {
    left: UnboundedSender<Left>,
    undelivered: Arc<watch::Sender<Counts>>,
}

impl Outbox {
    /// A new one, and what delivers everything that is noted, until the last clone is dropped.
    pub(super) fn new(
        broker: Broker,
        queues: Vec<Arc<ServedQueue>>,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (left, received) = unbounded_channel();
        let undelivered = Arc::new(watch::Sender::new(Counts::default()));
        let delivering = deliver_all(broker, queues, received, Arc::clone(&undelivered));
        (Self { left, undelivered }, delivering)
    }

    /// Notes that a step has ended: its outcome is in the outbox of this queue.
    pub(super) fn note(&self, queue: usize, id: CallId) {
        self.undelivered.send_modify(|(noted, left)| (*noted, *left) = (*noted + 1, *left + 1));
        // It is received until the last sender is gone.
        let _ = self.left.send((queue, id));
    }

    /// Whether nothing was ever noted.
    pub(super) fn is_untouched(&self) -> bool {
        self.undelivered.borrow().0 == 0
    }

    /// Whether everything that was noted was delivered, or left to a sweep.
    pub(super) fn is_idle(&self) -> bool {
        self.undelivered.borrow().1 == 0
    }

    /// Waits for that. Cancel-safe.
    pub(super) async fn idle(&self) {
        // The sender cannot be gone: this is it.
        let _ = self.undelivered.subscribe().wait_for(|(_, left)| *left == 0).await;
    }
}

async fn deliver_all(
    broker: Broker,
    queues: Vec<Arc<ServedQueue>>,
    mut received: UnboundedReceiver<Left>,
    undelivered: Arc<watch::Sender<Counts>>,
) {
    let (flows, permits) = (Arc::new(Flows::new(broker.clone())), Arc::new(Semaphore::new(BATCHES)));
    let mut batch = Vec::new();
    while received.recv_many(&mut batch, BATCH).await > 0 {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let (flows, broker, queues) = (Arc::clone(&flows), broker.clone(), queues.clone());
        let (batch, undelivered) = (std::mem::take(&mut batch), Arc::clone(&undelivered));
        tokio::spawn(async move {
            let count = batch.len();
            deliver(&flows, &broker, &queues, batch).await;
            undelivered.send_modify(|(_, left)| *left -= count);
            drop(permit);
        });
    }
    // The last batches.
    let _ = permits.acquire_many(BATCHES as u32).await;
}

async fn deliver(flows: &Flows, broker: &Broker, queues: &[Arc<ServedQueue>], batch: Vec<Left>) {
    let mut by_queue: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
    for (queue, id) in batch {
        by_queue.entry(queue).or_default().push(id.as_bytes().to_vec());
    }
    let deliveries = by_queue.into_iter().filter_map(|(queue, names)| Some((queues.get(queue)?, names)));
    join_all(deliveries.map(|(queue, names)| async move {
        match flows.deliver(&queue.keys, &names).await {
            Ok(()) => broker.outage().succeeded(DELIVER, queue.queue.as_str()),
            // It stays in the outbox, where a sweep finds it.
            Err(error) => broker.outage().failed(DELIVER, queue.queue.as_str(), &error),
        }
    }))
    .await;
}
