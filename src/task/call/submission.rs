//! Says what a client has to do with a call: when it is due, how it is followed, and where it goes in its queue.

use std::time::Duration;

use super::due::Due;
use super::options::CallOptions;
use super::{Call, Native};
use crate::protocol::call_id::CallId;
use crate::protocol::encode::EncodeError;
use crate::protocol::tracking::Tracking;
use crate::task::overflow::Overflow;
use crate::task::unique::Unique;

#[cfg_attr(not(feature = "client"), allow(dead_code))]
impl<R> Call<R> {
    /// When the call is due; `None`: at once.
    ///
    /// # Errors
    /// The time is more than a hundred years ahead.
    pub(crate) fn due(&self) -> Result<Option<Due>, EncodeError> {
        self.options.as_ref().and_then(|options| options.due).map(Due::check).transpose()
    }

    /// The id that its sender has given it; none for one that is to be of no use, since its message has no field for it.
    pub(crate) fn own_id(&self) -> Option<CallId> {
        self.call_id().filter(|_| {
            self.is_native() || self.options.as_ref().is_some_and(|options| options.due.is_some())
        })
    }

    /// Whether the call uses an option, and so gets an id; a plain one stays as Go writes it. Messages of other languages have
    /// no field for an id.
    pub(crate) fn has_options(&self) -> bool {
        self.is_native() && self.options.is_some()
    }

    /// How the call is followed, under this id; `None`: not at all.
    pub(crate) fn tracking(&self, id: CallId) -> Option<Tracking> {
        let Native { task, payload } = self.native()?;
        let options = self.options.as_ref()?;
        let lock = options.lock(task, payload.ok()?.bytes());
        let keep_ms = options.keep_ms(lock);
        keep_ms.map(|keep_ms| Tracking { id, keep_ms: Some(keep_ms), lock })
    }

    /// Whether the call keeps a record, is unique or ordered, or was given its id.
    pub(crate) fn is_tracked(&self) -> bool {
        let tracked = |options: &CallOptions| {
            let is_locked = options.unique.is_some() || options.order().is_some();
            options.meta.keep_ms.is_some() || is_locked || options.has_given_id
        };
        self.is_native() && self.options.as_deref().is_some_and(tracked)
    }

    /// Whether the call goes to the head of its queue.
    pub(crate) fn is_front(&self) -> bool {
        self.options.as_ref().is_some_and(|options| options.is_front)
    }

    /// How many calls may wait in its queue before it.
    pub(crate) fn max_waiting(&self) -> Option<u64> {
        self.options.as_ref()?.max_len
    }

    /// What happens if as many wait.
    pub(crate) fn overflow_choice(&self) -> Overflow {
        self.options.as_ref().map(|options| options.overflow).unwrap_or_default()
    }

    /// For how long its lock holds, where it holds for a time.
    pub(crate) fn period(&self) -> Duration {
        match self.options.as_ref().and_then(|options| options.unique) {
            Some(Unique::For(period)) => period,
            _ => Duration::ZERO,
        }
    }
}
