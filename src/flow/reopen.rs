//! Lets a flow that failed or was cancelled go on: its steps that did not succeed run again.

use futures_util::future::BoxFuture;

use super::Flows;
use crate::broker::{BrokerError, FlowKeys, ToDo, ToDoKind};
use crate::protocol::flow::Kind;

/// How many changes go into one request.
const CHANGES: usize = 1000;

/// What is forgotten and set before a flow goes on.
#[derive(Default)]
struct Changes {
    dropped: Vec<String>,
    set: Vec<(String, String)>,
    /// Steps that run again.
    steps: u64,
}

impl Changes {
    fn run_again(&mut self, step: u32, round: u32) {
        self.dropped.extend(["o", "v", "r"].map(|letter| format!("{letter}{step}")));
        self.set.push((format!("g{step}"), round.to_string()));
    }
}

impl Flows {
    /// Lets a flow go on. Returns how many steps run again, or will; `None` if it goes on already, succeeded, or is not known.
    pub(crate) async fn reopen(&self, keys: &FlowKeys) -> Result<Option<u64>, BrokerError> {
        let round = self.broker.reopen(keys, 0).await?;
        if round == 0 {
            return Ok(None);
        }
        let mut changes = Changes::default();
        let is_complete = self.forget(keys, 0, round, &mut changes).await?;
        // What runs if the flow fails may run once more.
        if let Some(number) = self.broker.flow(keys).await?.and_then(|info| info.on_error) {
            changes.run_again(number, round);
        }
        if let Some(info) = self.broker.flow(keys).await? {
            let done = u64::from(info.steps).saturating_sub(changes.steps);
            changes.set.push(("done".to_owned(), done.to_string()));
        }
        self.write_changes(keys, &mut changes).await?;
        if self.broker.reopen(keys, round).await? == 0 {
            return Ok(None);
        }
        let mut to_do = vec![ToDo { flow: keys.id, kind: ToDoKind::Open, number: 0 }];
        if is_complete {
            // It was cancelled between the end of its last step and its own.
            self.broker.rewrite_nodes(keys, &[], &[("o0".to_owned(), "succeeded".to_owned())]).await?;
            to_do.push(ToDo { flow: keys.id, kind: ToDoKind::Close, number: 0 });
        }
        self.carry_out(keys, to_do).await?;
        Ok(Some(changes.steps))
    }

    /// Forgets what did not succeed below a node. Returns whether the node succeeded as a whole.
    fn forget<'a>(
        &'a self,
        keys: &'a FlowKeys,
        number: u32,
        round: u32,
        changes: &'a mut Changes,
    ) -> BoxFuture<'a, Result<bool, BrokerError>> {
        Box::pin(async move {
            let Some(state) = self.broker.nodes(keys, &[number]).await?.pop().flatten() else {
                return Ok(false);
            };
            if number != 0 && state.ended.as_deref() == Some("succeeded") {
                return Ok(true);
            }
            if changes.dropped.len() + changes.set.len() >= CHANGES {
                self.write_changes(keys, changes).await?;
            }
            let (first, count) = (state.node.first, state.node.count);
            let mut succeeded = 0;
            match state.node.kind {
                Kind::Step => {
                    changes.steps += 1;
                    changes.run_again(number, round);
                    return Ok(false);
                }
                Kind::Chain | Kind::Group { .. } => {
                    for part in first..first + count {
                        succeeded += u32::from(self.forget(keys, part, round, changes).await?);
                    }
                }
            }
            if matches!(state.node.kind, Kind::Group { .. }) {
                changes.set.push((format!("k{number}"), succeeded.to_string()));
                changes.set.push((format!("b{number}"), "0".to_owned()));
            }
            match succeeded == count {
                true => changes.set.push((format!("o{number}"), "succeeded".to_owned())),
                false => changes.dropped.push(format!("o{number}")),
            }
            Ok(succeeded == count)
        })
    }

    async fn write_changes(&self, keys: &FlowKeys, changes: &mut Changes) -> Result<(), BrokerError> {
        let (dropped, set) = (std::mem::take(&mut changes.dropped), std::mem::take(&mut changes.set));
        self.broker.rewrite_nodes(keys, &dropped, &set).await
    }
}
