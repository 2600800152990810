//! Makes the message of a periodic task out of a call: one without what each call of it has of its own.

use super::expiry::Expiry;
use super::options::CallOptions;
use super::{Call, Kind, QueueChoice};
use crate::protocol::meta;
use crate::protocol::periodic::{Overlap, PeriodicError, overlap_key};
use crate::task::registration::Registration;
use crate::task::unique::Unique;

/// The message of a periodic task, and what else its calls need.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) message: Vec<u8>,
    /// Whether the message is one of ours, which gets an id.
    pub(crate) ours: bool,
    pub(crate) expires_ms: Option<u64>,
    pub(crate) lock_ms: Option<u64>,
}

impl Call {
    /// The call of a task without arguments.
    pub(crate) fn of_registration(registration: &'static Registration) -> Self {
        let kind = Kind::Native { task: registration.name, payload: Ok(vec![0xc0]), batch: None };
        let queue = registration.options.queue.map(QueueChoice::from).unwrap_or_default();
        Self { options: CallOptions::of_task(&registration.options), ..Self::of(queue, kind) }
    }

    /// The message of the periodic task with this name.
    ///
    /// # Errors
    /// The call has options that the call of a tick cannot have, or cannot be encoded.
    pub(crate) fn into_template(self, name: &str, overlap: Overlap) -> Result<Template, PeriodicError> {
        let mut call = self;
        let ours = call.is_native();
        let name = || name.to_owned();
        if let Some(options) = &call.options {
            let unfit = [
                ("a time of its own", options.due.is_some()),
                ("an id", options.meta.id.is_some()),
                ("a place at the head of the queue", options.is_front),
                ("a bound for its queue", options.max_len.is_some()),
            ];
            if let Some((option, _)) = unfit.into_iter().find(|(_, is_set)| *is_set) {
                return Err(PeriodicError::Option { name: name(), option });
            }
        }
        if overlap != Overlap::Allow && !ours {
            return Err(PeriodicError::Foreign { name: name() });
        }
        if overlap == Overlap::Queue && call.is_flow() {
            return Err(PeriodicError::Flow { name: name() });
        }
        if overlap == Overlap::Skip {
            if call.options.as_ref().is_some_and(|options| options.unique.is_some()) {
                return Err(PeriodicError::Unique { name: name() });
            }
            call = call.unique(Unique::UntilDone).unique_key(overlap_key(&name()));
        }
        let (mut expires_ms, mut lock_ms) = (None, None);
        if let Some(options) = &mut call.options {
            if let Some(Expiry::After(time)) = options.expires {
                (options.expires, expires_ms) = (None, Some(meta::milliseconds(time)));
            }
            if let Some(Unique::For(period)) = options.unique {
                lock_ms = Some(meta::milliseconds(period));
            }
        }
        let message =
            call.encode_as(None).map_err(|source| PeriodicError::Encode { name: name(), source })?;
        Ok(Template { message, ours, expires_ms, lock_ms })
    }
}
