//! Kills a running call: leaves a kill request for its worker, and waits for the answer.

mod error;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde::Serialize;

pub use self::error::KillError;

use crate::broker::{BrokerError, KillAdded, KillAnswer, NewKillRequest, StreamEntry, digest};
use crate::inspect::{Inspector, MessageSummary};
use crate::protocol::call_id::CallId;
use crate::protocol::info::WorkerInfo;
use crate::protocol::keys::{self, QueueKeys};
use crate::protocol::message::Message;
use crate::protocol::names::{QueueName, WorkerId};

/// The interval between two checks for the worker's answer.
const LOOK: Duration = Duration::from_millis(20);
/// Time allowed in addition to heartbeats and grace, for a busy machine or a reconnection.
const SLACK: Duration = Duration::from_secs(3);
/// The assumed lease of a worker without `info`.
const LEASE: Duration = Duration::from_secs(6);
/// How many waiting messages are searched for a call that is not running.
const SEARCHED: u64 = 100_000;
const PAGE: u64 = 500;
/// The longest name of who asks, in bytes.
const MAX_BY: usize = 200;
/// How many characters of arguments are kept.
const ARGUMENTS: usize = 1000;

/// The result of killing a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Killed {
    /// The fate of the run.
    pub fate: Ending,
    /// The queue of the message.
    pub queue: String,
    /// The slot of the run.
    pub wire_id: String,
    /// The worker of the run.
    pub worker: String,
    /// Who asked to kill it.
    pub by: String,
    /// The id of its dead letter, if it was killed.
    pub letter: Option<String>,
    /// The message; the text of its arguments is cut at 1000 characters.
    #[serde(flatten)]
    pub message: MessageSummary,
}

/// The fate of a run that should be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Ending {
    /// The run was ended; its message is a dead letter with the reason `killed`.
    Killed,
    /// The run succeeded before it could be ended.
    Succeeded,
    /// The run had ended before the request arrived. If it failed, it may have been retried.
    Over,
    /// The run continues: it was asked to end, but cannot be stopped, such as a function that blocks. If it finally
    /// fails, it counts as killed.
    Blocks,
    /// The worker died, or lost the message, before it handled the request: the call runs again.
    Lost,
    /// The worker did not react in time. The request was withdrawn, or the run continues nevertheless.
    Late,
}

/// A run: a message in a slot of a Rust worker.
struct Target {
    queue: QueueName,
    worker: WorkerId,
    wire_id: String,
    message: Vec<u8>,
}

