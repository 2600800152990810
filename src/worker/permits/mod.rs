//! Asks the limits of calls for permission, and gives the limits back when the runs have ended.
//!
//! A call asks one limit after another, and holds none while it waits for another. Calls that ask the same limit at the
//! same time share a request, and so do those that give it back.

mod held;
mod relay;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::broker::{Broker, MAX_ACQUIRED, Verdict};
use crate::protocol::limit::{LimitKeys, LimitName};
use crate::worker::permits::relay::{Notice, Untold};

pub(super) use self::held::HeldLimits;

/// The name of these requests in the log.
const LIMITS: &str = "limits";
/// The pauses after errors.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A call that asks its limits.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) slot: usize,
    pub(super) queue: usize,
    /// Its position in the order of claims.
    pub(super) order: u64,
    /// When it began to ask, on the clock of its queue.
    pub(super) since: u64,
    /// All its limits; those before `next` have given permission.
    pub(super) limits: Vec<LimitName>,
    pub(super) next: usize,
    /// The name under which it then holds the limits.
    pub(super) holder: String,
    /// Its entry in the waiting lines of limits: the SHA-1 of its message, a space, and the queue.
    pub(super) entry: String,
}

/// The answers of limits to calls.
type Answers = Vec<(Ask, Verdict)>;

/// The result of asking.
#[derive(Debug)]
pub(super) enum Answered {
    /// All limits permit the call.
    MayRun(Ask),
    /// The call waits in the line of this limit.
    Waits { ask: Ask, limit: LimitName },
    /// The call may run after that time.
    Later { ask: Ask, wait: Duration },
}

/// The limits that the call in a slot holds or asks.
#[derive(Debug)]
struct Holding {
    order: u64,
    limits: Vec<LimitName>,
    holder: String,
    digest: String,
}

/// All limits that calls of this worker hold or ask.
pub(super) struct Permits {
    broker: Broker,
    lease: Duration,
    held: Arc<HeldLimits>,
    /// By slot.
    holding: HashMap<usize, Holding>,
    to_ask: Vec<Ask>,
    asking: FuturesUnordered<Pin<Box<dyn Future<Output = Answers> + Send>>>,
    notices: UnboundedSender<Notice>,
    untold: Arc<Untold>,
    /// Limits without a policy that a warning was logged for.
    unlimited: HashSet<LimitName>,
    /// How many calls have asked.
    count: u64,
}

impl Ask {
    fn limit(&self) -> &LimitName {
        &self.limits[self.next]
    }
}

impl Permits {
    /// Asks limits through `broker`. Also returns the future that gives limits back; it ends once this is dropped and all
    /// notices are sent.
    pub(super) fn new(
        broker: Broker,
        lease: Duration,
        held: Arc<HeldLimits>,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (notices, told) = unbounded_channel();
        let untold = Arc::new(Untold::default());
        let telling = relay::tell_all(broker.clone(), told, Arc::clone(&untold));
        let permits = Self {
            broker,
            lease,
            held,
            holding: HashMap::new(),
            to_ask: Vec::new(),
            asking: FuturesUnordered::new(),
            notices,
            untold,
            unlimited: HashSet::new(),
            count: 0,
        };
        (permits, telling)
    }

    /// A number that identifies a call of this worker.
    pub(super) fn number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Asks the limits of a call with the next [`flush`](Self::flush).
    pub(super) fn ask(&mut self, ask: Ask) {
        let digest = ask.entry.split(' ').next().unwrap_or_default().to_owned();
        let (order, holder) = (ask.order, ask.holder.clone());
        // Includes the limit being asked: if the call is given up meanwhile, it may hold that limit.
        let limits = ask.limits[..=ask.next].to_vec();
        self.holding.insert(ask.slot, Holding { order, limits, holder, digest });
        self.to_ask.push(ask);
    }

    /// Sends what is queued: one request for each limit.
    pub(super) fn flush(&mut self) {
        if self.to_ask.is_empty() {
            return;
        }
        let mut by_limit: BTreeMap<LimitName, Vec<Ask>> = BTreeMap::new();
        for ask in self.to_ask.drain(..) {
            by_limit.entry(ask.limit().clone()).or_default().push(ask);
        }
        for (limit, mut asks) in by_limit {
            while !asks.is_empty() {
                let rest = asks.split_off(asks.len().min(MAX_ACQUIRED));
                let part = std::mem::replace(&mut asks, rest);
                let told = (self.broker.clone(), self.lease, self.notices.clone(), Arc::clone(&self.untold));
                self.asking.push(Box::pin(acquire(told, limit.clone(), part)));
            }
        }
    }

