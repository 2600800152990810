//! Lets a flow that failed or was cancelled go on: its steps that did not succeed run again.

use futures_util::future::BoxFuture;

use super::Flows;
use crate::broker::{BrokerError, FlowKeys, ToDo, ToDoKind};
use crate::protocol::flow::Kind;

/// How many changes go into one request.
const CHANGES: usize = 1000;

/// What is forgotten and set before a flow goes on in a new round.
#[derive(Default)]
struct Changes {
    round: u32,
    dropped: Vec<String>,
    set: Vec<(String, String)>,
    /// Steps that run again.
    steps: u64,
}

impl Changes {
    fn run_again(&mut self, step: u32) {
        self.dropped.extend(["o", "v", "r"].map(|letter| format!("{letter}{step}")));
        self.set.push((format!("g{step}"), self.round.to_string()));
    }
}

/// How many members of a group may run at a time; `None`: all.
fn at_most(kind: Kind) -> Option<u32> {
    match kind {
        Kind::Group { at_most, .. } if at_most > 0 => Some(at_most),
        _ => None,
    }
}

impl Flows {
    /// Lets a flow go on. Returns how many steps run again, or will; `None` if it goes on already, succeeded, or is not known.
    pub(crate) async fn reopen(&self, keys: &FlowKeys) -> Result<Option<u64>, BrokerError> {
        let round = self.broker.reopen(keys, 0).await?;
        if round == 0 {
            return Ok(None);
        }
        let mut changes = Changes { round, ..Changes::default() };
        let is_complete = self.forget(keys, 0, &mut changes).await?;
        // What runs if the flow fails may run once more.
        if let Some(number) = self.broker.flow(keys).await?.and_then(|info| info.on_error) {
            changes.run_again(number);
        }
        if let Some(info) = self.broker.flow(keys).await? {
            let done = u64::from(info.steps).saturating_sub(changes.steps);
            changes.set.push(("done".to_owned(), done.to_string()));
        }
        self.write_changes(keys, &mut changes).await?;
        if self.broker.reopen(keys, round).await? == 0 {
            return Ok(None);
        }
        // Complete: it was cancelled between the end of its last step and its own.
        let kind = if is_complete { ToDoKind::Close } else { ToDoKind::Open };
        self.carry_out(keys, vec![ToDo { flow: keys.id, kind, number: 0 }]).await?;
        Ok(Some(changes.steps))
    }

    /// Forgets what did not succeed below a node. Returns whether the node succeeded as a whole.
    fn forget<'a>(
        &'a self,
        keys: &'a FlowKeys,
        number: u32,
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
            let (mut succeeded, mut begin) = (0, 0);
            match state.node.kind {
                Kind::Step => {
                    changes.steps += 1;
                    changes.run_again(number);
                    return Ok(false);
                }
                Kind::Chain | Kind::Group { .. } => {
                    for place in 0..count {
                        succeeded += u32::from(self.forget(keys, first + place, changes).await?);
                        if at_most(state.node.kind).is_some_and(|most| place + 1 - succeeded <= most) {
                            begin = place + 1;
                        }
                    }
                }
            }
            if matches!(state.node.kind, Kind::Group { .. }) {
                if at_most(state.node.kind).is_some() {
                    changes.set.push((format!("w{number}"), begin.to_string()));
                }
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
        // The last step finds out if another caller has begun a round since.
        self.broker.rewrite_nodes(keys, changes.round, &dropped, &set).await.map(drop)
    }
}
