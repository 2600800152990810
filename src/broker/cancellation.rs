//! Cancels a call wherever it is: in the timetable, in its queue, or in a slot.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::kill_requests::digest;
use crate::broker::transitions::{KillAdded, MAX_SCHEDULED, NewKillRequest};
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::{CallState, Cancelled};
use crate::protocol::keys::{self, QueueKeys};
use crate::protocol::limit::LimitName;
use crate::protocol::message::Message;
use crate::protocol::names::{QueueName, WorkerId};

/// How long a worker may take to receive the cancellation of its run.
const EXPIRY: Duration = Duration::from_secs(60);
/// How many waiting messages are searched for a call without a record.
const SEARCHED: u64 = 100_000;
/// How many limits are searched for such a call.
const PARKED: u32 = 10_000;
const PAGE: u64 = 500;
/// In a kill request, the prefix of the name of the person who cancels the call: the control character CAN. No other name has it.
const CANCELS: char = '\u{18}';

/// Calls that are being cancelled, and the state in which each was found.
struct Cancelling<'a> {
    queue: &'a QueueName,
    keys: QueueKeys,
    by: &'a str,
    /// Calls that are only known to be marked, and whether they have a record.
    left: HashMap<CallId, bool>,
    found: HashMap<CallId, Cancelled>,
}

/// Who cancelled the call, if the kill request is a cancellation.
pub(crate) fn cancelled_by(by: &str) -> Option<&str> {
    by.strip_prefix(CANCELS)
}

impl Broker {
    /// Cancels calls. Returns the state in which each was found. The queue is searched once for all of them.
    ///
    /// A call without a record may move during the search. It is marked first, so that no later claim runs it. From then on
    /// it can only be owned already, or move from its slot to the timetable or back into the queue. So this searches the
    /// slots, then the timetable once more, in one step, and then the queue, starting at its tail because others take from
    /// its head.
    pub(crate) async fn cancel_anywhere(
        &self,
        queue: &QueueName,
        ids: &[CallId],
        by: &str,
    ) -> Result<Vec<Cancelled>, BrokerError> {
        let (keys, left, found) = (QueueKeys::new(queue), HashMap::new(), HashMap::new());
        let mut calls = Cancelling { queue, keys, by, left, found };
        self.cancel_or_mark(&mut calls, ids).await?;
        if !calls.left.is_empty() {
            self.cancel_owned(&mut calls).await?;
            let unrecorded = calls.unrecorded();
            self.cancel_or_mark(&mut calls, &unrecorded).await?;
            self.cancel_waiting(&mut calls).await?;
        }
        let found = |id| calls.found.get(id).copied().unwrap_or(Cancelled::NotFound);
        Ok(ids.iter().map(found).collect())
    }

    /// Removes calls from the timetable, and marks the others that have not ended.
    async fn cancel_or_mark(&self, calls: &mut Cancelling<'_>, ids: &[CallId]) -> Result<(), BrokerError> {
        for ids in ids.chunks(MAX_SCHEDULED) {
            for (id, state) in ids.iter().zip(self.cancel(&calls.keys, calls.by, ids).await?) {
                let found = match CallState::parse(&state) {
                    Some(CallState::Scheduled) => Cancelled::Scheduled,
                    Some(CallState::Retrying) => Cancelled::Retrying,
                    Some(state) if state.is_final() => Cancelled::Ended(state),
                    state => {
                        calls.left.insert(*id, state.is_some());
                        continue;
                    }
                };
                calls.end(*id, found);
            }
        }
        Ok(())
    }

