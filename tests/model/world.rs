//! What stands in Redis, and what each script does to it: `lua/` said once more, in Rust.
//!
//! One method for each script, under its name. The checker explores it, and `against_redis` compares it with the
//! scripts themselves.

use std::collections::BTreeMap;

use super::deaths::Deaths;
use super::protections::Protection;

/// A message, by number.
pub(crate) type Message = u16;
/// A wire id, by number: the slots of worker 0 first.
pub(crate) type Wire = u8;
/// The number of a call.
pub(crate) type Seq = u64;
/// For `in_hand`: the token was moved into the hand.
pub(crate) const MOVED: usize = 2;
/// The number that a worker leaves when it ends.
const LAST: Seq = 1 << 52;

/// What Redis knows of a worker's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Numbers {
    /// Of the last call that was applied.
    pub(crate) seq: Seq,
    /// Of the last reconcile, and what it answered.
    pub(crate) fence: Option<(Seq, Option<Seq>)>,
}

/// What stands under the keys of one queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct World {
    /// Oldest first.
    pub(crate) waiting: Vec<Message>,
    pub(crate) tokens: usize,
    /// Tokens that were moved for claims to come.
    pub(crate) hand: usize,
    /// In the order in which the fields were made.
    pub(crate) processing: Vec<(Wire, Message)>,
    /// By wire id: whether it has a live key.
    pub(crate) live: Vec<bool>,
    /// Oldest first.
    pub(crate) dead: Vec<Message>,
    /// By bytes.
    pub(crate) deaths: BTreeMap<Message, Deaths>,
    /// Whether all messages have the same bytes, though they are told apart here.
    pub(crate) alike: bool,
    /// By worker; none when Redis knows of no call.
    pub(crate) numbers: Vec<Option<Numbers>>,
    /// By worker: whether it has a lease.
    pub(crate) leases: Vec<bool>,
    /// What is switched off.
    pub(crate) without: Option<Protection>,
}

/// The call was refused; nothing was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Stale;

/// What a worker asks of `claim`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Claim {
    /// 0, 1, or [`MOVED`].
    pub(crate) in_hand: usize,
    pub(crate) forgive: usize,
    pub(crate) released: usize,
    pub(crate) kept: usize,
    pub(crate) wires: Vec<Wire>,
}

/// What `claim` answered, and what it took out, which only the model sees.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Claimed {
    pub(crate) lost: usize,
    pub(crate) waiting: usize,
    pub(crate) suspects: u8,
    pub(crate) messages: Vec<Message>,
    pub(crate) released: Vec<Message>,
}

/// What `reconcile` answered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Reconciled {
    pub(crate) applied: Option<Seq>,
    /// Which of them, from 1 on, own what is to run alone.
    pub(crate) alone: Vec<usize>,
    pub(crate) owned: Vec<Option<Message>>,
}

/// What `requeue_lost` did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Swept {
    pub(crate) requeued: Vec<(Wire, Message)>,
    pub(crate) buried: Vec<(Wire, Message)>,
    pub(crate) dead: Vec<Wire>,
}

/// Where a message is put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Head,
    Tail,
}

impl World {
    /// Nothing yet, and room for so many workers of so many slots.
    pub(crate) fn new(workers: usize, slots: usize) -> Self {
        Self {
            live: vec![false; workers * slots],
            numbers: vec![None; workers],
            leases: vec![false; workers],
            ..Self::default()
        }
    }

    pub(super) fn has(&self, protection: Protection) -> bool {
        self.without != Some(protection)
    }

    fn worker_of(&self, wire: Wire) -> u8 {
        wire / u8::try_from(self.live.len() / self.numbers.len()).expect("few slots")
    }

    /// The message that a slot owns.
    pub(crate) fn owned_by(&self, wire: Wire) -> Option<Message> {
        self.processing.iter().find(|(owner, _)| *owner == wire).map(|(_, message)| *message)
    }

    /// Takes a field out.
    pub(super) fn remove(&mut self, wire: Wire) -> Option<Message> {
        let at = self.processing.iter().position(|(owner, _)| *owner == wire)?;
        Some(self.processing.remove(at).1)
    }

