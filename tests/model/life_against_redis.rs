//! Do the scripts that know options do what `life_world.rs` says? Random steps, one after another, on a Redis and in the model:
//! every reply and every state must be alike.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use redis::{Commands, RedisResult, Value};

use super::life_world::{Call, Id, KEEP, LifeWorld, MODES, Submitted, bytes_of, lock_of};
use crate::lua::{
    Bench, CANCELLED, DEAD, DEATHS, DUE, HAND, LATER, LEASE, PARKED, PAUSED, PROCESSING, QUEUE, TIMETABLE,
    TOKENS, unpacked,
};
use crate::support::{cases, is_quick};

const IDS: Id = 5;
const KEYS: u8 = 2;
/// Each is of a worker of its own.
const SLOTS: usize = 3;
/// Milliseconds; no sequence takes so long.
const LONG: u64 = 3_600_000;

/// When a call is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Past,
    Ahead,
}

#[derive(Debug, Clone)]
enum Step {
    Submit {
        call: Call,
        when: Option<When>,
        front: bool,
        most: usize,
        buries: bool,
    },
    Schedule {
        call: Call,
        when: When,
    },
    Promote(usize),
    RunNow(Id),
    Cancel(Id),
    /// These slots claim at once.
    Claim(usize),
    /// A worker begins what its slot owns, or the call of another id.
    Start {
        slot: usize,
        id: Option<Id>,
    },
    Finish {
        slot: usize,
        state: &'static str,
    },
    RetryLater {
        slot: usize,
        when: When,
    },
    Retry(usize),
    Bury(usize),
    PutBack(usize),
    /// A worker dies, and is swept.
    Dies(usize),
    Revive(usize),
    Purge(usize),
    /// A sweep looks at the calls that wait behind one with this key.
    Unpark(u8),
}