impl Inspector {
    /// Ends a running call for good: it is not retried, and its dead letter names `by`. `id` is the id of the call, or of the slot
    /// that runs it; it is searched in `queues`, or in all queues if that is empty.
    ///
    /// The worker reads the request with its next heartbeat, at most a quarter of its lease later. An isolated run is
    /// killed immediately. An inline run whose task takes a [`Context`](crate::Context) is asked to end and has its
    /// grace; then an async one is dropped. An inline function that blocks cannot be stopped. Returns when the worker
    /// has reported the fate of the run, or has not done so in time.
    ///
    /// ```no_run
    /// # async fn example(inspector: delayed::Inspector) -> Result<(), delayed::inspect::KillError> {
    /// let killed = inspector.kill("018bcfe5-687b-7b5c-8a3e-0123456789ab", &[], "anna").await?;
    /// println!("{:?}: {:?}", killed.message.task, killed.fate);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// No run has this id, or its worker does not accept kill requests, or Redis cannot be reached or used.
    pub async fn kill(&self, id: &str, queues: &[QueueName], by: &str) -> Result<Killed, KillError> {
        if by.is_empty() || by.len() > MAX_BY || by.chars().any(char::is_control) {
            return Err(KillError::By { by: by.chars().take(MAX_BY).collect() });
        }
        let target = self.find_run(id, queues).await?;
        let (keys, digest) = (QueueKeys::new(&target.queue), digest(&target.message));
        let worker_key = keys::worker(&target.queue, &target.worker);
        let orders_key = keys::orders(&target.queue, &target.worker);
        let info = self.broker.worker_info(&worker_key).await?;
        let lease = info
            .and_then(|info| WorkerInfo::decode(&info))
            .map_or(LEASE, |info| Duration::from_millis(info.lease_ms));
        let until_heard = lease / 2 + SLACK; // two beats
        let before = self.server_ms().await?;
        let ask = NewKillRequest {
            worker_key: &worker_key,
            orders_key: &orders_key,
            wire_id: &target.wire_id,
            digest: &digest,
            by,
            expiry: until_heard,
        };
        let wire_id = || target.wire_id.clone();
        let mut fate = match self.broker.kill(&keys, &ask).await? {
            KillAdded::Yes => self.await_ending(&keys, &target, &ask).await?,
            KillAdded::Moved => Ending::Over,
            KillAdded::Dead => return Err(KillError::DeadWorker { wire_id: wire_id() }),
            KillAdded::TooMany => return Err(KillError::TooMany { wire_id: wire_id() }),
        };
        let letter = match fate {
            Ending::Killed | Ending::Over => self.letter_of(&keys, &target.message, before).await?,
            _ => None,
        };
        if letter.is_some() {
            fate = Ending::Killed; // The worker's answer was lost, or was not written because Redis is full.
        }
        Ok(Killed {
            fate,
            queue: target.queue.to_string(),
            wire_id: wire_id(),
            worker: target.worker.to_string(),
            by: by.to_owned(),
            letter,
            message: MessageSummary::of(&target.message, ARGUMENTS),
        })
    }

