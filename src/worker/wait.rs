//! Has something come for a queue that was empty? Waits on the server while the worker has nothing better to do.
//!
//! A worker of one queue waits in `BLMOVE`, and while it is idle a pick-up stands behind the wait, on the same connection:
//! Redis runs it right after the token has come, and the message arrives without a round trip more. A worker of
//! several queues waits in `BLPOP` and claims when it has the token.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::task::unconstrained;

use crate::broker::{Broker, BrokerError, BrokerErrorKind, Token, Waiter};
use crate::worker::claim_loop::ClaimLoop;
use crate::worker::lane::Lane;
use crate::worker::request::{Request, RequestKind};

/// The first and the longest pause after an error.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// How often a wait is asked to end until it does.
const END_WAIT_EVERY: Duration = Duration::from_millis(10);

/// How long a wait lasts at least for each lane beyond the first few, and at the most: Redis notes each of its keys, and a
/// worker that drains many queues would else begin a longer wait for each one that runs dry.
const EACH_LANE: Duration = Duration::from_micros(50);
const FEW_LANES: usize = 16;
const LASTS: Duration = Duration::from_millis(20);

/// A wait with a pick-up behind it lasts for this part of a lease at the most. What is picked up has its lease from then on, and
/// no beat keeps it before the reply is here, so that a reply which comes later than [`IN_TIME`] after the pick-up was sent
/// may be of a message that others have by now. Between the two is what a reply may take; after them, what a beat may.
const OF_LEASE: f64 = 0.6;
const IN_TIME: f64 = 0.67;

/// What a wait ended with.
#[derive(Debug)]
pub(super) enum Woken {
    /// A lane has a token, which is there.
    Token(usize, Token),
    /// Nothing has come, or it is what was sent behind the wait that has it.
    Nothing,
    /// The server lets us not wait for one of these lanes, or for none.
    Refused(Vec<usize>),
}

/// How a wait ended on the connection.
enum End {
    /// There is a connection now, on which to wait.
    Connected(Waiter),
    /// One of the lanes has a token, or none when a while has passed.
    Woken(Option<usize>),
    /// The server does not move tokens now: it is full, or the user may not.
    NotMoved,
    /// It does not let us wait for all of the lanes, and the wait has rested.
    Refused,
    /// It failed, and has rested.
    Failed,
}

/// A wait that is under way.
struct Wait {
    /// Sorted.
    lanes: Vec<usize>,
    /// Until then it is not ended for a lane that has run dry since it began.
    lasts_until: Instant,
    /// Where a token that comes will be.
    token: Token,
    /// Whether there is a connection, and nothing was sent behind the wait yet.
    may_be_followed: bool,
    end: Pin<Box<dyn Future<Output = End> + Send>>,
}

/// Starts waits, one at a time, and hears how they end. Polled by the loop that claims, so that a token needs no
/// detour.
pub(super) struct Doorbell {
    broker: Broker,
    lanes: Vec<Arc<Lane>>,
    connection: Option<Waiter>,
    wait: Option<Wait>,
    pause: Duration,
    lease: Duration,
    /// Where the next wait leaves its token.
    token: Token,
}

impl Doorbell {
    pub(super) fn new(broker: &Broker, lease: Duration, lanes: Vec<Arc<Lane>>) -> Self {
        let token = Self::token(&lanes);
        Self { broker: broker.clone(), lanes, connection: None, wait: None, pause: PAUSE.0, lease, token }
    }

    /// Where a wait for these lanes leaves its token: only one list at a time can be waited for and moved from.
    fn token(lanes: &[Arc<Lane>]) -> Token {
        if lanes.len() == 1 { Token::Moved } else { Token::Popped }
    }