fn any_call() -> impl Strategy<Value = Call> {
    let lock = prop_oneof![1 => Just(None), 3 => (0..MODES.len(), 0..KEYS).prop_map(Some)];
    (0..IDS, any::<Option<bool>>(), lock).prop_map(|(id, keep, lock)| {
        let keep_ms = keep.map(|long| if long { KEEP } else { 0 });
        // A call with a lock has a record, at least until its end.
        let keep_ms = keep_ms.or(lock.map(|_| 0));
        Call { id, attempts: 0, keep_ms, lock }
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    let when = || prop_oneof![Just(When::Past), Just(When::Ahead)];
    let slot = || 0..SLOTS;
    prop_oneof![
        10 => (any_call(), proptest::option::of(when()), any::<bool>(), 0..4usize, any::<bool>()).prop_map(
            |(call, when, front, most, buries)| {
                // Every other kind of lock holds without a due time, too.
                let replaces = call.has_mode(&[MODES[3]]);
                let when = when.or(replaces.then_some(When::Ahead));
                // A client schedules no ordered call.
                let when = when.filter(|_| !call.has_mode(&[MODES[4]]));
                Step::Submit { call, when, front, most, buries }
            }
        ),
        1 => (any_call(), when()).prop_map(|(call, when)| Step::Schedule { call, when }),
        3 => (1..4usize).prop_map(Step::Promote),
        1 => (0..IDS).prop_map(Step::RunNow),
        2 => (0..IDS).prop_map(Step::Cancel),
        8 => slot().prop_map(Step::Claim),
        4 => (slot(), proptest::option::weighted(0.2, 0..IDS)).prop_map(|(slot, id)| Step::Start { slot, id }),
        4 => (slot(), prop_oneof![Just("succeeded"), Just("cancelled")])
            .prop_map(|(slot, state)| Step::Finish { slot, state }),
        3 => (slot(), when()).prop_map(|(slot, when)| Step::RetryLater { slot, when }),
        1 => slot().prop_map(Step::Retry),
        2 => slot().prop_map(Step::Bury),
        1 => slot().prop_map(Step::PutBack),
        1 => slot().prop_map(Step::Dies),
        2 => any::<usize>().prop_map(Step::Revive),
        1 => (0..3usize).prop_map(Step::Purge),
        3 => (0..KEYS).prop_map(Step::Unpark),
    ]
}

struct Pair {
    bench: Bench,
    world: LifeWorld,
    /// How often each kind of step had an effect.
    made: BTreeMap<String, u32>,
}

fn worker(slot: usize) -> String {
    format!("{QUEUE}:{}", char::from(b'a' + u8::try_from(slot).unwrap()).to_string().repeat(16))
}

fn wire_id(slot: usize) -> String {
    format!("{}:0", worker(slot))
}

fn record(id: Id) -> String {
    format!("{QUEUE}:c:{}", format!("{id:02x}").repeat(16))
}

fn lock_key(key: u8) -> String {
    let digits: String = lock_of((0, key)).digest().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{QUEUE}:u:{digits}")
}

fn order(key: u8) -> String {
    lock_key(key).replace("q:u:", "order:")
}

/// The messages that wait behind an ordered one.
fn waiters(key: u8) -> String {
    format!("{QUEUE}:l:{}", order(key))
}

fn id_of(bytes: &[u8]) -> Id {
    bytes[0]
}

fn text(value: &str) -> Value {
    Value::BulkString(value.as_bytes().to_vec())
}

fn int(number: impl TryInto<i64, Error: std::fmt::Debug>) -> Value {
    Value::Int(number.try_into().unwrap())
}

impl Pair {
    fn clear(&mut self) {
        let () = self.bench.redis.flushall().unwrap();
        self.world = LifeWorld::new(SLOTS);
    }

    fn now(&mut self) -> u64 {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut self.bench.redis).unwrap();
        seconds * 1000 + micros / 1000
    }

    fn seq(&mut self, slot: usize) -> u64 {
        self.bench.redis.hget::<_, _, Option<u64>>(worker(slot), "seq").unwrap().map_or(1, |seq| seq + 1)
    }

    /// When Redis has this call due now; 0 when it is not in the timetable.
    fn due(&mut self, id: Id) -> u64 {
        let member = [b"c", &bytes_of(id)[..]].concat();
        self.bench.redis.zscore::<_, _, Option<u64>>(DUE, member).unwrap().unwrap_or_default()
    }

    /// Makes the step on both sides.
    fn step(&mut self, step: &Step) -> Result<(), String> {
        let before = self.now();
        let (reply, expected) = self.make(step, before);
        let reply: Value = reply.map_err(|error| format!("expected a reply: {error}"))?;
        if reply != expected {
            return Err(format!("expected the reply {expected:?}, it is {reply:?}"));
        }
        let name = format!("{step:?}");
        let name = name.split([' ', '(']).next().unwrap_or_default();
        *self.made.entry(format!("{name} {}", answer(&reply))).or_default() += 1;
        let after = self.read();
        if after == self.world {
            Ok(())
        } else {
            Err(format!("expected {:#?}\nit is {after:#?}", self.world))
        }
    }

    /// The time at which a call is due that Redis has put into the timetable: within what it took.
    fn taken_due(&mut self, id: Id, when: When, before: u64) -> u64 {
        let (due, after) = (self.due(id), self.now());
        let later = if when == When::Ahead { LONG } else { 0 };
        let range = before + later..=after + later;
        assert!(
            due == 0 || range.contains(&due) || self.world.later.contains_key(&id),
            "{due} is not in {range:?}"
        );
        due
    }

    fn make(&mut self, step: &Step, before: u64) -> (RedisResult<Value>, Value) {
        match step {
            Step::Submit { call, when, front, most, buries } => {
                let reply = self.submit(*call, *when, *front, *most, *buries);
                // Where the call replaces another one, that one's time changes.
                let holder = call.lock.and_then(|(_, key)| self.world.locks.get(&key).copied());
                let replaces = call.has_mode(&[MODES[3]]);
                let placed = match holder.filter(|holder| replaces && self.world.later.contains_key(holder)) {
                    Some(holder) if !self.world.records.contains_key(&call.id) => holder,
                    _ => call.id,
                };
                let due = when.map(|when| self.taken_due(placed, when, before));
                let expected = match self.world.submit(*call, due, *front, (*most, *buries)) {
                    Submitted::Taken { due } => vec![int(0), int(due)],
                    Submitted::Exists(state) => vec![int(1), text(&state)],
                    Submitted::Locked(holder, state) => vec![int(2), bytes(holder), text(&state)],
                    Submitted::Replaced(holder, due) => vec![int(3), bytes(holder), int(due)],
                    Submitted::Full(waiting) => vec![int(4), int(waiting)],
                };
                (reply, Value::Array(vec![Value::Array(expected)]))
            }
            Step::Schedule { call, when } => {
                let reply = self.bench.call("schedule", |script| {
                    script.key(DUE).key(LATER).key(TIMETABLE).arg("q:due");
                    script.arg(&bytes_of(call.id)).arg(due_argument(Some(*when))).arg(call.encode());
                });
                let due = self.taken_due(call.id, *when, before);
                let is_new = self.world.schedule(*call, due);
                (reply, Value::Array(vec![int(if is_new { due } else { 0 })]))
            }
            Step::Promote(count) => {
                let reply: RedisResult<(Value, i64)> = self.bench.call("promote", |script| {
                    script.key(QUEUE).key(TOKENS).key(DUE).key(LATER).key(TIMETABLE).key("q_periodic");
                    script.arg("us").arg(1_000).arg(*count).arg(0);
                });
                // What is due was due before this step.
                (reply.map(|(moved, _)| moved), int(self.world.promote(before, *count)))
            }
            Step::RunNow(id) => {
                let reply = self.bench.call("run_now", |script| {
                    script.key(QUEUE).key(TOKENS).key(DUE).key(LATER).arg(&bytes_of(*id));
                });
                (reply, int(u8::from(self.world.run_now(*id))))
            }
            Step::Cancel(id) => {
                let reply = self.bench.call("cancel", |script| {
                    script.key(DUE).key(LATER).key(CANCELLED).arg(QUEUE).arg("anna").arg(&bytes_of(*id));
                });
                (reply, Value::Array(vec![text(&self.world.cancel(*id))]))
            }
            Step::Claim(slot) => self.claim(*slot),
            Step::Start { slot, id } => {
                let owned = self.world.slots[*slot];
                let call = Call { id: 0, attempts: 0, keep_ms: Some(0), lock: None };
                let call = id.map(|id| Call { id, ..call }).or(owned).unwrap_or(call);
                let reply = self.bench.call("start", |script| {
                    script.key(QUEUE).key(PROCESSING);
                    script.arg(wire_id(*slot)).arg(&bytes_of(call.id)).arg(lock_argument(call)).arg(1);
                });
                (reply, int(u8::from(self.world.start(*slot, call))))
            }
            Step::Finish { slot, state } => {
                let seq = self.seq(*slot);
                let call = self.world.slots[*slot];
                let call = call.unwrap_or(Call { id: 0, attempts: 0, keep_ms: None, lock: None });
                let keep = call.keep_ms.map(|keep| keep.to_string()).unwrap_or_default();
                let reply = self.bench.call("finish", |script| {
                    script.key(PROCESSING).key(worker(*slot)).key(DEATHS).key(CANCELLED);
                    script.arg(seq).arg(QUEUE).arg(wire_id(*slot)).arg(&bytes_of(call.id)).arg(keep);
                    script.arg(lock_argument(call)).arg("").arg(*state).arg(1).arg(1).arg("").arg("");
                });
                (reply, Value::Array(vec![int(u8::from(self.world.finish(*slot, state)))]))
            }
            Step::RetryLater { slot, when } => {
                let seq = self.seq(*slot);
                let call = self.world.slots[*slot];
                let call = call.unwrap_or(Call { id: 0, attempts: 0, keep_ms: None, lock: None });
                let again = Call { attempts: call.attempts + 1, ..call };
                let reply = self.bench.call("retry_later", |script| {
                    script.key(PROCESSING).key(worker(*slot)).key(DEATHS).key(DUE).key(LATER).key(TIMETABLE);
                    script.arg(seq).arg(wire_id(*slot)).arg(again.encode()).arg(&bytes_of(call.id));
                    script.arg(if *when == When::Ahead { LONG } else { 0 }).arg("");
                });
                let due = self.taken_due(call.id, *when, before);
                (reply, int(self.world.retry_later(*slot, due)))
            }
            Step::Retry(slot) => {
                let seq = self.seq(*slot);
                let again = self.world.slots[*slot].map(|call| Call { attempts: call.attempts + 1, ..call });
                let reply = self.bench.call("retry", |script| {
                    script.key(QUEUE).key(TOKENS).key(PROCESSING).key(worker(*slot)).key(DEATHS);
                    script
                        .arg(seq)
                        .arg(wire_id(*slot))
                        .arg(again.map(Call::encode).unwrap_or_default())
                        .arg("");
                });
                (reply, int(u8::from(self.world.retry(*slot))))
            }
            Step::Bury(slot) => {
                let seq = self.seq(*slot);
                let reply: RedisResult<(Value, Value, Value)> = self.bench.call("bury", |script| {
                    script.key(PROCESSING).key(worker(*slot)).key(DEAD).key(DEATHS);
                    script.arg(seq).arg(wire_id(*slot)).arg(1000).arg(1_u64 << 40);
                    script.arg("failed").arg("why").arg(1).arg("where").arg("");
                });
                (reply.map(|(owned, ..)| owned), int(u8::from(self.world.bury(*slot))))
            }
            Step::PutBack(slot) => {
                let seq = self.seq(*slot);
                let reply = self.bench.call("put_back", |script| {
                    script.key(QUEUE).key(TOKENS).key(PROCESSING).key(worker(*slot)).key(DEATHS);
                    script.arg(seq).arg("head").arg(wire_id(*slot));
                });
                (reply, int(u8::from(self.world.put_back(*slot))))
            }
            Step::Dies(slot) => {
                let () = self.bench.redis.del(wire_id(*slot)).unwrap();
                let reply: RedisResult<Vec<Value>> = self.bench.call("requeue_lost", |script| {
                    script.key(QUEUE).key(TOKENS).key(PROCESSING).key(DEAD).key(DEATHS);
                    script.arg(0).arg(500).arg(3).arg(LONG).arg(1000).arg(1_u64 << 40).arg(1_u64 << 50);
                });
                // Calls that run alone are in the other model.
                let () = self.bench.redis.del(DEATHS).unwrap();
                (reply.map(|counts| counts[1].clone()), int(u8::from(self.world.put_back(*slot))))
            }
            Step::Unpark(key) => {
                let reply: RedisResult<Vec<Value>> = self.bench.call("unpark", |script| {
                    script.key(QUEUE).key(TOKENS).key(waiters(*key)).key(PARKED).arg(order(*key)).arg(1);
                });
                (reply.map(|mut moved| moved.remove(0)), int(self.world.unpark(*key)))
            }
            Step::Revive(which) => self.revive(*which),
            Step::Purge(count) => {
                let reply = self.bench.call("purge", |script| {
                    script.key(QUEUE).key(TOKENS).key(DEATHS).arg(*count).arg(QUEUE);
                });
                (reply, int(self.world.purge(*count)))
            }
        }
    }

    fn submit(
        &mut self,
        call: Call,
        when: Option<When>,
        front: bool,
        most: usize,
        buries: bool,
    ) -> RedisResult<Value> {
        let message = call.encode();
        let at = message.windows(16).rposition(|bytes| bytes == bytes_of(call.id)).unwrap();
        self.bench.call("submit", |script| {
            script.key(QUEUE).key(TOKENS).key(DUE).key(LATER).key(TIMETABLE).key(DEAD).key(DEATHS);
            script.arg("q:due").arg(most).arg(if buries { 1000 } else { 0 }).arg(1_u64 << 40);
            script.arg(&bytes_of(call.id)).arg(due_argument(when)).arg(u8::from(front));
            script.arg(call.keep_ms.map(|keep| keep.to_string()).unwrap_or_default());
            script.arg(lock_argument(call)).arg(LONG).arg(at).arg("f").arg(message);
        })
    }

    fn claim(&mut self, slot: usize) -> (RedisResult<Value>, Value) {
        // A worker claims into a slot that it knows to be free.
        let free: Vec<usize> = [slot].into_iter().filter(|slot| self.world.slots[*slot].is_none()).collect();
        let seq = self.seq(slot);
        let reply: RedisResult<Value> = self.bench.call("claim", |script| {
            script.key(QUEUE).key(TOKENS).key(PROCESSING).key(worker(slot)).key(DEATHS);
            script.key(HAND).key(PAUSED).key(CANCELLED);
            script.arg(seq).arg(LEASE).arg(0).arg(0).arg(0).arg(0).arg(0);
            for slot in &free {
                script.arg(wire_id(*slot));
            }
        });
        let (claimed, waiting, marked) = self.world.claim(&free);
        let messages = claimed.iter().map(|call| Value::BulkString(call.encode())).collect();
        let mut expected = vec![int(0), int(waiting), int(0), Value::Array(messages)];
        let marks = !free.is_empty() && !self.world.marks.is_empty();
        if marks {
            expected.push(Value::Array(marked.into_iter().map(int).collect()));
        }
        let messages_last = |reply: Value| match reply {
            Value::Array(mut values) if values.len() == 5 => {
                let places = values.pop().unwrap();
                let Value::Array(mut values) = unpacked(Value::Array(values)) else { unreachable!() };
                values.push(places);
                Value::Array(values)
            }
            reply => unpacked(reply),
        };
        (reply.map(messages_last), Value::Array(expected))
    }

    fn revive(&mut self, which: usize) -> (RedisResult<Value>, Value) {
        let mut range = redis::cmd("XRANGE");
        let letters: Vec<(String, BTreeMap<String, Vec<u8>>)> =
            range.arg(DEAD).arg("-").arg("+").query(&mut self.bench.redis).unwrap();
        let Some(at) = which.checked_rem(letters.len()) else { return (Ok(int(0)), int(0)) };
        let message = Call { attempts: 0, ..Call::decode(&letters[at].1["message"]) }.encode();
        let reply = self.bench.call("revive", |script| {
            script.key(QUEUE).key(TOKENS).key(DEAD).arg(&letters[at].0).arg(message);
        });
        let expected = match self.world.revive(at) {
            None => vec![int(1), Value::Array(Vec::new())],
            Some((id, holder)) => vec![int(0), Value::Array(vec![bytes(id), bytes(holder)])],
        };
        (reply, Value::Array(expected))
    }

    /// What stands in Redis.
    fn read(&mut self) -> LifeWorld {
        let state = self.bench.state();
        let later = state.later.iter().map(|(id, message)| {
            let id = id_of(id);
            (id, (self.due(id), Call::decode(message)))
        });
        let later: BTreeMap<_, _> = later.collect();
        assert_eq!(self.bench.redis.zcard::<_, usize>(DUE).unwrap(), later.len(), "expected a time for each");
        let slots =
            (0..SLOTS).map(|slot| state.processing.get(&wire_id(slot)).map(|bytes| Call::decode(bytes)));
        let states = (0..IDS).filter_map(|id| {
            let state: Option<String> = self.bench.redis.hget(record(id), "state").unwrap();
            state.map(|state| (id, state))
        });
        let records = states.collect();
        let holders = (0..KEYS).filter_map(|key| {
            let holder: Option<Vec<u8>> = self.bench.redis.get(lock_key(key)).unwrap();
            holder.map(|holder| (key, id_of(&holder)))
        });
        let locks = holders.collect();
        let mut parked: Vec<String> = self.bench.redis.smembers(PARKED).unwrap();
        let mut orders = BTreeMap::new();
        for key in 0..KEYS {
            let waiting: Vec<Vec<u8>> = self.bench.redis.lrange(waiters(key), 0, -1).unwrap();
            if !waiting.is_empty() {
                orders.insert(key, waiting.iter().map(|bytes| Call::decode(bytes)).collect());
                assert!(parked.contains(&order(key)), "expected the calls behind {key} to be found");
                parked.retain(|name| *name != order(key));
            }
        }
        assert_eq!(parked, Vec::<String>::new(), "expected no name without calls");
        let marks: Vec<Vec<u8>> = self.bench.redis.zrange(CANCELLED, 0, -1).unwrap();
        LifeWorld {
            waiting: state.waiting.iter().map(|bytes| Call::decode(bytes)).collect(),
            tokens: usize::try_from(state.tokens).unwrap(),
            later,
            slots: slots.collect(),
            records,
            locks,
            orders,
            marks: marks.iter().map(|id| id_of(id)).collect(),
            dead: state.dead.iter().map(|letter| Call::decode(&letter["message"])).collect(),
        }
    }
}

fn bytes(id: Id) -> Value {
    Value::BulkString(bytes_of(id).to_vec())
}

fn lock_argument(call: Call) -> Vec<u8> {
    call.lock.map(|lock| lock_of(lock).as_bytes().to_vec()).unwrap_or_default()
}

fn due_argument(when: Option<When>) -> String {
    match when {
        None => String::new(),
        Some(When::Past) => "1".into(),
        Some(When::Ahead) => format!("+{LONG}"),
    }
}

/// The first number of a reply.
fn answer(reply: &Value) -> i64 {
    match reply {
        // A time is an answer like any other time.
        Value::Int(number) => (*number).min(100),
        Value::Array(values) => values.first().map_or(0, answer),
        _ => 0,
    }
}

#[test]
fn any_life_of_calls_with_options_is_as_in_the_model() {
    let pair = Pair { bench: Bench::new(), world: LifeWorld::new(SLOTS), made: BTreeMap::new() };
    let pair = std::cell::RefCell::new(pair);
    let config = Config { cases: cases(150), failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&proptest::collection::vec(any_step(), 1..80), |sequence| {
        let mut pair = pair.borrow_mut();
        pair.clear();
        for (at, step) in sequence.iter().enumerate() {
            pair.step(step).map_err(|wrong| TestCaseError::fail(format!("step {at}, {step:?}: {wrong}")))?;
        }
        Ok(())
    });
    let made = pair.into_inner().made;
    println!("{made:?}");
    result.unwrap_or_else(|error| panic!("expected the scripts to do as the model does: {error}"));
    for rare in [
        "Submit 0",
        "Submit 1",
        "Submit 2",
        "Submit 3",
        "Submit 4",
        "Finish 1",
        "RetryLater -1",
        "Start 1",
        "Unpark 1",
    ] {
        assert!(made.contains_key(rare) || is_quick(), "expected some steps to answer {rare}: {made:?}");
    }
}
