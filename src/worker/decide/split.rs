//! Decides about the items of a batch of which some failed.

use crate::protocol::message::Message;
use crate::runner::Outcome;
use crate::task::{FailedItems, RetryWhen, TaskOptions};
use crate::worker::decide::{Policy, retry, snooze};
use crate::worker::settlement::{BuriedCall, Part, Settlement};

/// How many bytes the errors of all items may have together: they are sent in one request.
const DETAILS: usize = 4 << 20;

/// Splits a batch: each item that failed goes on by itself. `None` if the message is one call as a whole, because it keeps a
/// record, is unique or a step of a flow, or if its items are not those of the run.
pub(super) fn split(
    message: &Message<'_>,
    failed: &FailedItems,
    call: BuriedCall,
    options: &TaskOptions,
    policy: &Policy,
) -> Option<Settlement> {
    let is_one_call = message.tracking().is_some() || message.member().is_some();
    let items = (!is_one_call).then(|| message.items())??;
    if items.len() != failed.of as usize {
        return None;
    }
    let longest = DETAILS / failed.items.len().max(1);
    let parts = failed.items.iter().map(|(place, error)| {
        let alone = message.with_item(items.get(*place as usize)?);
        let message = Message::decode(&alone).ok()?;
        let outcome = Outcome::Failed(error.clone());
        let again = |delay| retry(&message, &outcome, options, policy, delay);
        let settlement = match error.again() {
            RetryWhen::Never => None,
            RetryWhen::Snoozed(delay) => Some(snooze(&message, delay, policy)),
            RetryWhen::After(delay) => again(Some(delay)),
            RetryWhen::AfterBackoff => again(None),
        };
        Some(match settlement {
            Some(Settlement::Retry { message }) => Part::Retry { message },
            Some(Settlement::RetryLater { message, id, delay }) => {
                Part::RetryLater { message, id, delay, is_snoozed: error.is_snooze() }
            }
            _ => {
                let attempt = message.attempts().saturating_add(1);
                Part::Bury { detail: cut(error.to_string(), longest), attempt, message: alone }
            }
        })
    });
    Some(Settlement::Split { parts: parts.collect::<Option<_>>()?, call })
}

/// At most the first `longest` bytes of a text, which is shortened already.
fn cut(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        let end = (0..=longest).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}