    /// Writes a field; what stood there is gone.
    pub(super) fn write(&mut self, wire: Wire, message: Message) -> Option<Message> {
        if let Some(field) = self.processing.iter_mut().find(|(owner, _)| *owner == wire) {
            return Some(std::mem::replace(&mut field.1, message));
        }
        self.processing.push((wire, message));
        None
    }

    fn push(&mut self, place: Place, message: Message) {
        match place {
            Place::Head => self.waiting.insert(0, message),
            Place::Tail => self.waiting.push(message),
        }
        self.tokens += 1;
    }

    /// Whether this is the worker's next call.
    pub(super) fn is_next(&self, worker: usize, seq: Seq) -> Result<(), Stale> {
        let protection = match self.numbers[worker] {
            Some(_) => Protection::Numbers,
            None => Protection::UnknownIsRefused,
        };
        let last = self.numbers[worker].map_or(0, |numbers| numbers.seq);
        if last + 1 != seq && self.has(protection) { Err(Stale) } else { Ok(()) }
    }

    pub(super) fn applied(&mut self, worker: usize, seq: Seq) {
        let fence = self.numbers[worker].and_then(|numbers| numbers.fence);
        self.numbers[worker] = Some(Numbers { seq, fence });
    }

    pub(crate) fn enqueue(&mut self, messages: &[Message]) -> usize {
        messages.iter().for_each(|message| self.push(Place::Tail, *message));
        self.waiting.len()
    }

    pub(crate) fn claim(&mut self, worker: usize, seq: Seq, ask: &Claim) -> Result<Claimed, Stale> {
        self.is_next(worker, seq)?;
        let (over, open) = ask.wires.split_at(ask.kept);
        let again = ask.released - ask.kept;
        let moved = ask.in_hand == MOVED;
        let in_hand = match moved {
            true if self.has(Protection::HandIsCounted) => self.hand.min(1),
            _ => ask.in_hand.min(1),
        };
        let wanted = open.len().min(self.waiting.len()).min(self.tokens + in_hand);
        let overwrites = |wire: &Wire| self.owned_by(*wire).is_some();
        if self.has(Protection::FieldFirst) && open[..wanted].iter().skip(again).any(overwrites) {
            return Err(Stale);
        }
        let suspects = u8::from(!self.deaths.is_empty());
        for wire in &ask.wires[..ask.forgive] {
            if let Some(message) = self.owned_by(*wire) {
                self.forget_deaths(message);
            }
        }
        if self.has(Protection::LiveKeyFirst) {
            open[..wanted].iter().for_each(|wire| self.live[usize::from(*wire)] = true);
        }
        if self.waiting.is_empty() {
            self.tokens = 0;
            self.hand = if moved { 0 } else { self.hand };
        }
        let first_alone = self.waiting[..wanted].iter().position(|message| self.runs_alone(*message));
        let (count, suspects) = match first_alone {
            Some(0) => (1, 2),
            Some(before) => (before, suspects),
            None => (wanted, suspects),
        };
        let messages: Vec<Message> = self.waiting.drain(..count).collect();
        self.tokens -= count.saturating_sub(in_hand);
        self.hand = self.hand.saturating_sub(if moved { count.min(in_hand) } else { 0 });

        let mut claimed = Claimed { suspects, waiting: self.waiting.len(), ..Claimed::default() };
        for (at, (wire, message)) in open.iter().zip(&messages).enumerate() {
            let before = self.write(*wire, *message);
            claimed.lost += usize::from(at < again && before.is_none());
            claimed.released.extend(before);
        }
        if let (2, [message], [wire, ..]) = (suspects, &messages[..], open)
            && let Some(deaths) = self.deaths.get_mut(&self.digest(*message))
        {
            deaths.own_first(*wire);
        }
        for wire in over.iter().chain(open[..again].iter().skip(count)) {
            let before = self.remove(*wire);
            claimed.lost += usize::from(before.is_none());
            claimed.released.extend(before);
        }
        claimed.messages = messages;
        self.applied(worker, seq);
        Ok(claimed)
    }

