//! Collects calls, to run together as one batch.

use super::options::CallOptions;
use super::{Call, Kind};
use crate::protocol::batch::BatchName;
use crate::protocol::encode::{EncodeError, Meta};
use crate::task::registration::TaskBatch;

/// An item for a filling batch.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "client"), allow(dead_code))]
pub(crate) struct BatchItem {
    pub(crate) name: BatchName,
    pub(crate) batch: &'static TaskBatch,
    /// Encoded.
    pub(crate) bytes: Vec<u8>,
}

impl<R> Call<R> {
    /// Collects the call with those that have the same key, in place of all calls of its task: they run as one batch. 1 to
    /// 200 bytes of printable text without spaces; an invalid key is an error of the client that enqueues the call.
    ///
    /// No effect on a call of a task without `batch(…)`.
    ///
    /// ```
    /// mod tasks {
    ///     #[delayed::task(batch(max = 100, within = "2s"))]
    ///     pub async fn index(documents: Vec<String>) {}
    /// }
    ///
    /// let call = tasks::index::call("a page".into()).batch_key("tenant:42");
    /// # drop(call);
    /// ```
    pub fn batch_key(self, key: impl Into<String>) -> Self {
        match self.kind {
            Kind::Native { batch: Some(_), .. } => self.with(|options| options.batch_key = Some(key.into())),
            _ => self,
        }
    }

    /// The item that the call is for a batch; `None` if it runs by itself, because its task has no batches or it has options
    /// of its own.
    ///
    /// # Errors
    /// The item cannot be encoded, or the key is invalid.
    #[cfg_attr(not(feature = "client"), allow(dead_code))]
    pub(crate) fn batch_item(&self) -> Result<Option<BatchItem>, EncodeError> {
        let Kind::Native { task, payload, batch: Some(batch) } = &self.kind else { return Ok(None) };
        if self.options.as_ref().is_some_and(|options| !options.are_of_batch()) {
            return Ok(None);
        }
        let name = match self.options.as_ref().and_then(|options| options.batch_key.as_deref()) {
            Some(key) => BatchName::with_key(task, key)?,
            None => BatchName::of_task(task),
        };
        let bytes = payload.as_ref().map_err(|error| (**error).clone())?.clone();
        Ok(Some(BatchItem { name, batch, bytes }))
    }
}

impl CallOptions {
    /// Whether they say nothing but which batch the call belongs to. The trace in which it was made is that of many.
    fn are_of_batch(&self) -> bool {
        let Self { due, expires, unique, unique_key, ordered, is_front, max_len, .. } = self;
        let is_timed = due.is_some() || expires.is_some();
        let is_locked = unique.is_some() || unique_key.is_some() || ordered.is_some();
        let is_placed = *is_front || max_len.is_some();
        let is_annotated = !self.annotations.headers.is_empty()
            || !self.annotations.limits.is_empty()
            || self.refused_limit.is_some();
        !is_timed && !is_locked && !is_placed && !is_annotated && self.meta == Meta::default()
    }
}
