//! Submit: enqueues or schedules calls that keep a record, are unique, go to the head, or go into a bounded queue.

use std::time::Duration;

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script::{self, milliseconds};
use crate::broker::transitions::bury::DeadLimits;
use crate::broker::transitions::schedule::argument;
use crate::broker::wrong_key;
use crate::config::DeadConfig;
use crate::protocol::call_id::CallId;
use crate::protocol::keys::{self, QueueKeys};
use crate::protocol::names::QueueName;
use crate::protocol::tracking::Tracking;
use crate::task::{Due, Overflow};

/// A call with options.
#[derive(Debug)]
pub(crate) struct Submission<'a> {
    pub(crate) tracking: Tracking,
    pub(crate) due: Option<Due>,
    /// Whether the call goes to the head of its queue.
    pub(crate) front: bool,
    /// How long its lock holds, for a lock with a fixed time.
    pub(crate) period: Duration,
    pub(crate) task: &'a str,
    pub(crate) message: &'a [u8],
}

/// The bound of a queue, and what happens when it is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound {
    /// Maximum number of waiting messages; 0 for no limit.
    most: u64,
    /// The oldest message makes room as a dead letter, and this many dead letters are kept. `None`: the new call is
    /// refused.
    bury: Option<DeadLimits>,
}

impl Bound {
    /// No bound.
    pub(crate) const NONE: Self = Self { most: 0, bury: None };

    pub(crate) fn new(most: Option<u64>, overflow: Overflow, dead: &DeadConfig) -> Self {
        let Some(most) = most else { return Self::NONE };
        let limits = DeadLimits { max_count: dead.max_count, max_age: dead.max_age };
        Self { most, bury: (overflow == Overflow::BuryOldest).then_some(limits) }
    }
}

/// The result for one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Submitted {
    /// The call waits, or is in the timetable.
    Taken,
    /// The id of the call exists: it belongs to a call in this state.
    Exists { state: String },
    /// Another call holds its lock.
    Locked { holder: CallId, state: String },
    /// The call replaced this one, which was not due yet.
    Replaced { holder: CallId },
    /// The queue is full.
    Full { waiting: u64 },
}

/// Maximum number of calls in one script call.
pub(crate) const MAX_SUBMITTED: usize = 100;

impl Broker {
    /// Enqueues or schedules up to [`MAX_SUBMITTED`] calls of one queue.
    pub(crate) async fn submit(
        &self,
        keys: &QueueKeys,
        bound: Bound,
        calls: &[Submission<'_>],
    ) -> Result<Vec<Submitted>, BrokerError> {
        let QueueKeys { queue, notifications, due, later, timetable, dead, deaths, .. } = keys;
        let script_keys = [queue.as_str(), notifications, due, later, timetable, dead, deaths];
        let bytes = calls.iter().map(|call| call.message.len() + call.task.len() + 96).sum();
        let mut command = script::SUBMIT.command(&script_keys, 4 + 9 * calls.len(), bytes);
        let (max_count, max_age) =
            bound.bury.map_or((0, Duration::ZERO), |limits| (limits.max_count, limits.max_age));
        command.arg(&keys.due_channel).arg(bound.most).arg(max_count).arg(milliseconds(max_age));
        for call in calls {
            let Tracking { id, keep_ms, lock } = &call.tracking;
            let id = &id.as_bytes()[..];
            // The last occurrence: the arguments come before the id and may contain the same bytes.
            let place = call.message.windows(id.len()).rposition(|bytes| bytes == id).unwrap_or_default();
            command
                .arg(id)
                .arg(call.due.map(argument).unwrap_or_default())
                .arg(u8::from(call.front))
                .arg(keep_ms.map(|keep| keep.to_string()).unwrap_or_default())
                .arg(lock.as_ref().map_or(&b""[..], |lock| lock.as_bytes()))
                .arg(milliseconds(call.period))
                .arg(place)
                .arg(call.task)
                .arg(call.message);
        }
        let reply = match script::SUBMIT.run(&mut self.commands.clone(), command).await {
            Err(error) => return Err(self.named(keys, calls, error).await),
            Ok(reply) => reply,
        };
        script::SUBMIT.array(reply)?.into_iter().map(Submitted::read).collect()
    }

    /// The same error, naming the record or the lock that holds a wrong type, if that is the problem of a single call.
    async fn named(&self, keys: &QueueKeys, calls: &[Submission<'_>], error: BrokerError) -> BrokerError {
        let ([call], Ok(queue)) = (calls, QueueName::parse(&keys.queue)) else { return error };
        let record = keys::record(&queue, call.tracking.id);
        let lock = call.tracking.lock.map(|lock| keys::lock(&queue, &lock));
        let lock = lock.as_ref().map(|lock| (lock.as_str(), "string"));
        let keys: Vec<_> = [(record.as_str(), "hash")].into_iter().chain(lock).collect();
        wrong_key::named(error, &keys, &mut self.commands.clone()).await
    }
}

impl Submitted {
    fn read(reply: Value) -> Result<Self, BrokerError> {
        let values = script::SUBMIT.array(reply)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let id = |bytes: &[u8]| bytes.try_into().ok().map(CallId::from_bytes);
        let submitted = match values.as_slice() {
            [Value::Int(0), ..] => Some(Self::Taken),
            [Value::Int(1), Value::BulkString(state)] => Some(Self::Exists { state: text(state) }),
            [Value::Int(2), Value::BulkString(holder), Value::BulkString(state)] => {
                id(holder).map(|holder| Self::Locked { holder, state: text(state) })
            }
            [Value::Int(3), Value::BulkString(holder), ..] => {
                id(holder).map(|holder| Self::Replaced { holder })
            }
            [Value::Int(4), Value::Int(waiting)] => Some(Self::Full { waiting: waiting.unsigned_abs() }),
            _ => None,
        };
        submitted.ok_or_else(|| script::SUBMIT.unexpected(&Value::Array(values)))
    }
}
