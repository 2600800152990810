//! Writes the progress of runs into the records of their calls, at most ten times a second for each call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;

use crate::broker::{Broker, RunNotes};
use crate::protocol::call_id::CallId;
use crate::task::progress::{Note, RunNote};
use crate::worker::queue::served::ServedQueue;

/// How long notes are collected.
const GATHER: Duration = Duration::from_millis(100);

/// Writes all notes, until the last run is gone. A note that cannot be written is dropped.
pub(super) async fn write_all(
    broker: Broker,
    queues: Vec<Arc<ServedQueue>>,
    mut received: UnboundedReceiver<RunNote>,
) {
    while let Some(first) = received.recv().await {
        tokio::time::sleep(GATHER).await;
        // In the order in which the runs began to speak: two may be of one call.
        let mut gathered: Vec<((String, usize, CallId), RunNotes)> = Vec::new();
        let mut places: HashMap<(String, usize, CallId), usize> = HashMap::new();
        let mut next = Some(first);
        while let Some(RunNote { queue, slot, id, note }) = next {
            let run = (queue.to_string(), slot, id);
            let place = *places.entry(run.clone()).or_insert_with(|| {
                gathered.push((run, RunNotes::default()));
                gathered.len() - 1
            });
            let notes = &mut gathered[place].1;
            match note {
                Note::Progress(share, text) => notes.progress = Some((share, text)),
                Note::Line(line) => {
                    notes.lines.push_str(&line.replace('\n', " "));
                    notes.lines.push('\n');
                }
            }
            next = received.try_recv().ok();
        }
        for ((queue, slot, id), notes) in gathered {
            let Some(served) = queues.iter().find(|served| served.queue.as_str() == queue) else { continue };
            if let Err(error) = broker.note(&served.keys, served.wire_id(slot), id, &notes).await {
                tracing::debug!(queue = %served.queue, call_id = %id, %error, "progress not written");
            }
        }
    }
}
