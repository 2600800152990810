//! What each script that knows options changes, one after another: the plain state that it leaves.

use std::collections::{BTreeMap, BTreeSet};

use delayed::__private::protocol::encode::{Meta, native};
use delayed::__private::protocol::message::Message;
use delayed::__private::protocol::tracking::{Lock, LockMode};
use delayed::CallId;

/// The number of a call; its id is 16 bytes with it.
pub(super) type Id = u8;

/// How long a record of a finished call is kept, where it is kept.
pub(super) const KEEP: u64 = 3_600_000;
pub(super) const MODES: [LockMode; 5] =
    [LockMode::UntilStarted, LockMode::UntilDone, LockMode::Period, LockMode::Replace, LockMode::Ordered];

/// What the message of a call says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) id: Id,
    pub(super) attempts: u32,
    pub(super) keep_ms: Option<u64>,
    /// The place of its mode in `MODES`, and its key.
    pub(super) lock: Option<(usize, u8)>,
}

/// The lock of a mode and a key.
pub(super) fn lock_of((mode, key): (usize, u8)) -> Lock {
    Lock::of_key(MODES[mode], "f", &key.to_string())
}

pub(super) fn bytes_of(id: Id) -> [u8; 16] {
    [id; 16]
}

impl Call {
    pub(super) fn encode(self) -> Vec<u8> {
        let Self { id, attempts, keep_ms, lock } = self;
        let (id, lock) = (Some(CallId::from_bytes(bytes_of(id))), lock.map(lock_of));
        native("f", b"\xc0", &Meta { id, attempts, keep_ms, lock, ..Meta::default() })
    }

    pub(super) fn decode(bytes: &[u8]) -> Self {
        let message = Message::decode(bytes).expect("a message of ours");
        let id = message.id().expect("an id").as_bytes()[0];
        let tracking = message.tracking();
        let all = (0..MODES.len()).flat_map(|mode| (0..4).map(move |key| (mode, key)));
        let lock = tracking.and_then(|tracking| tracking.lock);
        let lock = lock.map(|lock| all.clone().find(|one| lock_of(*one) == lock).expect("one of the locks"));
        Self { id, attempts: message.attempts(), keep_ms: tracking.and_then(|it| it.keep_ms), lock }
    }

    pub(super) fn has_mode(&self, modes: &[LockMode]) -> bool {
        self.lock.is_some_and(|(mode, _)| modes.contains(&MODES[mode]))
    }
}

/// What stands in Redis.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct LifeWorld {
    pub(super) waiting: Vec<Call>,
    pub(super) tokens: usize,
    /// When each entry of the timetable is due, and its message.
    pub(super) later: BTreeMap<Id, (u64, Call)>,
    pub(super) slots: Vec<Option<Call>>,
    pub(super) records: BTreeMap<Id, String>,
    /// By key: who holds it.
    pub(super) locks: BTreeMap<u8, Id>,
    /// By key: the ordered calls that wait for their turn.
    pub(super) orders: BTreeMap<u8, Vec<Call>>,
    pub(super) marks: BTreeSet<Id>,
    pub(super) dead: Vec<Call>,
}

/// What a caller of `submit` is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Submitted {
    Taken { due: u64 },
    Exists(String),
    Locked(Id, String),
    Replaced(Id, u64),
    Full(usize),
}

fn has_ended(state: &str) -> bool {
    ["succeeded", "dead", "cancelled", "expired"].contains(&state)
}

impl LifeWorld {
    pub(super) fn new(slots: usize) -> Self {
        Self { slots: vec![None; slots], ..Self::default() }
    }

    fn state_of(&self, id: Id) -> Option<String> {
        let scheduled = self.later.contains_key(&id).then(|| "scheduled".to_owned());
        self.records.get(&id).cloned().or(scheduled)
    }

    /// Notes the state of a call that has a record, and has not ended.
    fn note(&mut self, id: Id, state: &str) {
        if !self.records.get(&id).is_some_and(|known| has_ended(known)) {
            self.set_state(id, state);
        }
    }

    /// Sets the state of a call that has a record.
    fn set_state(&mut self, id: Id, state: &str) {
        self.records.entry(id).and_modify(|known| state.clone_into(known));
    }

    fn unlock(&mut self, call: Call) {
        let Some((_, key)) = call.lock else { return };
        if self.locks.get(&key) == Some(&call.id) {
            self.locks.remove(&key);
        }
        if call.has_mode(&[LockMode::Ordered]) && !self.locks.contains_key(&key) {
            self.next_in_order(key);
        }
    }

