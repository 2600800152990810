//! Lets outcomes count in their flows, and does what follows.

use std::collections::{HashMap, VecDeque};

use futures_util::stream::{self, StreamExt};

use super::Flows;
use crate::broker::{BrokerError, Delivery, Ended, FlowKeys, MAX_JOINED, Outcome, ToDo, ToDoKind};
use crate::protocol::keys::QueueKeys;
use crate::protocol::names::QueueName;
use crate::task::return_value::MAX_RESULT;

/// How many flows are carried forward at the same time.
const AT_ONCE: usize = 64;
/// Entries that were there before this long ago were left by a process that died, or could not be delivered.
const OLD_MS: u64 = 2_000;

impl Flows {
    /// Delivers these entries of the outbox of a queue.
    ///
    /// # Errors
    /// The first error; what could not be delivered stays in the outbox.
    pub(crate) async fn deliver(&self, keys: &QueueKeys, names: &[Vec<u8>]) -> Result<(), BrokerError> {
        let found = self.broker.deliveries(keys, names).await?;
        let mut by_flow: HashMap<_, Vec<_>> = HashMap::new();
        for (name, delivery) in names.iter().zip(found) {
            let flow = match &delivery {
                Some(Delivery::Outcome(outcome)) => (outcome.member.home.clone(), outcome.member.flow),
                Some(Delivery::ToDo(to_do)) => match QueueName::parse(&keys.queue) {
                    Ok(queue) => (queue, to_do.flow),
                    Err(_) => continue,
                },
                Some(Delivery::Unknown) | None => continue,
            };
            if let Some(delivery) = delivery {
                by_flow.entry(flow).or_default().push((name.clone(), delivery));
            }
        }
        let flows = stream::iter(by_flow).map(|((queue, id), entries)| async move {
            self.deliver_to(&FlowKeys::new(&queue, id), keys, entries).await
        });
        let results: Vec<Result<(), BrokerError>> = flows.buffer_unordered(AT_ONCE).collect().await;
        results.into_iter().collect()
    }

    /// Delivers what has been in the outbox of a queue for a while. Returns how many entries that were.
    #[cfg_attr(not(feature = "sweeper"), allow(dead_code))]
    pub(crate) async fn sweep(&self, keys: &QueueKeys, now_ms: u64) -> Result<u64, BrokerError> {
        let (mut cursor, mut count, mut failed) = (0, 0, Ok(()));
        loop {
            let (next, names) =
                self.broker.old_deliveries(keys, cursor, now_ms.saturating_sub(OLD_MS)).await?;
            // One flow that cannot go on does not keep others from it.
            failed = failed.and(self.deliver(keys, &names).await);
            count += names.len() as u64;
            cursor = next;
            if cursor == 0 {
                return failed.map(|()| count);
            }
        }
    }

    /// Delivers entries of the outbox of `from` to one flow.
    async fn deliver_to(
        &self,
        keys: &FlowKeys,
        from: &QueueKeys,
        entries: Vec<(Vec<u8>, Delivery)>,
    ) -> Result<(), BrokerError> {
        let (mut outcomes, mut to_do) = (Vec::new(), Vec::new());
        for (name, delivery) in entries {
            match delivery {
                Delivery::Outcome(outcome) => outcomes.push((name, outcome)),
                Delivery::ToDo(what) => to_do.push(what),
                Delivery::Unknown => {}
            }
        }
        for part in outcomes.chunks(MAX_JOINED) {
            let ended: Vec<Ended<'_>> = part.iter().map(|(_, outcome)| ended(outcome)).collect();
            to_do.extend(self.broker.join(keys, &ended).await?);
            let names: Vec<Vec<u8>> = part.iter().map(|(name, _)| name.clone()).collect();
            self.broker.drop_deliveries(from, &names).await?;
        }
        self.carry_out(keys, to_do).await
    }

    /// Does what a flow has to do, and what follows from that. Each entry leaves the outbox when it is done.
    pub(super) async fn carry_out(&self, keys: &FlowKeys, to_do: Vec<ToDo>) -> Result<(), BrokerError> {
        let (mut left, mut failed) = (VecDeque::from(to_do), Ok(()));
        while let Some(what) = left.pop_front() {
            let done = match what.kind {
                ToDoKind::Open => self.open(keys, what.number).await,
                ToDoKind::Cancel => self.cancel_steps(keys, what.number).await.map(|()| Vec::new()),
                ToDoKind::Close => self.close(keys).await.map(|()| Vec::new()),
            };
            match done {
                Ok(next) => {
                    self.broker.drop_deliveries(&keys.home, &[what.field()]).await?;
                    left.extend(next);
                }
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        failed
    }

    /// Ends a flow whose root has ended.
    async fn close(&self, keys: &FlowKeys) -> Result<(), BrokerError> {
        let Some(info) = self.broker.flow(keys).await? else { return Ok(()) };
        let Some(root) = self.broker.nodes(keys, &[0]).await?.pop().flatten() else { return Ok(()) };
        match root.ended.as_deref() {
            None => {}
            Some("succeeded") => {
                let (name, value) = match self.result_of(keys, 0).await? {
                    Ok(result) if result.len() > MAX_RESULT => {
                        ("too_large", result.len().to_string().into_bytes())
                    }
                    Ok(result) => ("result", result),
                    Err(reason) => ("unencodable", reason.into_bytes()),
                };
                self.broker.close(keys, "succeeded", &[(name, &value)]).await?;
            }
            Some(_) => {
                let error = match info.failed {
                    Some(number) => {
                        let step = self.broker.nodes(keys, &[number]).await?.pop().flatten();
                        let how = step.as_ref().and_then(|step| step.ended.clone()).unwrap_or_default();
                        match step.and_then(|step| step.reason) {
                            Some(reason) => format!("the step {number} is {how}: {reason}"),
                            None => format!("the step {number} is {how}"),
                        }
                    }
                    None => "a step failed".to_owned(),
                };
                self.broker
                    .close(keys, "dead", &[("reason", b"failed"), ("error", error.as_bytes())])
                    .await?;
            }
        }
        Ok(())
    }
}

fn ended(outcome: &Outcome) -> Ended<'_> {
    let Outcome { member, state, field } = outcome;
    let field = field.as_ref().map(|(name, value)| (*name, &value[..]));
    Ended { number: member.number, round: member.round, state, field }
}
