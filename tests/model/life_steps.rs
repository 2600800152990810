//! What does each step change? Each script of `lua/` that knows options is one step.

use super::life::{Action, Cancelling, End, Id, Life, Record, State, Work};
use super::life_rules::Rule;

impl State {
    pub(super) fn act(&mut self, life: &Life, action: Action) {
        match action {
            Action::Submits(id) => self.submit(id),
            Action::IsDue => self.calls[0].is_due = true,
            Action::Promotes => self.promote(),
            Action::Sees(process) => self.seen[process] = true,
            Action::Moves(process) => {
                self.seen[process] = false;
                self.promote();
            }
            Action::Claims(worker, id) => {
                self.take(worker, id);
                let is_marked = self.calls[id].is_marked && life.has(Rule::ClaimReadsMarks);
                self.workers[worker] = Work::Claimed(id, is_marked);
            }
            Action::ClaimIsLost(worker, id) => {
                self.left.lost -= 1;
                self.take(worker, id);
                self.workers[worker] = Work::Doubts;
            }
            Action::Reconciles(worker) => {
                let owned = self.slots[worker];
                let is_marked = |id: Id| self.calls[id].is_marked && life.has(Rule::ReconcileReadsMarks);
                self.workers[worker] = owned.map_or(Work::Idle, |id| Work::Claimed(id, is_marked(id)));
            }
            Action::Begins(worker) => self.begin(worker),
            Action::StartIsRead(at) => self.start(life, at),
            Action::HearsOfIt(worker) => {
                if let Work::Runs(_, killed) = &mut self.workers[worker] {
                    *killed = true;
                }
            }
            Action::Ends(worker, end) => {
                if let Work::Runs(id, _) = self.workers[worker] {
                    self.left.fail -= u8::from(matches!(end, End::Retries | End::IsBuried));
                    self.workers[worker] = Work::Ended(id, end);
                }
            }
            Action::Settles(worker) => self.settle(life, worker),
            Action::Cancels => self.cancel(life),
            Action::Crashes(worker) => {
                self.left.crash -= 1;
                self.workers[worker] = Work::Died;
            }
            Action::IsSwept(worker) => {
                self.left.silence -= u8::from(self.workers[worker] != Work::Died);
                let id = self.slots[worker].take().expect("it owns something");
                self.calls[id].waiting += 1;
                self.note(id, Record::Waiting);
                self.kills[worker] = None;
            }
        }
    }

    /// Writes the state of a record.
    fn note(&mut self, id: Id, state: Record) {
        let record = &mut self.calls[id].record;
        self.came_back |= record.is_final() && *record != state;
        *record = state;
    }

    fn submit(&mut self, id: Id) {
        let is_free = self.lock.is_none();
        let call = &mut self.calls[id];
        (call.sent, call.refused) = (true, !is_free);
        if is_free {
            self.lock = Some(id);
            (call.scheduled, call.waiting) = if id == 0 { (1, 0) } else { (0, 1) };
            call.record = if id == 0 { Record::Scheduled } else { Record::Waiting };
        }
    }

    fn promote(&mut self) {
        self.was_early |= !self.calls[0].is_due;
        self.calls[0].scheduled = self.calls[0].scheduled.saturating_sub(1);
        self.calls[0].waiting += 1;
        self.note(0, Record::Waiting);
    }

    fn take(&mut self, worker: usize, id: Id) {
        self.calls[id].waiting -= 1;
        self.slots[worker] = Some(id);
    }

    fn begin(&mut self, worker: usize) {
        let Work::Claimed(id, is_marked) = self.workers[worker] else { return };
        if is_marked {
            self.workers[worker] = Work::Ended(id, End::IsCancelled);
            return;
        }
        // A worker that was silent for long does not know yet that its call was taken away.
        let is_its = self.slots[worker] == Some(id);
        self.began_cancelled |= id == 0
            && is_its
            && match self.cancelling {
                Cancelling::Scheduled | Cancelling::Waiting => true,
                // Who had claimed it before may hear of it behind its begin.
                Cancelling::Running(owner) => owner != worker,
                _ => false,
            };
        self.calls[id].begun = (self.calls[id].begun + 1).min(2);
        self.starts.push((worker, id));
        self.workers[worker] = Work::Runs(id, false);
    }

