//! What may happen next? Workers, their connections, producers, sweepers and faults around one queue.

use stateright::{Model, Property};

use super::protections::Protection;
use super::wait::{Reader, ReaderStep, WaitStep};
use super::worker::{Ask, Phase, Request, Slot, SlotNumber, Verdict, Worker, wire_of};
use super::world::{Message, Seq, Wire, World};

/// How far a reconcile jumps ahead.
const JUMP: Seq = 100;

/// How often each fault may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Faults {
    /// A worker dies.
    pub(super) crash: u8,
    /// A worker's connection breaks.
    pub(super) cut: u8,
    /// A worker is silent for longer than its lease.
    pub(super) silence: u8,
    /// The clock of Redis jumps by a lease: every live key expires.
    pub(super) jump: u8,
    /// The number of a worker's last call expires.
    pub(super) forget: u8,
    /// Redis refuses a request.
    pub(super) refuse: u8,
    /// The reply to an enqueue, or to a `BLPOP`, is lost.
    pub(super) reply_lost: u8,
    /// A producer dies between its two pushes.
    pub(super) half: u8,
    /// A worker is told to stop.
    pub(super) stop: u8,
    /// A worker that stops gives up before all is settled.
    pub(super) give_up: u8,
    /// A run fails.
    pub(super) fail: u8,
    /// A request is read after its sender gave it up.
    pub(super) late: u8,
}

/// What is explored.
#[derive(Debug, Clone, Copy)]
pub(super) struct System {
    pub(super) workers: usize,
    /// How many of the workers move tokens into the hand and pick up behind their waits; the others pop them.
    pub(super) movers: usize,
    pub(super) slots: usize,
    pub(super) messages: usize,
    /// Whether a foreign worker pops tokens too.
    pub(super) reader: bool,
    /// Whether sweepers mend the tokens.
    pub(super) balances: bool,
    /// Whether the producer pushes message and token in two steps.
    pub(super) two_pushes: bool,
    pub(super) max_deaths: usize,
    /// Whether the last two calls come from processes that died of them: see `suspects.rs`.
    pub(super) suspects: bool,
    /// Whether all calls have the same bytes.
    pub(super) alike: bool,
    /// Runs never end.
    pub(super) endless: bool,
    pub(super) faults: Faults,
    /// Whether requests of a broken connection may be read when the worker's number has expired, four leases later.
    pub(super) very_late: bool,
    pub(super) without: Option<Protection>,
}

/// What happened to a call: for the properties alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Call {
    pub(super) acknowledged: bool,
    pub(super) sent: u8,
    pub(super) begun: u8,
    /// It was run to its end.
    pub(super) ended: bool,
    pub(super) released: u8,
    /// How often it may run once more, since a fault allows it.
    pub(super) excused: u8,
    /// How many workers died, or were silent for long, while they ran it alone.
    pub(super) killed: u8,
}

/// A sweeper between two of its steps.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Sweeper {
    pub(super) gap: isize,
    pub(super) seen: Option<(Wire, Message)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) world: World,
    pub(super) workers: Vec<Worker>,
    pub(super) sweepers: [Sweeper; 2],
    pub(super) reader: Option<Reader>,
    /// The foreign worker had a token and found no message.
    pub(super) found_nothing: bool,
    /// A process died of a suspect and had another one.
    pub(super) dragged: bool,
    /// A call was buried before enough workers had died while they ran it alone.
    pub(super) buried_early: bool,
    /// By wire id: Redis has noted that it runs what it owns alone.
    pub(super) noted: Vec<bool>,
    pub(super) calls: Vec<Call>,
    /// By wire id: its live key went since its owner was silent, or dead.
    pub(super) lapsed: Vec<bool>,
    pub(super) forgotten: Vec<bool>,
    /// How many calls were sent.
    pub(super) next: Message,
    /// The token of the last one is still to come.
    pub(super) half: bool,
    pub(super) left: Faults,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Enqueue,
    EnqueueReplyLost,
    /// Others that owned the last two calls; this one comes back first.
    OthersDied(Message),
    Push,
    PushToken,
    ProducerDies,
    Pop(usize),
    PopReplyLost,
    Wait(usize, WaitStep),
    Reader(ReaderStep),
    Asks(usize, Ask),
    RedisReads(usize),
    RedisRefuses(usize),
    RedisReadsLate(usize, usize),
    Hears(usize),
    Succeeds(usize, SlotNumber),
    IsPoisoned(usize),
    Fails(usize, SlotNumber, Verdict),
    Beats(usize),
    ConnectionBreaks(usize),
    Crashes(usize),
    IsSilent(usize),
    ClockJumps,
    IsForgotten(usize),
    IsToldToStop(usize),
    Resigns(usize),
    GivesUp(usize),
    LiveKeyExpires(Wire),
    Sweeps,
    Looks(usize),
    Balances(usize),
    Sees(usize, Wire),
    Moves(usize),
}