    pub(crate) fn retry(
        &mut self,
        worker: usize,
        seq: Seq,
        wire: Wire,
        message: Message,
    ) -> Result<bool, Stale> {
        self.is_next(worker, seq)?;
        let owned = self.remove(wire);
        if let Some(message) = owned {
            self.forget_deaths(message);
        }
        if owned.is_some() || !self.has(Protection::RetryAsksForItsField) {
            self.push(Place::Tail, message);
        }
        self.applied(worker, seq);
        Ok(owned.is_some())
    }

    /// `slots` are wire ids, and what the worker believes that they own.
    pub(crate) fn put_back(
        &mut self,
        worker: usize,
        seq: Seq,
        place: Place,
        slots: &[(Wire, Message)],
    ) -> Result<Vec<Message>, Stale> {
        self.is_next(worker, seq)?;
        let mut moved = Vec::new();
        let mut each: Vec<_> = slots.to_vec();
        if place == Place::Head {
            each.reverse();
        }
        for (wire, believed) in each {
            let owned = self.remove(wire);
            let blind = !self.has(Protection::PutBackAsksForItsField);
            if let Some(message) = owned.or(blind.then_some(believed)) {
                if let Some(deaths) = self.deaths.get_mut(&self.digest(message)) {
                    let (died, _) = deaths.take(wire);
                    if place == Place::Head {
                        deaths.wait_first(died);
                    }
                }
                self.push(place, message);
                moved.push(message);
            }
        }
        self.applied(worker, seq);
        Ok(moved)
    }

    /// `believed` is what the worker believes that the slot owns.
    pub(crate) fn bury(
        &mut self,
        worker: usize,
        seq: Seq,
        wire: Wire,
        believed: Message,
    ) -> Result<bool, Stale> {
        self.is_next(worker, seq)?;
        let owned = self.remove(wire);
        let blind = !self.has(Protection::BuryAsksForItsField);
        if let Some(message) = owned.or(blind.then_some(believed)) {
            self.dead.push(message);
            self.forget_deaths(message);
        }
        self.applied(worker, seq);
        Ok(owned.is_some())
    }

    pub(crate) fn reconcile(&mut self, worker: usize, seq: Seq, wires: &[Wire]) -> Result<Reconciled, Stale> {
        let known = self.numbers[worker];
        let fence = known.and_then(|known| known.fence.filter(|(fence, _)| *fence == known.seq));
        let fence = fence.filter(|_| self.has(Protection::ReconcileRemembersItsAnswer));
        if known.is_some_and(|known| seq < known.seq || (seq == known.seq && fence.is_none())) {
            return Err(Stale);
        }
        let applied = fence.map_or(known.map(|known| known.seq), |(_, applied)| applied);
        if self.has(Protection::ReconcileFences) {
            self.numbers[worker] = Some(Numbers { seq, fence: Some((seq, applied)) });
        }
        let owned: Vec<Option<Message>> = wires.iter().map(|wire| self.owned_by(*wire)).collect();
        let runs_alone = |message: &Option<Message>| message.is_some_and(|message| self.runs_alone(message));
        let told = self.has(Protection::ReconcileTellsWhatRunsAlone);
        let alone =
            (1..).zip(&owned).filter(|(_, message)| told && runs_alone(message)).map(|(at, _)| at).collect();
        Ok(Reconciled { applied, alone, owned })
    }

