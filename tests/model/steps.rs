//! What does each step do to the state?

use super::protections::Protection;
use super::system::{Action, State, System};
use super::wait::Token;
use super::worker::{Answer, Kind, Phase, Slot, SlotNumber, Verdict};
use super::world::{Message, Seq, Wire};

/// Numbers that lie further apart than this are brought nearer: only what can be reached by single steps counts.
const FAR: Seq = 8;

impl State {
    pub(super) fn act(&mut self, system: &System, action: Action) {
        match action {
            Action::Enqueue | Action::EnqueueReplyLost => {
                let call = &mut self.calls[usize::from(self.next)];
                call.sent += 1;
                self.world.enqueue(&[self.next]);
                if action == Action::Enqueue {
                    call.acknowledged = true;
                    self.next += 1;
                } else {
                    self.left.reply_lost -= 1; // and the client sends it again
                }
            }
            Action::Push => {
                self.calls[usize::from(self.next)].sent += 1;
                self.world.waiting.push(self.next);
                self.next += 1;
                self.half = true;
            }
            Action::PushToken => {
                self.world.tokens += 1;
                self.calls[usize::from(self.next - 1)].acknowledged = true;
                self.half = false;
            }
            Action::ProducerDies => {
                self.left.half -= 1;
                self.half = false;
            }
            Action::Pop(worker) => {
                self.world.tokens -= 1;
                self.workers[worker].token = Some(Token::Popped);
            }
            Action::PopReplyLost => {
                self.left.reply_lost -= 1;
                self.world.tokens -= 1;
            }
            Action::Wait(worker, step) => self.act_wait(worker, step),
            Action::Reader(step) => self.act_reader(step),
            Action::Asks(worker, ask) => self.workers[worker].send(ask, system.jump()),
            Action::RedisReads(worker) => self.read(system, worker),
            Action::RedisRefuses(worker) => {
                self.left.refuse -= 1;
                self.workers[worker].answers.push(Answer::Refused);
            }
            Action::RedisReadsLate(worker, at) => {
                self.left.late -= 1;
                let request = self.workers[worker].late.remove(at);
                self.workers[worker].late_wait &= !request.is_pick_up();
                let answer = request.apply(&mut self.world, worker, system.slots);
                self.note(&answer);
                self.note_runs(system, worker, &request.kind, &answer);
                self.finish_read(system, worker, &request.kind, answer);
            }
            Action::Hears(worker) => self.hear(system, worker),
            Action::OthersDied(first) => self.others_died(first),
            Action::IsPoisoned(worker) => {
                self.dragged |= system.drags(&self.workers[worker]);
                self.workers[worker].end(Phase::Crashed);
            }
            Action::Succeeds(worker, slot) => self.ends(worker, slot, Slot::Succeeded),
            Action::Fails(worker, slot, verdict) => {
                self.left.fail -= 1;
                let Slot::Runs(message) = self.workers[worker].slots[usize::from(slot)] else { return };
                self.ends(worker, slot, Slot::Failed(message, verdict));
            }
            Action::Beats(worker) => {
                let slots = self.workers[worker].these(|slot| *slot != Slot::Free);
                let wires: Vec<Wire> = slots.into_iter().map(|slot| system.wire(worker, slot)).collect();
                self.world.beat(worker, &wires);
            }
            Action::ConnectionBreaks(worker) => {
                self.left.cut -= 1;
                self.workers[worker].lose_connection();
            }
            Action::Crashes(worker) => {
                self.left.crash -= 1;
                self.workers[worker].end(Phase::Crashed);
            }
            Action::IsSilent(worker) => {
                self.left.silence -= 1;
                for wire in self.wires(system, worker) {
                    self.expire(wire);
                }
            }
            Action::ClockJumps => {
                self.left.jump -= 1;
                (0..).take(self.world.live.len()).for_each(|wire| self.expire(wire));
            }
            Action::IsForgotten(worker) => {
                self.left.forget -= 1;
                self.forget(system, worker);
            }
            Action::IsToldToStop(worker) => {
                self.left.stop -= 1;
                self.workers[worker].phase = Phase::Closing;
            }
            Action::Resigns(worker) => self.resign(system, worker),
            Action::GivesUp(worker) => {
                self.left.give_up -= 1;
                self.resign(system, worker);
            }
            Action::LiveKeyExpires(wire) => self.expire(wire),
            Action::Sweeps => {
                let swept = self.world.requeue_lost(system.max_deaths);
                swept.requeued.iter().for_each(|(wire, message)| self.excuse_lapsed(*wire, *message));
                for (wire, message) in swept.requeued.iter().chain(&swept.buried) {
                    self.calls[usize::from(*message)].killed += u8::from(self.noted[usize::from(*wire)]);
                }
                let killed = |message: Message| usize::from(self.calls[usize::from(message)].killed);
                self.buried_early |=
                    swept.buried.iter().any(|(_, message)| killed(*message) < system.max_deaths);
            }
            Action::Looks(sweeper) => self.sweepers[sweeper].gap = self.world.gap(),
            Action::Balances(sweeper) => {
                let gap = std::mem::take(&mut self.sweepers[sweeper].gap);
                self.world.balance(gap);
            }
            Action::Sees(sweeper, wire) => {
                let message = self.world.owned_by(wire).expect("it was seen");
                self.sweepers[sweeper].seen = Some((wire, message));
            }
            Action::Moves(sweeper) => {
                let (wire, message) = self.sweepers[sweeper].seen.take().expect("it was seen");
                self.world.waiting.insert(0, message);
                self.world.tokens += 1;
                self.world.remove(wire);
                self.excuse_lapsed(wire, message);
            }
        }
    }

