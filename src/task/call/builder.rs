//! Sets the options of a call.

use std::time::{Duration, SystemTime};

use super::due::Due;
use super::expiry::Expiry;
use super::options::CallOptions;
use super::{Call, Kind};
use crate::protocol::backoff::Backoff;
use crate::protocol::call_id::CallId;
use crate::protocol::encode::Meta;
use crate::protocol::meta;
use crate::task::overflow::Overflow;
use crate::task::unique::Unique;

impl<R> Call<R> {
    pub(super) fn with(mut self, change: impl FnOnce(&mut CallOptions)) -> Self {
        change(self.options.get_or_insert_default());
        self
    }

    /// Changes what only a message of ours has a field for.
    fn with_meta(self, change: impl FnOnce(&mut Meta)) -> Self {
        if self.is_native() { self.with(|options| change(&mut options.meta)) } else { self }
    }

    /// Runs the call this long after it was enqueued, by the clock of Redis, in whole milliseconds. Until then it is in the
    /// timetable of its queue, under its [`id`](Self::id) or a new one: see [`Enqueued::id`](crate::Enqueued::id). Replaces an
    /// earlier `after` or [`at`](Self::at).
    ///
    /// ```
    /// # mod tasks { #[delayed::task] pub fn remind(who: String) {} }
    /// use std::time::Duration;
    ///
    /// let call = tasks::remind::call("ann".into()).after(Duration::from_secs(60));
    /// let python = delayed::PyTask::new("mails:remind").arg("ann").queue("mail").after(Duration::from_secs(60));
    /// # drop((call, python));
    /// ```
    pub fn after(self, delay: Duration) -> Self {
        self.with(|options| options.due = Some(Due::After(delay)))
    }

    /// Runs the call at this moment, by the clock of Redis, or immediately if it has passed. See
    /// [`after`](Self::after).
    pub fn at(self, moment: SystemTime) -> Self {
        self.with(|options| options.due = Some(Due::At(moment)))
    }

    /// Keeps a record of the call for this long after its end: its state, its times, and its result.
    /// [`Handle::wait`](crate::Handle::wait) then returns the result, and `calls show` shows it. In whole milliseconds.
    ///
    /// No effect on a [`PyTask`](crate::PyTask) or a [`GoTask`](crate::GoTask), whose messages have no field for it.
    pub fn keep(self, time: Duration) -> Self {
        self.with_meta(|meta| meta.keep_ms = Some(meta::milliseconds(time)))
    }

    /// Makes the call unique among those of the same task with the same arguments, or the same
    /// [`unique_key`](Self::unique_key). A second one is not enqueued: its [`Handle`](crate::Handle) is that of the
    /// first, and reports the conflict.
    ///
    /// No effect on a [`PyTask`](crate::PyTask) or a [`GoTask`](crate::GoTask), whose messages have no field for it.
    ///
    /// ```
    /// # mod tasks { #[delayed::task] pub fn index(page: u64) {} }
    /// use std::time::Duration;
    /// use delayed::Unique;
    ///
    /// let once = tasks::index::call(7).unique(Unique::UntilDone);
    /// let at_most_hourly = tasks::index::call(7).unique(Unique::For(Duration::from_secs(3600)));
    /// let last_one_wins = tasks::index::call(7).unique(Unique::Replace).after(Duration::from_secs(5));
    /// # drop((once, at_most_hourly, last_one_wins));
    /// ```
    pub fn unique(self, unique: Unique) -> Self {
        self.with(|options| options.unique = Some(unique))
    }

    /// Compares unique calls of the task by this key, instead of by their arguments. Without [`unique`](Self::unique), and
    /// without that option of the task, the key holds [until the call has ended](Unique::UntilDone).
    pub fn unique_key(self, key: impl Into<String>) -> Self {
        self.with(|options| {
            options.unique.get_or_insert(Unique::UntilDone);
            options.unique_key = Some(key.into());
        })
    }

