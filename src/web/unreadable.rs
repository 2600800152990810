//! Shows which queues cannot be read beside those that can: keys of other programs may stand in their places.

use maud::{Markup, html};

use super::failure::Failure;
use super::visit::Visit;
use crate::broker::BrokerErrorKind;
use crate::error::Error;
use crate::inspect::QueueStatus;
use crate::protocol::names::QueueName;
use crate::task::error::chain;

/// The queues that cannot be read, and why.
#[derive(Debug, Default)]
pub(super) struct Unreadable(Vec<(String, String)>);

impl Unreadable {
    /// What was read of a queue; `None` if one of its keys has a wrong type.
    pub(super) fn or_none<T>(
        &mut self,
        queue: &QueueName,
        read: Result<T, Error>,
    ) -> Result<Option<T>, Failure> {
        match read {
            Err(error) if is_of_type(&error) => {
                self.0.push((queue.to_string(), chain(&error)));
                Ok(None)
            }
            read => Ok(Some(read?)),
        }
    }

    /// Those of which that is known.
    pub(super) fn known(queues: &[QueueStatus]) -> Self {
        let problems = queues.iter().filter_map(|queue| Some((queue.queue.clone(), queue.problem.clone()?)));
        Self(problems.collect())
    }

    pub(super) fn show(&self, visit: &Visit) -> Markup {
        html! {
            @if !self.0.is_empty() {
                ul.warnings {
                    @for (queue, problem) in &self.0 {
                        li.problem { a href=(visit.link("/queue", &[("queue", queue)])) { (queue) } ": " (problem) }
                    }
                }
            }
        }
    }
}

fn is_of_type(error: &Error) -> bool {
    matches!(error, Error::Broker(error) if error.kind() == BrokerErrorKind::WrongType)
}
