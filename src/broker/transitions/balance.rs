//! Balance: makes the number of tokens of a queue equal to the number of its messages.

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::protocol::keys::QueueKeys;

impl Broker {
    /// Adds up to `gap` tokens, or removes tokens if it is negative, as far as the gap still exists.
    pub(crate) async fn balance(&self, keys: &QueueKeys, gap: i64) -> Result<i64, BrokerError> {
        self.add_tokens(keys, gap, false).await
    }

    /// Does the same; `moved` tokens are added only if they are in `Q_hand`.
    pub(in crate::broker) async fn add_tokens(
        &self,
        keys: &QueueKeys,
        gap: i64,
        moved: bool,
    ) -> Result<i64, BrokerError> {
        let mut command = script::BALANCE.command(&[&keys.queue, &keys.notifications, &keys.hand], 2, 32);
        command.arg(gap).arg(u8::from(moved));
        match script::BALANCE.run(&mut self.commands.clone(), command).await? {
            Value::Int(changed) => Ok(changed),
            reply => Err(script::BALANCE.unexpected(&reply)),
        }
    }
}
