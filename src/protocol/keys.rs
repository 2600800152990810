//! Builds every Redis key.

use crate::protocol::call_id::CallId;
use crate::protocol::limit::LimitName;
pub use crate::protocol::names::QUEUES;
use crate::protocol::names::{QueueName, WorkerId};
use crate::protocol::tracking::Lock;

/// The keys of one queue, built once.
#[derive(Debug, Clone)]
pub struct QueueKeys {
    /// LIST: waiting messages, oldest at the head.
    pub queue: String,
    /// LIST: one token `1` for each waiting message.
    pub notifications: String,
    /// LIST: tokens that workers were woken with, until their claims come.
    pub hand: String,
    /// HASH: wire id → the message that this slot owns.
    pub processing: String,
    /// ZSET: worker id → the time in milliseconds at which its lease ends.
    pub workers: String,
    /// STREAM: dead letters, oldest first.
    pub dead: String,
    /// HASH: SHA-1 of a message → how many processes died while they owned it.
    pub deaths: String,
    /// STRING: whose turn it is to sweep.
    pub sweep: String,
    /// ZSET: the timetable: `c` and the id of a call, or `p` and the name of a periodic task → when it is due, in
    /// milliseconds since 1970.
    pub due: String,
    /// HASH: id → the message of a call in the timetable.
    pub later: String,
    /// STRING: the process that moves what is due; expires.
    pub timetable: String,
    /// ZSET: id → when the call, which waited, was cancelled, in milliseconds since 1970.
    pub cancelled: String,
    /// ZSET: id → when the record of a finished call is dropped, in milliseconds since 1970.
    pub done: String,
    /// STREAM: the last finished calls without a record, oldest first.
    pub finished: String,
    /// STRING: since when the queue is paused, in milliseconds since 1970, a space, and by whom.
    pub paused: String,
    /// SET: the names of limits for which messages of the queue wait.
    pub parked: String,
    /// HASH: `d:` and a name → the definition of a periodic task; `p:` and a name → since when it is paused.
    pub periodic: String,
    /// HASH: what is to be done for flows: the id of a step → how it ended, or what a flow has to do → since when.
    pub outbox: String,
    /// ZSET: id of a flow → when it is forgotten, in milliseconds since 1970.
    pub flows: String,
    /// The channel on which that process is told of a call that is due before all others.
    pub due_channel: String,
    /// The channel on which workers are told that the queue is paused or resumed.
    pub paused_channel: String,
}

impl QueueKeys {
    /// The keys of `queue`.
    #[must_use]
    pub fn new(queue: &QueueName) -> Self {
        Self {
            queue: queue.to_string(),
            notifications: format!("{queue}_noti"),
            hand: format!("{queue}_hand"),
            processing: format!("{queue}_processing"),
            workers: format!("{queue}_workers"),
            dead: format!("{queue}_dead"),
            deaths: format!("{queue}_deaths"),
            sweep: format!("{queue}_sweep"),
            due: format!("{queue}_due"),
            later: format!("{queue}_later"),
            timetable: format!("{queue}_timetable"),
            cancelled: format!("{queue}_cancelled"),
            done: format!("{queue}_done"),
            finished: format!("{queue}_finished"),
            paused: format!("{queue}_paused"),
            parked: format!("{queue}_parked"),
            periodic: format!("{queue}_periodic"),
            outbox: format!("{queue}_outbox"),
            flows: format!("{queue}_flows"),
            due_channel: due_channel(queue.as_str()),
            paused_channel: format!("{queue}{PAUSED_CHANNEL}"),
        }
    }
}

/// The channel of a queue's timetable, or with `*` the pattern of all.
#[must_use]
pub fn due_channel(queue: &str) -> String {
    format!("{queue}{DUE_CHANNEL}")
}

/// What the names of the channels of timetables end in.
pub const DUE_CHANNEL: &str = ":due";

/// What the names of the channels of pauses end in.
pub const PAUSED_CHANNEL: &str = ":paused";

/// The queue of a channel whose name ends so.
#[must_use]
pub fn queue_of(channel: &str, end: &str) -> Option<QueueName> {
    QueueName::parse(channel.strip_suffix(end)?).ok()
}

/// What stands in the key of a unique call's lock between the queue and its digest. STRING: the id of the call.
pub const LOCK: &str = ":u:";

/// HASH: the record of a call; and the channel on which its end is published.
#[must_use]
pub fn record(queue: &QueueName, id: CallId) -> String {
    format!("{queue}:c:{}", hex(id.as_bytes()))
}

/// HASH: a flow: its tree and what is known of it.
#[must_use]
pub fn flow(queue: &QueueName, id: CallId) -> String {
    format!("{queue}:f:{}", hex(id.as_bytes()))
}

/// STRING: the lock of a unique call.
#[must_use]
pub fn lock(queue: &QueueName, lock: &Lock) -> String {
    format!("{queue}{LOCK}{}", hex(lock.digest()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// LIST: the messages of a queue that wait for a limit, oldest first.
#[must_use]
pub fn waiters(queue: &str, limit: &LimitName) -> String {
    format!("{queue}:l:{limit}")
}

/// LIST: a filling batch: when the first item came and how many bytes there are, then the items.
#[must_use]
pub fn batch(queue: &QueueName, name: &str) -> String {
    format!("{queue}:g:{name}")
}

/// LIST: the history of a periodic task, newest first.
#[must_use]
pub fn history(queue: &str, name: &str) -> String {
    format!("{queue}:p:{name}")
}

/// HASH: a worker of ours on a queue: `seq` and `info`, and of its last reconcile `fence` and `applied`.
#[must_use]
pub fn worker(queue: &QueueName, worker: &WorkerId) -> String {
    format!("{queue}:{worker}")
}

/// STRING: a slot's wire id, which is also its live key.
#[must_use]
pub fn wire_id(queue: &QueueName, worker: &WorkerId, slot: usize) -> String {
    format!("{queue}:{worker}:{slot}")
}

/// HASH: wire id → an order to end what this slot runs; a beat takes it.
#[must_use]
pub fn orders(queue: &QueueName, worker: &WorkerId) -> String {
    format!("{queue}:{worker}:kill")
}

/// STRING: what became of an order to end what a slot runs.
#[must_use]
pub fn answer(wire_id: &str) -> String {
    format!("{wire_id}:told")
}
