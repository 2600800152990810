//! Says how a call is followed, whether it is unique, and where in its queue it goes.

use std::time::Duration;

use crate::broker::Bound;
use crate::cli::args::Enqueue;
use crate::cli::exit::Failure;
use crate::config::DeadConfig;
use crate::protocol::call_id::CallId;
use crate::protocol::meta;
use crate::protocol::tracking::{Lock, LockMode, Tracking};
use crate::task::{Due, Expiry, Registration, Unique};

/// For how long the record of a call is kept that is waited for, if nothing else says so.
const KEEP: Duration = Duration::from_secs(3600);

/// What a call asks for beside being enqueued or scheduled: what the command line says, or else its task.
pub(super) struct Options {
    keep: Option<Duration>,
    unique: Option<Unique>,
    key: Option<String>,
    ordered: Option<String>,
    has_given_id: bool,
    /// When it expires, in milliseconds since 1970.
    pub(super) expires_ms: Option<u64>,
    pub(super) front: bool,
    pub(super) bound: Bound,
}

impl Options {
    pub(super) fn new(
        args: &Enqueue,
        task: Option<&Registration>,
        due: Option<Due>,
        dead: &DeadConfig,
    ) -> Self {
        let of_task = task.map(|task| &task.options);
        let keep = args.keep.or_else(|| of_task?.keep).or_else(|| args.wait.map(|_| KEEP));
        let expires = args.expires.or_else(|| of_task?.expires.map(Expiry::After));
        let by_key = args.unique_key.as_ref().map(|_| Unique::UntilDone);
        Self {
            keep,
            unique: args.unique.or_else(|| of_task?.unique).or(by_key),
            key: args.unique_key.clone(),
            ordered: args.ordered.clone(),
            has_given_id: args.id.is_some(),
            expires_ms: expires.map(|expires| expires.ms(due)),
            front: args.front,
            bound: Bound::new(args.max_len, args.overflow.unwrap_or_default(), dead),
        }
    }

    /// Whether there is any of them, so that the call gets an id.
    pub(super) fn any(&self) -> bool {
        self.keep_ms().is_some() || self.expires_ms.is_some() || self.front || self.bound != Bound::NONE
    }

    /// For how many milliseconds the record is kept; a call that is unique or was given its id has one until its end.
    pub(super) fn keep_ms(&self) -> Option<u64> {
        self.keep
            .map(meta::milliseconds)
            .or((self.unique.is_some() || self.ordered.is_some() || self.has_given_id).then_some(0))
    }

    /// For how long its lock holds, where it holds for a time.
    pub(super) fn period(&self) -> Duration {
        match self.unique {
            Some(Unique::For(period)) => period,
            _ => Duration::ZERO,
        }
    }

    /// The lock of a unique call. The payload has the arguments by place; none where they are by name.
    pub(super) fn lock(&self, task: &str, payload: Option<&[u8]>) -> Result<Option<Lock>, Failure> {
        if let Some(key) = &self.ordered {
            return Ok(Some(Lock::of_order(key)));
        }
        let Some(unique) = self.unique else { return Ok(None) };
        let mode = mode_of(unique);
        match (&self.key, payload) {
            (Some(key), _) => Ok(Some(Lock::of_key(mode, task, key))),
            (None, Some(payload)) => Ok(Some(Lock::of_arguments(mode, task, payload))),
            (None, None) => Err(Failure::usage(format!(
                "arguments by name cannot be compared, because the task `{task}` is not in this program: use an \
                array, or a --unique-key"
            ))),
        }
    }

    /// How the call is followed under this id.
    pub(super) fn tracking(&self, id: Option<CallId>, lock: Option<Lock>) -> Option<Tracking> {
        let (id, keep_ms) = (id?, self.keep_ms()?);
        Some(Tracking { id, keep_ms: Some(keep_ms), lock })
    }
}

/// The mode of the lock of such a call.
pub(in crate::cli) fn mode_of(unique: Unique) -> LockMode {
    match unique {
        Unique::UntilStarted => LockMode::UntilStarted,
        Unique::UntilDone => LockMode::UntilDone,
        Unique::For(_) => LockMode::Period,
        Unique::Replace => LockMode::Replace,
    }
}