    /// Runs the calls of a queue that have this key one after the other, in the order of their enqueue, whatever their tasks are and
    /// however many workers there are. A call begins when the one before it has ended: succeeded, become a dead letter, expired, or
    /// been cancelled. It keeps its place while it waits for a retry, and when its worker dies. Calls with other keys do not wait.
    ///
    /// It takes the place of [`unique`](Self::unique). No effect on a scheduled call, and on a [`PyTask`](crate::PyTask) or a
    /// [`GoTask`](crate::GoTask), whose messages have no field for it. A call that [`requeue_dead`](crate::Inspector::requeue_dead) brings
    /// back from the dead letters is refused while another one holds its key.
    ///
    /// ```
    /// # mod tasks { #[delayed::task] pub fn apply(customer: u64, change: String) {} }
    /// let first = tasks::apply::call(42, "moved".into()).ordered("customer:42");
    /// let second = tasks::apply::call(42, "paid".into()).ordered("customer:42");
    /// # drop((first, second));
    /// ```
    pub fn ordered(self, key: impl Into<String>) -> Self {
        self.with(|options| options.ordered = Some(key.into()))
    }

    /// Puts the call at the head of its queue: it runs before those that wait. No effect on a scheduled call.
    pub fn front(self) -> Self {
        self.with(|options| options.is_front = true)
    }

    /// Bounds the queue: if this many calls already wait there, the call is rejected with
    /// [`Error::QueueFull`](crate::Error::QueueFull), unless [`overflow`](Self::overflow) says otherwise. No effect on
    /// a scheduled call: it was accepted before, so it is moved to the queue when it becomes due, even if that is full.
    pub fn max_len(self, most: u64) -> Self {
        self.with(|options| options.max_len = Some(most.max(1)))
    }

    /// Sets what happens if [`max_len`](Self::max_len) calls wait: no effect without that.
    ///
    /// With [`Overflow::BuryOldest`] the oldest waiting call becomes a dead letter with the reason `overflow`. If more
    /// calls wait than allowed, up to 100 others become dead letters as well. The dead letters are kept as the `dead`
    /// section of the client's [`Config`](crate::config::Config) says. If they cannot be written, because their key
    /// holds another type, the call is refused.
    ///
    /// ```
    /// # mod tasks { #[delayed::task] pub fn thumbnail(image: String) {} }
    /// use delayed::Overflow;
    ///
    /// let call = tasks::thumbnail::call("cat.png".into()).max_len(1000).overflow(Overflow::BuryOldest);
    /// # drop(call);
    /// ```
    pub fn overflow(self, overflow: Overflow) -> Self {
        self.with(|options| options.overflow = overflow)
    }

    /// Sets how often the call is retried, in place of the task's `retry`. A negative number: without limit.
    ///
    /// No effect on a [`GoTask`](crate::GoTask): Go's worker does not retry.
    pub fn retry(mut self, retry: i64) -> Self {
        if let Kind::Python(task) = &mut self.kind {
            task.set_retry(retry);
        }
        self.with_meta(|meta| meta.retry = Some(retry))
    }

    /// Sets the number of attempts, at least 1: [`retry`](Self::retry) plus one.
    ///
    /// No effect on a [`GoTask`](crate::GoTask): Go's worker does not retry.
    pub fn max_attempts(self, attempts: u32) -> Self {
        self.retry(i64::from(attempts.max(1)) - 1)
    }

    /// Retries the call for this long after its first failed attempt, in place of the task's `retry_for`. Without
    /// [`retry`](Self::retry), it is retried as often as its back-off allows until then, whatever the task's `retry` is. In
    /// whole milliseconds, at least 1.
    ///
    /// No effect on a [`PyTask`](crate::PyTask) or a [`GoTask`](crate::GoTask), whose messages have no field for it.
    ///
    /// ```
    /// # mod tasks { #[delayed::task] pub fn charge(order: u64) {} }
    /// let call = tasks::charge::call(7).retry_for(std::time::Duration::from_secs(2 * 86400));
    /// # drop(call);
    /// ```
    pub fn retry_for(self, time: Duration) -> Self {
        self.with_meta(|meta| meta.retry_for_ms = Some(meta::milliseconds(time).max(1)))
    }

