//! Notifies limits that calls have ended, and moves calls that may then run into their queues.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::broker::{Broker, BrokerError, MAX_WAKING, Waking};
use crate::protocol::limit::{LimitKeys, LimitName};
use crate::worker::permits::LIMITS;

/// Maximum number of notices that are taken at once.
const MOST: usize = 1000;
/// The pause after an error, and how often a request is retried: in total longer than a lease.
const PAUSE: Duration = Duration::from_millis(250);
const TRIES: u32 = 240;
/// How long, and how often, to look for a call that is about to be parked.
const LOOK: Duration = Duration::from_secs(2);
const SHORTEST_LOOK: Duration = Duration::from_millis(2);
const LONGEST_LOOK: Duration = Duration::from_millis(100);

/// A notice to a limit.
#[derive(Debug)]
pub(super) enum Notice {
    /// A call gives the limit back; `digest` is the SHA-1 of its message if its token was not used.
    Released { limit: LimitName, holder: String, digest: String },
    /// The call with this entry in the line will not come.
    Gone { limit: LimitName, entry: String },
    /// The calls with these entries may run.
    MayRun { limit: LimitName, entries: Vec<String> },
}

/// Counts the notices that are not sent yet.
#[derive(Debug, Default)]
pub(super) struct Untold {
    count: AtomicUsize,
    all_told: Notify,
}

impl Untold {
    pub(super) fn add(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    fn remove(&self, count: usize) {
        if self.count.fetch_sub(count, Ordering::Relaxed) == count {
            self.all_told.notify_one();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Resolves when all notices are sent. Cancel-safe.
    pub(super) async fn all_told(&self) {
        self.all_told.notified().await;
    }
}

/// The notices for one limit that are sent together.
#[derive(Debug, Default)]
struct News {
    released: Vec<(String, String)>,
    gone: Vec<String>,
    may_run: Vec<String>,
}

/// Sends all notices in order, until the worker's loop is gone. Notices that arrive while others are sent are sent
/// together.
pub(super) async fn tell_all(broker: Broker, mut notices: UnboundedReceiver<Notice>, untold: Arc<Untold>) {
    let mut batch = Vec::new();
    while notices.recv_many(&mut batch, MOST).await > 0 {
        let count = batch.len();
        let mut by_limit: BTreeMap<LimitName, News> = BTreeMap::new();
        for notice in batch.drain(..) {
            match notice {
                Notice::Released { limit, holder, digest } => {
                    by_limit.entry(limit).or_default().released.push((holder, digest));
                }
                Notice::Gone { limit, entry } => by_limit.entry(limit).or_default().gone.push(entry),
                Notice::MayRun { limit, entries } => {
                    by_limit.entry(limit).or_default().may_run.extend(entries);
                }
            }
        }
        join_all(by_limit.into_iter().map(|(limit, news)| tell(&broker, limit, news, &untold))).await;
        untold.remove(count);
    }
}

/// Sends the notices of one limit, and retries on failure. Gives up after a minute: leases end by themselves, and sweepers
/// find parked calls.
async fn tell(broker: &Broker, limit: LimitName, mut news: News, untold: &Arc<Untold>) {
    let keys = LimitKeys::new(&limit);
    for _ in 0..TRIES {
        match try_to_tell(broker, &limit, &keys, &mut news).await {
            Ok(missing) => {
                broker.outage().succeeded(LIMITS, limit.as_str());
                if !missing.is_empty() {
                    untold.add();
                    let (broker, untold) = (broker.clone(), Arc::clone(untold));
                    tokio::spawn(async move {
                        // If this fails, a sweeper does it.
                        let _ = look_for(&broker, &limit, &keys, missing).await;
                        untold.remove(1);
                    });
                }
                return;
            }
            Err(error) => broker.outage().failed(LIMITS, limit.as_str(), &error),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns the entries of calls that may run and are not parked.
async fn try_to_tell(
    broker: &Broker,
    limit: &LimitName,
    keys: &LimitKeys,
    news: &mut News,
) -> Result<Vec<String>, BrokerError> {
    while !news.released.is_empty() || !news.gone.is_empty() {
        let (released, gone) = (news.released.len().min(MAX_WAKING), news.gone.len().min(MAX_WAKING));
        let waking = Waking {
            again: false,
            released: news.released[..released]
                .iter()
                .map(|(holder, digest)| (&**holder, &**digest))
                .collect(),
            lost: news.gone[..gone].iter().map(String::as_str).collect(),
        };
        let (_, entries) = broker.wake(keys, &waking).await?;
        news.released.drain(..released);
        news.gone.drain(..gone);
        news.may_run.extend(entries);
    }
    let missing = broker.unpark_all(limit, &news.may_run).await?;
    news.may_run.clear();
    Ok(missing)
}

/// Looks for calls that may run and that their workers are about to park. Calls that are not found leave the line: a call
/// that was lost with its worker comes back by itself.
async fn look_for(
    broker: &Broker,
    limit: &LimitName,
    keys: &LimitKeys,
    mut missing: Vec<String>,
) -> Result<(), BrokerError> {
    let mut pause = SHORTEST_LOOK;
    let until = Instant::now() + LOOK;
    while !missing.is_empty() && Instant::now() < until {
        tokio::time::sleep(pause).await;
        missing = broker.unpark_all(limit, &missing).await?;
        pause = (pause * 2).min(LONGEST_LOOK);
    }
    // The calls behind them have waited longer by now, so they are parked unless they are lost too.
    while !missing.is_empty() {
        let mut entries = Vec::new();
        for part in missing.chunks(MAX_WAKING) {
            let lost = part.iter().map(String::as_str).collect();
            entries.extend(broker.wake(keys, &Waking { lost, ..Waking::default() }).await?.1);
        }
        missing = broker.unpark_all(limit, &entries).await?;
        if !missing.is_empty() {
            tokio::time::sleep(LONGEST_LOOK).await;
            missing = broker.unpark_all(limit, &missing).await?;
        }
    }
    Ok(())
}
