//! Waits for notifications of queues that are empty, on the server.
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

use crate::broker::{Broker, BrokerError, BrokerErrorKind, ForeignLists, Token, Waiter};
use crate::worker::queue::request::{Request, RequestKind};
use crate::worker::queue::served::ServedQueue;
use crate::worker::queue::{Demand, Queues};

/// The first and the longest pause after an error.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// What the log calls a wait.
const WAIT: &str = "wait for notifications";

/// How often a wait is asked to end until it does.
const END_WAIT_EVERY: Duration = Duration::from_millis(10);

/// How long a wait lasts at least for each queue beyond the first few, and at the most: Redis notes each of its keys, and a
/// worker that drains many queues would else begin a longer wait for each one that runs dry.
const EACH_QUEUE: Duration = Duration::from_micros(50);
const FEW_QUEUES: usize = 16;
const LASTS: Duration = Duration::from_millis(20);

/// A wait with a pick-up behind it lasts for this part of a lease at the most. What is picked up has its lease from then on, and
/// no beat keeps it before the reply is here, so that a reply which comes later than [`IN_TIME`] after the pick-up was sent
/// may be of a message that others have by now. Between the two is what a reply may take; after them, what a beat may.
const OF_LEASE: f64 = 0.6;
const IN_TIME: f64 = 0.67;

/// What a wait ended with.
#[derive(Debug)]
pub(in crate::worker) enum Woken {
    /// A queue has a token, which is there.
    Token(usize, Token),
    /// Nothing has come, or it is what was sent behind the wait that has it.
    Nothing,
    /// The server lets us not wait for one of these queues, or for none.
    Refused(Vec<usize>),
}

/// How a wait ended on the connection.
enum End {
    /// There is a connection now, on which to wait.
    Connected(Waiter),
    /// One of the queues has a token, or none when a while has passed.
    Woken(Option<usize>),
    /// The server does not move tokens now: it is full, or the user may not.
    NotMoved,
    /// It does not let us wait for all of the queues, and the wait has rested.
    Refused,
    /// It failed, and has rested.
    Failed,
}

/// A wait that is under way.
struct Wait {
    /// Sorted.
    queues: Vec<usize>,
    /// Until then it is not ended for a queue that has run dry since it began.
    lasts_until: Instant,
    /// Where a token that comes will be.
    token: Token,
    /// Whether there is a connection, and nothing was sent behind the wait yet.
    may_be_followed: bool,
    end: Pin<Box<dyn Future<Output = End> + Send>>,
}

/// Starts waits, one at a time. Polled by the event loop, so that a token needs no detour.
pub(super) struct NotificationWait {
    broker: Broker,
    queues: Vec<Arc<ServedQueue>>,
    connection: Option<Waiter>,
    wait: Option<Wait>,
    pause: Duration,
    lease: Duration,
    /// The server has just refused to move a token: the next wait pops it.
    pops: bool,
}

impl NotificationWait {
    pub(super) fn new(broker: &Broker, lease: Duration, queues: Vec<Arc<ServedQueue>>) -> Self {
        Self {
            broker: broker.clone(),
            queues,
            connection: None,
            wait: None,
            pause: PAUSE.0,
            lease,
            pops: false,
        }
    }

    /// Where the next wait leaves its token: only one list at a time can be waited for and moved from, and nothing is moved
    /// to or from another program's.
    fn next_token(&mut self) -> Token {
        let refused = std::mem::take(&mut self.pops);
        match &self.queues[..] {
            [queue] if !refused && queue.foreign() == ForeignLists::default() => Token::Moved,
            _ => Token::Popped,
        }
    }