impl System {
    pub(super) fn has(&self, protection: Protection) -> bool {
        self.without != Some(protection)
    }

    pub(super) fn wire(&self, worker: usize, slot: SlotNumber) -> Wire {
        wire_of(if self.has(Protection::WireIdsAreDrawn) { worker } else { 0 }, self.slots, slot)
    }

    pub(super) fn jump(&self) -> Seq {
        if self.has(Protection::ReconcileJumpsFar) { JUMP } else { 1 }
    }

    /// What goes on by itself, without any fault. When this is empty, all is at rest.
    fn progress(&self, state: &State, actions: &mut Vec<Action>) {
        if state.half {
            actions.push(Action::PushToken);
        } else if self.first_suspect() == Some(state.next) {
            actions.extend([state.next, state.next + 1].map(Action::OthersDied));
        } else if usize::from(state.next) < self.messages {
            actions.push(if self.two_pushes { Action::Push } else { Action::Enqueue });
        }
        let tempting = state.is_tempting();
        for (number, worker) in state.workers.iter().enumerate() {
            if self.listens(number, worker) && state.world.tokens > 0 {
                actions.push(Action::Pop(number));
            }
            actions.extend(worker.may_ask(tempting).into_iter().map(|ask| Action::Asks(number, ask)));
            if worker.can_be_read() {
                actions.push(Action::RedisReads(number));
            }
            if !worker.answers.is_empty() {
                actions.push(Action::Hears(number));
            }
            let mut runs = worker.these(|slot| matches!(slot, Slot::Runs(_)));
            runs.retain(|slot| worker.has_begun(*slot));
            if !self.endless {
                let end = |slot| self.end_of_run(number, slot, &worker.slots[usize::from(slot)]);
                actions.extend(runs.into_iter().map(end));
            }
            let owned = worker.these(|slot| *slot != Slot::Free);
            if worker.lives() && owned.iter().any(|slot| self.is_owned_and_dead(state, number, *slot)) {
                actions.push(Action::Beats(number));
            }
            if worker.may_resign() {
                actions.push(Action::Resigns(number));
            }
        }
        self.waiting(state, actions);
        for (wire, _) in &state.world.processing {
            if state.world.live[usize::from(*wire)] && !self.is_covered(state, *wire) {
                actions.push(Action::LiveKeyExpires(*wire));
            }
        }
        self.sweeping(state, actions);
    }

    fn is_owned_and_dead(&self, state: &State, worker: usize, slot: SlotNumber) -> bool {
        let wire = self.wire(worker, slot);
        !state.world.live[usize::from(wire)] && state.world.owned_by(wire).is_some()
            // Its claim makes the key.
            && state.workers[worker].slots[usize::from(slot)] != Slot::Asked
    }

    fn is_covered(&self, state: &State, wire: Wire) -> bool {
        let slots = 0..SlotNumber::try_from(self.slots).expect("few slots");
        state.workers.iter().enumerate().any(|(number, worker)| {
            slots.clone().any(|slot| self.wire(number, slot) == wire && worker.covers(slot))
        })
    }

