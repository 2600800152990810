//! Reopen: lets a flow that failed or was cancelled go on, in two steps.

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::flow_keys::FlowKeys;
use crate::broker::script;

impl Broker {
    /// The first step, with `round` 0, returns a new round; the second step, with that round, lets the flow go on. Both return
    /// 0 if it is not possible.
    pub(crate) async fn reopen(&self, keys: &FlowKeys, round: u32) -> Result<u32, BrokerError> {
        let home = &keys.home;
        let script_keys = [keys.flow.as_str(), &home.outbox, &home.flows];
        let mut command = script::REOPEN.command(&script_keys, 3, home.queue.len() + 64);
        command.arg(&home.queue).arg(&keys.id.as_bytes()[..]).arg(round);
        let reply = script::REOPEN.run(&mut self.commands.clone(), command).await?;
        Ok(script::REOPEN.count(&reply)? as u32)
    }
}
