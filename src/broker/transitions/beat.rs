//! Beat: renews a worker's lease and takes its orders.

use std::time::Duration;

use redis::Value;

use crate::broker::error::BrokerError;
use crate::broker::lease::{LeaseKeeper, LeaseKeys};
use crate::broker::orders::Order;
use crate::broker::script::{self, milliseconds};
use crate::broker::sweep::FORGET_WORKERS;
use crate::broker::transitions::pause::Paused;

/// What `beat` answered.
#[derive(Debug)]
pub(crate) struct Beaten {
    /// Whether a sweep of the queue may find something.
    pub(crate) found: bool,
    /// Whether lists of the queue begin with something else than a token.
    pub(crate) foreign: Foreign,
    /// The pause of the queue, if it is paused.
    pub(crate) paused: Option<Paused>,
    /// The orders that stood there.
    pub(crate) orders: Vec<Order>,
}

/// Whether lists that should hold tokens begin with something else, as another program's do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Foreign {
    pub(crate) hand: bool,
    pub(crate) notifications: bool,
}

impl LeaseKeeper {
    /// Renews the worker's lease on one queue, and the live keys of `slots` (at most 1000). Connects when it is
    /// not connected; after an error it connects anew. Takes the orders that stand there, and looks for what a sweep
    /// would find.
    pub(crate) fn beat(
        &mut self,
        keys: LeaseKeys<'_>,
        lease: Duration,
        info: &[u8],
        slots: &[&str],
    ) -> Result<Beaten, BrokerError> {
        let queue = keys.queue;
        let own: [&str; 7] = [
            &queue.queue,
            &queue.notifications,
            &queue.hand,
            &queue.processing,
            &queue.deaths,
            &queue.due,
            &queue.paused,
        ];
        let script_keys = keys.with(&own, slots);
        let mut command = script::BEAT.command(&script_keys, 4, info.len() + keys.worker_id.len() + 32);
        command.arg(milliseconds(lease)).arg(keys.worker_id).arg(info).arg(milliseconds(FORGET_WORKERS));
        match self.run(&script::BEAT, &command)? {
            Value::Array(mut reply) => {
                let mut orders = reply.split_off(reply.len().min(1));
                let [Value::Int(bits)] = reply[..] else {
                    return Err(script::BEAT.unexpected(&Value::Array(reply)));
                };
                let foreign = Foreign { hand: bits & 2 != 0, notifications: bits & 4 != 0 };
                let paused = match bits & 8 != 0 && !orders.is_empty() {
                    true => Some(Paused::read(&script::BEAT, &orders.remove(0))?),
                    false => None,
                };
                Ok(Beaten { found: bits & 1 != 0, foreign, paused, orders: Order::all_of(orders) })
            }
            reply => Err(script::BEAT.unexpected(&reply)),
        }
    }
}
