//! How do single calls from many tasks share a request? While one is under way, the next ones gather.

use std::collections::HashMap;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

use crate::broker::{Broker, BrokerError, BrokerErrorKind};
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
    pending: Sender<Pending>,
}

impl Coalescer {
    /// Starts the task; it ends with the last clone.
    pub(super) fn start(broker: Broker) -> Self {
        let (pending, incoming) = channel(CAPACITY);
        tokio::spawn(run(broker, incoming));
        Self { pending }
    }

    /// Enqueues one message, together with those of others that came meanwhile.
    pub(super) async fn enqueue(&self, queue: QueueName, bytes: Vec<u8>) -> Result<(), BrokerError> {
        let (answer, answered) = oneshot::channel();
        let gone = |kind| BrokerError::new("enqueue", kind, "the client's runtime has ended");
        self.pending
            .send(Pending { queue, bytes, answer })
            .await
            .map_err(|_| gone(BrokerErrorKind::Unreachable))?;
        answered.await.map_err(|_| gone(BrokerErrorKind::Uncertain))?
    }
}

async fn run(broker: Broker, mut incoming: Receiver<Pending>) {
    let mut requests = FuturesUnordered::new();
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        tokio::select! {
            Some(()) = requests.next(), if !requests.is_empty() => {}
            count = incoming.recv_many(&mut batch, BATCH), if requests.len() < REQUESTS => {
                if count == 0 {
                    break;
                }
                let mut by_queue: HashMap<QueueName, (Vec<Vec<u8>>, Vec<Answer>)> = HashMap::new();
                for Pending { queue, bytes, answer } in batch.drain(..) {
                    let (messages, answers) = by_queue.entry(queue).or_default();
                    messages.push(bytes);
                    answers.push(answer);
                }
                for (queue, (messages, answers)) in by_queue {
                    requests.push(send(broker.clone(), queue, messages, answers));
                }
            }
        }
    }
    while requests.next().await.is_some() {}
}

async fn send(broker: Broker, queue: QueueName, messages: Vec<Vec<u8>>, answers: Vec<Answer>) {
    let keys = keys(&queue);
    let result = patiently(|| broker.enqueue(&keys, &messages)).await.map(drop);
    for answer in answers {
        // Whoever asked may have gone.
        let _ = answer.send(result.clone());
    }
}
