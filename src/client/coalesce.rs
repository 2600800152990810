//! How do single calls from many tasks share a request? A call that finds none under way goes at once; while some are
//! under way, the next ones gather.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::poll;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Semaphore, oneshot};

use crate::broker::{Broker, BrokerError, BrokerErrorKind, Ready};
use crate::client::bulk::next_chunk;
use crate::client::{keys, patiently};
use crate::protocol::names::QueueName;

/// How many calls may wait to be sent; more have to wait to wait.
const CAPACITY: usize = 4096;
/// How many calls go into one request.
const BATCH: usize = 512;
/// How many requests are under way at a time.
const REQUESTS: usize = 2;

/// For how long a call that is alone looks for its answer: to wake a thread that sleeps takes longer than a Redis nearby
/// takes to answer.
const ATTENTION: Duration = Duration::from_micros(50);
/// Calls with longer pauses between them are made now and then, others one after the other.
const PAUSE: Duration = Duration::from_millis(1);
/// How long a timer goes on that is kept while calls are made now and then: less than a time-out of theirs.
const HOLD: Duration = Duration::from_millis(200);
/// A Redis that takes longer is not looked for.
const NEAR: Duration = Duration::from_micros(200);

type Answer = oneshot::Sender<Result<(), BrokerError>>;

struct Pending {
    queue: QueueName,
    bytes: Vec<u8>,
    answer: Answer,
}

/// The way to the task that sends.
#[derive(Debug, Clone)]
pub(super) struct Coalescer {
    broker: Broker,
    pending: Sender<Pending>,
    /// One permit for each request that may be under way.
    requests: Arc<Semaphore>,
    /// Whether the last call that was alone had its answer soon.
    is_near: Arc<AtomicBool>,
    started: Instant,
    /// When the last call that was alone began: microseconds since the start.
    called: Arc<AtomicU64>,
    /// Keeps a timer going; full while that is certain.
    timer: Sender<()>,
}

impl Coalescer {
    /// Starts the task; it ends with the last clone.
    pub(super) fn start(broker: Broker) -> Self {
        let (pending, incoming) = channel(CAPACITY);
        let requests = Arc::new(Semaphore::new(REQUESTS));
        tokio::spawn(run(broker.clone(), incoming, Arc::clone(&requests)));
        let (timer, used) = channel(1);
        tokio::spawn(keep_timer(used));
        let (is_near, called) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
        Self { broker, pending, requests, is_near, started: Instant::now(), called, timer }
    }

    /// Enqueues one message, together with those of others that came meanwhile.
    pub(super) async fn enqueue(&self, queue: QueueName, bytes: Vec<u8>) -> Result<(), BrokerError> {
        if let Ok(_permit) = self.requests.try_acquire() {
            let keys = keys(&queue);
            let answer = patiently(|| self.broker.enqueue(Ready::new(&keys, std::iter::once(&bytes[..]))));
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
        self.pending
            .send(Pending { queue, bytes, answer })
            .await
            .map_err(|_| gone(BrokerErrorKind::Unreachable))?;
        answered.await.map_err(|_| gone(BrokerErrorKind::Uncertain))?
    }

    /// Sees to it that a timer is kept where calls are made now and then.
    fn note_call(&self, now: Instant) {
        let now = u64::try_from((now - self.started).as_micros()).unwrap_or(u64::MAX);
        let pause = now.saturating_sub(self.called.swap(now, Relaxed));
        if Duration::from_micros(pause) > PAUSE {
            // Full: it is kept already.
            let _ = self.timer.try_send(());
        }
    }
}

/// Awaits what may come within [`ATTENTION`] without letting the thread sleep until then; other tasks run meanwhile.
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

/// Keeps a timer going while calls are made now and then.
///
/// Each call has a time-out. One that ends before all other timers of the runtime wakes the thread that waits for events,
/// so that this one waits less long: before the call is sent, and in the way of what it is to wake. Where one call follows
/// the other that thread is awake anyway, and hears of the reply the sooner.
async fn keep_timer(mut used: Receiver<()>) {
    while used.recv().await.is_some() {
        tokio::time::sleep(HOLD).await;
    }
}

async fn run(broker: Broker, mut incoming: Receiver<Pending>, requests: Arc<Semaphore>) {
    let mut batch = Vec::with_capacity(BATCH);
    while incoming.recv_many(&mut batch, BATCH).await > 0 {
        let Ok(permit) = Arc::clone(&requests).acquire_owned().await else { return };
        // What came while we waited for the permit goes too.
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

/// Sends a batch, one request for each queue in it, and answers each call.
async fn send(broker: &Broker, batch: Vec<Pending>) {
    let mut by_queue: HashMap<QueueName, (Vec<Vec<u8>>, Vec<Answer>)> = HashMap::new();
    for Pending { queue, bytes, answer } in batch {
        let (messages, answers) = by_queue.entry(queue).or_default();
        messages.push(bytes);
        answers.push(answer);
    }
    let requests = by_queue.into_iter().map(|(queue, (messages, answers))| async move {
        let keys = keys(&queue);
        let mut answers = answers.into_iter();
        let mut at = 0;
        while at < messages.len() {
            let chunk = next_chunk(at, messages.len(), |index| messages[index].len());
            let slices = messages[chunk.clone()].iter().map(Vec::as_slice);
            let result = patiently(|| broker.enqueue(Ready::new(&keys, slices.clone()))).await.map(drop);
            for answer in answers.by_ref().take(chunk.len()) {
                // Whoever asked may have gone.
                let _ = answer.send(result.clone());
            }
            at = chunk.end;
        }
    });
    join_all(requests).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_timer_is_kept_while_there_are_calls_and_ends_with_the_client() {
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
