//! Pauses queues, and resumes them.

use serde::Serialize;

use crate::broker::Paused;
use crate::error::Error;
use crate::inspect::Inspector;
use crate::protocol::keys::QueueKeys;
use crate::protocol::names::QueueName;

/// The longest name of who pauses a queue, in bytes.
const MAX_BY: usize = 200;

/// A pause of a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Pause {
    /// When it began, in milliseconds since 1970 by the server's clock.
    pub since_ms: u64,
    /// Who paused the queue.
    pub by: String,
}

/// The result of pausing or resuming a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PauseChange {
    /// The queue.
    pub queue: String,
    /// Whether the queue is paused now.
    pub paused: bool,
    /// Whether this changed anything: the queue may already have been paused, or not paused.
    pub changed: bool,
    /// The pause that holds, or that was ended. `None` if the queue was not paused, and is not.
    pub pause: Option<Pause>,
}

impl From<Paused> for Pause {
    fn from(Paused { since_ms, by }: Paused) -> Self {
        Self { since_ms, by }
    }
}

impl Inspector {
    /// Pauses a queue: Rust workers claim nothing more from it, beginning with their next claim. Running calls
    /// continue, and are released; prefetched calls are put back. Calls can still be enqueued and scheduled. If the
    /// queue is already paused, the time and the name of that pause stay.
    ///
    /// Python and Go workers, and workers of an older version, ignore pauses.
    ///
    /// `by` says who pauses it: at most 200 bytes are kept, and control characters become spaces.
    ///
    /// ```no_run
    /// # async fn example(inspector: delayed::Inspector) -> Result<(), delayed::Error> {
    /// let mail = "mail".parse()?;
    /// inspector.pause(&mail, "anna").await?;
    /// // … repair the mail server …
    /// inspector.resume(&mail, "anna").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Redis cannot be reached or used, or the key of the pause is another program's.
    pub async fn pause(&self, queue: &QueueName, by: &str) -> Result<PauseChange, Error> {
        let (pause, changed) = self.broker.pause(&QueueKeys::new(queue), &kept(by)).await?;
        Ok(PauseChange { queue: queue.to_string(), paused: true, changed, pause: Some(pause.into()) })
    }

    /// Resumes a queue: its workers claim again immediately. `by` says who resumes it, for the logs of the workers, as
    /// with [`pause`](Self::pause).
    ///
    /// # Errors
    /// Redis cannot be reached or used, or the key of the pause is another program's.
    pub async fn resume(&self, queue: &QueueName, by: &str) -> Result<PauseChange, Error> {
        let pause = self.broker.resume(&QueueKeys::new(queue), &kept(by)).await?.map(Pause::from);
        Ok(PauseChange { queue: queue.to_string(), paused: false, changed: pause.is_some(), pause })
    }
}

/// What is kept of a name.
fn kept(by: &str) -> String {
    let end = (0..=MAX_BY.min(by.len())).rev().find(|end| by.is_char_boundary(*end));
    by[..end.unwrap_or(0)].replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_cut_between_characters_and_has_no_controls() {
        assert_eq!(kept("ann\n\u{1b}at home"), "ann  at home");
        assert_eq!(kept(&"é".repeat(150)), "é".repeat(100));
        assert_eq!(kept(&format!("a{}", "é".repeat(150))).len(), 199);
    }
}