    /// Makes workers end their runs of the calls.
    async fn cancel_owned(&self, calls: &mut Cancelling<'_>) -> Result<(), BrokerError> {
        let mut cursor = 0;
        loop {
            let (next, owned) = self.owned(&calls.keys, cursor).await?;
            for (wire_id, message) in owned {
                let Some(id) = id_of(&message).filter(|id| calls.left.contains_key(id)) else { continue };
                let found = match self.tell_worker(calls, &wire_id, &message).await? {
                    KillAdded::Yes => Cancelled::Running,
                    // The call has meanwhile ended or moved on; the next step finds it.
                    KillAdded::Moved => continue,
                    // If the message comes back, it is not run.
                    KillAdded::Dead | KillAdded::TooMany => Cancelled::Waiting,
                };
                calls.end(id, found);
            }
            cursor = next;
            if cursor == 0 || calls.left.is_empty() {
                return Ok(());
            }
        }
    }

    /// Searches the queue for the remaining calls, and the records for calls that have ended meanwhile.
    async fn cancel_waiting(&self, calls: &mut Cancelling<'_>) -> Result<(), BrokerError> {
        let mut absent: HashSet<CallId> = calls.unrecorded().into_iter().collect();
        if !absent.is_empty() {
            // Before the queue, because a call gets from there to its limit only through a slot, whose claim finds the
            // mark.
            self.each_parked(&calls.keys, &mut |_, message| are_all_found(&mut absent, &message)).await?;
        }
        let is_complete = absent.is_empty()
            || self.each_waiting(&calls.keys, &mut |message| are_all_found(&mut absent, &message)).await?;
        if is_complete {
            for id in &absent {
                self.unmark(&calls.keys, *id).await?;
                calls.end(*id, Cancelled::NotFound);
            }
        }
        let left: Vec<CallId> = calls.left.keys().copied().collect();
        for ids in left.chunks(MAX_SCHEDULED) {
            for (id, record) in ids.iter().zip(self.records(calls.queue, ids).await?) {
                let found = match record.and_then(|record| record.state()).filter(|state| state.is_final()) {
                    None | Some(CallState::Cancelled) => Cancelled::Waiting,
                    Some(state) => {
                        self.unmark(&calls.keys, *id).await?;
                        Cancelled::Ended(state)
                    }
                };
                calls.end(*id, found);
            }
        }
        Ok(())
    }

    /// The slot that owns the message of a call, and the message.
    #[cfg_attr(not(feature = "inspect"), allow(dead_code))]
    pub(crate) async fn find_owned(
        &self,
        keys: &QueueKeys,
        id: CallId,
    ) -> Result<Option<(String, Vec<u8>)>, BrokerError> {
        let mut cursor = 0;
        loop {
            let (next, owned) = self.owned(keys, cursor).await?;
            let found = owned.into_iter().find(|(_, message)| id_of(message) == Some(id));
            if found.is_some() || next == 0 {
                return Ok(found);
            }
            cursor = next;
        }
    }

    async fn tell_worker(
        &self,
        calls: &Cancelling<'_>,
        wire_id: &str,
        message: &[u8],
    ) -> Result<KillAdded, BrokerError> {
        // A worker of another kind does not receive the request; a message that it puts back is not run again.
        let Some(worker) = WorkerId::of_wire_id(calls.queue, wire_id) else { return Ok(KillAdded::Dead) };
        let (worker_key, orders_key) =
            (keys::worker(calls.queue, &worker), keys::orders(calls.queue, &worker));
        let (digest, by) = (digest(message), format!("{CANCELS}{}", calls.by));
        let ask = NewKillRequest {
            worker_key: &worker_key,
            orders_key: &orders_key,
            wire_id,
            digest: &digest,
            by: &by,
            expiry: EXPIRY,
        };
        self.kill(&calls.keys, &ask).await
    }

    /// Searches the messages that wait for limits for a call. Returns the limit and the message.
    #[cfg_attr(not(feature = "inspect"), allow(dead_code))]
    pub(crate) async fn find_parked(
        &self,
        keys: &QueueKeys,
        id: CallId,
    ) -> Result<Option<(LimitName, Vec<u8>)>, BrokerError> {
        let mut found = None;
        self.each_parked(keys, &mut |name, message| {
            found = (id_of(&message) == Some(id)).then(|| (name.clone(), message));
            found.is_some()
        })
        .await?;
        Ok(found)
    }

