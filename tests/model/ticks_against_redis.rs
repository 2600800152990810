//! Do the scripts of periodic tasks do what a model of them does? Random definitions, pauses and ticks, one after another, on a
//! Redis and in the model: every reply and every state must be alike.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use redis::{Commands, RedisResult, Value};

use crate::lua::{Bench, DUE, PERIODIC, QUEUE, TIMETABLE, TOKENS, digest};
use crate::support::{cases, is_quick};

/// Few, so that they are met again.
const NAMES: u8 = 3;
const IDS: u8 = 4;
const KEYS: u8 = 2;
/// The modes of the locks that a tick takes.
const MODES: [u8; 3] = *b"dps";
/// Milliseconds since 1970: times that have passed, and the first second of 2100. Nobody computes the first of them.
const TIMES: [u64; 5] = [0, 1_000, 2_000, 4_102_444_800_000, 4_102_444_801_000];
const PASSED: u64 = 3_000;
/// Milliseconds; no sequence takes so long.
const LONG: u64 = 3_600_000;

/// A name, a definition, and when it is due.
type Put = (u8, u8, u64);

#[derive(Debug, Clone)]
struct Call {
    tick: u64,
    id: Option<u8>,
    lock: Option<(u8, u8)>,
}

#[derive(Debug, Clone)]
struct Tick {
    name: u8,
    definition: u8,
    /// `None`: made by hand.
    due: Option<u64>,
    next: Option<u64>,
    missed: Option<(u64, u8)>,
    calls: Vec<Call>,
}

#[derive(Debug, Clone)]
enum Step {
    Define {
        what: &'static str,
        late: bool,
        tasks: Vec<Put>,
    },
    Tick(Vec<Tick>),
    /// A process takes the lease of the timetable.
    Hold,
    /// A call ends.
    End(u8),
}

/// What stands in Redis.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct World {
    definitions: BTreeMap<u8, u8>,
    paused: BTreeSet<u8>,
    due: BTreeMap<u8, u64>,
    lease: bool,
    waiting: Vec<String>,
    tokens: usize,
    /// Whether a call with a record has ended.
    records: BTreeMap<u8, bool>,
    locks: BTreeMap<u8, u8>,
    /// Newest first: a tick, a word, and what belongs to it.
    histories: BTreeMap<u8, Vec<(u64, String, Vec<u8>)>>,
}

impl World {
    fn define(&mut self, what: &str, late: bool, tasks: &[Put]) -> Vec<&'static str> {
        let first = self.due.values().min().copied();
        let mut earliest: Option<u64> = None;
        let mut words = Vec::new();
        for (name, definition, due) in tasks {
            let is_late = *due > 0 && *due <= PASSED && !late;
            let (known, is_paused) = (self.definitions.get(name).copied(), self.paused.contains(name));
            let word = match what {
                "remove" => {
                    self.paused.remove(name);
                    self.due.remove(name);
                    self.histories.remove(name);
                    if self.definitions.remove(name).is_some() { "removed" } else { "absent" }
                }
                "pause" | "resume" if known.is_none() => "absent",
                "pause" if is_paused => "same",
                "pause" => {
                    self.paused.insert(*name);
                    self.due.remove(name);
                    "paused"
                }
                "resume" if !is_paused => "same",
                "new" if known.is_some() => "exists",
                "put" if known == Some(*definition) && (is_paused || self.due.contains_key(name)) => "same",
                _ if is_late => "late",
                _ => {
                    if what == "resume" {
                        self.paused.remove(name);
                    } else {
                        self.definitions.insert(*name, *definition);
                    }
                    let is_overdue = self.due.get(name).is_some_and(|due| *due <= PASSED);
                    if !self.paused.contains(name) && !is_overdue {
                        self.due.insert(*name, *due);
                        earliest = Some(earliest.map_or(*due, |earliest| earliest.min(*due)));
                    }
                    match (what, known) {
                        ("resume", _) => "resumed",
                        (_, Some(_)) => "changed",
                        (_, None) => "new",
                    }
                }
            };
            words.push(word);
        }
        if earliest.is_some_and(|earliest| first.is_none_or(|first| earliest < first)) {
            self.lease = false;
        }
        words
    }

    fn tick(&mut self, tick: &Tick) -> i64 {
        let Tick { name, definition, due, next, missed, calls } = tick;
        let is_due = due.is_none_or(|due| self.due.get(name) == Some(&due));
        if self.definitions.get(name) != Some(definition) || !is_due {
            return -1;
        }
        if due.is_some() {
            self.due.remove(name);
            self.due.extend(next.map(|next| (*name, next)));
        }
        if let Some((first, count)) = missed {
            self.note(*name, *first, "missed", count.to_string().into_bytes());
        }
        calls.iter().map(|call| i64::from(self.call(*name, call))).sum()
    }

    fn call(&mut self, name: u8, call: &Call) -> bool {
        if call.id.is_some_and(|id| self.records.contains_key(&id)) {
            return false;
        }
        if let (Some((mode, key)), Some(id)) = (call.lock, call.id) {
            if let Some(holder) = self.locks.get(&key).copied()
                && (mode == b'p' || self.records.get(&holder) == Some(&false))
            {
                self.note(name, call.tick, "skipped", bytes_of(holder).to_vec());
                return false;
            }
            self.locks.insert(key, id);
        }
        if let Some(id) = call.id {
            self.records.insert(id, false);
        }
        self.waiting.push(call.message());
        self.tokens += 1;
        let id = call.id.map(|id| bytes_of(id).to_vec()).unwrap_or_default();
        self.note(name, call.tick, "enqueued", id);
        true
    }

    fn note(&mut self, name: u8, tick: u64, word: &str, more: Vec<u8>) {
        let history = self.histories.entry(name).or_default();
        history.insert(0, (tick, word.to_owned(), more));
        history.truncate(50);
    }
}

