//! Lets single calls from many tasks share requests. A call that finds no request in flight is sent at once; while requests are
//! in flight, the next calls are collected.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::poll;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout_at;

use crate::broker::{Broker, BrokerError, BrokerErrorKind, Ready};
use crate::client::batch::{Batch, Waiting, unsent};
use crate::client::keys;
use crate::client::patience::Until;
use crate::protocol::names::QueueName;

/// The number of calls that may wait to be sent; further callers block.
const CAPACITY: usize = 4096;
/// The largest number of calls in a request.
const BATCH: usize = 512;
/// The largest number of requests in flight.
const REQUESTS: usize = 2;

/// How long a call without others polls for its reply: waking a sleeping thread takes longer than a reply of a nearby Redis.
const ATTENTION: Duration = Duration::from_micros(50);
/// Calls with longer pauses between them are occasional; others are consecutive.
const PAUSE: Duration = Duration::from_millis(1);
/// How long the timer is kept running for occasional calls: shorter than the timeout of a call.
const HOLD: Duration = Duration::from_millis(200);
/// If Redis replies more slowly, the client does not poll.
const NEAR: Duration = Duration::from_micros(200);

struct Pending {
    queue: QueueName,
    waiting: Waiting,
}

/// The sender of messages to the sending task.
#[derive(Debug, Clone)]
pub(super) struct Coalescer {
    broker: Broker,
    pending: Sender<Pending>,
    /// One permit per request that may be in flight.
    requests: Arc<Semaphore>,
    /// Whether the last call without others got its reply soon.
    is_near: Arc<AtomicBool>,
    started: Instant,
    /// When the last call without others began: microseconds since the start.
    called: Arc<AtomicU64>,
    /// Keeps the timer running; full while that is certain.
    timer: Sender<()>,
}

impl Coalescer {
    /// Starts the sending task, which ends with the last clone.
    pub(super) fn start(broker: Broker) -> Self {
        let (pending, incoming) = channel(CAPACITY);
        let requests = Arc::new(Semaphore::new(REQUESTS));
        tokio::spawn(run(broker.clone(), incoming, Arc::clone(&requests)));
        let (timer, used) = channel(1);
        tokio::spawn(keep_timer(used));
        let (is_near, called) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
        Self { broker, pending, requests, is_near, started: Instant::now(), called, timer }
    }

    /// Whether the sending task is alive: it ends with its runtime.
    pub(super) fn lives(&self) -> bool {
        !self.pending.is_closed()
    }

    /// Enqueues one message, together with those of other callers that came meanwhile.
    pub(super) async fn enqueue(
        &self,
        queue: QueueName,
        bytes: Vec<u8>,
        until: Until,
    ) -> Result<(), BrokerError> {
        if let Ok(_permit) = self.requests.try_acquire() {
            let keys = keys(&queue);
            // Boxed, so that a waiting call is small.
            let answer = Box::pin(until.retry(async |end| {
                self.broker.by(end).enqueue(Ready::new(&keys, std::iter::once(&bytes[..]))).await
            }));
            let is_alone = self.requests.available_permits() == REQUESTS - 1;
            if !is_alone {
                return answer.await.map(drop);
            }
            let began = Instant::now();
            self.note_call(began);
            let answered = if self.is_near.load(Relaxed) { attentively(answer).await } else { answer.await };
            self.is_near.store(began.elapsed() < NEAR, Relaxed);
            return answered.map(drop);
        }
        let (answer, answered) = oneshot::channel();
        let gone = |kind| BrokerError::new("enqueue", kind, "the client's runtime has ended");
        match self.pending.try_send(Pending { queue, waiting: Waiting::new(bytes, until, answer) }) {
            Ok(()) => {}
            Err(TrySendError::Full(pending)) => {
                // The sender fails the calls that it has taken in time; nobody has taken this one.
                match timeout_at(until.end.into(), self.pending.send(pending)).await {
                    Ok(sent) => sent.map_err(|_| gone(BrokerErrorKind::Unreachable))?,
                    Err(_) => return Err(unsent(None)),
                }
            }
            Err(TrySendError::Closed(_)) => return Err(gone(BrokerErrorKind::Unreachable)),
        }
        answered.await.map_err(|_| gone(BrokerErrorKind::Uncertain))?
    }

    /// Makes sure that the timer is running if calls are occasional.
    fn note_call(&self, now: Instant) {
        let now = u64::try_from((now - self.started).as_micros()).unwrap_or(u64::MAX);
        let pause = now.saturating_sub(self.called.swap(now, Relaxed));
        if Duration::from_micros(pause) > PAUSE {
            // Full: the timer is running already.
            let _ = self.timer.try_send(());
        }
    }
}

/// Awaits a result that may come within [`ATTENTION`], without letting the thread sleep until then; other tasks run meanwhile.
async fn attentively<F: Future>(answer: F) -> F::Output {
    let mut answer = pin!(answer);
    let until = Instant::now() + ATTENTION;
    loop {
        if let Poll::Ready(output) = poll!(&mut answer) {
            return output;
        }
        if Instant::now() >= until {
            return answer.await;
        }
        tokio::task::yield_now().await;
    }
}

/// Keeps a timer running while calls are occasional.
///
/// Each call has a timeout. A timeout earlier than all other timers of the runtime wakes the thread that waits for events,
/// which then waits less long: before the call is sent, and in competition with the worker to be woken. With consecutive calls
/// that thread is awake anyway, and receives the reply sooner.
async fn keep_timer(mut used: Receiver<()>) {
    while used.recv().await.is_some() {
        tokio::time::sleep(HOLD).await;
    }
}

async fn run(broker: Broker, mut incoming: Receiver<Pending>, requests: Arc<Semaphore>) {
    let mut batch = Vec::with_capacity(BATCH);
    while incoming.recv_many(&mut batch, BATCH).await > 0 {
        let Ok(permit) = Arc::clone(&requests).acquire_owned().await else { return };
        // Messages that came while we waited for the permit are sent too.
        while batch.len() < BATCH
            && let Ok(pending) = incoming.try_recv()
        {
            batch.push(pending);
        }
        let (broker, batch) = (broker.clone(), std::mem::replace(&mut batch, Vec::with_capacity(BATCH)));
        tokio::spawn(async move {
            send(&broker, batch).await;
            drop(permit);
        });
    }
}

/// Sends a batch, one request per queue, and answers each call.
async fn send(broker: &Broker, pending: Vec<Pending>) {
    let mut by_queue: HashMap<QueueName, Batch> = HashMap::new();
    for Pending { queue, waiting } in pending {
        by_queue.entry(queue).or_default().push(waiting);
    }
    join_all(by_queue.into_iter().map(|(queue, batch)| batch.send(broker, keys(&queue)))).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn timer_lives_while_there_are_calls_and_ends_with_the_client() {
        let (timer, used) = channel(1);
        let kept = tokio::spawn(keep_timer(used));
        let began = Instant::now();
        // The first begins one, the second asks for the next, which has begun when there is room for the third.
        for _ in 0..3 {
            timer.send(()).await.unwrap();
        }
        assert!(began.elapsed() >= HOLD);
        drop(timer);
        kept.await.unwrap();
        assert!(began.elapsed() >= 3 * HOLD);
    }
}