    fn start(&mut self, life: &Life, at: usize) {
        let (worker, id) = self.starts.remove(at);
        let is_its = self.slots[worker] == Some(id) && !self.calls[id].record.is_final();
        if is_its || !life.has(Rule::StartAsksForItsSlot) {
            self.note(id, Record::Running);
            if life.until_started {
                self.unlock(life, id);
            }
        }
    }

    fn unlock(&mut self, life: &Life, id: Id) {
        if self.lock == Some(id) || !life.has(Rule::LockIsAsked) {
            self.freed_anothers |= self.lock.is_some_and(|holder| holder != id);
            self.lock = None;
        }
    }

    /// A call comes to its end.
    fn end(&mut self, life: &Life, id: Id, state: Record) {
        self.calls[id].ended += 1;
        self.note(id, state);
        if state != Record::Dead || life.has(Rule::EveryEndFreesTheLock) {
            self.unlock(life, id);
        }
        if life.has(Rule::EveryEndDropsTheMark) {
            self.calls[id].is_marked = false;
        }
    }

    fn settle(&mut self, life: &Life, worker: usize) {
        let Work::Ended(id, end) = self.workers[worker] else { return };
        self.workers[worker] = Work::Idle;
        if self.slots[worker] != Some(id) && life.has(Rule::EndAsksForItsSlot) {
            return;
        }
        self.slots[worker] = None;
        self.kills[worker] = None;
        match end {
            End::Succeeds => self.end(life, id, Record::Succeeded),
            End::IsBuried => self.end(life, id, Record::Dead),
            End::IsCancelled => self.end(life, id, Record::Cancelled),
            End::Retries => {
                let call = &mut self.calls[id];
                call.retried += 1;
                // One goes back to the timetable, the other has no back-off.
                (call.scheduled, call.waiting) = if id == 0 { (1, 0) } else { (0, 1) };
                self.note(id, Record::Retrying);
                if !life.has(Rule::RetryKeepsTheLock) {
                    self.unlock(life, id);
                }
                self.calls[id].is_marked &= life.has(Rule::RetryKeepsTheMark);
            }
        }
    }

    /// `src/broker/cancelling.rs`, for the first call.
    fn cancel(&mut self, life: &Life) {
        let marks_first = life.has(Rule::MarkComesBeforeTheSearch);
        self.cancelling = match self.cancelling {
            Cancelling::No if !marks_first => self.search(life, Cancelling::Searched),
            Cancelling::Marked => self.search(life, Cancelling::Waiting),
            _ => match self.mark(life) {
                Cancelling::Marked if !marks_first => Cancelling::Waiting,
                next => next,
            },
        };
    }

    /// `lua/cancel.lua`.
    fn mark(&mut self, life: &Life) -> Cancelling {
        if self.calls[0].scheduled > 0 {
            self.calls[0].scheduled = 0;
            self.end(life, 0, Record::Cancelled);
            return Cancelling::Scheduled;
        }
        let has_ended = self.calls[0].record.is_final();
        self.calls[0].is_marked |= !has_ended || !life.has(Rule::CancelAsksForTheEnd);
        if has_ended { Cancelling::Ended } else { Cancelling::Marked }
    }

    fn search(&mut self, life: &Life, not_found: Cancelling) -> Cancelling {
        if let Some(owner) = self.slots.iter().position(|slot| *slot == Some(0)) {
            self.kills[owner] = Some(0);
            return Cancelling::Running(owner);
        }
        match self.calls[0].record {
            Record::Succeeded | Record::Dead => {
                self.calls[0].is_marked &= !life.has(Rule::EveryEndDropsTheMark);
                Cancelling::Ended
            }
            _ => not_found,
        }
    }
}