impl Call {
    fn message(&self) -> String {
        format!("{self:?}")
    }
}

fn bytes_of(id: u8) -> [u8; 16] {
    [b'a' + id; 16]
}

fn record(id: u8) -> String {
    format!("{QUEUE}:c:{}", format!("{:02x}", b'a' + id).repeat(16))
}

fn lock_key(key: u8) -> String {
    format!("{QUEUE}:u:{}", format!("{key:02x}").repeat(16))
}

fn text(definition: u8) -> String {
    format!("definition {definition}")
}

fn any_time() -> impl Strategy<Value = u64> {
    (0..TIMES.len()).prop_map(|place| TIMES[place])
}

fn any_call() -> impl Strategy<Value = Call> {
    let id = proptest::option::weighted(0.8, 0..IDS);
    let lock = proptest::option::of((0..MODES.len(), 0..KEYS).prop_map(|(mode, key)| (MODES[mode], key)));
    // A call with a lock has an id.
    (1..5_u64, id, lock).prop_map(|(tick, id, lock)| Call { tick, id, lock: lock.filter(|_| id.is_some()) })
}

fn any_tick() -> impl Strategy<Value = Tick> {
    let due = proptest::option::weighted(0.8, any_time());
    let next = proptest::option::weighted(0.9, any_time());
    let missed = proptest::option::weighted(0.2, (1..5_u64, 1..9_u8));
    let calls = proptest::collection::vec(any_call(), 0..3);
    (0..NAMES, 0..2_u8, due, next, missed, calls).prop_map(|(name, definition, due, next, missed, calls)| {
        Tick { name, definition, due, next, missed, calls }
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    let what = prop_oneof![
        5 => Just("put"),
        1 => Just("new"),
        1 => Just("remove"),
        2 => Just("pause"),
        3 => Just("resume"),
    ];
    let tasks = proptest::collection::vec((0..NAMES, 0..2_u8, any_time()), 1..4);
    prop_oneof![
        5 => (what, any::<bool>(), tasks).prop_map(|(what, late, tasks)| Step::Define { what, late, tasks }),
        8 => proptest::collection::vec(any_tick(), 1..3).prop_map(Step::Tick),
        1 => Just(Step::Hold),
        2 => (0..IDS).prop_map(Step::End),
    ]
}

struct Pair {
    bench: Bench,
    world: World,
    /// How often each reply came.
    made: BTreeMap<String, u32>,
}

impl Pair {
    fn clear(&mut self) {
        let () = self.bench.redis.flushall().unwrap();
        self.world = World::default();
    }

    /// Makes the step on both sides.
    fn step(&mut self, step: &Step) -> Result<(), String> {
        let (replies, expected): (RedisResult<Vec<Value>>, Vec<Value>) = match step {
            Step::Define { what, late, tasks } => {
                let words = self.world.define(what, *late, tasks);
                let word = |word: &&str| Value::BulkString(word.as_bytes().to_vec());
                (self.define(what, *late, tasks), words.iter().map(word).collect())
            }
            Step::Tick(ticks) => {
                let ticks: Vec<Tick> = ticks.iter().map(|tick| self.meant(tick)).collect();
                let counts = ticks.iter().map(|tick| Value::Int(self.world.tick(tick))).collect();
                (self.tick(&ticks), counts)
            }
            Step::Hold => {
                self.world.lease = true;
                let () = self.bench.redis.set(TIMETABLE, "somebody").unwrap();
                (Ok(Vec::new()), Vec::new())
            }
            Step::End(id) => {
                if let Some(has_ended) = self.world.records.get_mut(id) {
                    *has_ended = true;
                    let () = self.bench.redis.hset(record(*id), "state", "succeeded").unwrap();
                }
                (Ok(Vec::new()), Vec::new())
            }
        };
        let replies = replies.map_err(|error| format!("expected a reply: {error}"))?;
        if replies != expected {
            return Err(format!("expected the reply {expected:?}, it is {replies:?}"));
        }
        for reply in replies {
            let reply = match reply {
                Value::BulkString(word) => String::from_utf8(word).unwrap(),
                other => format!("{other:?}"),
            };
            *self.made.entry(reply).or_default() += 1;
        }
        let after = self.read();
        if after == self.world {
            Ok(())
        } else {
            Err(format!("expected {:#?}\nit is {after:#?}", self.world))
        }
    }

    /// Mostly a tick that is due as it says: another time stands for a process that has read it too early.
    fn meant(&self, tick: &Tick) -> Tick {
        let known = self.world.due.get(&tick.name).copied();
        let is_read = tick.due.is_some_and(|due| due != TIMES[1]);
        Tick { due: if is_read { known.or(tick.due) } else { tick.due }, ..tick.clone() }
    }

    fn define(&mut self, what: &str, late: bool, tasks: &[Put]) -> RedisResult<Vec<Value>> {
        self.bench.call("define", |call| {
            call.key(DUE).key(PERIODIC).key(TIMETABLE).arg(QUEUE).arg("q:due").arg(what).arg(u8::from(late));
            for (name, definition, due) in tasks {
                call.arg(name.to_string()).arg(text(*definition)).arg(*due);
            }
        })
    }

    fn tick(&mut self, ticks: &[Tick]) -> RedisResult<Vec<Value>> {
        let time = |time: Option<u64>| time.map(|time| time.to_string()).unwrap_or_default();
        self.bench.call("tick", |script| {
            script.key(QUEUE).key(TOKENS).key(DUE).key(PERIODIC);
            for Tick { name, definition, due, next, missed, calls } in ticks {
                let (first, count) = missed.unwrap_or_default();
                script.arg(name.to_string()).arg(time(*due)).arg(digest(&text(*definition))).arg(time(*next));
                script.arg(first).arg(count).arg(calls.len());
                for call in calls {
                    let id = call.id.map(|id| bytes_of(id).to_vec()).unwrap_or_default();
                    let keep = if call.id.is_some() { "60000" } else { "" };
                    let lock = call.lock.map(|(mode, key)| [&[mode][..], &[key; 16]].concat());
                    script.arg(call.tick).arg(id).arg(keep).arg(lock.unwrap_or_default()).arg(LONG);
                    script.arg("f").arg(call.message());
                }
            }
        })
    }

    /// What stands in Redis.
    fn read(&mut self) -> World {
        let redis = &mut self.bench.redis;
        let mut world = World { lease: redis.exists(TIMETABLE).unwrap(), ..World::default() };
        let fields: BTreeMap<String, String> = redis.hgetall(PERIODIC).unwrap();
        for (field, value) in fields {
            let (kind, name) = field.split_once(':').unwrap();
            let name = name.parse().unwrap();
            if kind == "d" {
                world.definitions.insert(name, value.rsplit(' ').next().unwrap().parse().unwrap());
            } else {
                world.paused.insert(name);
            }
        }
        let due: Vec<(String, u64)> = redis.zrange_withscores(DUE, 0, -1).unwrap();
        world.due = due.into_iter().map(|(member, due)| (member[1..].parse().unwrap(), due)).collect();
        for id in 0..IDS {
            let state: Option<String> = redis.hget(record(id), "state").unwrap();
            world.records.extend(state.map(|state| (id, state == "succeeded")));
        }
        for key in 0..KEYS {
            let holder: Option<Vec<u8>> = redis.get(lock_key(key)).unwrap();
            world.locks.extend(holder.map(|holder| (key, holder[0] - b'a')));
        }
        for name in 0..NAMES {
            let entries: Vec<Vec<u8>> = redis.lrange(format!("{QUEUE}:p:{name}"), 0, -1).unwrap();
            if !entries.is_empty() {
                world.histories.insert(name, entries.iter().map(|entry| noted(entry)).collect());
            }
        }
        world.waiting = redis.lrange(QUEUE, 0, -1).unwrap();
        world.tokens = redis.llen(TOKENS).unwrap();
        world
    }
}

/// An entry of a history, without when it was made.
fn noted(entry: &[u8]) -> (u64, String, Vec<u8>) {
    let (tick, _, word, more): (u64, u64, String, serde_bytes::ByteBuf) =
        rmp_serde::from_slice(entry).unwrap();
    (tick, word, more.into_vec())
}

#[test]
fn any_sequence_of_ticks_is_as_in_the_model() {
    let pair = Pair { bench: Bench::new(), world: World::default(), made: BTreeMap::new() };
    let pair = std::cell::RefCell::new(pair);
    let config = Config { cases: cases(150), failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&proptest::collection::vec(any_step(), 1..60), |sequence| {
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
    let words = ["new", "changed", "same", "exists", "late", "removed", "absent", "paused", "resumed"];
    for reply in words.into_iter().chain(["int(-1)", "int(0)", "int(1)", "int(2)"]) {
        assert!(made.contains_key(reply) || is_quick(), "expected some steps to answer {reply}: {made:?}");
    }
}
