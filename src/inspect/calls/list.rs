//! Lists the calls of a queue by state, in pages.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use crate::broker::{MAX_SCHEDULED, StreamEntry, digest};
use crate::error::Error;
use crate::inspect::calls::CallRecord;
use crate::inspect::dead::CHUNK;
use crate::inspect::portion::Portion;
use crate::inspect::{DeadLetter, Inspector, MessageSummary};
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::CallState;
use crate::protocol::keys::QueueKeys;
use crate::protocol::names::QueueName;

/// How many messages, ids or records are read at a time.
const PAGE: usize = MAX_SCHEDULED;

/// Calls that wait for this many limits are listed.
const LIMITS: u32 = 10_000;

/// Selects calls of a queue.
///
/// ```
/// use delayed::CallState;
/// use delayed::inspect::CallFilter;
///
/// let retrying = CallFilter { states: vec![CallState::Retrying], count: 20, ..CallFilter::default() };
/// # drop(retrying);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFilter {
    /// Those in these states; empty: all that have not ended.
    pub states: Vec<CallState>,
    /// Those of this task.
    pub task: Option<String>,
    /// Those whose ids begin so.
    pub id_prefix: Option<String>,
    /// Those whose arguments, as they are shown, contain this text.
    pub text: Option<String>,
    /// Those whose [time](CallRecord::at_ms) is this or later, in milliseconds since 1970.
    pub from_ms: Option<u64>,
    /// Those whose time is earlier than this.
    pub until_ms: Option<u64>,
    /// How many calls of each list are searched for a task, an id, a text or a time.
    pub searched: usize,
    /// After how many bytes of messages the search of each list ends, also if it has found fewer than `count`.
    pub searched_bytes: usize,
    /// How many to leave out.
    pub start: usize,
    /// How many at most.
    pub count: usize,
    /// At how many characters arguments are cut.
    pub limit: usize,
}

impl Default for CallFilter {
    /// The first 100 calls that have not ended.
    fn default() -> Self {
        Self {
            states: Vec::new(),
            task: None,
            id_prefix: None,
            text: None,
            from_ms: None,
            until_ms: None,
            searched: usize::MAX,
            searched_bytes: usize::MAX,
            start: 0,
            count: 100,
            limit: 1000,
        }
    }
}

impl CallFilter {
    /// Whether calls in one of these states are asked for.
    fn wants(&self, states: &[CallState]) -> bool {
        match self.states.as_slice() {
            [] => states.iter().any(|state| !state.is_final()),
            wanted => states.iter().any(|state| wanted.contains(state)),
        }
    }

    /// Whether calls are asked for whatever their tasks, ids and arguments are.
    fn takes_all(&self) -> bool {
        let has_time = self.from_ms.is_some() || self.until_ms.is_some();
        self.task.is_none() && self.id_prefix.is_none() && self.text.is_none() && !has_time
    }

    /// Whether its time is asked for. That of a call whose time is not known is not, if there is a choice.
    fn is_in_time(&self, call: &CallRecord) -> bool {
        let at_ms = call.at_ms();
        let is_after = |from_ms| at_ms.is_some_and(|at_ms| at_ms >= from_ms);
        let is_before = |until_ms| at_ms.is_some_and(|at_ms| at_ms < until_ms);
        self.from_ms.is_none_or(is_after) && self.until_ms.is_none_or(is_before)
    }

    /// Whether its task, its id and its arguments are asked for.
    fn names(&self, call: &CallRecord) -> bool {
        let is_of = |task: &String| call.message.task.as_ref() == Some(task);
        let begins = |prefix: &String| call.id.as_ref().is_some_and(|id| id.starts_with(prefix.as_str()));
        let arguments = call.message.arguments_text.as_ref();
        let contains = |text: &String| arguments.is_some_and(|arguments| arguments.contains(text.as_str()));
        self.task.as_ref().is_none_or(is_of)
            && self.id_prefix.as_ref().is_none_or(begins)
            && self.text.as_ref().is_none_or(contains)
    }
}

/// The calls that were found, without those that are left out.
struct Listing<'a> {
    queue: &'a QueueName,
    filter: &'a CallFilter,
    skip: usize,
    calls: Vec<CallRecord>,
    /// The size of all messages that were read.
    bytes: usize,
}

impl Listing<'_> {
    fn is_full(&self) -> bool {
        self.calls.len() >= self.filter.count
    }

    /// Whether no more of a list is read, of which so many were read.
    fn is_over(&self, read: u64) -> bool {
        self.is_full()
            || self.bytes >= self.filter.searched_bytes
            || (!self.filter.takes_all() && read >= self.filter.searched as u64)
    }

    /// Where to begin in a list of this length, all of which is asked for: what is left out need not be read.
    fn jump(&mut self, length: u64) -> u64 {
        if !self.filter.takes_all() {
            return 0;
        }
        let jump = self.skip.min(usize::try_from(length).unwrap_or(usize::MAX));
        self.skip -= jump;
        jump as u64
    }

    fn add(&mut self, call: CallRecord) {
        let filter = self.filter;
        if self.is_full() || !filter.wants(&[call.state]) || !filter.names(&call) || !filter.is_in_time(&call)
        {
            return;
        }
        if self.skip > 0 {
            self.skip -= 1;
        } else {
            self.calls.push(call);
        }
    }
}

