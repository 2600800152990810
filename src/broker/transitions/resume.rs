//! Resume: lets workers claim again from a paused queue.

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::broker::transitions::pause::Paused;
use crate::protocol::keys::QueueKeys;

impl Broker {
    /// Resumes a queue. Returns the pause that this ended, if there was one.
    pub(crate) async fn resume(&self, keys: &QueueKeys, by: &str) -> Result<Option<Paused>, BrokerError> {
        let mut command = script::RESUME.command(&[&keys.paused], 2, by.len() + keys.paused_channel.len());
        command.arg(by).arg(&keys.paused_channel);
        match script::RESUME.run(&mut self.commands.clone(), command).await? {
            Value::Nil => Ok(None),
            pause => Paused::read(&script::RESUME, &pause).map(Some),
        }
    }
}
