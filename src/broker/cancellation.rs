//! Cancels a call wherever it is: in the timetable, in its queue, or in a slot.

use std::time::Duration;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::kill_requests::digest;
use crate::broker::transitions::{KillAdded, MAX_SCHEDULED, NewKillRequest};
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::{CallState, Cancelled};
use crate::protocol::keys::{self, QueueKeys};
use crate::protocol::message::Message;
use crate::protocol::names::{QueueName, WorkerId};

/// How long a worker may take to hear that what it runs was cancelled.
const EXPIRY: Duration = Duration::from_secs(60);
/// How many waiting messages are searched for a call without a record.
const SEARCHED: u64 = 100_000;
const PAGE: u64 = 500;
/// What the name begins with of who cancels, in a kill request: the control character CAN. No other name has one.
const CANCELS: char = '\u{18}';

/// What a search among the waiting messages found.
#[derive(Debug)]
pub(crate) enum SearchResult {
    /// The message of the call.
    Found(Vec<u8>),
    /// The call does not wait.
    Absent,
    /// There are more messages than are searched.
    TooMany,
}

/// Who has cancelled, if that is what a kill request says.
pub(crate) fn cancelled_by(by: &str) -> Option<&str> {
    by.strip_prefix(CANCELS)
}

impl Broker {
    /// Cancels calls. Gives what each was found to be.
    ///
    /// A waiting call is marked before it is looked for in the slots: so whoever claims it later finds the mark, and whoever
    /// has claimed it before is found.
    pub(crate) async fn cancel_anywhere(
        &self,
        queue: &QueueName,
        ids: &[CallId],
        by: &str,
    ) -> Result<Vec<Cancelled>, BrokerError> {
        let (keys, mut found) = (QueueKeys::new(queue), Vec::with_capacity(ids.len()));
        for ids in ids.chunks(MAX_SCHEDULED) {
            for (id, state) in ids.iter().zip(self.cancel(&keys, by, ids).await?) {
                found.push(self.cancel_found(queue, &keys, *id, CallState::parse(&state), by).await?);
            }
        }
        Ok(found)
    }

    /// Goes on with a call that the script has found in this state.
    async fn cancel_found(
        &self,
        queue: &QueueName,
        keys: &QueueKeys,
        id: CallId,
        state: Option<CallState>,
        by: &str,
    ) -> Result<Cancelled, BrokerError> {
        match state {
            Some(CallState::Scheduled) => return Ok(Cancelled::Scheduled),
            Some(CallState::Retrying) => return Ok(Cancelled::Retrying),
            Some(state) if state.is_final() => return Ok(Cancelled::Ended(state)),
            _ => {}
        }
        if let Some((wire_id, message)) = self.find_owned(keys, id).await? {
            if self.tell_worker(queue, keys, &wire_id, &message, by).await? == KillAdded::Yes {
                return Ok(Cancelled::Running);
            }
        } else if state.is_none() && matches!(self.find_waiting(keys, id).await?, SearchResult::Absent) {
            self.unmark(keys, id).await?;
            return Ok(Cancelled::NotFound);
        }
        // It may have ended in between.
        let record = self.record(queue, id).await?;
        let state = record.as_ref().and_then(|record| record.state()).filter(|state| state.is_final());
        Ok(match state {
            Some(CallState::Cancelled) | None => Cancelled::Waiting,
            Some(state) => {
                self.unmark(keys, id).await?;
                Cancelled::Ended(state)
            }
        })
    }

    /// The slot that owns the message of a call, and the message.
    pub(crate) async fn find_owned(
        &self,
        keys: &QueueKeys,
        id: CallId,
    ) -> Result<Option<(String, Vec<u8>)>, BrokerError> {
        let mut cursor = 0;
        loop {
            let (next, owned) = self.owned(keys, cursor).await?;
            let found = owned.into_iter().find(|(_, message)| is_of(message, id));
            if found.is_some() || next == 0 {
                return Ok(found);
            }
            cursor = next;
        }
    }

    async fn tell_worker(
        &self,
        queue: &QueueName,
        keys: &QueueKeys,
        wire_id: &str,
        message: &[u8],
        by: &str,
    ) -> Result<KillAdded, BrokerError> {
        // One of another kind hears nothing; what it puts back is not run again.
        let Some(worker) = WorkerId::of_wire_id(queue, wire_id) else { return Ok(KillAdded::Moved) };
        let (worker_key, orders_key) = (keys::worker(queue, &worker), keys::orders(queue, &worker));
        let (digest, by) = (digest(message), format!("{CANCELS}{by}"));
        let ask = NewKillRequest {
            worker_key: &worker_key,
            orders_key: &orders_key,
            wire_id,
            digest: &digest,
            by: &by,
            expiry: EXPIRY,
        };
        self.kill(keys, &ask).await
    }

    /// Searches the waiting messages for a call.
    pub(crate) async fn find_waiting(
        &self,
        keys: &QueueKeys,
        id: CallId,
    ) -> Result<SearchResult, BrokerError> {
        for start in (0..SEARCHED).step_by(PAGE as usize) {
            let page = self.waiting(keys, start, PAGE).await?;
            let is_last = (page.len() as u64) < PAGE;
            if let Some(message) = page.into_iter().find(|message| is_of(message, id)) {
                return Ok(SearchResult::Found(message));
            }
            if is_last {
                return Ok(SearchResult::Absent);
            }
        }
        Ok(SearchResult::TooMany)
    }
}

impl SearchResult {
    /// The message that was found.
    #[cfg_attr(not(feature = "inspect"), allow(dead_code))]
    pub(crate) fn message(self) -> Option<Vec<u8>> {
        match self {
            Self::Found(message) => Some(message),
            Self::Absent | Self::TooMany => None,
        }
    }
}

fn is_of(message: &[u8], id: CallId) -> bool {
    Message::decode(message).is_ok_and(|message| message.id() == Some(id))
}