    /// Begins to wait for `queues`, in order of preference. Only when no wait is under way.
    pub(super) fn wait(&mut self, queues: Vec<usize>) {
        debug_assert!(self.wait.is_none(), "one wait at a time");
        let token = self.next_token();
        let order: Vec<Arc<ServedQueue>> =
            queues.iter().map(|queue| Arc::clone(&self.queues[*queue])).collect();
        let may_be_followed = token == Token::Moved && self.connection.is_some();
        let (broker, connection, pause) = (self.broker.clone(), self.connection.clone(), self.pause);
        let mut end: Pin<Box<dyn Future<Output = End> + Send>> =
            Box::pin(wait(broker, connection, token, order, pause, self.lease.mul_f64(OF_LEASE)));
        // Polled once, so that it is sent before what follows it.
        if let Some(ended) = unconstrained(&mut end).now_or_never() {
            end = Box::pin(std::future::ready(ended));
        }
        let lasts = EACH_QUEUE * u32::try_from(queues.len().saturating_sub(FEW_QUEUES)).unwrap_or(u32::MAX);
        let lasts_until = Instant::now() + lasts.min(LASTS);
        self.wait = Some(Wait { queues, lasts_until, token, may_be_followed, end });
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
                    tracing::debug!(%error, "wait for notifications not ended");
                }
            });
        }
    }

    /// How a wait ended. Cancel-safe: the wait goes on. Never resolves when no wait is under way.
    pub(super) async fn ended(&mut self) -> Woken {
        let Some(wait) = &mut self.wait else { return std::future::pending().await };
        let end = (&mut wait.end).await;
        let Some(Wait { queues, token, may_be_followed, .. }) = self.wait.take() else {
            return Woken::Nothing;
        };
        match end {
            End::Connected(waiter) => {
                self.broker.outage().succeeded(WAIT, "");
                self.connection = Some(waiter);
                Woken::Nothing
            }
            End::Woken(place) => {
                self.pause = PAUSE.0;
                self.broker.outage().succeeded(WAIT, "");
                let followed = token == Token::Moved && !may_be_followed;
                match place {
                    Some(place) if !followed => Woken::Token(queues[place], token),
                    _ => Woken::Nothing,
                }
            }
            End::NotMoved => {
                self.pops = true;
                Woken::Nothing
            }
            End::Refused => {
                self.pause = (self.pause * 2).min(PAUSE.1);
                Woken::Refused(queues)
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
    order: Vec<Arc<ServedQueue>>,
    pause: Duration,
    lasts: Duration,
) -> End {
    let foreign = order.iter().find(|queue| queue.foreign().notifications);
    let result = match (connection, token, foreign) {
        (None, ..) => broker.waiter().await.map(End::Connected),
        (Some(_), _, Some(queue)) => Err(BrokerError::foreign("wait", &queue.keys.notifications)),
        (Some(mut waiter), Token::Moved, None) => {
            waiter.wait(&order[0].keys, lasts).await.map(|woken| End::Woken(woken.then_some(0)))
        }
        (Some(mut waiter), Token::Popped, None) => {
            let keys: Vec<&str> = order.iter().map(|queue| queue.keys.notifications.as_str()).collect();
            waiter.wait_any(&keys).await.map(End::Woken)
        }
    };
    match result {
        Ok(end) => end,
        Err(error) if token == Token::Moved && is_refusal(&error) => {
            tracing::debug!(%error, "tokens cannot be moved; waiting without");
            End::NotMoved
        }
        Err(error) => {
            broker.outage().failed(WAIT, "", &error);
            tokio::time::sleep(pause).await;
            if is_refusal(&error) { End::Refused } else { End::Failed }
        }
    }
}

/// Whether the server answered, and would let us pop a token nevertheless.
fn is_refusal(error: &BrokerError) -> bool {
    matches!(error.kind(), BrokerErrorKind::Full | BrokerErrorKind::Denied | BrokerErrorKind::WrongType)
}

impl Queues {
    /// A token came: for this worker if it has a free slot, else for another.
    pub(in crate::worker) fn woken(&mut self, woken: Woken, demand: Demand<'_>) {
        self.end_wait_at = None;
        let (index, token) = match woken {
            Woken::Token(index, token) => (index, token),
            Woken::Nothing => return,
            Woken::Refused(queues) => {
                // Each is asked by itself: those that are refused too are not waited for until they have paused.
                queues.into_iter().for_each(|index| self.wake(index));
                return;
            }
        };
        let first = self.comes_first(index);
        let has_room = self.has_room(index, demand);
        let accepts = demand.accepts && !self.clients[index].rests();
        self.wake(index);
        let supply = self.clients[index].supply_mut();
        if accepts && has_room && first && !supply.has_token() {
            supply.keep_token(Some(token));
        } else {
            self.give_token_back(index, token);
        }
    }

    /// Whether something can be claimed from a queue, at the latest when the finished slots are released.
    fn has_room(&self, index: usize, demand: Demand<'_>) -> bool {
        let room = self.clients[index].situation(&demand, &self.slots).room();
        room > 0 || self.clients.iter().any(|client| client.finished() > 0)
    }

    fn give_token_back(&self, index: usize, token: Token) {
        let (broker, served) = (self.sender.broker.clone(), Arc::clone(self.clients[index].served()));
        tokio::spawn(async move {
            if let Err(error) = broker.give_token_back(&served.keys, token).await {
                // While Redis is away, the outage has its own line.
                if error.is_silence() {
                    tracing::debug!(queue = %served.queue, %error, "notification not given back; a sweeper adds one");
                } else {
                    tracing::warn!(queue = %served.queue, %error, "notification not given back; a sweeper adds one");
                }
            }
        });
    }

    /// Waits for tokens of queues that are empty, and ends a wait that no longer is for the right ones.
    pub(in crate::worker) fn wait_for_tokens(&mut self, demand: Demand<'_>) {
        let accepts = demand.accepts;
        for index in 0..self.clients.len() {
            let client = &self.clients[index];
            if !client.supply().has_token() {
                continue;
            }
            // The room for which it was taken may be gone, or nothing is claimed for a while.
            let is_of_no_use = client.rests() || !self.has_room(index, demand);
            if !accepts || (client.pending().claims() == 0 && is_of_no_use) {
                self.give_back_kept_token(index);
            }
        }
        match &self.wait.wait {
            None => {
                let queues: Vec<usize> = if accepts { self.wanted().collect() } else { Vec::new() };
                if !queues.is_empty() {
                    self.wait.wait(queues);
                    self.follow_wait();
                }
            }
            Some(wait) => {
                let missing =
                    accepts && self.wanted().any(|queue| wait.queues.binary_search(&queue).is_err());
                let is_of_paused = wait.queues.iter().any(|queue| self.is_paused(*queue));
                if (missing || is_of_paused || !accepts) && self.end_wait_at.is_none() {
                    let now = Instant::now();
                    if accepts && now < wait.lasts_until {
                        self.end_wait_at = Some(wait.lasts_until);
                    } else {
                        self.wait.end_wait();
                        self.end_wait_at = Some(now + END_WAIT_EVERY);
                    }
                } else if accepts {
                    self.follow_wait();
                }
            }
        }
    }

    /// Sends a pick-up behind the wait that is in progress, while the worker of one queue is idle: it then makes no other
    /// request until that is answered, so that its number stays the next one.
    fn follow_wait(&mut self) {
        let [client] = &self.clients[..] else { return };
        let has_nothing_to_do = client.supply().is_dry() && !client.has_work();
        let may_ask = client.is_open() && !client.rests() && !self.is_burst;
        if !(has_nothing_to_do && may_ask && self.slots.are_all_free()) {
            return;
        }
        if let Some(waiter) = self.wait.follow() {
            // For one slot: a token comes for one message, which Redis moves with fewer commands than many. When more have
            // come, the next claim is for all slots.
            let slot = self.slots.take(1).pop().expect("all slots are free");
            let request = self.clients[0].number(RequestKind::PickUp { slot, waiter });
            self.send(request);
        }
    }

    /// Whether what a pick-up brought may be another's by now, or soon, before a heartbeat renews it.
    pub(super) fn comes_late(&self, request: &Request) -> bool {
        request.is_pick_up() && request.made.elapsed() > self.sender.lease.mul_f64(IN_TIME)
    }

    /// Ends a wait and gives back the tokens that are in hand. Before the loop ends.
    pub(in crate::worker) async fn hang_up(&mut self, until: Instant, demand: Demand<'_>) {
        while self.wait.wait.is_some() && Instant::now() < until {
            self.wait.end_wait();
            if let Ok(woken) = tokio::time::timeout(END_WAIT_EVERY, self.wait.ended()).await {
                self.woken(woken, demand);
            }
        }
        (0..self.clients.len()).for_each(|index| self.give_back_kept_token(index));
    }

    fn give_back_kept_token(&mut self, index: usize) {
        if let Some(token) = self.clients[index].supply_mut().take_token() {
            self.give_token_back(index, token);
        }
    }
}
