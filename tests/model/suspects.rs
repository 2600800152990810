//! What becomes of a message that kills its processes, and of one that was there when others died?
//!
//! The last two calls of such a world come from two processes that died while they owned both: the first of the two is
//! poison, the other one is innocent. Where all calls are alike, both are innocent.

use super::deaths::Deaths;
use super::protections::Protection;
use super::system::{Action, State, System};
use super::worker::{Answer, Kind, Phase, Slot, SlotNumber, Verdict, Worker};
use super::world::{Message, World};

/// Processes of which nothing is left but their deaths.
const GONE: [u8; 2] = [100, 101];

impl System {
    /// What kills the process that runs it, if this world has such a thing.
    pub(super) fn poison(&self) -> Option<Message> {
        self.first_suspect().filter(|_| !self.alike)
    }

    /// The first of the two calls that come from the dead.
    pub(super) fn first_suspect(&self) -> Option<Message> {
        self.suspects.then(|| Message::try_from(self.messages - 2).expect("few messages"))
    }

    /// What is not to be buried.
    pub(super) fn is_innocent(&self, message: Message) -> bool {
        self.poison().is_some_and(|poison| message != poison)
    }

    /// How a call comes to its end by itself.
    pub(super) fn end_of_run(&self, worker: usize, slot: SlotNumber, runs: &Slot) -> Action {
        match (runs, self.poison()) {
            (Slot::Runs(message), Some(poison)) if *message == poison => Action::IsPoisoned(worker),
            _ => Action::Succeeds(worker, slot),
        }
    }

    /// What is to run alone begins when no request is under way or to be made, and Redis has noted that.
    pub(super) fn begin_alone(&self, worker: &mut Worker) {
        let waits = !worker.asked.is_empty() || !worker.doubt.is_empty();
        let ended = worker.slots.iter().any(|slot| matches!(slot, Slot::Succeeded | Slot::Failed(..)));
        let is_asked = |slot: &SlotNumber| {
            let mut requests = worker.asked.iter().chain(&worker.doubt);
            requests.any(|request| request.kind == Kind::Begin(*slot))
        };
        let next = worker.alone.iter().find(|(slot, begun)| !begun && !is_asked(slot));
        if let Some((slot, _)) = next.copied()
            && worker.phase == Phase::Up
            && !worker.refused
            && (!(waits || ended) || !self.has(Protection::SuspectBeginsLast))
        {
            worker.ask(Kind::Begin(slot));
        }
    }

    /// Whether a process that dies of its poison has the other suspect, too.
    pub(super) fn drags(&self, worker: &Worker) -> bool {
        worker.slots.iter().any(|slot| match slot {
            Slot::Runs(message) | Slot::Failed(message, _) => {
                Some(*message) > self.poison() && self.poison().is_some()
            }
            Slot::Free | Slot::Asked | Slot::Succeeded => false,
        })
    }
}

impl State {
    /// Two processes have died that owned the last two calls, and a sweep brings them back, this one first.
    pub(super) fn others_died(&mut self, first: Message) {
        let poison = self.next;
        let second = if first == poison { poison + 1 } else { poison };
        for message in [second, first] {
            let call = &mut self.calls[usize::from(message)];
            (call.sent, call.acknowledged) = (1, true);
            self.world.deaths.insert(self.world.digest(message), Deaths::of(GONE.to_vec()));
            self.world.waiting.insert(0, message);
            self.world.tokens += 1;
        }
        self.next += 2;
    }

    /// Notes what is to run alone of what a worker just got. Gives what does not run, since something else does.
    pub(super) fn leave_alone(
        &mut self,
        system: &System,
        worker: usize,
        kind: &Kind,
        answer: &Answer,
    ) -> Vec<Message> {
        let alone: Vec<SlotNumber> = match (kind, answer) {
            (Kind::Claim { slots, .. }, Answer::Claimed(claimed)) if claimed.suspects == 2 => vec![slots[0]],
            (Kind::Reconcile(slots), Answer::Reconciled(reconciled)) => {
                reconciled.alone.iter().map(|place| slots[place - 1]).collect()
            }
            _ => Vec::new(),
        };
        let one_at_a_time = system.has(Protection::SecondSuspectIsPutBack);
        let worker = &mut self.workers[worker];
        let mut kept = Vec::new();
        // One that was to begin when the connection broke is known already.
        let known: Vec<SlotNumber> = worker.alone.iter().map(|(slot, _)| *slot).collect();
        for slot in alone.into_iter().filter(|slot| !known.contains(slot)) {
            if let Slot::Runs(message) = worker.slots[usize::from(slot)]
                && !worker.begin_alone(slot, message, one_at_a_time)
            {
                kept.push(message);
            }
        }
        kept
    }
}

impl World {
    /// What two processes died of runs alone.
    pub(super) fn runs_alone(&self, message: Message) -> bool {
        self.has(Protection::SuspectComesAlone)
            && self.deaths.get(&self.digest(message)).is_some_and(|deaths| deaths.processes.len() >= 2)
    }
}

impl Worker {
    /// Whether it claims.
    pub(super) fn accepts(&self) -> bool {
        self.phase == Phase::Up && self.alone.is_empty()
    }

    /// Whether what it has in a slot has begun.
    pub(super) fn has_begun(&self, slot: SlotNumber) -> bool {
        !self.alone.contains(&(slot, false))
    }

    /// Redis has noted that a slot runs its message alone, unless that was taken away.
    pub(super) fn on_begun(&mut self, slot: SlotNumber, owned: bool) {
        if owned {
            self.alone.iter_mut().filter(|(other, _)| *other == slot).for_each(|(_, begun)| *begun = true);
        } else {
            self.slots[usize::from(slot)] = Slot::Free;
            self.alone.retain(|(other, _)| *other != slot);
        }
    }

    /// A slot got a message that is to run alone. Whether it runs: a second one is put back.
    pub(super) fn begin_alone(&mut self, slot: SlotNumber, message: Message, one_at_a_time: bool) -> bool {
        if one_at_a_time && !self.alone.is_empty() {
            self.slots[usize::from(slot)] = Slot::Failed(message, Verdict::PutBack);
            return false;
        }
        self.alone.push((slot, false));
        true
    }
}