    fn next_in_order(&mut self, key: u8) {
        let Some(waiting) = self.orders.get_mut(&key) else { return };
        let next = waiting.remove(0);
        self.orders.retain(|_, waiting| !waiting.is_empty());
        self.locks.insert(key, next.id);
        self.wait(next);
        self.note(next.id, "waiting");
    }

    /// A sweep finds calls that wait behind a call that has ended. Gives how many were moved.
    pub(super) fn unpark(&mut self, key: u8) -> usize {
        let state = self.locks.get(&key).and_then(|holder| self.records.get(holder));
        let moves = self.orders.contains_key(&key) && state.is_none_or(|state| has_ended(state));
        if moves {
            self.next_in_order(key);
        }
        usize::from(moves)
    }

    fn end(&mut self, call: Call, state: &str) {
        if !call.has_mode(&[LockMode::Period]) {
            self.unlock(call);
        }
        match call.keep_ms {
            None => {}
            Some(0) => drop(self.records.remove(&call.id)),
            Some(_) => self.set_state(call.id, state),
        }
    }

    /// `due` is when it would be due: none for now.
    pub(super) fn submit(
        &mut self,
        call: Call,
        due: Option<u64>,
        front: bool,
        (most, buries): (usize, bool),
    ) -> Submitted {
        if let Some(state) = self.state_of(call.id) {
            return Submitted::Exists(state);
        }
        let replaces = call.has_mode(&[LockMode::Replace]);
        let holder = call.lock.and_then(|(_, key)| self.locks.get(&key).copied());
        if let Some(holder) = holder
            && replaces
            && self.later.contains_key(&holder)
        {
            let due = due.expect("one that replaces has a time here");
            self.later.insert(holder, (due, Call { id: holder, ..call }));
            return Submitted::Replaced(holder, due);
        }
        let lives = |state: &String| !has_ended(state);
        let is_held = holder.is_some_and(|holder| self.state_of(holder).as_ref().is_some_and(lives));
        if let Some((_, key)) = call.lock.filter(|_| call.has_mode(&[LockMode::Ordered]))
            && (is_held || self.orders.contains_key(&key))
        {
            self.orders.entry(key).or_default().push(call);
            self.records.insert(call.id, "waiting".into());
            if !is_held {
                self.next_in_order(key);
            }
            return Submitted::Taken { due: 0 };
        }
        if let Some(holder) = holder.filter(|_| !replaces) {
            let state = self.state_of(holder);
            if call.has_mode(&[LockMode::Period]) || is_held {
                return Submitted::Locked(holder, state.unwrap_or_else(|| "unknown".into()));
            }
        }
        let (before, mut buried) = (self.waiting.len(), 0);
        if due.is_none() && most > 0 && before >= most {
            if !buries {
                return Submitted::Full(before);
            }
            buried = before - most + 1;
            for _ in 0..buried {
                self.bury_oldest();
            }
        }
        if let Some((_, key)) = call.lock {
            self.locks.insert(key, call.id);
        }
        if call.keep_ms.is_some() {
            let state = if due.is_some() { "scheduled" } else { "waiting" };
            self.records.insert(call.id, state.into());
        }
        if let Some(due) = due {
            self.later.insert(call.id, (due, call));
            return Submitted::Taken { due };
        }
        self.waiting.insert(if front { 0 } else { self.waiting.len() }, call);
        // Without the calls that wait again as those before them were buried: they have brought their tokens.
        match before + 1 - buried {
            waiting if waiting > before => self.tokens += 1,
            waiting => {
                let surplus = self.tokens.saturating_sub(waiting).min(before - waiting);
                self.tokens -= surplus;
            }
        }
        Submitted::Taken { due: 0 }
    }

    fn bury_oldest(&mut self) {
        let oldest = self.waiting.remove(0);
        if self.marks.remove(&oldest.id) {
            return self.end(oldest, "cancelled");
        }
        self.dead.push(oldest);
        self.end(oldest, "dead");
    }

    /// Gives whether the timetable took it.
    pub(super) fn schedule(&mut self, call: Call, due: u64) -> bool {
        let is_new = !self.later.contains_key(&call.id);
        if is_new {
            self.later.insert(call.id, (due, call));
        }
        is_new
    }

    fn wait(&mut self, call: Call) {
        self.waiting.push(call);
        self.tokens += 1;
    }

    /// Gives how many were moved.
    pub(super) fn promote(&mut self, now: u64, count: usize) -> usize {
        let mut due: Vec<(u64, Id)> =
            self.later.iter().map(|(id, (due, _))| (*due, *id)).filter(|(due, _)| *due <= now).collect();
        due.sort_unstable();
        due.truncate(count);
        due.into_iter().filter(|(_, id)| self.run_now(*id)).count()
    }

    pub(super) fn run_now(&mut self, id: Id) -> bool {
        let Some((_, call)) = self.later.remove(&id) else { return false };
        self.wait(call);
        self.note(id, "waiting");
        true
    }

