//! Lets single calls with options from many tasks share script calls. A call that finds few requests in flight is sent at once;
//! meanwhile the next calls are collected.

use std::sync::Arc;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout_at;

use crate::broker::{Bound, Broker, BrokerError, BrokerErrorKind, MAX_SUBMITTED, Submitted};
use crate::client::patience::Until;
use crate::client::schedule::Later;
use crate::client::submit;

/// The number of calls that may wait to be sent; further callers block.
const CAPACITY: usize = 4096;
/// The largest number of requests in flight.
const REQUESTS: usize = 2;
/// The largest number of bytes in a request, or a single call.
const BYTES: usize = 1 << 20;

/// A call that waits to be sent.
struct Pending {
    call: Later,
    bound: Bound,
    until: Until,
    answer: oneshot::Sender<Result<Submitted, BrokerError>>,
}

/// The sender of calls with options.
#[derive(Debug, Clone)]
pub(super) struct Submitter {
    broker: Broker,
    pending: Sender<Pending>,
    /// One permit per request that may be in flight.
    requests: Arc<Semaphore>,
}

impl Submitter {
    /// Starts the sending task, which ends with the last clone.
    pub(super) fn start(broker: Broker) -> Self {
        let (pending, incoming) = channel(CAPACITY);
        let requests = Arc::new(Semaphore::new(REQUESTS));
        tokio::spawn(run(broker.clone(), incoming, Arc::clone(&requests)));
        Self { broker, pending, requests }
    }

    /// Submits one call, together with those of other callers that came meanwhile.
    pub(super) async fn submit(
        &self,
        call: Later,
        bound: Bound,
        until: Until,
    ) -> Result<Submitted, BrokerError> {
        if let Ok(_permit) = self.requests.try_acquire() {
            return submit::one(&self.broker, &call, bound, until).await;
        }
        let gone = |kind| BrokerError::new("submit", kind, "the client's runtime has ended");
        let late = |kind| BrokerError::new("submit", kind, "no reply came in time");
        let (answer, answered) = oneshot::channel();
        let sent = self.pending.send(Pending { call, bound, until, answer });
        match timeout_at(until.end.into(), sent).await {
            Ok(sent) => sent.map_err(|_| gone(BrokerErrorKind::Unreachable))?,
            Err(_) => return Err(late(BrokerErrorKind::Unreachable)),
        }
        match timeout_at(until.end.into(), answered).await {
            Ok(answered) => answered.map_err(|_| gone(BrokerErrorKind::Uncertain))?,
            Err(_) => Err(late(BrokerErrorKind::Uncertain)),
        }
    }
}

async fn run(broker: Broker, mut incoming: Receiver<Pending>, requests: Arc<Semaphore>) {
    let mut batch = Vec::with_capacity(MAX_SUBMITTED);
    while incoming.recv_many(&mut batch, MAX_SUBMITTED).await > 0 {
        let Ok(permit) = Arc::clone(&requests).acquire_owned().await else { return };
        // Calls that came while we waited for the permit are sent too.
        while batch.len() < MAX_SUBMITTED
            && let Ok(pending) = incoming.try_recv()
        {
            batch.push(pending);
        }
        let (broker, batch) =
            (broker.clone(), std::mem::replace(&mut batch, Vec::with_capacity(MAX_SUBMITTED)));
        tokio::spawn(async move {
            send(&broker, batch).await;
            drop(permit);
        });
    }
}

/// Sends calls in their order, in as few requests as possible, and answers each.
async fn send(broker: &Broker, mut pending: Vec<Pending>) {
    // Whoever has gone has been told that it is late.
    pending.retain(|call| !call.answer.is_closed());
    while !pending.is_empty() {
        let rest = pending.split_off(alike(&pending));
        send_alike(broker, std::mem::replace(&mut pending, rest)).await;
    }
}

/// How many of the first calls go into one request: at least one.
fn alike(pending: &[Pending]) -> usize {
    let mut bytes = 0;
    let fits = |call: &&Pending| {
        bytes += call.call.bytes.len();
        call.call.queue == pending[0].call.queue && call.bound == pending[0].bound && bytes <= BYTES
    };
    pending.iter().take_while(fits).count().max(1)
}

/// Sends calls of one queue with one bound. What only one of them may have caused is no matter of the others: they are sent one
/// by one then.
async fn send_alike(broker: &Broker, pending: Vec<Pending>) {
    let Some(until) = pending.iter().map(|call| call.until).max_by_key(|until| until.end) else { return };
    let bound = pending[0].bound;
    let (calls, answers): (Vec<Later>, Vec<_>) =
        pending.into_iter().map(|pending| (pending.call, pending.answer)).unzip();
    match submit::several(broker, &calls, bound, until).await {
        Ok(submitted) => {
            // The caller may have gone.
            answers
                .into_iter()
                .zip(submitted)
                .for_each(|(answer, submitted)| drop(answer.send(Ok(submitted))));
        }
        Err(error) if calls.len() > 1 && error.kind() == BrokerErrorKind::WrongType => {
            for (call, answer) in calls.iter().zip(answers) {
                let _ = answer.send(submit::one(broker, call, bound, until).await);
            }
        }
        Err(error) => answers.into_iter().for_each(|answer| drop(answer.send(Err(error.clone())))),
    }
}
