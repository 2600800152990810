//! Waits on the server for notifications of empty queues.
//!
//! A worker of one queue waits in `BLMOVE`. While it is idle, it sends a pick-up behind the wait on the same connection:
//! Redis runs it right after the token arrives, which saves a round trip. A worker of several queues waits in `BLPOP`, and
//! claims once it has the token. In a Cluster, a worker waits once for each hash slot of its queues.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
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

/// How often a wait is asked to end, until it does.
const END_WAIT_EVERY: Duration = Duration::from_millis(10);

/// Minimum duration of a wait: this much for each queue beyond the first few, at most [`LASTS`]. Redis registers each
/// key of a wait, and a worker that drains many queues would otherwise begin a longer wait for each queue that becomes
/// empty.
const EACH_QUEUE: Duration = Duration::from_micros(50);
const FEW_QUEUES: usize = 16;
const LASTS: Duration = Duration::from_millis(20);

/// A wait with a pick-up behind it lasts at most this part of a lease. The lease of a picked-up message starts at the
/// pick-up, and no beat renews it before the reply arrives. So if the reply arrives later than [`IN_TIME`] after the
/// pick-up was sent, others may already have the message. The gap between the two is the reply's budget; the rest is the
/// heartbeat's.
const OF_LEASE: f64 = 0.6;
const IN_TIME: f64 = 0.67;

/// The result of a wait.
#[derive(Debug)]
pub(in crate::worker) enum Woken {
    /// A queue has a token, and this is where it is.
    Token(usize, Token),
    /// No token, or the request sent behind the wait has it.
    Nothing,
    /// The server refuses to wait for one of these queues, or for all of them.
    Refused(Vec<usize>),
}

/// How a wait ended on the connection.
enum End {
    /// There is now a connection on which to wait.
    Connected(Box<Waiter>),
    /// One of the queues has a token; `None` if the wait timed out.
    Woken(Option<usize>),
    /// The server does not move tokens now: it is full, or the user lacks the permission.
    NotMoved,
    /// The server refuses to wait for all of the queues. The pause is over.
    Refused,
    /// The wait failed. The pause is over.
    Failed,
}

/// A wait in progress.
struct Wait {
    /// Sorted.
    queues: Vec<usize>,
    /// Until then, the wait is not ended for a queue that has become empty since it began.
    lasts_until: Instant,
    /// Where the token will be.
    token: Token,
    /// Whether there is a connection and nothing was sent behind the wait yet.
    may_be_followed: bool,
    end: Pin<Box<dyn Future<Output = End> + Send>>,
}

/// Starts waits for some queues of a worker, one at a time. The event loop polls it directly, so that a token takes no
/// detour.
pub(super) struct NotificationWait {
    broker: Broker,
    /// All queues of the worker.
    queues: Vec<Arc<ServedQueue>>,
    /// Those that it waits for, sorted.
    members: Vec<usize>,
    /// When the current wait is asked to end.
    end_at: Option<Instant>,
    connection: Option<Waiter>,
    wait: Option<Wait>,
    pause: Duration,
    lease: Duration,
    /// The server has just refused to move a token, so the next wait pops it.
    pops: bool,
}

impl NotificationWait {
    /// One for each group of queues that can be waited for together.
    pub(super) fn all(broker: &Broker, lease: Duration, queues: &[Arc<ServedQueue>]) -> Vec<Self> {
        let mut groups = BTreeMap::<_, Vec<usize>>::new();
        for (index, queue) in queues.iter().enumerate() {
            groups.entry(broker.wait_group(&queue.keys)).or_default().push(index);
        }
        let one = |members| Self {
            broker: broker.clone(),
            queues: queues.to_vec(),
            members,
            end_at: None,
            connection: None,
            wait: None,
            pause: PAUSE.0,
            lease,
            pops: false,
        };
        groups.into_values().map(one).collect()
    }

    /// When the current wait is asked to end.
    pub(super) fn end_at(&self) -> Option<Instant> {
        self.end_at
    }

    /// Forgets a time that is over.
    pub(super) fn expire(&mut self, now: Instant) {
        self.end_at = self.end_at.filter(|at| *at > now);
    }

    /// Where the next wait leaves its token. Moving a token requires a wait for a single list, and no list of another
    /// program may be touched.
    fn next_token(&mut self) -> Token {
        let refused = std::mem::take(&mut self.pops);
        match &self.queues[..] {
            [queue] if !refused && queue.foreign() == ForeignLists::default() => Token::Moved,
            _ => Token::Popped,
        }
    }

