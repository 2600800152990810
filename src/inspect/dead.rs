//! Reads, requeues and deletes dead letters.

use std::collections::HashSet;

use serde::Serialize;

use crate::broker::{BrokerError, Revived, StreamEntry};
use crate::error::Error;
use crate::inspect::portion::Portion;
use crate::inspect::{Inspector, MessageSummary, Progress};
use crate::protocol::keys::QueueKeys;
use crate::protocol::message::Message;
use crate::protocol::names::QueueName;

/// How many letters are read or moved at a time.
pub(super) const CHUNK: usize = 100;
/// How many bytes of messages are requeued at a time, if there are several.
const CHUNK_BYTES: usize = 4 << 20;

/// A dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The id: the time in milliseconds, and a number.
    pub id: String,
    /// The queue.
    pub queue: String,
    /// When the message was buried, in milliseconds since 1970 by the server's clock.
    pub at_ms: u64,
    /// One word, such as `failed` or `killed`: see `docs/protocol.md`.
    pub reason: String,
    /// The reason as a sentence.
    pub detail: String,
    /// The number of the attempt.
    pub attempt: u64,
    /// The worker: `host/pid/worker id`, or the wire id of the last worker that the message took down.
    pub worker: String,
    /// The standard output and error of its process; `None` if it wrote nothing, or ran in its worker's process.
    pub output: Option<String>,
    /// The message.
    #[serde(flatten)]
    pub message: MessageSummary,
}

/// Selects dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// Those with these ids; a duplicate counts once.
    Ids(Vec<String>),
    /// Those of one task.
    Task(String),
    /// All that exist now.
    All,
}

/// The result of requeueing or deleting dead letters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Handled {
    /// How many were requeued or deleted.
    pub done: u64,
    /// Selected ids without a dead letter.
    pub missing: Vec<String>,
    /// The ids of unique calls that were not requeued, because another call, the second id, holds their lock.
    pub locked: Vec<(String, String)>,
}

#[derive(Clone, Copy)]
enum Verb {
    Requeue,
    Delete,
}

/// Whether a text has the form of a dead letter's id: `1700000000000-0`.
#[must_use]
pub(crate) fn is_letter_id(text: &str) -> bool {
    order(text).is_some()
}

/// The sort key of an id: its time and its number.
pub(crate) fn order(id: &str) -> Option<(u64, u64)> {
    let (time, number) = id.split_once('-')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(time) && digits(number)).then_some(())?;
    Some((time.parse().ok()?, number.parse().ok()?))
}

