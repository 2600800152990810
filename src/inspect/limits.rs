//! Limits: what each allows, who holds it, and who waits.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::broker::{BrokerErrorKind, LimitState};
use crate::error::Error;
use crate::inspect::health::plural;
use crate::inspect::{Finding, Inspector};
use crate::protocol::keys::QueueKeys;
use crate::protocol::limit::{Limit, LimitName};
use crate::protocol::names::QueueName;

/// How many holders and waiting calls of a limit are named.
const NAMED: u64 = 100;

/// A limit as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LimitStatus {
    /// Its name.
    pub name: String,
    /// How many calls may run at the same time. `None`: any number.
    pub concurrency: Option<u64>,
    /// How many calls may begin in each period. `None`: any number.
    pub rate: Option<u64>,
    /// The period of the rate in milliseconds.
    pub period_ms: Option<u64>,
    /// How many calls may begin together.
    pub burst: Option<u64>,
    /// How many calls hold it.
    pub held: u64,
    /// How many calls wait until others have ended. Those that wait for the rate are in the timetables of their queues.
    pub waiting: u64,
    /// Up to 100 of those that hold it: the slot of each, as `workers` shows it.
    pub holders: Vec<String>,
    /// The queues of the first 100 that wait, in their order.
    pub waiters: Vec<String>,
    /// Why it cannot be read; all else is empty then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl From<LimitState> for LimitStatus {
    fn from(state: LimitState) -> Self {
        let LimitState {
            name,
            policy: [concurrency, rate, period_ms, burst],
            held,
            waiting,
            holders,
            line,
            problem,
        } = state;
        let slot =
            |holder: String| holder.split_once('#').map_or(holder.clone(), |(slot, _)| slot.to_owned());
        let queue =
            |entry: String| entry.split_once(' ').map_or(String::new(), |(_, queue)| queue.to_owned());
        Self {
            name: name.to_string(),
            concurrency,
            rate,
            period_ms,
            burst: burst.or(rate.map(|_| 1)),
            held,
            waiting,
            holders: holders.into_iter().map(slot).collect(),
            waiters: line.into_iter().map(queue).collect(),
            problem,
        }
    }
}

impl Inspector {
    /// Returns all limits that have a policy, sorted by name.
    ///
    /// # Errors
    /// Redis cannot be reached, or a key of a limit has a wrong type.
    pub async fn limits(&self) -> Result<Vec<LimitStatus>, Error> {
        Ok(self.broker.limits(NAMED).await?.into_iter().map(LimitStatus::from).collect())
    }

    /// Creates or changes a limit: see [`Client::set_limit`](crate::Client::set_limit).
    ///
    /// # Errors
    /// Nothing could run under the limit, or Redis cannot be reached or used.
    pub async fn set_limit(&self, name: &LimitName, limit: &Limit) -> Result<(), Error> {
        limit.check()?;
        Ok(self.broker.set_limit(name, limit).await?)
    }

    /// Removes a limit: calls that name it are no longer limited, and those that wait for it run. Returns whether there
    /// was one.
    ///
    /// # Errors
    /// Redis cannot be reached or used.
    pub async fn remove_limit(&self, name: &LimitName) -> Result<bool, Error> {
        Ok(self.broker.remove_limit(name).await?)
    }

    /// Limits under which nothing can run, and limits that nobody holds while all calls that wait for them are parked.
    pub(super) async fn check_limits(&self) -> Result<Vec<Finding>, Error> {
        let limits = match self.limits().await {
            Err(Error::Broker(error)) if error.kind() == BrokerErrorKind::WrongType => {
                return Ok(Finding::refused("limits", &error).into_iter().collect());
            }
            limits => limits?,
        };
        let numbers = |limit: &LimitStatus| [limit.concurrency, limit.rate, limit.period_ms, limit.burst];
        let is_shut = |limit: &&LimitStatus| {
            let has_no_period = limit.rate.is_some() && limit.period_ms.is_none();
            numbers(limit).contains(&Some(0)) || has_no_period
        };
        let mut findings: Vec<Finding> = (limits.iter().filter(is_shut))
            .map(|limit| {
                let LimitStatus { name, waiting, .. } = limit;
                let text = format!("nothing can run under the limit {name}, and {waiting} calls wait for it");
                Finding::problem(
                    "limits",
                    text,
                    format!("set it with `limits set {name}`, or `limits remove {name}`"),
                )
            })
            .collect();
        for limit in &limits {
            let Some(problem) = &limit.problem else { continue };
            let text = format!("the limit {} cannot be read: {problem}", limit.name);
            findings.push(Finding::problem("limits", text, "rename or delete the key of another program"));
        }
        for limit in limits.iter().filter(|limit| !is_shut(limit)) {
            if self.is_forgotten(limit).await? {
                let LimitStatus { name, waiting, .. } = limit;
                let calls = plural(*waiting, "call waits", "calls wait");
                findings.push(Finding::warning(
                    "limits",
                    format!("nobody holds the limit {name}, but {calls} for it"),
                    "start a worker or a sweeper of their queues: its sweep lets them run, as does `limits set`",
                ));
            }
        }
        if findings.is_empty() && !limits.is_empty() {
            let (held, waiting) = limits
                .iter()
                .fold((0, 0), |(held, waiting), limit| (held + limit.held, waiting + limit.waiting));
            findings.push(Finding::ok(
                "limits",
                format!("{} set; {held} calls hold them, {waiting} wait", limits.len()),
            ));
        }
        Ok(findings)
    }

    /// Whether nobody holds a limit that calls wait for, and none of these calls has been told to run: such a call is in its
    /// queue. Of a longer line than is read, the queues may not all be known, and the answer is no.
    async fn is_forgotten(&self, limit: &LimitStatus) -> Result<bool, Error> {
        if limit.held > 0 || limit.waiting == 0 {
            return Ok(false);
        }
        let Ok(name) = LimitName::parse(&limit.name) else { return Ok(false) };
        let queues: BTreeSet<&String> = limit.waiters.iter().collect();
        let mut parked = 0;
        for queue in queues {
            let Ok(queue) = QueueName::parse(queue) else { continue };
            parked += self.broker.parked_count(&QueueKeys::new(&queue), &name).await?;
        }
        Ok(parked >= limit.waiting)
    }
}