    /// Waits for the worker's final answer. Without one, the state in Redis decides.
    async fn await_ending(
        &self,
        keys: &QueueKeys,
        target: &Target,
        ask: &NewKillRequest<'_>,
    ) -> Result<Ending, BrokerError> {
        let mut end = Instant::now() + ask.expiry;
        let mut heard = None;
        loop {
            let answer = self.broker.answered(ask.wire_id, ask.digest).await?;
            if answer != heard {
                match answer {
                    None => {}
                    Some(KillAnswer::Ends(within)) => end = Instant::now() + within + SLACK,
                    Some(KillAnswer::Blocks) => return Ok(Ending::Blocks),
                    Some(KillAnswer::Over) => return Ok(Ending::Over),
                    Some(KillAnswer::Killed) => return Ok(Ending::Killed),
                    Some(KillAnswer::Succeeded) => return Ok(Ending::Succeeded),
                    Some(KillAnswer::Lost) => return Ok(Ending::Lost),
                }
                heard = answer;
            }
            if Instant::now() >= end {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        self.broker.withdraw(ask.orders_key, ask.wire_id).await?;
        if self.broker.owned_by(keys, ask.wire_id).await?.as_ref() != Some(&target.message) {
            return Ok(Ending::Over);
        }
        let alive = self.broker.alive(&[ask.wire_id]).await?;
        Ok(if alive == [true] { Ending::Late } else { Ending::Lost })
    }

    /// The run with this id.
    async fn find_run(&self, id: &str, queues: &[QueueName]) -> Result<Target, KillError> {
        let queues = match queues {
            [] => self.queue_names().await?.into_iter().collect(),
            queues => queues.to_vec(),
        };
        let call_id = CallId::parse(id).ok();
        let (mut ours, mut foreign) = (Vec::<Target>::new(), None);
        for queue in &queues {
            for (wire_id, message) in self.owned_by_id(queue, id, call_id).await? {
                match WorkerId::of_wire_id(queue, &wire_id) {
                    Some(worker) => ours.push(Target { queue: queue.clone(), worker, wire_id, message }),
                    None => foreign = Some(KillError::Foreign { wire_id, queue: queue.to_string() }),
                }
            }
        }
        if ours.len() > 1 {
            let wire_ids = ours.into_iter().map(|target| target.wire_id).collect();
            return Err(KillError::Ambiguous { id: id.to_owned(), wire_ids });
        }
        if let Some(target) = ours.pop() {
            return Ok(target);
        }
        if let Some(foreign) = foreign {
            return Err(foreign);
        }
        if let Some(call_id) = call_id {
            for queue in &queues {
                if let Some(position) = self.find_waiting(queue, call_id).await? {
                    return Err(KillError::Waiting { id: id.to_owned(), queue: queue.to_string(), position });
                }
            }
        }
        match call_id.is_some() || is_slot(id) {
            true => Err(KillError::NotRunning { id: id.to_owned() }),
            false => Err(KillError::Malformed { id: id.chars().take(MAX_BY).collect() }),
        }
    }

    /// The messages that slots of a queue own and that have this id, or whose slot has this wire id.
    async fn owned_by_id(
        &self,
        queue: &QueueName,
        id: &str,
        call_id: Option<CallId>,
    ) -> Result<Vec<(String, Vec<u8>)>, BrokerError> {
        let keys = QueueKeys::new(queue);
        let (mut found, mut cursor) = (Vec::new(), 0);
        loop {
            let (next, owned) = self.broker.owned(&keys, cursor).await?;
            for (wire_id, message) in owned {
                // A scan may give a field twice.
                let known = found.iter().any(|(known, _)| *known == wire_id);
                if !known && (wire_id == id || has_id(&message, call_id)) {
                    found.push((wire_id, message));
                }
            }
            cursor = next;
            if cursor == 0 {
                return Ok(found);
            }
        }
    }

    /// The place of a call among the waiting messages.
    async fn find_waiting(&self, queue: &QueueName, call_id: CallId) -> Result<Option<u64>, BrokerError> {
        let keys = QueueKeys::new(queue);
        for start in (0..SEARCHED).step_by(PAGE as usize) {
            let page = self.broker.waiting(&keys, start, PAGE).await?;
            if let Some(place) = page.iter().position(|message| has_id(message, Some(call_id))) {
                return Ok(Some(start + place as u64));
            }
            if (page.len() as u64) < PAGE {
                break;
            }
        }
        Ok(None)
    }

    /// The dead letter of a message that was killed since `before`, in milliseconds by the server's clock.
    async fn letter_of(
        &self,
        keys: &QueueKeys,
        message: &[u8],
        before: u64,
    ) -> Result<Option<String>, BrokerError> {
        let mut after = format!("{}-0", before.saturating_sub(1));
        loop {
            let page = self.broker.dead_letters(keys, &after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(None) };
            after.clone_from(&last.id);
            let field = |fields: &HashMap<String, Vec<u8>>, name: &str, value: &[u8]| {
                fields.get(name).is_some_and(|found| found == value)
            };
            let is_it = |entry: &&StreamEntry| {
                field(&entry.fields, "reason", b"killed") && field(&entry.fields, "message", message)
            };
            if let Some(entry) = page.iter().find(is_it) {
                return Ok(Some(entry.id.clone()));
            }
        }
    }
}

fn has_id(message: &[u8], id: Option<CallId>) -> bool {
    id.is_some() && Message::decode(message).is_ok_and(|message| message.id() == id)
}

/// Whether a text has the form of a wire id of a Rust worker.
fn is_slot(id: &str) -> bool {
    let queue = id.rsplitn(3, ':').nth(2).and_then(|queue| QueueName::parse(queue).ok());
    queue.is_some_and(|queue| WorkerId::of_wire_id(&queue, id).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_told_from_anything_else() {
        for slot in ["q:abcdefghijklmn27:0", "a:b:abcdefghijklmn27:63"] {
            assert!(is_slot(slot), "{slot}");
        }
        for other in ["", "4711", "abcdefghijklmn27:0", "q:abcdefghijklmn27", "q:abcdefghijklmn27:x", "::"] {
            assert!(!is_slot(other), "{other}");
        }
    }
}
