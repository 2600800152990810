//! Under which keys? Every Redis key is built here.

use crate::protocol::names::{QueueName, WorkerId};

/// SET: the names of the queues that a worker or client of ours has used.
pub const QUEUES: &str = "delayed_queues";

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
        }
    }
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
