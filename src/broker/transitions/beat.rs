//! Beat: renews a worker's lease and takes its kill requests.

use std::time::Duration;

use redis::Value;

use crate::broker::error::BrokerError;
use crate::broker::kill_requests::KillRequest;
use crate::broker::lease::{LeaseKeeper, LeaseKeys};
use crate::broker::script::{self, milliseconds};
use crate::broker::sweep::FORGET_WORKERS;
use crate::broker::transitions::pause::Paused;
use crate::broker::worker_orders::OrderBy;

/// The reply of `beat`.
#[derive(Debug)]
pub(crate) struct BeatReply {
    /// Whether a sweep of the queue may find something.
    pub(crate) found: bool,
    /// Which lists of the queue begin with something other than a token.
    pub(crate) foreign: ForeignLists,
    /// The pause of the queue, if it is paused.
    pub(crate) paused: Option<Paused>,
    /// The kill requests for this worker.
    pub(crate) kills: Vec<KillRequest>,
    /// What the whole worker is told to do.
    pub(crate) orders: Vec<OrderBy>,
}

/// Whether lists that should hold tokens begin with something else, because another program uses them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ForeignLists {
    pub(crate) hand: bool,
    pub(crate) notifications: bool,
}

impl LeaseKeeper {
    /// Renews the worker's lease on one queue, and the live keys of `slots` (at most 1000). Connects if necessary, and
    /// reconnects after an error. Takes the kill requests, and checks whether a sweep would find anything.
    pub(crate) fn beat(
        &mut self,
        keys: LeaseKeys<'_>,
        lease: Duration,
        info: &[u8],
        slots: &[&str],
    ) -> Result<BeatReply, BrokerError> {
        let queue = keys.queue;
        let own: [&str; 8] = [
            &queue.queue,
            &queue.notifications,
            &queue.hand,
            &queue.processing,
            &queue.deaths,
            &queue.due,
            &queue.paused,
            &queue.outbox,
        ];
        let script_keys = keys.with(&own, slots);
        let mut command = script::BEAT.command(&script_keys, 4, info.len() + keys.worker_id.len() + 32);
        command.arg(milliseconds(lease)).arg(keys.worker_id).arg(info).arg(milliseconds(FORGET_WORKERS));
        match self.run(&script::BEAT, command)? {
            Value::Array(mut reply) => {
                let mut kills = reply.split_off(reply.len().min(1));
                let [Value::Int(bits)] = reply[..] else {
                    return Err(script::BEAT.unexpected(&Value::Array(reply)));
                };
                let foreign = ForeignLists { hand: bits & 2 != 0, notifications: bits & 4 != 0 };
                let paused = match bits & 8 != 0 && !kills.is_empty() {
                    true => Some(Paused::read(&script::BEAT, &kills.remove(0))?),
                    false => None,
                };
                let fields: Vec<(String, String)> =
                    redis::from_redis_value(Value::Array(kills)).unwrap_or_default();
                let orders = OrderBy::all_of(&fields);
                let kills = KillRequest::all_of(fields);
                Ok(BeatReply { found: bits & 1 != 0, foreign, paused, kills, orders })
            }
            reply => Err(script::BEAT.unexpected(&reply)),
        }
    }
}
