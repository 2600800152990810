//! Handles the replies about messages that a limit does not let run yet.

use crate::broker::{Place, Scheduled};
use crate::worker::queue::request::{Request, RequestKind};
use crate::worker::queue::{Lost, QueueEvent, Queues};

impl Queues {
    /// Handles parked messages; `count` of them were still owned by this worker.
    pub(super) fn on_parked(&mut self, request: Request, count: u64) {
        let Request { queue, kind: RequestKind::Park { slots, .. }, .. } = request else { return };
        let lost = (slots.len() as u64).saturating_sub(count);
        slots.into_iter().for_each(|slot| self.moved(queue, slot));
        self.note_lost(queue, Lost(lost));
    }

    /// Handles messages that were to be moved to the timetable.
    pub(super) fn on_deferred(&mut self, request: Request, moved: &[Scheduled]) {
        let Request { queue, kind: RequestKind::Defer { slots, waits }, .. } = request else { return };
        for ((slot, (_, wait)), moved) in slots.into_iter().zip(waits).zip(moved) {
            match moved {
                Scheduled::Done => {
                    self.moved(queue, slot);
                    self.timetable.note(&self.served(queue).keys, wait);
                }
                Scheduled::Lost => {
                    self.moved(queue, slot);
                    self.note_lost(queue, Lost(1));
                }
                Scheduled::Refused => self.put_back(queue, slot, Place::Tail),
            }
        }
    }

    fn moved(&mut self, queue: usize, slot: usize) {
        self.clients[queue].free(slot, &mut self.slots);
        self.clients[queue].supply_mut().note_known();
        self.events.push_back(QueueEvent::Settled { slot, is_done: false });
    }
}