    /// Begins to wait for `lanes`, in order of preference. Only when no wait is under way.
    pub(super) fn wait(&mut self, lanes: Vec<usize>) {
        debug_assert!(self.wait.is_none(), "one wait at a time");
        let token = std::mem::replace(&mut self.token, Self::token(&self.lanes));
        let order: Vec<Arc<Lane>> = lanes.iter().map(|lane| Arc::clone(&self.lanes[*lane])).collect();
        let may_be_followed = token == Token::Moved && self.connection.is_some();
        let (broker, connection, pause) = (self.broker.clone(), self.connection.clone(), self.pause);
        let mut end: Pin<Box<dyn Future<Output = End> + Send>> =
            Box::pin(wait(broker, connection, token, order, pause, self.lease.mul_f64(OF_LEASE)));
        // Polled once, so that it is sent before what follows it.
        if let Some(ended) = unconstrained(&mut end).now_or_never() {
            end = Box::pin(std::future::ready(ended));
        }
        let lasts = EACH_LANE * u32::try_from(lanes.len().saturating_sub(FEW_LANES)).unwrap_or(u32::MAX);
        let lasts_until = Instant::now() + lasts.min(LASTS);
        self.wait = Some(Wait { lanes, lasts_until, token, may_be_followed, end });
    }

    /// The connection on which a pick-up may be sent behind the wait that is under way. Once for each wait: from then on
    /// its token is that pick-up's.
    pub(super) fn follow(&mut self) -> Option<Waiter> {
        let wait = self.wait.as_mut()?;
        if std::mem::take(&mut wait.may_be_followed) { self.connection.clone() } else { None }
    }

    /// Makes the wait that is under way end soon. A request that arrives before the wait has begun does nothing,
    /// so the caller asks again until the wait has ended.
    pub(super) fn end_wait(&self) {
        if let Some(client_id) = self.connection.as_ref().map(Waiter::client_id) {
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
        let Some(wait) = &mut self.wait else { return std::future::pending().await };
        let end = (&mut wait.end).await;
        let Some(Wait { lanes, token, may_be_followed, .. }) = self.wait.take() else {
            return Woken::Nothing;
        };
        match end {
            End::Connected(waiter) => {
                self.connection = Some(waiter);
                Woken::Nothing
            }
            End::Woken(place) => {
                self.pause = PAUSE.0;
                let followed = token == Token::Moved && !may_be_followed;
                match place {
                    Some(place) if !followed => Woken::Token(lanes[place], token),
                    _ => Woken::Nothing,
                }
            }
            End::NotMoved => {
                self.token = Token::Popped;
                Woken::Nothing
            }
            End::Refused => {
                self.pause = (self.pause * 2).min(PAUSE.1);
                Woken::Refused(lanes)
            }
            End::Failed => {
                self.connection = None;
                self.pause = (self.pause * 2).min(PAUSE.1);
                Woken::Nothing
            }
        }
    }
}

/// One wait, which with a pick-up behind it lasts for `lasts` at the most; without a connection it makes one instead. After an
/// error it rests for `pause` before it ends.
async fn wait(
    broker: Broker,
    connection: Option<Waiter>,
    token: Token,
    order: Vec<Arc<Lane>>,
    pause: Duration,
    lasts: Duration,
) -> End {
    let result = match (connection, token) {
        (None, _) => broker.waiter().await.map(End::Connected),
        (Some(mut waiter), Token::Moved) => {
            waiter.wait(&order[0].keys, lasts).await.map(|woken| End::Woken(woken.then_some(0)))
        }
        (Some(mut waiter), Token::Popped) => {
            let keys: Vec<&str> = order.iter().map(|lane| lane.keys.notifications.as_str()).collect();
            waiter.wait_any(&keys).await.map(End::Woken)
        }
    };
    match result {
        Ok(end) => end,
        Err(error) if token == Token::Moved && is_refusal(&error) => {
            tracing::debug!(%error, "no token may be moved; waiting without that");
            End::NotMoved
        }
        Err(error) => {
            tracing::warn!(%error, "waiting for notifications failed");
            tokio::time::sleep(pause).await;
            if is_refusal(&error) { End::Refused } else { End::Failed }
        }
    }
}

/// Whether the server answered, and would let us pop a token nevertheless.
fn is_refusal(error: &BrokerError) -> bool {
    matches!(error.kind(), BrokerErrorKind::Full | BrokerErrorKind::Denied | BrokerErrorKind::WrongType)
}

impl ClaimLoop {
    /// A token came: for whoever has a free slot, else for another worker.
    pub(super) fn on_woken(&mut self, woken: Woken) {
        self.end_wait_at = None;
        let (index, token) = match woken {
            Woken::Token(index, token) => (index, token),
            Woken::Nothing => return,
            Woken::Refused(lanes) => {
                // Each is asked by itself: those of which that is refused too are not waited for until they have paused.
                lanes.into_iter().for_each(|index| self.wake(index));
                return;
            }
        };
        let first = self.comes_first(index);
        let room = self.has_room(index);
        let accepts = self.accepts() && !self.lanes[index].rests();
        self.wake(index);
        let lane = &mut self.lanes[index];
        if accepts && room && first && lane.token.is_none() {
            lane.token = Some(token);
        } else {
            self.give_token_back(index, token);
        }
    }

