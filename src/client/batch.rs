//! Sends calls of one queue in as few requests as possible, and fails each call at its deadline.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::{sleep, sleep_until};

use crate::broker::{Broker, BrokerError, BrokerErrorKind, Ready};
use crate::client::bulk::next_chunk;
use crate::client::patience::{Until, is_not_yet, pauses_between};
use crate::protocol::keys::QueueKeys;

/// Calls whose deadlines are this close share one timer.
const SLACK: Duration = Duration::from_millis(50);

pub(super) type Answer = oneshot::Sender<Result<(), BrokerError>>;

/// A call that waits to be sent.
pub(super) struct Waiting {
    bytes: Vec<u8>,
    until: Until,
    /// `None` once it was answered.
    answer: Option<Answer>,
}

impl Waiting {
    pub(super) fn new(bytes: Vec<u8>, until: Until, answer: Answer) -> Self {
        Self { bytes, until, answer: Some(answer) }
    }

    fn answer(&mut self, result: Result<(), BrokerError>) {
        if let Some(answer) = self.answer.take() {
            // The caller may have gone.
            let _ = answer.send(result);
        }
    }
}

/// Calls of one queue, in order.
#[derive(Default)]
pub(super) struct Batch(VecDeque<Waiting>);

impl Batch {
    pub(super) fn push(&mut self, call: Waiting) {
        self.0.push_back(call);
    }

    /// Sends all calls, each until its deadline, and answers each.
    pub(super) async fn send(mut self, broker: &Broker, keys: QueueKeys) {
        let (mut pauses, mut last) = (None, None);
        loop {
            self.answer_late(Instant::now(), || unsent(last.as_ref()));
            self.0.retain(|call| call.answer.is_some());
            let Some(latest) = self.0.back() else { return };
            let hurried = broker.by(latest.until.attempt());
            match self.attempt(&hurried, &keys, last.as_ref()).await {
                Ok(()) => pauses = None,
                Err(error) if is_not_yet(&error) => {
                    last = Some(error);
                    if let Some(pause) = pauses.get_or_insert_with(pauses_between).next() {
                        sleep(pause).await;
                    }
                }
                Err(error) => return self.0.iter_mut().for_each(|call| call.answer(Err(error.clone()))),
            }
        }
    }

    /// Sends as many of the first calls as fit into one request. On an error they were not sent, and remain.
    async fn attempt(
        &mut self,
        broker: &Broker,
        keys: &QueueKeys,
        last: Option<&BrokerError>,
    ) -> Result<(), BrokerError> {
        // Nothing is sent before it is connected.
        self.minding(broker.connected(), || unsent(last)).await?;
        let chunk = next_chunk(0, self.0.len(), |index| self.0[index].bytes.len());
        let count = chunk.len();
        let ready = Ready::new(keys, self.0.range(chunk).map(|call| call.bytes.as_slice()));
        let late = || BrokerError::new("enqueue", BrokerErrorKind::Uncertain, "no reply came in time");
        let result = self.minding(broker.enqueue(ready), late).await.map(drop);
        match result {
            Err(error) if is_not_yet(&error) => Err(error),
            done => {
                self.0.drain(..count).for_each(|mut call| call.answer(done.clone()));
                Ok(())
            }
        }
    }

    /// Awaits `work`, and meanwhile fails the calls whose deadline passes.
    async fn minding<T>(&mut self, work: impl Future<Output = T>, error: impl Fn() -> BrokerError) -> T {
        let mut work = pin!(work);
        loop {
            let first = self.0.iter().find(|call| call.answer.is_some()).map(|call| call.until.end);
            let last = self.0.back().map(|call| call.until.end);
            let Some(end) = first.filter(|first| last.is_some_and(|last| *first + SLACK < last)) else {
                // `work` ends with the last of them.
                return work.await;
            };
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = sleep_until(end.into()) => self.answer_late(end, &error),
            }
        }
    }

    fn answer_late(&mut self, now: Instant, error: impl Fn() -> BrokerError) {
        for call in self.0.iter_mut().filter(|call| call.until.end <= now) {
            call.answer(Err(error()));
        }
    }
}

/// The deadline of a call has passed, and it was not sent.
pub(super) fn unsent(last: Option<&BrokerError>) -> BrokerError {
    let detail = "the request could not be sent in time";
    last.cloned().unwrap_or_else(|| BrokerError::new("enqueue", BrokerErrorKind::Unreachable, detail))
}
