//! Reopen: lets a flow that failed or was cancelled go on, in three steps.

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::flow_keys::FlowKeys;
use crate::broker::script;

/// Fields that are forgotten, and names and values of those that are set.
type Changes<'a> = (&'a [String], &'a [(String, String)]);

impl Broker {
    /// The first step, with `round` 0, returns a new round; the last step, with that round, lets the flow go on. Both return
    /// 0 if it is not possible.
    pub(crate) async fn reopen(&self, keys: &FlowKeys, round: u32) -> Result<u32, BrokerError> {
        self.reopen_with(keys, round, None).await
    }

    /// The step between: forgets how nodes of a reopened flow ended, and sets what is known of others. Returns false if another
    /// caller has begun a round since.
    pub(crate) async fn rewrite_nodes(
        &self,
        keys: &FlowKeys,
        round: u32,
        dropped: &[String],
        set: &[(String, String)],
    ) -> Result<bool, BrokerError> {
        Ok(self.reopen_with(keys, round, Some((dropped, set))).await? == round)
    }

    async fn reopen_with(
        &self,
        keys: &FlowKeys,
        round: u32,
        changes: Option<Changes<'_>>,
    ) -> Result<u32, BrokerError> {
        let home = &keys.home;
        let script_keys = [keys.flow.as_str(), &home.outbox, &home.flows];
        let count = changes.map_or(0, |(dropped, set)| 1 + dropped.len() + 2 * set.len());
        let mut command = script::REOPEN.command(&script_keys, 3 + count, home.queue.len() + 64 + 16 * count);
        command.arg(&home.queue).arg(&keys.id.as_bytes()[..]).arg(round);
        if let Some((dropped, set)) = changes {
            command.arg(dropped.len()).arg(dropped);
            for (name, value) in set {
                command.arg(name).arg(value);
            }
        }
        let reply = script::REOPEN.run(&mut self.commands.clone(), command).await?;
        Ok(script::REOPEN.count(&reply)? as u32)
    }
}