    /// Whether something can be claimed from a lane, at the latest when what has finished is released.
    fn has_room(&self, index: usize) -> bool {
        self.room(index) > 0 || self.lanes.iter().any(|lane| !lane.finished.is_empty())
    }

    fn give_token_back(&self, index: usize, token: Token) {
        let (broker, lane) = (self.sender.broker.clone(), Arc::clone(&self.lanes[index].lane));
        tokio::spawn(async move {
            if let Err(error) = broker.give_token_back(&lane.keys, token).await {
                tracing::warn!(queue = %lane.queue, %error, "could not give a notification back; a sweeper will");
            }
        });
    }

    /// Waits for tokens of dry lanes, and ends a wait that no longer is for the right lanes.
    pub(super) fn mind_doorbell(&mut self) {
        let accepts = self.accepts();
        for index in 0..self.lanes.len() {
            let lane = &self.lanes[index];
            // The room for which it was taken may be gone, or nothing is claimed for a while.
            let is_of_no_use = lane.rests() || !self.has_room(index);
            if lane.token.is_some() && (!accepts || (lane.claims == 0 && is_of_no_use)) {
                self.give_lane_token_back(index);
            }
        }
        match &self.doorbell.wait {
            None => {
                let lanes: Vec<usize> = if accepts { self.wanted().collect() } else { Vec::new() };
                if !lanes.is_empty() {
                    self.doorbell.wait(lanes);
                    self.follow_wait();
                }
            }
            Some(wait) => {
                let missing = accepts && self.wanted().any(|lane| wait.lanes.binary_search(&lane).is_err());
                if (missing || !accepts) && self.end_wait_at.is_none() {
                    let now = Instant::now();
                    if accepts && now < wait.lasts_until {
                        self.end_wait_at = Some(wait.lasts_until);
                    } else {
                        self.doorbell.end_wait();
                        self.end_wait_at = Some(now + END_WAIT_EVERY);
                    }
                } else if accepts {
                    self.follow_wait();
                }
            }
        }
    }

    /// Lets a pick-up stand behind the wait that is under way, while the worker of one queue is idle: it then makes no
    /// other request until that is answered, so that its number stays the next one.
    fn follow_wait(&mut self) {
        let [lane] = &self.lanes[..] else { return };
        let has_nothing_to_do = lane.dry && lane.token.is_none() && !lane.has_work();
        let may_ask = lane.is_open() && !lane.rests() && !self.burst;
        if !(has_nothing_to_do && may_ask && self.slots.are_all_free()) {
            return;
        }
        if let Some(waiter) = self.doorbell.follow() {
            // For one slot: a token comes for one message, which Redis moves by fewer commands than many. When more have
            // come, the next claim is for all slots.
            let slot = self.slots.take(1).pop().expect("all slots are free");
            let request = self.numbered(0, RequestKind::PickUp { slot, waiter });
            self.issue(request);
        }
    }

    /// Whether what a pick-up brought may be another's by now, or soon, before a beat keeps it.
    pub(super) fn comes_late(&self, request: &Request) -> bool {
        request.is_pick_up() && request.made.elapsed() > self.sender.lease.mul_f64(IN_TIME)
    }

    /// Ends a wait and gives back the tokens that are in hand. Before the loop ends.
    pub(super) async fn hang_up(&mut self, until: Instant) {
        while self.doorbell.wait.is_some() && Instant::now() < until {
            self.doorbell.end_wait();
            if let Ok(woken) = tokio::time::timeout(END_WAIT_EVERY, self.doorbell.ended()).await {
                self.on_woken(woken);
            }
        }
        self.give_tokens_back();
    }

    fn give_tokens_back(&mut self) {
        (0..self.lanes.len()).for_each(|index| self.give_lane_token_back(index));
    }

    fn give_lane_token_back(&mut self, index: usize) {
        if let Some(token) = self.lanes[index].token.take() {
            self.give_token_back(index, token);
        }
    }
}
