//! Counts log lines that repeat: the first few of an event in a minute are printed, of the others how many there were.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// For how long equal events are counted before the next line.
pub(crate) const WINDOW: Duration = Duration::from_secs(60);
/// How many events are told apart at a time: names of them may come from whoever sends calls.
const MOST: usize = 1000;

/// How often each event has happened in its window.
#[derive(Debug)]
pub(crate) struct Repeats<K> {
    /// How many are printed before others are counted.
    few: u32,
    seen: HashMap<K, Seen>,
    /// When the first window ends in which something was counted, or a little earlier.
    due: Option<Instant>,
}

#[derive(Debug)]
struct Seen {
    until: Instant,
    printed: u32,
    counted: u64,
}

impl<K: Eq + Hash + Clone> Repeats<K> {
    pub(crate) fn new(few: u32) -> Self {
        Self { few, seen: HashMap::new(), due: None }
    }

    /// Notes an event. It is to be printed, with the number of those before it that were only counted, or it is counted.
    pub(crate) fn note(&mut self, event: K, now: Instant) -> Option<u64> {
        if let Some(seen) = self.seen.get_mut(&event) {
            if now >= seen.until {
                let counted = std::mem::take(&mut seen.counted);
                // While it goes on it has one line in a window.
                seen.printed = if counted > 0 { self.few } else { 1 };
                seen.until = now + WINDOW;
                return Some(counted);
            }
            if seen.printed < self.few {
                seen.printed += 1;
                return Some(0);
            }
            seen.counted += 1;
            self.due = Some(self.due.map_or(seen.until, |due| due.min(seen.until)));
            return None;
        }
        if self.seen.len() >= MOST {
            self.seen.retain(|_, seen| now < seen.until || seen.counted > 0);
        }
        if self.seen.len() >= MOST {
            return None;
        }
        self.seen.insert(event, Seen { until: now + WINDOW, printed: 1, counted: 0 });
        Some(0)
    }

    /// When [`Self::take_due`] may have something to tell.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The events whose windows are over, and how many of each were counted in it.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<(K, u64)> {
        let mut due = Vec::new();
        if self.due.is_none_or(|due| now < due) {
            return due;
        }
        let few = self.few;
        self.seen.retain(|event, seen| {
            if now < seen.until {
                return true;
            }
            let counted = std::mem::take(&mut seen.counted);
            (seen.printed, seen.until) = (few, now + WINDOW);
            if counted > 0 {
                due.push((event.clone(), counted));
            }
            counted > 0
        });
        let counted = self.seen.values().filter(|seen| seen.counted > 0);
        self.due = counted.map(|seen| seen.until).min();
        due
    }

    /// All events that were counted and not told.
    pub(crate) fn take_all(&mut self) -> Vec<(K, u64)> {
        self.due = None;
        let all = self.seen.drain().map(|(event, seen)| (event, seen.counted));
        all.filter(|(_, counted)| *counted > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_few_are_printed_and_then_one_in_a_window() {
        let mut repeats = Repeats::new(2);
        let began = Instant::now();
        let second = Duration::from_secs(1);
        let noted: Vec<_> = (0..5).map(|n| repeats.note("a", began + n * second)).collect();
        assert_eq!(noted, [Some(0), Some(0), None, None, None]);
        assert_eq!(repeats.note("b", began), Some(0), "expected another event to be told apart");
        assert_eq!(repeats.note("a", began + WINDOW), Some(3));
        assert_eq!(repeats.note("a", began + WINDOW + second), None, "expected it to go on");
        assert!(repeats.due().is_some_and(|due| due <= began + 2 * WINDOW));
        assert_eq!(repeats.take_due(began + 2 * WINDOW - second), []);
        assert_eq!(repeats.due(), Some(began + 2 * WINDOW));
        assert_eq!(repeats.take_due(began + 2 * WINDOW), [("a", 1)]);
        assert_eq!(repeats.note("a", began + 2 * WINDOW + second), None);
        assert_eq!(repeats.take_due(began + 3 * WINDOW), [("a", 1)]);
        assert_eq!(repeats.take_due(began + 4 * WINDOW), [], "expected it to be over");
        assert_eq!(repeats.due(), None);
        assert_eq!(repeats.note("a", began + 4 * WINDOW), Some(0), "expected it to begin anew");
    }

    #[test]
    fn what_was_counted_is_told_at_the_end() {
        let mut repeats = Repeats::new(1);
        let now = Instant::now();
        for _ in 0..4 {
            repeats.note("a", now);
        }
        repeats.note("b", now);
        assert_eq!(repeats.take_all(), [("a", 3)]);
        assert_eq!(repeats.take_all(), []);
    }

    #[test]
    fn names_without_end_take_no_memory_without_end() {
        let mut repeats = Repeats::new(1);
        let now = Instant::now();
        let printed = (0..3 * MOST).filter(|n| repeats.note(*n, now).is_some()).count();
        assert_eq!((printed, repeats.seen.len()), (MOST, MOST));
        assert_eq!(repeats.note(usize::MAX, now + WINDOW), Some(0), "expected old ones to be forgotten");
    }
}
