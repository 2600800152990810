//! Does what a key asks for, as the commands do it.

use crate::inspect::{Inspector, Selection};
use crate::protocol::call_id::CallId;
use crate::protocol::call_state::Cancelled;
use crate::protocol::names::QueueName;
use crate::task::error::chain;

/// Something to do, once it was confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    Pause(String),
    Resume(String),
    Cancel { queue: String, id: String },
    Kill { queue: String, id: String },
    Requeue { queue: String, letter: String },
    Delete { queue: String, letter: String },
}

impl Action {
    /// What is asked before.
    pub(super) fn question(&self) -> String {
        match self {
            Self::Pause(queue) => format!("Pause {queue}?"),
            Self::Resume(queue) => format!("Resume {queue}?"),
            Self::Cancel { id, .. } => format!("Cancel the call {id}?"),
            Self::Kill { id, .. } => format!("Kill the run of {id}?"),
            Self::Requeue { letter, .. } => format!("Requeue the dead letter {letter}?"),
            Self::Delete { letter, .. } => format!("Delete the dead letter {letter}, for good?"),
        }
    }
}

/// Does it. Returns what is to be said: that it was done, or why not.
pub(super) async fn carry_out(inspector: &Inspector, action: &Action, by: &str) -> Result<String, String> {
    let queue = |name: &str| QueueName::parse(name).map_err(|error| error.to_string());
    let failed = |error: crate::error::Error| chain(&error);
    match action {
        Action::Pause(name) => {
            let change = inspector.pause(&queue(name)?, by).await.map_err(failed)?;
            Ok(if change.changed { format!("paused {name}") } else { format!("{name} was paused already") })
        }
        Action::Resume(name) => {
            let change = inspector.resume(&queue(name)?, by).await.map_err(failed)?;
            Ok(if change.changed { format!("resumed {name}") } else { format!("{name} was not paused") })
        }
        Action::Cancel { queue: name, id } => {
            let ids = [CallId::from(id.as_str())];
            match inspector.cancel(&queue(name)?, &ids, by).await.map_err(failed)?.first() {
                Some(Cancelled::Ended(state)) => Err(format!("{id} had already ended: {state}")),
                Some(Cancelled::NotFound) | None => Err(format!("no call {id} is known any more")),
                Some(Cancelled::Running) => Ok(format!("{id} is running: its worker was asked to end it")),
                Some(_) => Ok(format!("cancelled {id}")),
            }
        }
        Action::Kill { queue: name, id } => {
            let killed = inspector.kill(id, &[queue(name)?], by).await.map_err(|error| chain(&error))?;
            Ok(format!("{id}: {:?}", killed.fate).to_lowercase())
        }
        Action::Requeue { queue: name, letter } => {
            let which = Selection::Ids(vec![letter.clone()]);
            let handled =
                inspector.requeue_dead(&queue(name)?, &which, &mut |_, _| ()).await.map_err(failed)?;
            match (handled.done, handled.locked.first()) {
                (0, Some((call, holder))) => {
                    Err(format!("{call} stays dead: it is unique, and {holder} holds its lock"))
                }
                (0, None) => Err(format!("there is no dead letter {letter} any more")),
                _ => Ok(format!("requeued {letter}")),
            }
        }
        Action::Delete { queue: name, letter } => {
            let which = Selection::Ids(vec![letter.clone()]);
            let handled =
                inspector.delete_dead(&queue(name)?, &which, &mut |_, _| ()).await.map_err(failed)?;
            if handled.done == 0 {
                Err(format!("there is no dead letter {letter} any more"))
            } else {
                Ok(format!("deleted {letter}"))
            }
        }
    }
}