impl Inspector {
    /// Returns calls of a queue: first those that workers own, then those that wait, oldest first, those that wait for limits, those in the timetable, earliest
    /// first, those that succeeded, were cancelled or expired, newest first, and dead letters, oldest first. Of calls that
    /// succeeded, were cancelled or expired only those with a record are known, and those that a worker with
    /// [`keep_finished`](crate::config::WorkerConfig::keep_finished) has listed.
    ///
    /// Reads up to 500 calls or about a megabyte at a time, until it has found `count`: those of one task or id may be the last of many.
    ///
    /// # Errors
    /// Redis cannot be reached, or a key of the queue has a wrong type.
    pub async fn calls(&self, queue: &QueueName, filter: &CallFilter) -> Result<Vec<CallRecord>, Error> {
        use CallState::{Cancelled, Dead, Expired, Retrying, Running, Scheduled, Succeeded, Waiting};
        let mut listing = Listing { queue, filter, skip: filter.start, calls: Vec::new(), bytes: 0 };
        if filter.wants(&[Running, Waiting]) {
            self.list_owned(&mut listing).await?;
        }
        if filter.wants(&[Waiting]) {
            self.list_waiting(&mut listing).await?;
            self.list_parked(&mut listing).await?;
        }
        if filter.wants(&[Scheduled, Retrying]) {
            self.list_timetable(&mut listing).await?;
        }
        if filter.wants(&[Succeeded, Cancelled, Expired]) {
            self.list_done(&mut listing).await?;
        }
        if filter.wants(&[Dead, Expired]) {
            self.list_dead(&mut listing).await?;
        }
        Ok(listing.calls)
    }

    /// Adds calls that were read by their messages, with what their records say.
    async fn add_page(&self, listing: &mut Listing<'_>, calls: Vec<CallRecord>) -> Result<(), Error> {
        listing.bytes += calls.iter().map(|call| call.message.bytes).sum::<usize>();
        let mut calls: Vec<CallRecord> =
            calls.into_iter().filter(|call| listing.filter.names(call)).collect();
        let ids: Vec<CallId> = calls.iter().filter_map(CallRecord::call_id).collect();
        let mut records = self.broker.records(listing.queue, &ids).await?.into_iter();
        for call in &mut calls {
            if call.call_id().is_some()
                && let Some(Some(record)) = records.next()
            {
                *call = call.clone().with_record(&record);
            }
        }
        calls.into_iter().for_each(|call| listing.add(call));
        Ok(())
    }

    async fn list_owned(&self, listing: &mut Listing<'_>) -> Result<(), Error> {
        let (keys, queue, limit) = (QueueKeys::new(listing.queue), listing.queue, listing.filter.limit);
        let (mut cursor, mut seen) = (0, HashSet::new());
        let now = self.server_ms().await?;
        let runs = self.add_leases(queue, now, &mut BTreeMap::new()).await?;
        loop {
            let (next, owned) = self.broker.owned(&keys, cursor).await?;
            let mut calls = Vec::with_capacity(owned.len());
            for (wire_id, message) in owned {
                // A scan may give a field twice.
                if seen.insert(wire_id.clone()) {
                    let began_ms = runs
                        .get(&wire_id)
                        .filter(|run| run.digest == digest(&message))
                        .map(|run| run.started_ms);
                    let call = CallRecord::owned(queue, wire_id, MessageSummary::of(&message, limit));
                    calls.push(CallRecord { began_ms, ..call });
                }
            }
            self.add_page(listing, calls).await?;
            cursor = next;
            if cursor == 0 || listing.is_over(0) {
                return Ok(());
            }
        }
    }

    async fn list_waiting(&self, listing: &mut Listing<'_>) -> Result<(), Error> {
        let (keys, queue, limit) = (QueueKeys::new(listing.queue), listing.queue, listing.filter.limit);
        let [length, ..] = self.broker.lengths(&keys).await?;
        let first = listing.jump(length);
        let (mut start, mut portion) = (first, Portion::new(PAGE));
        while !listing.is_over(start - first) {
            let asked = portion.count();
            let page = self.broker.waiting(&keys, start, asked).await?;
            portion.learn(page.iter().map(Vec::len));
            let call = |message: &Vec<u8>| {
                CallRecord::of_message(queue, CallState::Waiting, MessageSummary::of(message, limit))
            };
            self.add_page(listing, page.iter().map(call).collect()).await?;
            start += asked;
            if (page.len() as u64) < asked {
                break;
            }
        }
        Ok(())
    }

