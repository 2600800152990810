//! What does a worker know, what does it ask, and what does it make of the answer? `src/worker` without its clocks:
//! `turn.rs`, `claim.rs`, `settle.rs`, `doubt.rs` and `lane.rs`, for one queue.

use super::protections::Protection;
use super::wait::{Token, Wait};
use super::world::{Claim, Claimed, MOVED, Message, Place, Reconciled, Seq, Stale, Wire, World};

/// A slot of a worker, by number.
pub(super) type SlotNumber = u8;

/// How many requests are under way at the most.
const REQUESTS: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Slot {
    Free,
    /// A request about it is under way, or in doubt.
    Asked,
    Runs(Message),
    Succeeded,
    Failed(Message, Verdict),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Verdict {
    Retry,
    Bury,
    /// Unchanged, to the head of the queue.
    PutBack,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Up,
    /// It claims nothing more, and puts back what runs.
    Closing,
    Ended,
    Crashed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Releases the first `released` slots, and claims for all of them or for none.
    Claim {
        slots: Vec<SlotNumber>,
        released: usize,
        claims: bool,
        in_hand: Option<Token>,
        /// It was sent behind a wait.
        picks_up: bool,
    },
    /// Notes that it runs a suspect, alone.
    Begin(SlotNumber),
    Settle(SlotNumber, Message, Verdict),
    PutBack(Vec<(SlotNumber, Message)>),
    Reconcile(Vec<SlotNumber>),
}

/// A call of a script.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Request {
    pub(super) seq: Seq,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    Claimed(Claimed),
    Begun(bool),
    Settled(bool),
    PutBack(Vec<Message>),
    Reconciled(Reconciled),
    Stale,
    /// Redis refused it and did nothing.
    Refused,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Worker {
    pub(super) phase: Phase,
    pub(super) slots: Vec<Slot>,
    /// Slots that run something alone, and whether it has begun.
    pub(super) alone: Vec<(SlotNumber, bool)>,
    /// The token that it was woken with.
    pub(super) token: Option<Token>,
    /// Its wait, on a connection of its own.
    pub(super) wait: Option<Wait>,
    pub(super) seq: Seq,
    pub(super) applied: Seq,
    pub(super) refused: bool,
    /// Requests under way, in the order of their numbers.
    pub(super) asked: Vec<Request>,
    /// Answers to the first of them.
    pub(super) answers: Vec<Answer>,
    /// Requests of which it does not know whether they were applied.
    pub(super) doubt: Vec<Request>,
    /// Requests that Redis may still read from a connection that is broken.
    pub(super) late: Vec<Request>,
    /// Redis does not know yet that the connection of its wait is broken.
    pub(super) late_wait: bool,
}

impl From<Stale> for Answer {
    fn from(_: Stale) -> Self {
        Self::Stale
    }
}

impl Request {
    fn slots(&self) -> Vec<SlotNumber> {
        match &self.kind {
            Kind::Claim { slots, .. } | Kind::Reconcile(slots) => slots.clone(),
            Kind::Begin(slot) | Kind::Settle(slot, ..) => vec![*slot],
            Kind::PutBack(slots) => slots.iter().map(|(slot, _)| *slot).collect(),
        }
    }

    /// Redis reads it.
    pub(super) fn apply(&self, world: &mut World, worker: usize, slots: usize) -> Answer {
        let seq = self.seq;
        // Ids drawn at random are no other worker's.
        let owner = if world.has(Protection::WireIdsAreDrawn) { worker } else { 0 };
        let wire = |slot: SlotNumber| wire_of(owner, slots, slot);
        let done = match &self.kind {
            Kind::Claim { slots, released, claims, in_hand, picks_up } => {
                let ask = Claim {
                    in_hand: match in_hand {
                        None => 0,
                        Some(Token::Popped) => 1,
                        Some(Token::Moved) => MOVED,
                    },
                    forgive: *released,
                    released: *released,
                    kept: if *claims { 0 } else { *released },
                    wires: slots.iter().map(|slot| wire(*slot)).collect(),
                };
                let claimed = world.claim(worker, seq, &ask);
                if let Ok(claimed) = &claimed
                    && *picks_up
                    && !world.has(Protection::PickUpRenews)
                {
                    let live = &mut world.live;
                    ask.wires[..claimed.messages.len()]
                        .iter()
                        .for_each(|wire| live[usize::from(*wire)] = false);
                }
                claimed.map(Answer::Claimed)
            }
            Kind::Begin(slot) => world.begin(worker, seq, wire(*slot)).map(Answer::Begun),
            Kind::Settle(slot, message, Verdict::Retry) => {
                world.retry(worker, seq, wire(*slot), *message).map(Answer::Settled)
            }
            Kind::Settle(slot, message, Verdict::Bury) => {
                world.bury(worker, seq, wire(*slot), *message).map(Answer::Settled)
            }
            Kind::Settle(slot, message, Verdict::PutBack) => {
                let slots = [(wire(*slot), *message)];
                let put_back = world.put_back(worker, seq, Place::Head, &slots);
                put_back.map(|moved| Answer::Settled(moved.len() == 1))
            }
            Kind::PutBack(slots) => {
                let slots: Vec<_> = slots.iter().map(|(slot, message)| (wire(*slot), *message)).collect();
                world.put_back(worker, seq, Place::Head, &slots).map(Answer::PutBack)
            }
            Kind::Reconcile(slots) => {
                let wires: Vec<Wire> = slots.iter().map(|slot| wire(*slot)).collect();
                world.reconcile(worker, seq, &wires).map(Answer::Reconciled)
            }
        };
        done.unwrap_or_else(Answer::from)
    }
}

/// The wire id of a worker's slot.
pub(super) fn wire_of(worker: usize, slots: usize, slot: SlotNumber) -> Wire {
    Wire::try_from(worker * slots).expect("few slots") + slot
}

impl Worker {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            phase: Phase::Up,
            slots: vec![Slot::Free; slots],
            alone: Vec::new(),
            token: None,
            wait: None,
            seq: 0,
            applied: 0,
            refused: false,
            asked: Vec::new(),
            answers: Vec::new(),
            doubt: Vec::new(),
            late: Vec::new(),
            late_wait: false,
        }
    }

    pub(super) fn lives(&self) -> bool {
        matches!(self.phase, Phase::Up | Phase::Closing)
    }

    pub(super) fn these(&self, which: impl Fn(&Slot) -> bool) -> Vec<SlotNumber> {
        (0..).zip(&self.slots).filter(|(_, slot)| which(slot)).map(|(number, _)| number).collect()
    }

    fn has(&self, which: impl Fn(&Slot) -> bool) -> bool {
        self.slots.iter().any(which)
    }

    /// Whether it keeps the live key of this slot.
    pub(super) fn covers(&self, slot: SlotNumber) -> bool {
        self.lives() && self.slots[usize::from(slot)] != Slot::Free
    }

    /// Whether it is done: nothing is left to settle, and a pick-up in doubt is not waited for.
    pub(super) fn may_resign(&self) -> bool {
        let doubtful: Vec<SlotNumber> = self.doubt.iter().flat_map(Request::slots).collect();
        self.phase == Phase::Closing
            && self.asked.is_empty()
            && self.wait.is_none()
            && self.token.is_none()
            && self.doubt.iter().all(Request::is_pick_up)
            && self.these(|slot| *slot != Slot::Free).iter().all(|slot| doubtful.contains(slot))
    }

    fn is_open(&self) -> bool {
        self.lives()
            && self.doubt.is_empty()
            && !self.refused
            && self.asked.len() < REQUESTS
            && !self.picks_up()
    }

    /// Whether it waits for a token.
    pub(super) fn listens(&self) -> bool {
        self.accepts() && self.token.is_none() && self.has(|slot| *slot == Slot::Free)
    }

    pub(super) fn ask(&mut self, kind: Kind) {
        self.seq += 1;
        self.asked.push(Request { seq: self.seq, kind });
    }

    /// What it may ask for now. `tempting` is whether a claim without a token in hand would bring something.
    pub(super) fn may_ask(&self, tempting: bool) -> Vec<Ask> {
        let mut asks = Vec::new();
        if self.lives() && !self.doubt.is_empty() && self.asked.is_empty() {
            asks.push(Ask::Reconcile);
        }
        if !self.is_open() {
            return asks;
        }
        let finished = self.has(|slot| *slot == Slot::Succeeded);
        let failed = self.these(|slot| matches!(slot, Slot::Failed(..)));
        let settled = failed.is_empty();
        if let Some(slot) = failed.first() {
            asks.push(Ask::Settle(*slot));
        }
        if self.accepts() {
            let wakes = self.token.is_some() || (tempting && self.wait.is_none());
            if finished || (wakes && self.has(|slot| *slot == Slot::Free)) {
                asks.push(Ask::Claim);
            }
        } else if finished {
            asks.push(Ask::Release);
        } else if self.phase == Phase::Closing
            && settled
            && self.asked.is_empty()
            && self.has(|slot| matches!(slot, Slot::Runs(_)))
        {
            asks.push(Ask::PutBack);
        }
        asks
    }

    /// Sends what it asks for.
    pub(super) fn send(&mut self, ask: Ask, jump: Seq) {
        match ask {
            Ask::Claim | Ask::Release | Ask::PickUp => {
                let mut slots = self.these(|slot| *slot == Slot::Succeeded);
                let released = slots.len();
                let (claims, picks_up) = (ask != Ask::Release, ask == Ask::PickUp);
                if claims {
                    let free = self.these(|slot| *slot == Slot::Free);
                    slots.extend(free.into_iter().take(if picks_up { 1 } else { usize::MAX }));
                }
                self.mark(&slots);
                let in_hand = if picks_up { Some(Token::Moved) } else { self.token.take_if(|_| claims) };
                self.ask(Kind::Claim { slots, released, claims, in_hand, picks_up });
            }
            Ask::Settle(slot) => {
                let Slot::Failed(message, verdict) = self.slots[usize::from(slot)] else { return };
                self.mark(&[slot]);
                self.ask(Kind::Settle(slot, message, verdict));
            }
            Ask::PutBack => {
                let runs = (0..).zip(&self.slots).filter_map(|(number, slot)| match slot {
                    Slot::Runs(message) => Some((number, *message)),
                    _ => None,
                });
                let runs: Vec<_> = runs.collect();
                self.mark(&runs.iter().map(|(slot, _)| *slot).collect::<Vec<_>>());
                self.ask(Kind::PutBack(runs));
            }
            Ask::Reconcile => {
                let mut slots: Vec<SlotNumber> = self.doubt.iter().flat_map(Request::slots).collect();
                slots.sort_unstable();
                slots.dedup();
                self.seq += jump;
                self.asked.push(Request { seq: self.seq, kind: Kind::Reconcile(slots) });
            }
        }
    }

    fn mark(&mut self, slots: &[SlotNumber]) {
        slots.iter().for_each(|slot| self.slots[usize::from(*slot)] = Slot::Asked);
    }

    fn set(&mut self, slot: SlotNumber, now: Slot) {
        self.slots[usize::from(slot)] = now;
    }

    /// Hears the next answer. Gives the messages that it runs from now on.
    pub(super) fn hear(&mut self) -> Vec<Message> {
        let (request, answer) = (self.asked.remove(0), self.answers.remove(0));
        if request.is_pick_up() {
            self.wait = None; // It has heard the end of that too.
        }
        if !matches!(answer, Answer::Stale | Answer::Refused) {
            self.applied = self.applied.max(request.seq);
        }
        let begun = match (answer, request) {
            (Answer::Claimed(claimed), Request { kind: Kind::Claim { slots, released, claims, .. }, .. }) => {
                slots.iter().for_each(|slot| self.set(*slot, Slot::Free));
                let open = if claims { &slots[..] } else { &slots[released..] };
                open.iter().zip(&claimed.messages).for_each(|(slot, m)| self.set(*slot, Slot::Runs(*m)));
                claimed.messages
            }
            (Answer::Begun(owned), Request { kind: Kind::Begin(slot), .. }) => {
                self.on_begun(slot, owned);
                Vec::new()
            }
            (Answer::Settled(_) | Answer::PutBack(_), request) => {
                request.slots().iter().for_each(|slot| self.set(*slot, Slot::Free));
                Vec::new()
            }
            (Answer::Reconciled(reconciled), Request { kind: Kind::Reconcile(slots), .. }) => {
                self.on_reconciled(&slots, &reconciled)
            }
            // What it asked about is still in doubt.
            (Answer::Stale | Answer::Refused, Request { kind: Kind::Reconcile(_), .. }) => Vec::new(),
            (Answer::Refused, request) => {
                self.refused = true;
                self.take_back(request);
                Vec::new()
            }
            (_, request) => {
                self.doubt.push(request);
                Vec::new()
            }
        };
        if self.refused && self.asked.is_empty() {
            self.refused = false;
            self.seq = self.applied;
        }
        begun
    }

    /// A request was not applied: its slots are as they were before it.
    fn take_back(&mut self, request: Request) {
        match request.kind {
            Kind::Claim { slots, released, in_hand, .. } => {
                for (place, slot) in slots.into_iter().enumerate() {
                    self.set(slot, if place < released { Slot::Succeeded } else { Slot::Free });
                }
                self.token = self.token.or(in_hand);
            }
            Kind::Settle(slot, message, verdict) => self.set(slot, Slot::Failed(message, verdict)),
            Kind::PutBack(slots) => {
                slots.into_iter().for_each(|(slot, message)| self.set(slot, Slot::Runs(message)));
            }
            // It is asked again.
            Kind::Begin(_) | Kind::Reconcile(_) => {}
        }
    }

    /// Knows now which requests in doubt were applied. Gives the messages that it runs from now on.
    fn on_reconciled(&mut self, slots: &[SlotNumber], reconciled: &Reconciled) -> Vec<Message> {
        let mut owned: Vec<(SlotNumber, Option<Message>)> =
            slots.iter().copied().zip(reconciled.owned.iter().copied()).collect();
        let mut take = |slot: SlotNumber| {
            let field = owned.iter_mut().find(|(number, _)| *number == slot);
            field.and_then(|(_, message)| message.take())
        };
        let mut found = Vec::new();
        for request in std::mem::take(&mut self.doubt) {
            let applied = reconciled.applied.is_none_or(|applied| request.seq <= applied);
            match request.kind {
                Kind::Claim { slots, released, in_hand, .. } => {
                    self.token = self.token.or(in_hand.filter(|_| !applied));
                    for (place, slot) in slots.into_iter().enumerate() {
                        match take(slot) {
                            Some(_) if !applied && place < released => self.set(slot, Slot::Succeeded),
                            Some(message) => found.push((slot, message)),
                            None => self.set(slot, Slot::Free),
                        }
                    }
                }
                // It is asked again where its message is still there.
                Kind::Begin(slot) => {
                    if take(slot).is_none() {
                        self.on_begun(slot, false);
                    }
                }
                Kind::Settle(slot, message, verdict) => match take(slot) {
                    Some(_) => self.set(slot, Slot::Failed(message, verdict)),
                    None => self.set(slot, Slot::Free),
                },
                // It puts back once more whatever is still there.
                Kind::PutBack(slots) => slots.into_iter().for_each(|(slot, message)| {
                    let still = take(slot).is_some();
                    self.set(slot, if still { Slot::Runs(message) } else { Slot::Free });
                }),
                Kind::Reconcile(_) => {}
            }
        }
        found.iter().for_each(|(slot, message)| self.set(*slot, Slot::Runs(*message)));
        found.into_iter().map(|(_, message)| message).collect()
    }

    /// The connection breaks: all that is under way is in doubt, and Redis may still read what it has not read yet.
    pub(super) fn lose_connection(&mut self) {
        self.late.extend_from_slice(&self.asked[self.answers.len()..]);
        self.answers.clear();
        let asked = std::mem::take(&mut self.asked);
        self.doubt.extend(asked.into_iter().filter(|request| !matches!(request.kind, Kind::Reconcile(_))));
        if std::mem::take(&mut self.refused) {
            self.seq = self.applied;
        }
    }

    /// It ends, in whatever way: only what is on its way to Redis is left of it.
    pub(super) fn end(&mut self, phase: Phase) {
        self.late.extend_from_slice(&self.asked[self.answers.len()..]);
        let late_wait = self.late_wait || self.wait == Some(Wait::Blocks);
        let (slots, late) = (self.slots.len(), std::mem::take(&mut self.late));
        *self = Self { phase, late, late_wait, ..Self::new(slots) };
    }

    /// Every number of it, to be made small.
    pub(super) fn numbers(&mut self) -> impl Iterator<Item = &mut Seq> {
        let requests = self.asked.iter_mut().chain(&mut self.doubt).chain(&mut self.late);
        let answered = self.answers.iter_mut().filter_map(|answer| match answer {
            Answer::Reconciled(reconciled) => reconciled.applied.as_mut(),
            _ => None,
        });
        requests.map(|request| &mut request.seq).chain(answered).chain([&mut self.seq, &mut self.applied])
    }
}

/// What a worker may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Ask {
    Claim,
    /// Behind its wait.
    PickUp,
    Release,
    Settle(SlotNumber),
    PutBack,
    Reconcile,
}