    fn wires(&self, system: &System, worker: usize) -> Vec<Wire> {
        let slots = self.workers[worker].these(|_| true);
        slots.into_iter().map(|slot| system.wire(worker, slot)).collect()
    }

    fn expire(&mut self, wire: Wire) {
        self.world.live[usize::from(wire)] = false;
        self.lapsed[usize::from(wire)] = true;
    }

    /// Four leases without a beat: the live keys have gone, and the number.
    fn forget(&mut self, system: &System, worker: usize) {
        for wire in self.wires(system, worker) {
            self.expire(wire);
        }
        self.world.numbers[worker] = None;
        self.forgotten[worker] = true;
        if !system.very_late {
            self.workers[worker].late.clear();
            self.workers[worker].late_wait = false;
        }
    }

    fn resign(&mut self, system: &System, worker: usize) {
        let wires = self.wires(system, worker);
        wires.iter().for_each(|wire| self.lapsed[usize::from(*wire)] = true);
        self.world.resign(worker, &wires);
        self.workers[worker].end(Phase::Ended);
    }

    fn read(&mut self, system: &System, worker: usize) {
        let at = self.workers[worker].answers.len();
        let request = self.workers[worker].asked[at].clone();
        let answer = request.apply(&mut self.world, worker, system.slots);
        self.note(&answer);
        self.note_runs(system, worker, &request.kind, &answer);
        self.workers[worker].answers.push(answer.clone());
        self.finish_read(system, worker, &request.kind, answer);
    }

    /// What a script of several steps leaves for a later one.
    fn finish_read(&mut self, system: &System, worker: usize, kind: &Kind, answer: Answer) {
        match (kind, answer) {
            (Kind::Claim { slots, .. }, Answer::Claimed(claimed))
                if !system.has(Protection::ClaimIsOneStep) =>
            {
                for (slot, _) in slots.iter().zip(&claimed.messages) {
                    self.world.remove(system.wire(worker, *slot));
                }
            }
            (Kind::Settle(_, message, Verdict::Retry), Answer::Settled(true)) => {
                self.calls[usize::from(*message)].excused += 1;
                if !system.has(Protection::RetryIsOneStep) {
                    self.world.waiting.pop();
                    self.world.tokens -= 1;
                }
            }
            _ => {}
        }
    }

    /// Notes what a script did to calls.
    fn note(&mut self, answer: &Answer) {
        match answer {
            Answer::Claimed(claimed) => {
                claimed.released.iter().for_each(|message| self.calls[usize::from(*message)].released += 1);
            }
            Answer::PutBack(messages) => {
                messages.iter().for_each(|message| self.calls[usize::from(*message)].excused += 1);
            }
            _ => {}
        }
    }

