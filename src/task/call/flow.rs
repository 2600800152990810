//! Makes steps of flows of calls, and calls of flows.

use std::time::Duration;

use serde_bytes::ByteBuf;

use super::due::Due;
use super::expiry::Expiry;
use super::{Call, Kind, QueueChoice};
use crate::protocol::encode::EncodeError;
use crate::protocol::flow::{Step, TASK};
use crate::protocol::meta::{milliseconds, since_1970};
use crate::protocol::plan_error::PlanError;
use crate::task::overflow::Overflow;
use crate::task::unique::Unique;

/// For how long the record of a flow, and what is known of its steps, is kept after its end unless it says otherwise.
const KEEP: Duration = Duration::from_secs(24 * 60 * 60);

impl<R> Call<R> {
    /// The call that begins a flow with this payload, in this queue.
    pub(crate) fn of_flow(queue: Option<String>, payload: Result<Vec<u8>, EncodeError>) -> Self {
        let kind = Kind::Native { task: TASK, payload: payload.map_err(Box::new), batch: None };
        Self::of(queue.map(QueueChoice::from).unwrap_or_default(), kind).keep(KEEP)
    }

    /// Whether it begins a flow.
    pub(super) fn is_flow(&self) -> bool {
        matches!(self.kind, Kind::Native { task: TASK, .. })
    }

    /// The step of a flow. `takes`: its first argument is nil, and will be the result of the part before it.
    ///
    /// # Errors
    /// It cannot be encoded, or its worker cannot say how it ended.
    pub(in crate::task) fn flow_step(self, takes: bool) -> Result<Step, EncodeError> {
        if !self.is_native() {
            return Err(PlanError::Foreign { task: self.task().to_owned() }.into());
        }
        if self.is_flow() {
            return Err(PlanError::Flow.into());
        }
        if self.overflow_choice() == Overflow::BuryOldest {
            return Err(PlanError::Overflow { task: self.task().to_owned() }.into());
        }
        let queue = self.queue_name().map_err(|error| PlanError::Queue(Box::new(error)))?.to_string();
        let mut step =
            Step { queue, takes, max_len: self.max_waiting(), front: self.is_front(), ..Step::default() };
        match self.due()? {
            Some(Due::After(delay)) => step.after = Some(milliseconds(delay)),
            Some(Due::At(moment)) => step.at = Some(since_1970(moment)),
            None => {}
        }
        let mut call = self;
        if let Some(options) = &mut call.options {
            match options.expires.take() {
                Some(Expiry::After(time)) => step.expires = Some(milliseconds(time)),
                // It is in the message then.
                at => options.expires = at,
            }
            if let Some(Unique::For(period)) = options.unique {
                step.period = Some(milliseconds(period));
            }
        }
        step.message = ByteBuf::from(call.encode_as(None)?);
        Ok(step)
    }
}
