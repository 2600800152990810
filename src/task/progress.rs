//! Carries what a run says of its progress to whoever follows its call.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::protocol::call_id::CallId;
use crate::protocol::names::QueueName;

/// The least time between two reports of progress of one run.
const INTERVAL: Duration = Duration::from_millis(100);
/// The most bytes of a line, and of the text of a progress.
const LONGEST: usize = 4096;

/// What a run says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Note {
    /// How much of it is done, from 0 to 1, and what it does.
    Progress(f64, String),
    /// A line for the log of the call.
    Line(String),
}

/// What a run said, and which.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "worker"), expect(dead_code))]
pub(crate) struct RunNote {
    pub(crate) queue: QueueName,
    pub(crate) slot: usize,
    pub(crate) id: CallId,
    pub(crate) note: Note,
}

/// Where notes go. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Reporter(Arc<dyn Fn(RunNote) + Send + Sync>);

/// The notes of one run.
#[derive(Debug)]
pub(crate) struct Notes {
    reporter: Reporter,
    slot: usize,
    id: CallId,
    last: Mutex<Option<Instant>>,
}

impl Reporter {
    #[cfg_attr(not(feature = "worker"), expect(dead_code))]
    pub(crate) fn new(report: impl Fn(RunNote) + Send + Sync + 'static) -> Self {
        Self(Arc::new(report))
    }

    /// Hands a note on.
    pub(crate) fn report(&self, note: RunNote) {
        (self.0)(note);
    }
}

impl Notes {
    pub(crate) fn new(reporter: Reporter, slot: usize, id: CallId) -> Self {
        Self { reporter, slot, id, last: Mutex::default() }
    }

    /// Reports progress, unless the last report was a moment ago.
    pub(crate) fn progress(&self, queue: &QueueName, share: f64, text: String) {
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if share < 1.0 && last.is_some_and(|last| last.elapsed() < INTERVAL) {
            return;
        }
        *last = Some(Instant::now());
        self.report(queue, Note::Progress(share, shortened(text)));
    }

    /// Adds a line to the log of the call.
    pub(crate) fn line(&self, queue: &QueueName, line: String) {
        self.report(queue, Note::Line(shortened(line)));
    }

    fn report(&self, queue: &QueueName, note: Note) {
        let (slot, id) = (self.slot, self.id);
        self.reporter.report(RunNote { queue: queue.clone(), slot, id, note });
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
    }
    text
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reporter")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_reported_now_and_then_and_at_the_end() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&heard);
        let reporter = Reporter::new(move |note| told.lock().unwrap().push(note.note));
        let notes = Notes::new(reporter, 0, CallId::new());
        let queue = QueueName::default();
        for share in [0.1, 0.2, f64::NAN, 1.5] {
            notes.progress(&queue, share, "reading".into());
        }
        notes.line(&queue, "é".repeat(LONGEST));
        let heard = heard.lock().unwrap();
        let [Note::Progress(first, _), Note::Progress(last, _), Note::Line(line)] = &heard[..] else {
            panic!("expected two reports and a line: {heard:?}")
        };
        assert_eq!((*first, *last, line.len()), (0.1, 1.0, LONGEST));
    }
}
