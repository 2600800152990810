//! Writes what runs say of their progress into the records of their calls: at most ten times a second for each.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::broker::{Broker, Said};
use crate::protocol::call_id::CallId;
use crate::task::progress::{Note, RunNote};
use crate::worker::queue::served::ServedQueue;

/// How long notes are gathered.
const GATHER: Duration = Duration::from_millis(100);

/// Writes all notes, until the last run is gone. A note that cannot be written is dropped.
pub(super) async fn write_all(
    broker: Broker,
    queues: Vec<Arc<ServedQueue>>,
    mut notes: UnboundedReceiver<RunNote>,
) {
    while let Some(first) = notes.recv().await {
        tokio::time::sleep(GATHER).await;
        let mut said: HashMap<(String, usize, CallId), Said> = HashMap::new();
        let mut next = Some(first);
        while let Some(RunNote { queue, slot, id, note }) = next {
            let said = said.entry((queue.to_string(), slot, id)).or_default();
            match note {
                Note::Progress(share, text) => said.progress = Some((share, text)),
                Note::Line(line) => {
                    said.lines.push_str(&line.replace('\n', " "));
                    said.lines.push('\n');
                }
            }
            next = notes.try_recv().ok();
        }
        for ((queue, slot, id), said) in said {
            let Some(served) = queues.iter().find(|served| served.queue.as_str() == queue) else { continue };
            if let Err(error) = broker.note(&served.keys, served.wire_id(slot), id, &said).await {
                tracing::debug!(queue = %served.queue, call_id = %id, %error, "progress not written");
            }
        }
    }
}
