//! Unpark: moves messages that waited for a limit to the head of their queue.

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::broker::transitions::acquire::texts;
use crate::protocol::keys::{QueueKeys, waiters};
use crate::protocol::limit::LimitName;

/// Maximum number of messages that one script call moves by their SHA-1.
pub(crate) const MAX_UNPARKED: usize = 200;

impl Broker {
    /// Moves the messages with these SHA-1, at most [`MAX_UNPARKED`], and the `count` oldest (at most 1000), to the head of
    /// their queue. Returns how many were moved, and the SHA-1 of those that were not found.
    pub(crate) async fn unpark(
        &self,
        keys: &QueueKeys,
        limit: &LimitName,
        count: u64,
        digests: &[&str],
    ) -> Result<(u64, Vec<String>), BrokerError> {
        let waiters = waiters(&keys.queue, limit);
        let script_keys = [keys.queue.as_str(), &keys.notifications, &waiters, &keys.parked];
        let mut command = script::UNPARK.command(&script_keys, digests.len() + 2, 48 * digests.len() + 256);
        command.arg(limit.as_str()).arg(count);
        for digest in digests {
            command.arg(*digest);
        }
        let reply = script::UNPARK.run(&mut self.commands.clone(), command).await?;
        let mut reply = script::UNPARK.array(reply)?.into_iter();
        let moved = script::UNPARK.count(&reply.next().unwrap_or(Value::Nil))?;
        Ok((moved, texts(&script::UNPARK, reply)?))
    }
}