    /// Visits the messages that wait for limits, until `visit` returns true. Returns false if there are too many to search.
    async fn each_parked(
        &self,
        keys: &QueueKeys,
        visit: &mut (dyn FnMut(&LimitName, Vec<u8>) -> bool + Send),
    ) -> Result<bool, BrokerError> {
        let names = self.parked(keys, PARKED).await?;
        let mut is_complete = names.len() < PARKED as usize;
        for name in names {
            let mut is_last = false;
            for start in (0..SEARCHED).step_by(PAGE as usize) {
                let page = self.parked_messages(keys, &name, start, PAGE).await?;
                is_last = (page.len() as u64) < PAGE;
                if page.into_iter().any(|message| visit(&name, message)) {
                    return Ok(true);
                }
                if is_last {
                    break;
                }
            }
            is_complete &= is_last;
        }
        Ok(is_complete)
    }

    /// Which of these calls have no message in the queue, in a slot or at a limit. The timetable is not searched. `None` if
    /// there are too many messages to search.
    #[cfg_attr(not(feature = "inspect"), allow(dead_code))]
    pub(crate) async fn without_message(
        &self,
        keys: &QueueKeys,
        ids: &[CallId],
    ) -> Result<Option<HashSet<CallId>>, BrokerError> {
        let mut absent: HashSet<CallId> = ids.iter().copied().collect();
        if !self.each_waiting(keys, &mut |message| are_all_found(&mut absent, &message)).await? {
            return Ok(None);
        }
        let mut cursor = 0;
        while !absent.is_empty() {
            let (next, owned) = self.owned(keys, cursor).await?;
            for (_, message) in owned {
                are_all_found(&mut absent, &message);
            }
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        if absent.is_empty() {
            return Ok(Some(absent));
        }
        let is_complete =
            self.each_parked(keys, &mut |_, message| are_all_found(&mut absent, &message)).await?;
        Ok(is_complete.then_some(absent))
    }

    /// The message of a waiting call.
    #[cfg_attr(not(feature = "inspect"), allow(dead_code))]
    pub(crate) async fn find_waiting(
        &self,
        keys: &QueueKeys,
        id: CallId,
    ) -> Result<Option<Vec<u8>>, BrokerError> {
        let mut found = None;
        self.each_waiting(keys, &mut |message| {
            found = (id_of(&message) == Some(id)).then_some(message);
            found.is_some()
        })
        .await?;
        Ok(found)
    }

    /// Visits waiting messages from the last to the first, until `visit` returns true. Visits every message that waits
    /// throughout, whatever is taken from the head or added to the tail meanwhile. Returns false if there are too many to
    /// search.
    async fn each_waiting(
        &self,
        keys: &QueueKeys,
        visit: &mut (dyn FnMut(Vec<u8>) -> bool + Send),
    ) -> Result<bool, BrokerError> {
        for start in (0..SEARCHED).step_by(PAGE as usize) {
            let page = self.last_waiting(keys, start, PAGE).await?;
            let is_last = (page.len() as u64) < PAGE;
            if page.into_iter().rev().any(&mut *visit) || is_last {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Cancelling<'_> {
    fn end(&mut self, id: CallId, found: Cancelled) {
        self.left.remove(&id);
        self.found.entry(id).or_insert(found);
    }

    fn unrecorded(&self) -> Vec<CallId> {
        self.left.iter().filter(|(_, has_record)| !**has_record).map(|(id, _)| *id).collect()
    }
}

fn id_of(message: &[u8]) -> Option<CallId> {
    Message::decode(message).ok()?.id()
}

/// Removes the call of a message from those that are absent. Returns whether it was the last of them.
fn are_all_found(absent: &mut HashSet<CallId>, message: &[u8]) -> bool {
    id_of(message).is_some_and(|id| absent.remove(&id)) && absent.is_empty()
}
