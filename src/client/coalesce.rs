//! How do single calls from many tasks share a request? A call that finds none under way goes at once; while some are
//! under way, the next ones gather.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::join_all;
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
}

impl Coalescer {
    /// Starts the task; it ends with the last clone.
    pub(super) fn start(broker: Broker) -> Self {
        let (pending, incoming) = channel(CAPACITY);
        let requests = Arc::new(Semaphore::new(REQUESTS));
        tokio::spawn(run(broker.clone(), incoming, Arc::clone(&requests)));
        Self { broker, pending, requests }
    }

    /// Enqueues one message, together with those of others that came meanwhile.
    pub(super) async fn enqueue(&self, queue: QueueName, bytes: Vec<u8>) -> Result<(), BrokerError> {
        if let Ok(_permit) = self.requests.try_acquire() {
            let keys = keys(&queue);
            return patiently(|| self.broker.enqueue(Ready::new(&keys, std::iter::once(&bytes[..]))))
                .await
                .map(drop);
        }
        let (answer, answered) = oneshot::channel();
        let gone = |kind| BrokerError::new("enqueue", kind, "the client's runtime has ended");
        self.pending
            .send(Pending { queue, bytes, answer })
            .await
            .map_err(|_| gone(BrokerErrorKind::Unreachable))?;
        answered.await.map_err(|_| gone(BrokerErrorKind::Uncertain))?
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
