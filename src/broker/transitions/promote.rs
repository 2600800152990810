//! Promote: moves calls that are due from the timetable to the queue.

use std::time::Duration;

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script::{self, milliseconds};
use crate::protocol::keys::QueueKeys;

/// How many calls one script call moves.
const COUNT: u32 = 500;

/// The reply of `promote`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Promoted {
    /// How many calls were moved to the queue.
    pub(crate) moved: u64,
    /// When to call it again. `None` if the timetable is empty.
    pub(crate) next: Option<Duration>,
}

impl Broker {
    /// Moves some of the calls that are due to the queue, unless a process other than `process` holds the timetable for
    /// less than `lease` from now.
    pub(crate) async fn promote(
        &self,
        keys: &QueueKeys,
        process: &str,
        lease: Duration,
    ) -> Result<Promoted, BrokerError> {
        let script_keys = [keys.queue.as_str(), &keys.notifications, &keys.due, &keys.later, &keys.timetable];
        let mut command = script::PROMOTE.command(&script_keys, 3, process.len() + 32);
        command.arg(process).arg(milliseconds(lease)).arg(COUNT);
        let reply = script::PROMOTE.run(&mut self.commands.clone(), command).await?;
        match &script::PROMOTE.array(reply)?[..] {
            [Value::Int(moved), Value::Int(next)] => Ok(Promoted {
                moved: moved.unsigned_abs(),
                next: u64::try_from(*next).ok().map(Duration::from_millis),
            }),
            reply => Err(script::PROMOTE.unexpected(&Value::Array(reply.to_vec()))),
        }
    }
}
