//! Requeue lost: moves messages of dead workers back to the queue, or to the dead letters.

use std::time::Duration;

use crate::broker::Broker;
use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::broker::script::{self, milliseconds};
use crate::broker::transitions::bury::DeadLimits;
use crate::protocol::keys::QueueKeys;

/// When to bury a message that takes its workers down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeathLimits {
    /// The number of deaths.
    pub(crate) max_deaths: u32,
    /// How long after the last death the deaths are forgotten.
    pub(crate) forget: Duration,
    /// By the server's clock: deaths counted from then on belong to the same crash.
    pub(crate) since: Duration,
}

/// The reply of one call of `requeue_lost`.
#[derive(Debug)]
pub(crate) struct Swept {
    /// The next cursor; 0 at the end.
    pub(crate) cursor: u64,
    pub(crate) requeued: u64,
    pub(crate) buried: u64,
    /// The wire ids of their dead slots.
    pub(crate) dead: Vec<String>,
    /// How many could not be buried because the key of the dead letters holds another type.
    pub(crate) unburied: u64,
    /// The ids of the new dead letters.
    pub(crate) letters: Vec<String>,
}

impl Broker {
    /// Requeues the messages of dead slots, about `count` of them, from `cursor` on.
    pub(crate) async fn requeue_lost(
        &self,
        keys: &QueueKeys,
        cursor: u64,
        count: u32,
        deaths: DeathLimits,
        dead: DeadLimits,
    ) -> Result<Swept, BrokerError> {
        let script_keys =
            [keys.queue.as_str(), &keys.notifications, &keys.processing, &keys.dead, &keys.deaths];
        let mut command = script::REQUEUE_LOST.command(&script_keys, 7, 80);
        command
            .arg(cursor)
            .arg(count)
            .arg(deaths.max_deaths)
            .arg(milliseconds(deaths.forget))
            .arg(dead.max_count)
            .arg(milliseconds(dead.max_age))
            .arg(milliseconds(deaths.since));
        let reply = script::REQUEUE_LOST.run(&mut self.commands.clone(), command).await?;
        redis::from_redis_value::<(u64, u64, u64, Vec<String>, u64, Vec<String>)>(reply)
            .map(|(cursor, requeued, buried, dead, unburied, letters)| Swept {
                cursor,
                requeued,
                buried,
                dead,
                unburied,
                letters,
            })
            .map_err(|error| BrokerError::new("requeue_lost", BrokerErrorKind::Reply, error.to_string()))
    }
}
