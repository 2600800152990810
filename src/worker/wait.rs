//! Has something come for a queue that was empty? Waits in `BLPOP` while the worker has nothing better to do.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::broker::{Broker, Waiter};
use crate::worker::claim::ClaimLoop;
use crate::worker::lane::{Lane, LaneState};

/// The first and the longest pause after an error.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// How often a wait is asked to end until it does.
const END_WAIT_EVERY: Duration = Duration::from_millis(10);

/// What a wait ended with: the lane whose token was popped, or none.
pub(super) type Woken = Option<usize>;

/// A wait that is under way: gives the connection back, unless it broke.
type Wait = Pin<Box<dyn Future<Output = (Option<Waiter>, Woken)> + Send>>;

/// Starts waits, one at a time, and hears how they end. Polled by the loop that claims, so that a token needs no
/// detour.
pub(super) struct Doorbell {
    broker: Broker,
    lanes: Vec<Arc<Lane>>,
    connection: Option<Waiter>,
    /// The Redis client id of the connection that waits; 0 when there is none.
    client_id: Arc<AtomicU64>,
    wait: Option<(Vec<usize>, Wait)>,
    pause: Duration,
}

impl Doorbell {
    pub(super) fn new(broker: &Broker, lanes: Vec<Arc<Lane>>) -> Self {
        Self {
            broker: broker.clone(),
            lanes,
            connection: None,
            client_id: Arc::default(),
            wait: None,
            pause: PAUSE.0,
        }
    }

    /// The lanes that are being waited for.
    pub(super) fn waiting(&self) -> Option<&[usize]> {
        self.wait.as_ref().map(|(lanes, _)| lanes.as_slice())
    }

    /// Begins to wait for `lanes`, in order of preference. Only when no wait is under way.
    pub(super) fn wait(&mut self, lanes: Vec<usize>) {
        debug_assert!(self.wait.is_none(), "one wait at a time");
        let order: Vec<(usize, Arc<Lane>)> =
            lanes.iter().map(|lane| (*lane, Arc::clone(&self.lanes[*lane]))).collect();
        let (broker, client_id, pause) = (self.broker.clone(), Arc::clone(&self.client_id), self.pause);
        let connection = self.connection.take();
        self.wait = Some((lanes, Box::pin(wait(broker, connection, client_id, order, pause))));
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

    /// How a wait ended. Cancel-safe: the wait goes on. Never resolves when no wait is under way.
    pub(super) async fn ended(&mut self) -> Woken {
        let Some((_, wait)) = &mut self.wait else { return std::future::pending().await };
        let (connection, woken) = wait.await;
        self.wait = None;
        self.pause = if connection.is_some() { PAUSE.0 } else { (self.pause * 2).min(PAUSE.1) };
        self.connection = connection;
        woken
    }
}

/// One wait; after an error it rests for `pause` before it ends.
async fn wait(
    broker: Broker,
    connection: Option<Waiter>,
    client_id: Arc<AtomicU64>,
    order: Vec<(usize, Arc<Lane>)>,
    pause: Duration,
) -> (Option<Waiter>, Woken) {
    let keys: Vec<&str> = order.iter().map(|(_, lane)| lane.keys.notifications.as_str()).collect();
    let result = async {
        let mut waiter = match connection {
            Some(waiter) => waiter,
            None => broker.waiter().await?,
        };
        client_id.store(waiter.client_id(), Ordering::Relaxed);
        let place = waiter.wait(&keys).await?;
        Ok::<_, crate::broker::BrokerError>((waiter, place))
    }
    .await;
    match result {
        Ok((waiter, place)) => (Some(waiter), place.map(|place| order[place].0)),
        Err(error) => {
            tracing::warn!(%error, "waiting for notifications failed");
            client_id.store(0, Ordering::Relaxed);
            tokio::time::sleep(pause).await;
            (None, None)
        }
    }
}

impl ClaimLoop {
    /// A token came: for whoever has a free slot, else for another worker.
    pub(super) fn on_woken(&mut self, woken: Woken) {
        self.end_wait_at = None;
        let Some(index) = woken else { return };
        let first = self.comes_first(index);
        let room = self.slots.free() > 0 || self.lanes.iter().any(|lane| !lane.finished.is_empty());
        let accepts = self.accepts();
        // A lane that was empty for a while has no claim to what it did not use.
        let busy = self.lanes.iter().filter(|lane| !lane.dry).map(|lane| lane.got).min();
        let lane = &mut self.lanes[index];
        lane.dry = false;
        lane.got = lane.got.max(busy.unwrap_or(0));
        if accepts && room && first && !lane.token {
            lane.token = true;
        } else {
            self.give_token_back(index);
        }
    }

    fn give_token_back(&self, index: usize) {
        let (broker, lane) = (self.sender.broker.clone(), Arc::clone(&self.lanes[index].lane));
        tokio::spawn(async move {
            if let Err(error) = broker.give_token_back(&lane.keys).await {
                tracing::warn!(queue = %lane.queue, %error, "could not give a notification back; a sweeper will");
            }
        });
    }

    /// Waits for tokens of dry lanes, and ends a wait that no longer is for the right lanes.
    pub(super) fn mind_doorbell(&mut self) {
        let accepts = self.accepts();
        if !accepts {
            self.give_tokens_back();
        }
        let wanted = |index: usize| {
            let lane: &LaneState = &self.lanes[index];
            let rests = lane.backoff.until().is_some() || lane.rests();
            accepts && lane.dry && !lane.token && !rests && self.comes_first(index)
        };
        match self.doorbell.waiting() {
            None => {
                let lanes: Vec<usize> = (0..self.lanes.len()).filter(|index| wanted(*index)).collect();
                if !lanes.is_empty() {
                    self.doorbell.wait(lanes);
                }
            }
            Some(lanes) => {
                let missing = (0..self.lanes.len()).any(|i| wanted(i) && !lanes.contains(&i));
                if (missing || !accepts) && self.end_wait_at.is_none() {
                    self.doorbell.end_wait();
                    self.end_wait_at = Some(Instant::now() + END_WAIT_EVERY);
                }
            }
        }
    }

    /// Ends a wait and gives back the tokens that are in hand. Before the loop ends.
    pub(super) async fn hang_up(&mut self, until: Instant) {
        while self.doorbell.waiting().is_some() && Instant::now() < until {
            self.doorbell.end_wait();
            if let Ok(woken) = tokio::time::timeout(END_WAIT_EVERY, self.doorbell.ended()).await {
                self.on_woken(woken);
            }
        }
        self.give_tokens_back();
    }

    fn give_tokens_back(&mut self) {
        for index in 0..self.lanes.len() {
            if std::mem::take(&mut self.lanes[index].token) {
                self.give_token_back(index);
            }
        }
    }

    /// Whether a token of this lane can be used now: without weights, only while the lanes before it are dry.
    fn comes_first(&self, index: usize) -> bool {
        self.lanes[index].weight > 0 || self.lanes[..index].iter().all(|lane| lane.dry && !lane.token)
    }
}
