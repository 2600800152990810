//! Carries flows forward: what follows from the ends of their steps.
//!
//! The script that ends a step leaves its outcome in the outbox of its queue. Whoever delivers it lets it count in the flow, once,
//! and does what follows: begins other steps, cancels some, or ends the flow. What follows stands in the outbox of the flow's queue
//! until it is done, so a process may die at any point: another one does it again, and nothing happens twice. Usually the worker
//! that ran the step delivers at once; otherwise a sweeper finds the entry.

mod begin;
mod cancel;
mod deliver;
mod open;
mod reopen;
mod results;
mod tree;
mod walk;

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

pub use self::tree::{FlowNode, FlowTree};
use crate::broker::{Broker, BrokerError};
use crate::protocol::names::QueueName;

/// Delivers outcomes, and does what follows from them.
#[derive(Debug)]
pub(crate) struct Flows {
    broker: Broker,
    /// Queues that this process has registered.
    registered: Mutex<HashSet<QueueName>>,
}

impl Flows {
    pub(crate) fn new(broker: Broker) -> Self {
        Self { broker, registered: Mutex::default() }
    }

    /// Registers a queue for sweepers, once.
    async fn register(&self, queue: &QueueName) -> Result<(), BrokerError> {
        let is_known = self.registered.lock().unwrap_or_else(PoisonError::into_inner).contains(queue);
        if !is_known {
            self.broker.register_queue(queue.as_str()).await?;
            self.registered.lock().unwrap_or_else(PoisonError::into_inner).insert(queue.clone());
        }
        Ok(())
    }
}