    fn sweeping(&self, state: &State, actions: &mut Vec<Action>) {
        let asked = self.has(Protection::LeaseIsAsked);
        let is_dead = |wire: Wire| !asked || !state.world.live[usize::from(wire)];
        let mut dead = state.world.processing.iter().filter(|(wire, _)| is_dead(*wire));
        if self.has(Protection::RequeueIsOneStep) {
            actions.extend(dead.next().map(|_| Action::Sweeps));
        } else {
            for (number, sweeper) in state.sweepers.iter().enumerate() {
                match sweeper.seen {
                    Some(_) => actions.push(Action::Moves(number)),
                    None => actions.extend(dead.clone().map(|(wire, _)| Action::Sees(number, *wire))),
                }
            }
        }
        if !(self.balances && self.has(Protection::TokensAreBalanced)) {
            return;
        }
        let gap = state.world.gap();
        for (number, sweeper) in state.sweepers.iter().enumerate() {
            // Also without a gap: what was left in the hand is dropped.
            if sweeper.gap != 0 || (gap <= 0 && state.world.hand > 0) {
                actions.push(Action::Balances(number));
            } else if gap < 0 || (gap > 0 && state.world.tokens == 0) {
                actions.push(Action::Looks(number));
            }
        }
    }

    fn faults(&self, state: &State, actions: &mut Vec<Action>) {
        let left = &state.left;
        self.wait_faults(state, left, actions);
        if left.reply_lost > 0 {
            if !self.two_pushes && usize::from(state.next) < self.messages {
                actions.push(Action::EnqueueReplyLost);
            }
            let mut workers = state.workers.iter().enumerate();
            if state.world.tokens > 0 && workers.any(|(number, worker)| self.listens(number, worker)) {
                actions.push(Action::PopReplyLost);
            }
        }
        if left.jump > 0 && !state.world.processing.is_empty() {
            actions.push(Action::ClockJumps);
        }
        if state.half && left.half > 0 {
            actions.push(Action::ProducerDies);
        }
        for (number, worker) in state.workers.iter().enumerate() {
            if left.late > 0 {
                actions.extend((0..worker.late.len()).map(|at| Action::RedisReadsLate(number, at)));
            }
            if !worker.lives() {
                continue;
            }
            if left.crash > 0 {
                actions.push(Action::Crashes(number));
            }
            if left.cut > 0 && !worker.asked.is_empty() && !worker.picks_up() {
                actions.push(Action::ConnectionBreaks(number));
            }
            if left.refuse > 0 && worker.can_be_read() {
                actions.push(Action::RedisRefuses(number));
            }
            let mut slots = 0..SlotNumber::try_from(self.slots).expect("few slots");
            if left.silence > 0 && slots.any(|slot| state.world.owned_by(self.wire(number, slot)).is_some()) {
                actions.push(Action::IsSilent(number));
            }
            if left.forget > 0 && state.world.numbers[number].is_some() {
                actions.push(Action::IsForgotten(number));
            }
            if left.stop > 0 && worker.phase == Phase::Up {
                actions.push(Action::IsToldToStop(number));
            }
            if left.give_up > 0 && worker.phase == Phase::Closing {
                actions.push(Action::GivesUp(number));
            }
            if left.fail > 0 {
                for slot in worker.these(|slot| matches!(slot, Slot::Runs(_))) {
                    actions.push(Action::Fails(number, slot, Verdict::Retry));
                    actions.push(Action::Fails(number, slot, Verdict::Bury));
                }
            }
        }
    }

    /// Nothing goes on, and nothing will until somebody acts.
    pub(super) fn is_at_rest(&self, state: &State) -> bool {
        let busy = |worker: &Worker| {
            !worker.asked.iter().all(Request::is_pick_up)
                || worker.slots.iter().any(|slot| matches!(slot, Slot::Runs(_)))
        };
        if state.half || usize::from(state.next) < self.messages || state.workers.iter().any(busy) {
            return false;
        }
        let mut actions = Vec::new();
        self.progress(state, &mut actions);
        actions.is_empty()
    }
}

impl Model for System {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut world = World::new(self.workers, self.slots);
        world.without = self.without;
        world.alike = self.alike;
        world.leases.fill(true);
        let mut state = State {
            lapsed: vec![false; world.live.len()],
            noted: vec![false; world.live.len()],
            dragged: false,
            buried_early: false,
            forgotten: vec![false; self.workers],
            workers: vec![Worker::new(self.slots); self.workers],
            sweepers: Default::default(),
            reader: self.reader.then_some(Reader::Waits),
            found_nothing: false,
            calls: vec![Call::default(); self.messages],
            next: 0,
            half: false,
            left: self.faults,
            world,
        };
        self.do_at_once(&mut state);
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.progress(state, actions);
        self.faults(state, actions);
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        state.act(self, action);
        self.do_at_once(&mut state);
        state.make_small(self);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        super::properties::all()
    }
}
