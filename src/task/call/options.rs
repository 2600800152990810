//! Holds the options of a call, and encodes a message with them.

use super::due::Due;
use super::expiry::Expiry;
use super::payload::Encoded;
use crate::protocol::annotations::Annotations;
use crate::protocol::call_id::CallId;
use crate::protocol::encode::{EncodeError, Meta};
use crate::protocol::limit::{LimitError, MAX_LIMITS};
use crate::protocol::meta;
use crate::protocol::tracking::{Lock, LockMode};
use crate::task::overflow::Overflow;
use crate::task::registration::TaskOptions;
use crate::task::unique::Unique;

/// What a call asks for beside being enqueued.
#[derive(Debug, Clone, Default)]
pub(super) struct CallOptions {
    pub(super) due: Option<Due>,
    pub(super) expires: Option<Expiry>,
    pub(super) unique: Option<Unique>,
    pub(super) unique_key: Option<String>,
    /// The key of calls that run one after the other.
    pub(super) ordered: Option<String>,
    /// With which calls a call is collected, if its task runs in batches.
    pub(super) batch_key: Option<String>,
    pub(super) is_front: bool,
    pub(super) max_len: Option<u64>,
    pub(super) overflow: Overflow,
    /// Its sender has given it its id: another call with this id is refused until it has ended.
    pub(super) has_given_id: bool,
    /// Of our own form alone, as are the annotations.
    pub(super) meta: Meta,
    pub(super) annotations: Annotations,
    /// The name of a limit that is not valid.
    pub(super) refused_limit: Option<LimitError>,
}

impl CallOptions {
    /// Those of each call of a task; `None` if there are none.
    pub(super) fn of_task(task: &TaskOptions) -> Option<Box<Self>> {
        let TaskOptions { unique, keep, expires, .. } = *task;
        if unique.is_none() && keep.is_none() && expires.is_none() {
            return None;
        }
        let meta = Meta { keep_ms: keep.map(meta::milliseconds), ..Meta::default() };
        Some(Box::new(Self { unique, expires: expires.map(Expiry::After), meta, ..Self::default() }))
    }

    /// Encodes a message of ours.
    pub(super) fn encode(
        &self,
        task: &str,
        payload: &Encoded<'_>,
        id: Option<CallId>,
    ) -> Result<Vec<u8>, EncodeError> {
        if let Some(refused) = &self.refused_limit {
            return Err(refused.clone().into());
        }
        let count = self.annotations.limits.len();
        if count > MAX_LIMITS {
            return Err(LimitError::TooMany { count }.into());
        }
        self.annotations.headers.check()?;
        self.annotations.trace.check()?;
        let lock = self.lock(task, payload.bytes());
        let keep_ms = self.keep_ms(lock);
        let expires_ms = self.expires.map(|expires| expires.ms(self.due));
        let meta = Meta { id, expires_ms, keep_ms, lock, ..self.meta };
        Ok(payload.message(task, &meta, &self.annotations))
    }

    /// For how long the record is kept; a call that is unique or was given its id has one until its end.
    pub(super) fn keep_ms(&self, lock: Option<Lock>) -> Option<u64> {
        self.meta.keep_ms.or((lock.is_some() || self.has_given_id).then_some(0))
    }

    /// The key of calls that run one after the other; a scheduled call is none of them.
    pub(super) fn order(&self) -> Option<&str> {
        self.ordered.as_deref().filter(|_| self.due.is_none())
    }

    pub(super) fn lock(&self, task: &str, payload: &[u8]) -> Option<Lock> {
        if let Some(key) = self.order() {
            return Some(Lock::of_order(key));
        }
        let mode = match self.unique? {
            Unique::UntilStarted => LockMode::UntilStarted,
            Unique::UntilDone => LockMode::UntilDone,
            Unique::For(_) => LockMode::Period,
            Unique::Replace => LockMode::Replace,
        };
        Some(match &self.unique_key {
            Some(key) => Lock::of_key(mode, task, key),
            None => Lock::of_arguments(mode, task, payload),
        })
    }
}
