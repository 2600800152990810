//! Promote: moves calls that are due from the timetable to the queue, and finds periodic tasks that are due.

use std::time::Duration;

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script::{self, milliseconds};
use crate::protocol::keys::QueueKeys;

/// How many entries of the timetable one script call looks at.
const COUNT: u32 = 500;

/// The reply of `promote`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Promoted {
    /// How many calls were moved to the queue.
    pub(crate) moved: u64,
    /// When to call it again. `None` if the timetable is empty.
    pub(crate) next: Option<Duration>,
    /// Periodic tasks that are due, and the time, in milliseconds since 1970.
    pub(crate) ticks: Option<(u64, Vec<DueTask>)>,
}

/// A periodic task that is due.
#[cfg_attr(not(feature = "periodic"), allow(dead_code))]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DueTask {
    pub(crate) name: String,
    /// When it is due, in milliseconds since 1970.
    pub(crate) due: u64,
    /// Its definition, as it is stored.
    pub(crate) definition: Vec<u8>,
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
        let QueueKeys { queue, notifications, due, later, timetable, periodic, .. } = keys;
        let script_keys = [queue.as_str(), notifications, due, later, timetable, periodic];
        let mut command = script::PROMOTE.command(&script_keys, 4, process.len() + 32);
        let makes_ticks = cfg!(all(feature = "periodic", feature = "sweeper"));
        command.arg(process).arg(milliseconds(lease)).arg(COUNT).arg(u8::from(makes_ticks));
        let reply = script::PROMOTE.run(&mut self.commands.clone(), command).await?;
        let values = script::PROMOTE.array(reply)?;
        let (Some(Value::Int(moved)), Some(Value::Int(next))) = (values.first(), values.get(1)) else {
            return Err(script::PROMOTE.unexpected(&Value::Array(values)));
        };
        let ticks = match values.get(2..) {
            Some([Value::Int(now), Value::Array(entries)]) => {
                Some((now.unsigned_abs(), entries.chunks_exact(3).filter_map(due_task).collect()))
            }
            _ => None,
        };
        let next = u64::try_from(*next).ok().map(Duration::from_millis);
        Ok(Promoted { moved: moved.unsigned_abs(), next, ticks })
    }
}

/// Reads a member of the timetable, when it is due, and its definition. `None` for an entry of another kind.
fn due_task(entry: &[Value]) -> Option<DueTask> {
    let [Value::BulkString(member), Value::Int(due), Value::BulkString(definition)] = entry else {
        return None;
    };
    let name = std::str::from_utf8(member.strip_prefix(b"p")?).ok()?.to_owned();
    Some(DueTask { name, due: due.unsigned_abs(), definition: definition.clone() })
}