    /// Begins to wait for `queues`, in order of preference. Call it only if no wait is in progress.
    pub(super) fn wait(&mut self, queues: Vec<usize>) {
        debug_assert!(self.wait.is_none(), "one wait at a time");
        let token = self.next_token();
        let order: Vec<Arc<ServedQueue>> =
            queues.iter().map(|queue| Arc::clone(&self.queues[*queue])).collect();
        let may_be_followed = token == Token::Moved && self.connection.is_some();
        let (broker, connection, pause) = (self.broker.clone(), self.connection.clone(), self.pause);
        let mut end: Pin<Box<dyn Future<Output = End> + Send>> =
            Box::pin(wait(broker, connection, token, order, pause, self.lease.mul_f64(OF_LEASE)));
        // Polled once, so that it is sent before any request that follows it.
        if let Some(ended) = unconstrained(&mut end).now_or_never() {
            end = Box::pin(std::future::ready(ended));
        }
        let lasts = EACH_QUEUE * u32::try_from(queues.len().saturating_sub(FEW_QUEUES)).unwrap_or(u32::MAX);
        let lasts_until = Instant::now() + lasts.min(LASTS);
        self.wait = Some(Wait { queues, lasts_until, token, may_be_followed, end });
    }

    /// The connection on which a pick-up may be sent behind the current wait. Returns it once for each wait: from then on,
    /// the token of the wait belongs to that pick-up.
    pub(super) fn follow(&mut self) -> Option<Waiter> {
        let wait = self.wait.as_mut()?;
        if std::mem::take(&mut wait.may_be_followed) { self.connection.clone() } else { None }
    }

    /// Makes the current wait end soon. A request that arrives before the wait has begun has no effect, so the caller
    /// repeats it until the wait has ended.
    fn end_wait(&self) {
        if let Some(waiter) = self.connection.clone() {
            tokio::spawn(async move {
                if let Err(error) = waiter.unblock().await {
                    tracing::debug!(%error, "wait for notifications not ended");
                }
            });
        }
    }

    /// The result of the wait, if it has ended. Pending if no wait is in progress.
    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<Woken> {
        let Some(wait) = &mut self.wait else { return Poll::Pending };
        let end = ready!(wait.end.as_mut().poll(cx));
        self.end_at = None;
        let Some(Wait { queues, token, may_be_followed, .. }) = self.wait.take() else {
            return Poll::Ready(Woken::Nothing);
        };
        Poll::Ready(self.woken_by(end, queues, token, may_be_followed))
    }