    /// All slots in one call, as for a queue of a few hundred.
    pub(crate) fn requeue_lost(&mut self, max_deaths: usize) -> Swept {
        let mut swept = Swept::default();
        let mut counted = Vec::new();
        for (wire, message) in self.processing.clone() {
            if self.live[usize::from(wire)] && self.has(Protection::LeaseIsAsked) {
                continue;
            }
            swept.dead.push(wire);
            let (process, digest) = (self.worker_of(wire), self.digest(message));
            let known = self.deaths.remove(&digest);
            let is_known = known.is_some();
            let mut deaths = known.unwrap_or_default();
            let is_new = !counted.contains(&digest) && !deaths.processes.contains(&process);
            counted.push(digest);
            let is_suspect = deaths.processes.len() >= 2;
            if is_new {
                deaths.processes.push(process);
            }
            let (died, runs) = deaths.take(wire);
            let counts = runs || (is_suspect && !self.has(Protection::OnlyRunsCount));
            let others = deaths.owned.iter().map(|(_, died, _)| died).chain(&deaths.waiting);
            let before = match self.has(Protection::DeathsFollowTheirCall) {
                true => died,
                false => others.copied().max().unwrap_or(0).max(died),
            };
            let died = before + u8::from(counts);
            let is_over = counts && usize::from(died) >= max_deaths;
            if is_over {
                self.dead.push(message);
                swept.buried.push((wire, message));
            } else {
                deaths.wait_first(died);
                self.push(Place::Head, message);
                swept.requeued.push((wire, message));
            }
            let nothing = deaths.waiting.is_empty() && deaths.owned.is_empty();
            if !(is_over && nothing) && (is_known || is_new) {
                self.deaths.insert(digest, deaths);
            }
            self.remove(wire);
        }
        swept
    }

    /// `BLMOVE`: a token goes into the hand.
    pub(super) fn move_token(&mut self) {
        self.tokens -= 1;
        self.hand += usize::from(self.has(Protection::TokenIsMoved));
    }

    /// How many tokens are missing.
    pub(super) fn gap(&self) -> isize {
        let count = |number| isize::try_from(number).expect("few messages");
        count(self.waiting.len()) - count(self.tokens)
    }

    /// Adds tokens, or takes some away when `gap` is negative. Gives how many.
    pub(crate) fn balance(&mut self, gap: isize) -> isize {
        let now = self.gap();
        let change = if gap > 0 { now.clamp(0, gap) } else { now.clamp(gap, 0) };
        self.tokens = self.tokens.saturating_add_signed(change);
        if now <= 0 {
            self.hand = 0;
        } else if gap > 0 {
            // Tokens that are nowhere are made, before others are taken out of the hand.
            let made = (now - self.hand.cast_signed()).clamp(0, change);
            let made = if self.has(Protection::MissingTokensAreMade) { made } else { 0 };
            self.hand = self.hand.saturating_sub((change - made).cast_unsigned());
        }
        change
    }

    /// `balance` for a token that was moved and is of no use: it goes back when a message lacks it.
    pub(crate) fn give_back(&mut self) -> isize {
        let had = isize::from(self.hand > 0);
        if self.gap() <= 0 {
            self.hand = 0;
            return 0;
        }
        self.hand = self.hand.saturating_sub(1);
        self.tokens = self.tokens.saturating_add_signed(had);
        had
    }

    /// Whether there is something to sweep.
    pub(crate) fn beat(&mut self, worker: usize, wires: &[Wire]) -> bool {
        self.leases[worker] = true;
        wires.iter().for_each(|wire| self.live[usize::from(*wire)] = true);
        self.tokens + self.hand + self.waiting.len() + self.processing.len() + self.deaths.len() > 0
    }

    pub(crate) fn resign(&mut self, worker: usize, wires: &[Wire]) -> bool {
        self.numbers[worker] = Some(Numbers { seq: LAST, fence: None });
        wires.iter().for_each(|wire| self.live[usize::from(*wire)] = false);
        std::mem::replace(&mut self.leases[worker], false)
    }

    /// `at` is where the letter stands, `message` what becomes of it.
    pub(crate) fn revive(&mut self, at: usize, message: Message) {
        self.dead.remove(at);
        self.push(Place::Tail, message);
    }

    pub(crate) fn purge(&mut self, count: usize) -> usize {
        let count = count.min(self.waiting.len());
        if count > 0 {
            self.deaths.clear();
        }
        let tokens = self.tokens;
        self.waiting.drain(..count);
        self.tokens -= tokens.saturating_sub(self.waiting.len()).min(count);
        count
    }
}