    /// Sets how long the call waits after each failed attempt, in place of the task's and the worker's `backoff`.
    ///
    /// No effect on a [`PyTask`](crate::PyTask) or a [`GoTask`](crate::GoTask), whose messages have no field for it.
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.with_meta(|meta| meta.backoff = Some(backoff))
    }

    /// Sets how long one run may take, in place of the task's `timeout`. In whole milliseconds, at least 1.
    ///
    /// No effect on a [`PyTask`](crate::PyTask) or a [`GoTask`](crate::GoTask), whose messages have no field for it.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with_meta(|meta| meta.timeout_ms = Some(meta::milliseconds(timeout).max(1)))
    }

    /// Lets the call expire this long after it could run: after its enqueue, or after its due time if it is
    /// [scheduled](Self::after). After that it does not begin, and a run that has begun is asked to end. In place of
    /// the task's `expires`; replaces an earlier `expires` or [`expires_at`](Self::expires_at). By the clocks of the
    /// two hosts, in whole milliseconds.
    ///
    /// A call that has expired becomes a dead letter, and is not retried.
    ///
    /// No effect on a [`PyTask`](crate::PyTask) or a [`GoTask`](crate::GoTask), whose messages have no field for it.
    ///
    /// ```
    /// # mod tasks { #[delayed::task] pub fn quote(symbol: String) {} }
    /// let call = tasks::quote::call("ACME".into()).expires(std::time::Duration::from_secs(600));
    /// # drop(call);
    /// ```
    pub fn expires(self, time: Duration) -> Self {
        self.with(|options| options.expires = Some(Expiry::After(time)))
    }

    /// Lets the call expire at this moment: see [`expires`](Self::expires).
    pub fn expires_at(self, moment: SystemTime) -> Self {
        self.with(|options| options.expires = Some(Expiry::At(moment)))
    }

    /// Sets the id, which the task can read from its [`Context`](crate::Context): a [`CallId`], or a text such as `order:7`, which
    /// is [the same id](CallId) in each language.
    ///
    /// A call with an id that exists is rejected, together with the state of the existing call:
    /// [`Error::Exists`](crate::Error::Exists). An id exists from the enqueue of its call to its end, and for as long
    /// after that as its record is [kept](Self::keep). If a worker of another language takes the call, its id is free
    /// after 30 days. Like a [unique](Self::unique) call, a call with an id costs Redis more than a plain one;
    /// [`with_id`](Self::with_id) sets a new id, which is not compared with others.
    ///
    /// A [`PyTask`](crate::PyTask) or a [`GoTask`](crate::GoTask) has an id only while it is [scheduled](Self::after): its message has no
    /// field for it.
    ///
    /// ```
    /// # mod tasks { #[delayed::task] pub fn ship(order: u64) {} }
    /// use std::time::Duration;
    ///
    /// let call = tasks::ship::call(7).id("order:7").keep(Duration::from_secs(86400));
    /// assert_eq!(call.call_id(), Some("order:7".into()));
    /// ```
    pub fn id(self, id: impl Into<CallId>) -> Self {
        self.with(|options| (options.meta.id, options.has_given_id) = (Some(id.into()), true))
    }

    /// Sets a new id, which is not compared with others: see [`call_id`](Self::call_id). A call with any other option gets one
    /// when it is enqueued.
    pub fn with_id(self) -> Self {
        self.with(|options| (options.meta.id, options.has_given_id) = (Some(CallId::new()), false))
    }

    /// Gives the call this id. Unlike [`id`](Self::id), this is no reason to refuse another one with it.
    #[cfg(feature = "gateway")]
    pub(crate) fn with_known_id(self, id: CallId) -> Self {
        self.with_meta(|meta| meta.id = Some(id))
    }

    /// The id, if the call has one.
    #[must_use]
    pub fn call_id(&self) -> Option<CallId> {
        self.options.as_ref().and_then(|options| options.meta.id)
    }
}
