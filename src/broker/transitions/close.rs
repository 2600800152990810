//! Close: ends a flow, once, and records how it ended.

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::flow_keys::FlowKeys;
use crate::broker::script;

impl Broker {
    /// Ends a flow in this state, with further fields of its record. Returns whether it had not ended.
    pub(crate) async fn close(
        &self,
        keys: &FlowKeys,
        state: &str,
        fields: &[(&str, &[u8])],
    ) -> Result<bool, BrokerError> {
        let home = &keys.home;
        let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
        let script_keys = [keys.flow.as_str(), &home.outbox, &home.flows];
        let mut command =
            script::CLOSE.command(&script_keys, 3 + 2 * fields.len(), home.queue.len() + bytes + 64);
        command.arg(&home.queue).arg(&keys.id.as_bytes()[..]).arg(state);
        for (name, value) in fields {
            command.arg(*name).arg(*value);
        }
        let reply = script::CLOSE.run(&mut self.commands.clone(), command).await?;
        Ok(script::CLOSE.count(&reply)? == 1)
    }
}