    /// The next answers; none once all notices are sent, if that is waited for. Cancel-safe. Never resolves if nothing is
    /// asked and nothing is waited for.
    pub(super) async fn answers(&mut self, waits_until_told: bool) -> Answers {
        tokio::select! {
            Some(answers) = self.asking.next(), if !self.asking.is_empty() => answers,
            () = self.untold.all_told(), if waits_until_told => Vec::new(),
            else => std::future::pending().await,
        }
    }

    /// Handles answers: asks the next limits of the calls. Returns the calls that are done asking.
    pub(super) fn on_answers(&mut self, answers: Answers) -> Vec<Answered> {
        answers.into_iter().filter_map(|(ask, verdict)| self.on_answer(ask, verdict)).collect()
    }

    fn on_answer(&mut self, mut ask: Ask, verdict: Verdict) -> Option<Answered> {
        let limit = ask.limit().clone();
        if self.holding.get(&ask.slot).is_none_or(|holding| holding.order != ask.order) {
            return None; // It was given up, and what it holds is given back.
        }
        match verdict {
            Verdict::Granted => self.held.add(&limit, &ask.holder),
            Verdict::Unlimited => self.on_unlimited(&limit),
            Verdict::Waits => {
                self.give_back_unused(ask.slot);
                return Some(Answered::Waits { ask, limit });
            }
            Verdict::Later(wait) => {
                self.give_back_unused(ask.slot);
                return Some(Answered::Later { ask, wait });
            }
        }
        ask.next += 1;
        if ask.next == ask.limits.len() {
            return Some(Answered::MayRun(ask));
        }
        self.ask(ask);
        None
    }

    fn on_unlimited(&mut self, limit: &LimitName) {
        if self.unlimited.insert(limit.clone()) {
            tracing::warn!(%limit, hint = "set one with `Client::set_limit` or `limits set`", "limit has no policy; calls are not limited");
        }
    }

    /// Gives back the limits of the call in a slot, if it holds any, because its run has ended.
    pub(super) fn give_back(&mut self, slot: usize) {
        self.release(slot, true);
    }

    /// Does the same for a call that has not begun.
    pub(super) fn give_back_unused(&mut self, slot: usize) {
        self.release(slot, false);
    }

    fn release(&mut self, slot: usize, is_used: bool) {
        if self.holding.is_empty() {
            return;
        }
        let Some(Holding { limits, holder, digest, .. }) = self.holding.remove(&slot) else { return };
        for limit in limits {
            self.held.remove(&limit, &holder);
            let digest = if is_used { String::new() } else { digest.clone() };
            self.tell(Notice::Released { limit, holder: holder.clone(), digest });
        }
    }

    /// Gives back all limits, at the end.
    pub(super) fn give_back_all(&mut self) {
        let slots: Vec<usize> = self.holding.keys().copied().collect();
        slots.into_iter().for_each(|slot| self.give_back_unused(slot));
    }

    /// Tells limits that the call with this entry will not come.
    pub(super) fn leave_lines(&self, limits: Vec<LimitName>, entry: &str) {
        for limit in limits {
            self.tell(Notice::Gone { limit, entry: entry.to_owned() });
        }
    }

    fn tell(&self, notice: Notice) {
        self.untold.add();
        // The receiver is gone only when the worker is.
        let _ = self.notices.send(notice);
    }

    /// Whether nothing is being asked and all notices are sent.
    pub(super) fn are_idle(&self) -> bool {
        self.to_ask.is_empty() && self.asking.is_empty() && self.untold.is_empty()
    }
}

/// Asks a limit until it answers. Asking again is harmless: a call that already holds the limit is told so.
async fn acquire(
    (broker, lease, notices, untold): (Broker, Duration, UnboundedSender<Notice>, Arc<Untold>),
    limit: LimitName,
    asks: Vec<Ask>,
) -> Answers {
    let keys = LimitKeys::new(&limit);
    let mut pause = PAUSE;
    loop {
        let calls: Vec<_> = asks.iter().map(|ask| (&*ask.holder, &*ask.entry)).collect();
        match broker.acquire(&keys, lease, &calls).await {
            Ok((verdicts, entries)) => {
                broker.outage().succeeded(LIMITS, limit.as_str());
                if !entries.is_empty() {
                    untold.add();
                    let _ = notices.send(Notice::MayRun { limit, entries });
                }
                return asks.into_iter().zip(verdicts).collect();
            }
            Err(error) => broker.outage().failed(LIMITS, limit.as_str(), &error),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
