//! Tracks whether a queue is paused: from notices of operators, replies to claims, and heartbeats.
//!
//! The worker neither claims from a paused queue nor waits for it. Operators publish each change, so that a resumed queue
//! is claimed from at once. If the notice is missed, the next heartbeat notices the change.

use std::time::Instant;

use crate::broker::Notice;
use crate::worker::queue::{QueueEvent, Queues};

/// News about pauses.
#[derive(Debug)]
pub(in crate::worker) enum PauseEvent {
    /// An operator has just published this.
    Published(Notice),
    /// Notices are received from now on; earlier ones may have been missed.
    Listening,
    /// A heartbeat sent at `sent` found the queue paused by `by`, or not paused.
    Beat { queue: usize, by: Option<String>, sent: Instant },
}

/// The known pause of one queue.
#[derive(Debug, Default)]
pub(super) struct Pause {
    is_paused: bool,
    /// The state as last logged.
    is_logged: bool,
    /// When it was last paused or resumed. Answers to earlier requests do not count.
    changed: Option<Instant>,
}

impl Pause {
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Whether a request made at this time reflects the last change.
    fn counts(&self, made: Instant) -> bool {
        self.changed.is_none_or(|changed| changed <= made)
    }

    /// Records the current state. Returns whether the log should mention it.
    fn set(&mut self, is_paused: bool) -> bool {
        (self.is_paused, self.changed) = (is_paused, Some(Instant::now()));
        std::mem::replace(&mut self.is_logged, is_paused) != is_paused
    }
}

impl Queues {
    /// Whether a queue is paused, so that nothing is claimed from it.
    pub(in crate::worker) fn is_paused(&self, queue: usize) -> bool {
        self.clients[queue].pause().is_paused()
    }

    /// Handles news about pauses.
    pub(in crate::worker) fn on_pause_news(&mut self, news: PauseEvent) {
        match news {
            PauseEvent::Published(Notice::Paused { queue, is_paused, by }) => {
                let index = self.clients.iter().position(|client| client.served().queue == queue);
                if let Some(index) = index {
                    self.set_paused(index, is_paused, Some(&by));
                }
            }
            PauseEvent::Published(Notice::Due { .. }) => {}
            PauseEvent::Listening => (0..self.clients.len()).for_each(|index| self.ask_again(index)),
            PauseEvent::Beat { queue, by, sent } => {
                let pause = self.clients[queue].pause();
                if pause.counts(sent) && pause.is_paused() != by.is_some() {
                    self.set_paused(queue, by.is_some(), by.as_deref());
                }
            }
        }
    }

    /// Handles a claim, made at `made`, that found the queue paused by somebody, or not paused.
    pub(super) fn on_claim_of(&mut self, index: usize, made: Instant, paused_by: Option<&str>) {
        let pause = self.clients[index].pause();
        match paused_by {
            Some(_) if !pause.counts(made) => self.wake(index), // It was resumed meanwhile, perhaps.
            Some(by) => self.set_paused(index, true, Some(by)),
            None if pause.is_logged && pause.counts(made) => self.set_paused(index, false, None),
            None => {}
        }
    }

    /// Makes the next claim find out whether a queue is still paused.
    fn ask_again(&mut self, index: usize) {
        if self.is_paused(index) {
            self.clients[index].pause_mut().is_paused = false;
            self.wake(index);
        }
    }

    fn set_paused(&mut self, index: usize, is_paused: bool, by: Option<&str>) {
        let client = &mut self.clients[index];
        let is_news = client.pause_mut().set(is_paused);
        client.served().note_paused(is_paused);
        if is_paused {
            client.supply_mut().drain();
            self.events.push_back(QueueEvent::Paused { queue: index });
        } else {
            self.wake(index);
        }
        let queue = self.name(index);
        match is_paused {
            _ if !is_news => {}
            true => tracing::info!(%queue, by, "queue paused"),
            false => tracing::info!(%queue, by, "queue resumed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_is_logged_once_and_older_replies_do_not_count() {
        let (mut pause, before) = (Pause::default(), Instant::now());
        assert!(pause.counts(before) && !pause.is_paused());
        assert!(pause.set(true), "expected a line for the log");
        assert!(!pause.set(true), "expected it once");
        assert!(pause.is_paused() && pause.counts(Instant::now()));
        assert!(!pause.counts(before), "expected what was asked before not to count");
        assert!(pause.set(false));
    }
}
