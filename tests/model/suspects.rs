//! What becomes of a message that kills its processes, and of one that was there when others died?
//!
//! The last two calls of such a world come from two processes that died while they owned both: the first of the two is
//! poison, the other one is innocent.

use super::protections::Protection;
use super::system::{Action, State, System};
use super::worker::{Answer, Kind, Phase, Slot, SlotNumber, Verdict, Worker};
use super::world::{Message, World};

/// Processes of which nothing is left but their deaths.
const GONE: [u8; 2] = [100, 101];

impl System {
    /// What kills the process that runs it, if this world has such a thing.
    pub(super) fn poison(&self) -> Option<Message> {
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

    /// What is to run alone begins when no request is under way or to be made.
    pub(super) fn begin_alone(&self, worker: &mut Worker) {
        let waits = !worker.asked.is_empty() || !worker.doubt.is_empty();
        let ended = worker.slots.iter().any(|slot| matches!(slot, Slot::Succeeded | Slot::Failed(..)));
        if !(waits || ended) || !self.has(Protection::SuspectBeginsLast) {
            worker.alone.iter_mut().for_each(|(_, begun)| *begun = true);
        }
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
            self.world.deaths.insert(message, GONE.to_vec());
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
        for slot in alone {
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
            && self.deaths.get(&message).is_some_and(|died| died.len() >= 2)
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
