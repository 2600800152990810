//! Lists finished calls that keep no record, for dashboards, if this is enabled. Nothing waits for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::broker::{Broker, ListedCall};
use crate::excerpt::shortened;
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::CallState;
use crate::protocol::message::Message;
use crate::worker::executor::FinishedRun;
use crate::worker::queue::served::ServedQueue;
use crate::worker::settlement::Settlement;

/// How many calls may wait to be listed; further ones are dropped.
const WAITING: usize = 10_000;
/// How many calls are listed at once.
const AT_ONCE: usize = 500;

/// Receives the calls to list.
#[derive(Debug)]
pub(super) struct FinishedCalls(Sender<FinishedCall>);

/// A finished call, without its message, which may be large.
#[derive(Debug)]
pub(super) struct FinishedCall {
    queue: usize,
    slot: usize,
    task: String,
    id: Option<CallId>,
    state: CallState,
    /// The number of the last attempt that began; 0 if none did.
    attempt: u32,
    took: Option<Duration>,
    by: Option<String>,
}

impl FinishedCalls {
    pub(super) fn new() -> (Self, Receiver<FinishedCall>) {
        let (sender, receiver) = channel(WAITING);
        (Self(sender), receiver)
    }

    /// Lists the call of a run, unless the call has not ended, or its end is visible in a record or among the dead letters.
    pub(super) fn note(&self, run: &FinishedRun, has_succeeded: bool, settlement: &Settlement) {
        let (state, by) = match settlement {
            Settlement::Release { .. } if has_succeeded => (CallState::Succeeded, None),
            Settlement::Finish { tracking, state, field, .. } if tracking.keep_ms.unwrap_or(0) == 0 => {
                (*state, field.as_ref().filter(|(name, _)| *name == "by").map(|(_, by)| by))
            }
            _ => return,
        };
        let Ok(message) = Message::decode(&run.message) else { return };
        let _ = self.0.try_send(FinishedCall {
            queue: run.queue,
            slot: run.slot,
            task: shortened(message.task().to_owned()),
            id: message.id(),
            state,
            attempt: message.attempts().saturating_add(u32::from(run.took.is_some())),
            took: run.took,
            by: by.map(|by| String::from_utf8_lossy(by).into_owned()),
        });
    }
}

/// Lists all calls until the event loop is gone. Calls that cannot be listed are dropped.
pub(super) async fn list_all(
    broker: Broker,
    queues: Vec<Arc<ServedQueue>>,
    most: usize,
    mut finished: Receiver<FinishedCall>,
) {
    let (mut calls, mut fails) = (Vec::with_capacity(AT_ONCE), vec![false; queues.len()]);
    while finished.recv_many(&mut calls, AT_ONCE).await > 0 {
        for (queue, served) in queues.iter().enumerate() {
            let of_queue = calls.iter().filter(|call| call.queue == queue);
            let listed: Vec<ListedCall<'_>> = of_queue.map(|call| call.listed(served)).collect();
            if listed.is_empty() {
                continue;
            }
            match broker.list_finished(&served.keys, most, &listed).await {
                Ok(()) => fails[queue] = false,
                Err(error) if fails[queue] => {
                    tracing::debug!(queue = %served.queue, %error, "finished calls not listed")
                }
                Err(error) => {
                    fails[queue] = true;
                    tracing::warn!(queue = %served.queue, %error, "finished calls not listed");
                }
            }
        }
        calls.clear();
    }
}

impl FinishedCall {
    fn listed<'a>(&'a self, served: &'a ServedQueue) -> ListedCall<'a> {
        ListedCall {
            task: &self.task,
            id: self.id,
            state: self.state.name(),
            took: self.took,
            attempt: self.attempt,
            wire_id: served.wire_id(self.slot),
            by: self.by.as_deref(),
        }
    }
}