    /// Adds the calls that wait for limits, or for their turn.
    async fn list_parked(&self, listing: &mut Listing<'_>) -> Result<(), Error> {
        let (keys, queue, limit) = (QueueKeys::new(listing.queue), listing.queue, listing.filter.limit);
        let mut names = self.broker.parked(&keys, LIMITS).await?;
        names.sort_unstable();
        for name in names {
            let (mut start, mut portion) = (0, Portion::new(PAGE));
            while !listing.is_over(start) {
                let asked = portion.count();
                let page = self.broker.parked_messages(&keys, &name, start, asked).await?;
                portion.learn(page.iter().map(Vec::len));
                let call = |message: &Vec<u8>| CallRecord {
                    limit: Some(name.to_string()),
                    ..CallRecord::of_message(queue, CallState::Waiting, MessageSummary::of(message, limit))
                };
                self.add_page(listing, page.iter().map(call).collect()).await?;
                start += asked;
                if (page.len() as u64) < asked {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn list_timetable(&self, listing: &mut Listing<'_>) -> Result<(), Error> {
        let (keys, queue, limit) = (QueueKeys::new(listing.queue), listing.queue, listing.filter.limit);
        let states = [CallState::Scheduled, CallState::Retrying];
        let takes_both = states.into_iter().all(|state| listing.filter.wants(&[state]));
        let [.., length] = self.broker.lengths(&keys).await?;
        let first = if takes_both { listing.jump(length) } else { 0 };
        let (mut start, mut portion) = (first, Portion::new(PAGE));
        while !listing.is_over(start - first)
            && let Some(dues) = self.broker.dues(&keys, start, portion.count()).await?
        {
            start += portion.count();
            let ids: Vec<CallId> = dues.iter().map(|(id, _)| *id).collect();
            let messages = self.broker.later(&keys, &ids).await?;
            portion.learn(messages.iter().flatten().map(Vec::len));
            let calls = dues.into_iter().zip(messages).filter_map(|((id, due_ms), message)| {
                Some(CallRecord::scheduled(queue, id, due_ms, MessageSummary::of(&message?, limit)))
            });
            self.add_page(listing, calls.collect()).await?;
        }
        Ok(())
    }

    /// Lists calls with a record, and those that a worker with `keep_finished` has listed, by their ends.
    async fn list_done(&self, listing: &mut Listing<'_>) -> Result<(), Error> {
        let count = listing.skip.saturating_add(listing.filter.count.saturating_sub(listing.calls.len()));
        let filter = CallFilter { start: 0, count, ..listing.filter.clone() };
        let part = || Listing { queue: listing.queue, filter: &filter, skip: 0, calls: Vec::new(), bytes: 0 };
        let (mut kept, mut others) = (part(), part());
        self.list_recorded(&mut kept).await?;
        self.list_finished(&mut others).await?;
        let mut calls = kept.calls;
        if !others.calls.is_empty() {
            calls.append(&mut others.calls);
            calls.sort_by_key(|call| Reverse(call.ended_ms));
        }
        calls.into_iter().for_each(|call| listing.add(call));
        Ok(())
    }

    async fn list_finished(&self, listing: &mut Listing<'_>) -> Result<(), Error> {
        let (keys, queue) = (QueueKeys::new(listing.queue), listing.queue);
        let (mut before, mut read) = ("+".to_owned(), 0);
        while !listing.is_over(read) {
            let page = self.broker.finished(&keys, &before, PAGE).await?;
            let Some(last) = page.last() else { break };
            before.clone_from(&last.id);
            read += page.len() as u64;
            page.iter()
                .filter_map(|entry| CallRecord::finished(queue, entry))
                .for_each(|call| listing.add(call));
        }
        Ok(())
    }

    async fn list_recorded(&self, listing: &mut Listing<'_>) -> Result<(), Error> {
        let (keys, queue) = (QueueKeys::new(listing.queue), listing.queue);
        let mut start = 0;
        while !listing.is_over(start)
            && let Some(ids) = self.broker.done(&keys, start, PAGE as u64).await?
        {
            start += PAGE as u64;
            let records = self.broker.records(queue, &ids).await?;
            let calls = ids.into_iter().zip(records);
            let calls = calls.filter_map(|(id, record)| CallRecord::of_record(queue, id, &record?));
            // The dead have letters.
            calls.filter(|call| call.state != CallState::Dead).for_each(|call| listing.add(call));
        }
        Ok(())
    }

    async fn list_dead(&self, listing: &mut Listing<'_>) -> Result<(), Error> {
        let (keys, queue, limit) = (QueueKeys::new(listing.queue), listing.queue, listing.filter.limit);
        let (mut after, mut read, mut portion) = ("-".to_owned(), 0, Portion::new(CHUNK));
        while !listing.is_over(read) {
            let page = self.broker.dead_letters(&keys, &after, portion.count()).await?;
            portion.learn(page.iter().map(StreamEntry::bytes));
            let Some(last) = page.last() else { break };
            after.clone_from(&last.id);
            read += page.len() as u64;
            let letters =
                page.iter().map(|letter| CallRecord::buried(queue, DeadLetter::of(queue, letter, limit)));
            // One that expired and has a record is among the finished ones.
            let known: HashSet<String> =
                listing.calls.iter().filter_map(|call| call.letter.clone()).collect();
            let is_new =
                |call: &CallRecord| call.letter.as_ref().is_none_or(|letter| !known.contains(letter));
            let letters: Vec<CallRecord> = letters.filter(is_new).collect();
            self.add_page(listing, letters).await?;
        }
        Ok(())
    }
}
