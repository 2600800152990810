//! Finds one call by its id, whatever its state.

use crate::error::Error;
use crate::inspect::calls::CallRecord;
use crate::inspect::dead::CHUNK;
use crate::inspect::{DeadLetter, Inspector, MessageSummary};
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::CallState;
use crate::protocol::keys::QueueKeys;
use crate::protocol::message::Message;
use crate::protocol::names::QueueName;

/// How many dead letters or finished calls are searched for a call without a record.
const LETTERS: usize = 100_000;

impl Inspector {
    /// Returns a call of a queue: in the timetable, waiting, running, dead, or known by its record. Its arguments are cut at
    /// `limit` characters. A call without a record is searched among the first 100,000 waiting messages, dead letters and
    /// listed finished calls.
    ///
    /// # Errors
    /// Redis cannot be reached, or a key of the queue has a wrong type.
    pub async fn call(
        &self,
        queue: &QueueName,
        id: CallId,
        limit: usize,
    ) -> Result<Option<CallRecord>, Error> {
        if let Some(call) = self.recorded_call(queue, id, limit).await? {
            return Ok(Some(call));
        }
        let keys = QueueKeys::new(queue);
        let found = match self.broker.find_owned(&keys, id).await? {
            Some((wire_id, message)) => {
                Some(CallRecord::owned(queue, wire_id, MessageSummary::of(&message, limit)))
            }
            None => self.waiting_call(queue, &keys, id, limit).await?,
        };
        // Only now: it may have begun, or ended, in between.
        let record = self.broker.record(queue, id).await?;
        match (found, record) {
            (Some(call), Some(record)) => Ok(Some(call.with_record(&record))),
            (Some(call), None) => Ok(Some(call)),
            (None, Some(record)) => Ok(CallRecord::of_record(queue, id, &record)),
            (None, None) => match self.buried_call(queue, id, limit).await? {
                Some(call) => Ok(Some(call)),
                None => self.finished_call(queue, id).await,
            },
        }
    }

    /// A call that waits, also for a limit.
    async fn waiting_call(
        &self,
        queue: &QueueName,
        keys: &QueueKeys,
        id: CallId,
        limit: usize,
    ) -> Result<Option<CallRecord>, Error> {
        let waiting = |message: &[u8]| {
            CallRecord::of_message(queue, CallState::Waiting, MessageSummary::of(message, limit))
        };
        if let Some(message) = self.broker.find_waiting(keys, id).await? {
            return Ok(Some(waiting(&message)));
        }
        let parked = self.broker.find_parked(keys, id).await?;
        Ok(parked.map(|(name, message)| CallRecord { limit: Some(name.to_string()), ..waiting(&message) }))
    }

    /// A call that is found without a search: in the timetable, or by its record once it has ended.
    async fn recorded_call(
        &self,
        queue: &QueueName,
        id: CallId,
        limit: usize,
    ) -> Result<Option<CallRecord>, Error> {
        let keys = QueueKeys::new(queue);
        if let Some(due_ms) = self.broker.due(&keys, id).await?
            && let Some(message) = self.broker.later(&keys, &[id]).await?.pop().flatten()
        {
            let call = CallRecord::scheduled(queue, id, due_ms, MessageSummary::of(&message, limit));
            let record = self.broker.record(queue, id).await?;
            return Ok(Some(record.iter().fold(call, CallRecord::with_record)));
        }
        let record = self.broker.record(queue, id).await?;
        let Some(record) = record.filter(|record| record.state().is_some_and(CallState::is_final)) else {
            return Ok(None);
        };
        let letter = match record.text("letter") {
            Some(letter) => self.dead_letter(queue, letter, limit).await?,
            None => None,
        };
        Ok(match letter {
            Some(letter) => Some(CallRecord::buried(queue, letter).with_record(&record)),
            None => CallRecord::of_record(queue, id, &record),
        })
    }

    /// A call without a record among those that workers have listed.
    async fn finished_call(&self, queue: &QueueName, id: CallId) -> Result<Option<CallRecord>, Error> {
        let (keys, mut before) = (QueueKeys::new(queue), "+".to_owned());
        for _ in 0..LETTERS / CHUNK {
            let page = self.broker.finished(&keys, &before, CHUNK).await?;
            let mut calls = page.iter().filter_map(|entry| CallRecord::finished(queue, entry));
            if let Some(call) = calls.find(|call| call.call_id() == Some(id)) {
                return Ok(Some(call));
            }
            let Some(last) = page.last() else { break };
            before.clone_from(&last.id);
        }
        Ok(None)
    }

    /// A call without a record among the dead letters.
    async fn buried_call(
        &self,
        queue: &QueueName,
        id: CallId,
        limit: usize,
    ) -> Result<Option<CallRecord>, Error> {
        let (keys, mut after) = (QueueKeys::new(queue), "-".to_owned());
        let is_of = |message: &[u8]| Message::decode(message).is_ok_and(|message| message.id() == Some(id));
        for _ in 0..LETTERS / CHUNK {
            let page = self.broker.dead_letters(&keys, &after, CHUNK as u64).await?;
            let found =
                page.iter().find(|letter| letter.fields.get("message").is_some_and(|message| is_of(message)));
            if let Some(found) = found {
                return Ok(Some(CallRecord::buried(queue, DeadLetter::of(queue, found, limit))));
            }
            let Some(last) = page.last() else { break };
            after.clone_from(&last.id);
        }
        Ok(None)
    }
}
