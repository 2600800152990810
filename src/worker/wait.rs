//! Has something come for a queue that was empty? Waits in `BLPOP` while the worker has nothing better to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::broker::{Broker, Waiter};
use crate::worker::lane::Lane;

/// What a wait ended with: the lane whose token was popped, or none.
pub(super) type Woken = Option<usize>;

/// Starts waits, one at a time, and hears how they end.
pub(super) struct Doorbell {
    broker: Broker,
    orders: UnboundedSender<Vec<usize>>,
    woken: UnboundedReceiver<Woken>,
    /// The Redis client id of the connection that waits; 0 when there is none.
    client_id: Arc<AtomicU64>,
    /// The lanes of the wait that is under way.
    waiting: Option<Vec<usize>>,
}

impl Doorbell {
    pub(super) fn start(broker: &Broker, lanes: Vec<Arc<Lane>>) -> Self {
        let (orders, orders_in) = unbounded_channel();
        let (woken_out, woken) = unbounded_channel();
        let client_id = Arc::new(AtomicU64::new(0));
        tokio::spawn(run(broker.clone(), lanes, orders_in, woken_out, Arc::clone(&client_id)));
        Self { broker: broker.clone(), orders, woken, client_id, waiting: None }
    }

    /// The lanes that are being waited for.
    pub(super) fn waiting(&self) -> Option<&[usize]> {
        self.waiting.as_deref()
    }

    /// Begins to wait for `lanes`, in order of preference. Only when no wait is under way.
    pub(super) fn wait(&mut self, lanes: Vec<usize>) {
        debug_assert!(self.waiting.is_none(), "one wait at a time");
        if self.orders.send(lanes.clone()).is_ok() {
            self.waiting = Some(lanes);
        }
    }

    /// Makes the wait that is under way end soon. A request that arrives before the wait has begun does nothing,
    /// so the caller asks again until the wait has ended.
    pub(super) fn end_wait(&self) {
        let client_id = self.client_id.load(Ordering::Relaxed);
        if client_id != 0 {
            let broker = self.broker.clone();
            tokio::spawn(async move {
                if let Err(error) = broker.unblock(client_id).await {
                    tracing::debug!(%error, "could not end a wait");
                }
            });
        }
    }

    /// How a wait ended. Cancel-safe. Never resolves when no wait is under way.
    pub(super) async fn ended(&mut self) -> Woken {
        match self.woken.recv().await {
            Some(woken) => {
                self.waiting = None;
                woken
            }
            None => std::future::pending().await,
        }
    }
}

/// Waits as it is ordered. Ends when the worker does.
async fn run(
    broker: Broker,
    lanes: Vec<Arc<Lane>>,
    mut orders: UnboundedReceiver<Vec<usize>>,
    woken: UnboundedSender<Woken>,
    client_id: Arc<AtomicU64>,
) {
    let mut connection: Option<Waiter> = None;
    let mut pause = Duration::from_millis(20);
    while let Some(order) = orders.recv().await {
        let keys: Vec<&str> = order.iter().map(|lane| lanes[*lane].keys.notifications.as_str()).collect();
        let result = match &mut connection {
            Some(waiter) => waiter.wait(&keys).await,
            None => match broker.waiter().await {
                Ok(waiter) => {
                    client_id.store(waiter.client_id(), Ordering::Relaxed);
                    connection.insert(waiter).wait(&keys).await
                }
                Err(error) => Err(error),
            },
        };
        let end = match result {
            Ok(place) => {
                pause = Duration::from_millis(20);
                place.map(|place| order[place])
            }
            Err(error) => {
                tracing::warn!(%error, "waiting for notifications failed");
                connection = None;
                client_id.store(0, Ordering::Relaxed);
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
                None
            }
        };
        if woken.send(end).is_err() {
            return;
        }
    }
}