    fn woken_by(&mut self, end: End, queues: Vec<usize>, token: Token, may_be_followed: bool) -> Woken {
        match end {
            End::Connected(waiter) => {
                self.broker.outage().succeeded(WAIT, "");
                self.connection = Some(*waiter);
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

/// The result of the first wait that has ended. Cancel-safe: the waits continue. Never resolves if none is in progress.
pub(super) async fn ended(waits: &mut [NotificationWait]) -> Woken {
    poll_fn(|cx| {
        let ended = waits.iter_mut().map(|wait| wait.poll_ended(cx)).find(Poll::is_ready);
        ended.unwrap_or(Poll::Pending)
    })
    .await
}

/// Runs one wait. With a pick-up behind it, it lasts at most `lasts`. Without a connection, it connects instead. After an
/// error it pauses for `pause` before it ends.
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
        (None, ..) => broker.waiter(&order[0].keys).await.map(Box::new).map(End::Connected),
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
            tracing::debug!(%error, "tokens cannot be moved; waiting with BLPOP");
            End::NotMoved
        }
        Err(error) => {
            broker.outage().failed(WAIT, "", &error);
            tokio::time::sleep(pause).await;
            if is_refusal(&error) { End::Refused } else { End::Failed }
        }
    }
}

/// Whether the server answered, and would still allow popping a token.
fn is_refusal(error: &BrokerError) -> bool {
    matches!(error.kind(), BrokerErrorKind::Full | BrokerErrorKind::Denied | BrokerErrorKind::WrongType)
}

impl Queues {
    /// Handles a token: this worker uses it if it has a free slot, else another worker gets it.
    pub(in crate::worker) fn woken(&mut self, woken: Woken, demand: Demand<'_>) {
        let (index, token) = match woken {
            Woken::Token(index, token) => (index, token),
            Woken::Nothing => return,
            Woken::Refused(queues) => {
                // A claim checks each queue. Queues that refuse this as well are not waited for until their pauses are
                // over.
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

    /// Whether a queue can be claimed from, at the latest once the finished slots are released.
    fn has_room(&self, index: usize, demand: Demand<'_>) -> bool {
        let room = self.clients[index].situation(&demand, &self.slots).room();
        room > 0 || self.clients.iter().any(|client| client.finished() > 0)
    }

    fn give_token_back(&self, index: usize, token: Token) {
        let (broker, served) = (self.sender.broker.clone(), Arc::clone(self.clients[index].served()));
        tokio::spawn(async move {
            if let Err(error) = broker.give_token_back(&served.keys, token).await {
                // While Redis is unreachable, the outage has its own log line.
                if error.is_silence() {
                    tracing::debug!(queue = %served.queue, %error, "notification not returned; a sweeper adds one");
                } else {
                    tracing::warn!(queue = %served.queue, %error, "notification not returned; a sweeper adds one");
                }
            }
        });
    }

    /// Waits for tokens of empty queues, and ends a wait that no longer covers the right ones.
    pub(in crate::worker) fn wait_for_tokens(&mut self, demand: Demand<'_>) {
        let accepts = demand.accepts;
        for index in 0..self.clients.len() {
            let client = &self.clients[index];
            if !client.supply().has_token() {
                continue;
            }
            // The room that the token was taken for may be gone, or claims are paused.
            let is_of_no_use = client.rests() || !self.has_room(index, demand);
            if !accepts || (client.pending().claims() == 0 && is_of_no_use) {
                self.give_back_kept_token(index);
            }
        }
        for place in 0..self.waits.len() {
            self.wait_for_tokens_of(place, accepts);
        }
    }

    fn wait_for_tokens_of(&mut self, place: usize, accepts: bool) {
        let NotificationWait { members, wait, end_at, .. } = &self.waits[place];
        let is_member = |queue: &usize| members.binary_search(queue).is_ok();
        let Some(wait) = wait else {
            let queues: Vec<usize> =
                if accepts { self.wanted().filter(is_member).collect() } else { Vec::new() };
            if !queues.is_empty() {
                self.waits[place].wait(queues);
                self.follow_wait();
            }
            return;
        };
        let is_missing = |queue: usize| wait.queues.binary_search(&queue).is_err();
        let missing = accepts && self.wanted().filter(is_member).any(is_missing);
        let is_of_paused = wait.queues.iter().any(|queue| self.is_paused(*queue));
        if (missing || is_of_paused || !accepts) && end_at.is_none() {
            let (now, lasts_until) = (Instant::now(), wait.lasts_until);
            let wait = &mut self.waits[place];
            if accepts && now < lasts_until {
                wait.end_at = Some(lasts_until);
            } else {
                wait.end_wait();
                wait.end_at = Some(now + END_WAIT_EVERY);
            }
        } else if accepts {
            self.follow_wait();
        }
    }

    /// Sends a pick-up behind the current wait while the worker of one queue is idle. The worker then makes no other
    /// request until the pick-up is answered, so that its number stays the next one.
    fn follow_wait(&mut self) {
        let [client] = &self.clients[..] else { return };
        let has_nothing_to_do = client.supply().is_dry() && !client.has_work();
        let may_ask = client.is_open() && !client.rests() && !self.is_burst;
        if !(has_nothing_to_do && may_ask && self.slots.are_all_free()) {
            return;
        }
        if let Some(waiter) = self.waits[0].follow() {
            // Picks up one message: a token stands for one message, and Redis moves one with fewer commands than many. If
            // more have come, the next claim covers all slots.
            let slot = self.slots.take(1).pop().expect("all slots are free");
            let request = self.clients[0].number(RequestKind::PickUp { slot, waiter });
            self.send(request);
        }
    }

    /// Whether others may have the message of a pick-up by now, or soon, before a heartbeat renews its lease.
    pub(super) fn comes_late(&self, request: &Request) -> bool {
        request.is_pick_up() && request.made.elapsed() > self.sender.lease.mul_f64(IN_TIME)
    }

    /// Ends the waits and returns the tokens that the worker holds, before the loop ends.
    pub(in crate::worker) async fn hang_up(&mut self, until: Instant, demand: Demand<'_>) {
        while self.waits.iter().any(|wait| wait.wait.is_some()) && Instant::now() < until {
            self.waits.iter().filter(|wait| wait.wait.is_some()).for_each(NotificationWait::end_wait);
            if let Ok(woken) = tokio::time::timeout(END_WAIT_EVERY, ended(&mut self.waits)).await {
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
