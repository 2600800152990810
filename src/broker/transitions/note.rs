//! Note: writes the progress of a run into the record of its call.

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::protocol::call_id::CallId;
use crate::protocol::keys::QueueKeys;

/// The progress of a run since the last note.
#[derive(Debug, Default)]
pub(crate) struct RunNotes {
    /// How much is done, from 0 to 1, and what the run is doing.
    pub(crate) progress: Option<(f64, String)>,
    /// Lines for the log, each ending in a line feed.
    pub(crate) lines: String,
}

impl Broker {
    /// Writes the progress of the run in a slot.
    pub(crate) async fn note(
        &self,
        keys: &QueueKeys,
        wire_id: &str,
        id: CallId,
        notes: &RunNotes,
    ) -> Result<(), BrokerError> {
        let (share, text) = match &notes.progress {
            Some((share, text)) => (share.to_string(), text.as_str()),
            None => (String::new(), ""),
        };
        let bytes = keys.queue.len() + wire_id.len() + text.len() + notes.lines.len() + 48;
        let mut command = script::NOTE.command(&[&keys.processing], 6, bytes);
        command.arg(&keys.queue).arg(wire_id).arg(&id.as_bytes()[..]).arg(share).arg(text).arg(&notes.lines);
        script::NOTE.run(&mut self.commands.clone(), command).await.map(drop)
    }
}