    /// Gives the state in which it was found.
    pub(super) fn cancel(&mut self, id: Id) -> String {
        let state = self.records.get(&id).cloned().unwrap_or_default();
        if let Some((_, call)) = self.later.remove(&id) {
            self.marks.remove(&id);
            // The record and the entry may be of two calls with one id.
            self.end(Call { id, ..call }, "cancelled");
            return if state == "retrying" { state } else { "scheduled".into() };
        }
        if has_ended(&state) {
            return state;
        }
        self.marks.insert(id);
        if ["scheduled", "retrying"].contains(&&*state) { "waiting".into() } else { state }
    }

    /// Gives what was claimed, how many still wait, and the places of those that are marked.
    pub(super) fn claim(&mut self, slots: &[usize]) -> (Vec<Call>, usize, Vec<usize>) {
        let count = slots.len().min(self.waiting.len()).min(self.tokens);
        if self.waiting.is_empty() {
            self.tokens = 0;
        }
        let claimed: Vec<Call> = self.waiting.drain(..count).collect();
        self.tokens -= count;
        slots.iter().zip(&claimed).for_each(|(slot, call)| self.slots[*slot] = Some(*call));
        let is_marked = |(place, call): (usize, &Call)| self.marks.contains(&call.id).then_some(place + 1);
        let marked = claimed.iter().enumerate().filter_map(is_marked).collect();
        (claimed, self.waiting.len(), marked)
    }

    /// `id` and its lock are what the worker takes its slot to run.
    pub(super) fn start(&mut self, slot: usize, call: Call) -> bool {
        let is_its = self.slots[slot].is_some_and(|owned| owned.id == call.id);
        if !is_its || self.records.get(&call.id).is_none_or(|state| has_ended(state)) {
            return false;
        }
        self.note(call.id, "running");
        if call.has_mode(&[LockMode::UntilStarted, LockMode::Replace]) {
            self.unlock(call);
        }
        true
    }

    pub(super) fn finish(&mut self, slot: usize, state: &str) -> bool {
        let Some(call) = self.slots[slot].take() else { return false };
        self.end(call, state);
        self.marks.remove(&call.id);
        true
    }

    /// `due` is when its next attempt would be due.
    pub(super) fn retry_later(&mut self, slot: usize, due: u64) -> i64 {
        let Some(call) = self.slots[slot] else { return 0 };
        if self.later.contains_key(&call.id) {
            return -1;
        }
        self.slots[slot] = None;
        self.later.insert(call.id, (due, Call { attempts: call.attempts + 1, ..call }));
        self.note(call.id, "retrying");
        1
    }

    pub(super) fn retry(&mut self, slot: usize) -> bool {
        let Some(call) = self.slots[slot].take() else { return false };
        self.wait(Call { attempts: call.attempts + 1, ..call });
        self.note(call.id, "waiting");
        true
    }

    pub(super) fn bury(&mut self, slot: usize) -> bool {
        let Some(call) = self.slots[slot].take() else { return false };
        self.dead.push(call);
        self.marks.remove(&call.id);
        self.end(call, "dead");
        true
    }

    /// Puts a message back to the head, as `put_back` and `requeue_lost` do.
    pub(super) fn put_back(&mut self, slot: usize) -> bool {
        let Some(call) = self.slots[slot].take() else { return false };
        self.waiting.insert(0, call);
        self.tokens += 1;
        self.note(call.id, "waiting");
        true
    }

    /// Gives who has the lock of a call that has to stay dead.
    pub(super) fn revive(&mut self, at: usize) -> Option<(Id, Id)> {
        let call = self.dead[at];
        let lock = call.lock.filter(|_| !call.has_mode(&[LockMode::Period]));
        let holder = lock.and_then(|(_, key)| self.locks.get(&key).copied());
        let lives = |holder: &Id| self.records.get(holder).is_some_and(|state| !has_ended(state));
        if let Some(holder) = holder.filter(|holder| *holder != call.id).filter(lives) {
            return Some((call.id, holder));
        }
        self.dead.remove(at);
        self.wait(Call { attempts: 0, ..call });
        self.set_state(call.id, "waiting");
        if let Some((_, key)) = lock {
            self.locks.insert(key, call.id);
        }
        None
    }

    pub(super) fn purge(&mut self, count: usize) -> usize {
        let count = count.min(self.waiting.len());
        let dropped: Vec<Call> = self.waiting.drain(..count).collect();
        for call in dropped {
            self.marks.remove(&call.id);
            self.end(call, "cancelled");
        }
        self.tokens -= self.tokens.saturating_sub(self.waiting.len()).min(count);
        count
    }
}