impl Inspector {
    /// Returns up to `count` dead letters, oldest first: those after the id `after`, and only those of `task` if it is given.
    /// Arguments are cut at `limit` characters.
    ///
    /// # Errors
    /// Redis cannot be reached, or the key of the dead letters is not a stream.
    pub async fn dead_letters(
        &self,
        queue: &QueueName,
        after: Option<&str>,
        task: Option<&str>,
        count: usize,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, Error> {
        let keys = QueueKeys::new(queue);
        let mut letters = Vec::new();
        let mut after = after.unwrap_or("-").to_owned();
        while letters.len() < count {
            let wanted = if task.is_some() { CHUNK } else { CHUNK.min(count - letters.len()) };
            let page = self.broker.dead_letters(&keys, &after, wanted as u64).await?;
            let Some(last) = page.last() else { break };
            after.clone_from(&last.id);
            let fits = |entry: &&StreamEntry| task.is_none_or(|task| is_of(entry, task));
            let left = count - letters.len();
            letters
                .extend(page.iter().filter(fits).take(left).map(|entry| DeadLetter::of(queue, entry, limit)));
        }
        Ok(letters)
    }

    /// Returns up to `count` dead letters, newest first: those before the id `before`, and only those of `task` if it is given.
    /// Arguments are cut at `limit` characters.
    ///
    /// # Errors
    /// Redis cannot be reached, or the key of the dead letters is not a stream.
    pub async fn newest_dead_letters(
        &self,
        queue: &QueueName,
        before: Option<&str>,
        task: Option<&str>,
        count: usize,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, Error> {
        Ok(self.dead_page(queue, before, task, count, limit, usize::MAX).await?.0)
    }

    /// The same, but reads about so many bytes. Returns also the id of the last letter that was read if it has ended for that.
    pub(crate) async fn dead_page(
        &self,
        queue: &QueueName,
        before: Option<&str>,
        task: Option<&str>,
        count: usize,
        limit: usize,
        bytes: usize,
    ) -> Result<(Vec<DeadLetter>, Option<String>), Error> {
        let keys = QueueKeys::new(queue);
        let (mut letters, mut read, mut portion) = (Vec::new(), 0, Portion::new(CHUNK));
        let mut before = before.filter(|id| is_letter_id(id)).unwrap_or("+").to_owned();
        while letters.len() < count {
            if read >= bytes {
                return Ok((letters, Some(before)));
            }
            let left = count - letters.len();
            let wanted = if task.is_some() { portion.count() } else { portion.count().min(left as u64) };
            let page = self.broker.latest_dead(&keys, &before, wanted).await?;
            let Some(last) = page.last() else { break };
            before.clone_from(&last.id);
            read += page.iter().map(StreamEntry::bytes).sum::<usize>();
            portion.learn(page.iter().map(StreamEntry::bytes));
            let fits = |entry: &&StreamEntry| task.is_none_or(|task| is_of(entry, task));
            letters
                .extend(page.iter().filter(fits).take(left).map(|entry| DeadLetter::of(queue, entry, limit)));
        }
        Ok((letters, None))
    }

    /// Returns one dead letter. Its arguments are cut at `limit` characters.
    ///
    /// # Errors
    /// Redis cannot be reached, or the key of the dead letters is not a stream.
    pub async fn dead_letter(
        &self,
        queue: &QueueName,
        id: &str,
        limit: usize,
    ) -> Result<Option<DeadLetter>, Error> {
        if !is_letter_id(id) {
            return Ok(None);
        }
        let entry = self.broker.dead_letter(&QueueKeys::new(queue), id).await?;
        Ok(entry.map(|entry| DeadLetter::of(queue, &entry, limit)))
    }

    /// Moves dead letters to the tail of their queue, in chunks. Their failed attempts are forgotten.
    ///
    /// # Errors
    /// Redis cannot be reached, or a key of the queue has a wrong type. Messages moved before the error stay moved.
    pub async fn requeue_dead(
        &self,
        queue: &QueueName,
        which: &Selection,
        progress: Progress<'_>,
    ) -> Result<Handled, Error> {
        Ok(self.handle(queue, which, Verb::Requeue, progress).await?)
    }

    /// Deletes dead letters, in chunks.
    ///
    /// # Errors
    /// Redis cannot be reached, or a key of the queue has a wrong type. Messages moved before the error stay moved.
    pub async fn delete_dead(
        &self,
        queue: &QueueName,
        which: &Selection,
        progress: Progress<'_>,
    ) -> Result<Handled, Error> {
        Ok(self.handle(queue, which, Verb::Delete, progress).await?)
    }

    async fn handle(
        &self,
        queue: &QueueName,
        which: &Selection,
        verb: Verb,
        progress: Progress<'_>,
    ) -> Result<Handled, BrokerError> {
        let keys = QueueKeys::new(queue);
        match which {
            Selection::Ids(ids) => self.handle_ids(&keys, ids, verb, progress).await,
            Selection::Task(task) => self.handle_all(&keys, Some(task), verb, progress).await,
            Selection::All => self.handle_all(&keys, None, verb, progress).await,
        }
    }

    async fn handle_ids(
        &self,
        keys: &QueueKeys,
        ids: &[String],
        verb: Verb,
        progress: Progress<'_>,
    ) -> Result<Handled, BrokerError> {
        let mut handled = Handled::default();
        let mut met = HashSet::new();
        let ids: Vec<&String> = ids.iter().filter(|id| met.insert(*id)).collect();
        for (seen, id) in (1..).zip(&ids) {
            let entry = if is_letter_id(id) { self.broker.dead_letter(keys, id).await? } else { None };
            let before = (handled.done, handled.locked.len());
            if let Some(entry) = entry {
                self.apply(keys, vec![entry], verb, &mut handled).await?;
            }
            if (handled.done, handled.locked.len()) == before {
                handled.missing.push((*id).clone());
            }
            progress(seen, ids.len() as u64);
        }
        Ok(handled)
    }

    /// Excludes letters that are buried meanwhile, because a requeued message may be buried again.
    async fn handle_all(
        &self,
        keys: &QueueKeys,
        task: Option<&str>,
        verb: Verb,
        progress: Progress<'_>,
    ) -> Result<Handled, BrokerError> {
        let mut handled = Handled::default();
        let Some(newest) = self.broker.newest_dead(keys).await? else { return Ok(handled) };
        let end = order(&newest);
        let [_, _, _, total, ..] = self.broker.lengths(keys).await?;
        let (mut after, mut seen) = ("-".to_owned(), 0);
        loop {
            let mut page = self.broker.dead_letters(keys, &after, CHUNK as u64).await?;
            page.retain(|entry| order(&entry.id) <= end);
            let Some(last) = page.last() else { return Ok(handled) };
            after.clone_from(&last.id);
            seen += page.len() as u64;
            page.retain(|entry| task.is_none_or(|task| is_of(entry, task)));
            self.apply(keys, page, verb, &mut handled).await?;
            progress(seen, total);
        }
    }

    async fn apply(
        &self,
        keys: &QueueKeys,
        entries: Vec<StreamEntry>,
        verb: Verb,
        handled: &mut Handled,
    ) -> Result<(), BrokerError> {
        if entries.is_empty() {
            return Ok(());
        }
        if let Verb::Delete = verb {
            let ids: Vec<String> = entries.into_iter().map(|entry| entry.id).collect();
            handled.done += self.broker.delete_dead(keys, &ids).await?;
            return Ok(());
        }
        let (mut chunk, mut bytes) = (Vec::new(), 0);
        for mut entry in entries {
            let buried = entry.fields.remove("message").unwrap_or_default();
            let message = Message::decode(&buried).map(|read| read.revived()).unwrap_or_default();
            // What stays as it is Redis has already: a letter may be larger than it takes again.
            let message = if message == buried { Vec::new() } else { message };
            if bytes + message.len() > CHUNK_BYTES && !chunk.is_empty() {
                handled.add(self.broker.revive(keys, &chunk).await?);
                (bytes, _) = (0, chunk.clear());
            }
            bytes += message.len();
            chunk.push((entry.id, message));
        }
        handled.add(self.broker.revive(keys, &chunk).await?);
        Ok(())
    }
}

impl Handled {
    fn add(&mut self, revived: Revived) {
        self.done += revived.count;
        let locked = revived.locked.into_iter().map(|(call, holder)| (call.to_string(), holder.to_string()));
        self.locked.extend(locked);
    }
}

fn is_of(entry: &StreamEntry, task: &str) -> bool {
    entry
        .fields
        .get("message")
        .is_some_and(|bytes| Message::decode(bytes).is_ok_and(|message| message.task() == task))
}

impl DeadLetter {
    pub(super) fn of(queue: &QueueName, entry: &StreamEntry, limit: usize) -> Self {
        let bytes = |name| entry.fields.get(name).map(Vec::as_slice).unwrap_or_default();
        let text = |name| String::from_utf8_lossy(bytes(name)).into_owned();
        Self {
            queue: queue.to_string(),
            at_ms: order(&entry.id).map_or(0, |(time, _)| time),
            reason: text("reason"),
            detail: text("detail"),
            attempt: text("attempt").parse().unwrap_or(0),
            worker: text("worker"),
            output: entry.fields.contains_key("output").then(|| text("output")),
            message: MessageSummary::of(bytes("message"), limit),
            id: entry.id.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ordered_by_number() {
        assert!(order("9-10") > order("9-9") && order("10-0") > order("9-99"));
        assert!(is_letter_id("1700000000000-0"));
        for wrong in ["", "-", "1", "1-", "-1", "1-x", "+1-1", "1-1-1"] {
            assert!(!is_letter_id(wrong), "{wrong}");
        }
    }
}