    /// Notes what runs alone as far as Redis knows.
    fn note_runs(&mut self, system: &System, worker: usize, kind: &Kind, answer: &Answer) {
        match (kind, answer) {
            (Kind::Begin(slot), Answer::Begun(true)) => {
                self.noted[usize::from(system.wire(worker, *slot))] = true;
            }
            (Kind::Claim { slots, .. }, Answer::Claimed(_)) => {
                slots.iter().for_each(|slot| self.noted[usize::from(system.wire(worker, *slot))] = false);
            }
            _ => {}
        }
    }

    fn hear(&mut self, system: &System, worker: usize) {
        let (request, answer) =
            (self.workers[worker].asked[0].kind.clone(), self.workers[worker].answers[0].clone());
        let mut begun = self.workers[worker].hear();
        let put_back = self.leave_alone(system, worker, &request, &answer);
        begun.retain(|message| !put_back.contains(message));
        for message in begun {
            let call = &mut self.calls[usize::from(message)];
            call.begun += 1;
            let found = matches!(answer, Answer::Reconciled(_));
            call.excused += u8::from(found && self.forgotten[worker]);
        }
        match (request, answer) {
            (Kind::Claim { slots, .. }, Answer::Claimed(claimed)) => {
                for (slot, message) in slots.iter().zip(&claimed.messages) {
                    let wire = system.wire(worker, *slot);
                    if !system.has(Protection::ClaimIsOneStep) {
                        self.world.write(wire, *message);
                    }
                    if !system.has(Protection::LiveKeyFirst) {
                        self.world.live[usize::from(wire)] = true;
                    }
                }
            }
            (Kind::Settle(_, message, Verdict::Retry), Answer::Settled(true))
                if !system.has(Protection::RetryIsOneStep) =>
            {
                self.world.enqueue(&[message]);
            }
            (Kind::Reconcile(_), Answer::Reconciled(reconciled))
                if !system.has(Protection::ReconcileFences) =>
            {
                let applied = reconciled.applied.unwrap_or(0);
                self.workers[worker].seq = applied;
                self.workers[worker].applied = applied;
            }
            _ => {}
        }
    }

    fn ends(&mut self, worker: usize, slot: SlotNumber, now: Slot) {
        self.workers[worker].alone.retain(|(other, _)| *other != slot);
        let slot = &mut self.workers[worker].slots[usize::from(slot)];
        if let Slot::Runs(message) = std::mem::replace(slot, now) {
            self.calls[usize::from(message)].ended = true;
        }
    }

    /// A sweep may bring back what the dead and the silent own.
    fn excuse_lapsed(&mut self, wire: Wire, message: Message) {
        self.calls[usize::from(message)].excused += u8::from(self.lapsed[usize::from(wire)]);
    }

    /// Leaves out what makes no difference to what may come, so that fewer states are different.
    pub(super) fn make_small(&mut self, system: &System) {
        self.world.processing.sort_unstable();
        self.sweepers.sort_unstable();
        for wire in 0..self.world.live.len() {
            let owned = self.world.processing.iter().any(|(owner, _)| usize::from(*owner) == wire);
            self.world.live[wire] &= owned;
            self.lapsed[wire] &= owned && !self.world.live[wire];
            self.noted[wire] &= owned;
        }
        if self.left.late == 0 {
            for worker in &mut self.workers {
                worker.late.clear();
                worker.late_wait = false;
            }
        }
        // Only where numbers are forgotten is the first call told from the others.
        let least = if system.faults.forget > 0 { 2 } else { 1 };
        for (worker, known) in self.workers.iter_mut().zip(&mut self.world.numbers) {
            let mut known_numbers: Vec<&mut Seq> = Vec::new();
            if let Some(known) = known {
                known_numbers.push(&mut known.seq);
                if let Some((fence, applied)) = &mut known.fence {
                    known_numbers.push(fence);
                    known_numbers.extend(applied);
                }
            }
            bring_near(least, known_numbers.into_iter().chain(worker.numbers()).collect());
        }
    }
}

/// Makes numbers small: the same order, the same neighbours, no wide gaps, and none that were above `least` below it.
fn bring_near(least: Seq, mut numbers: Vec<&mut Seq>) {
    numbers.sort_unstable();
    let Some(first) = numbers.first() else { return };
    let (mut before, mut now) = (**first, (**first).min(least));
    for number in numbers {
        now += (*number - before).min(FAR);
        before = std::mem::replace(number, now);
    }
}
