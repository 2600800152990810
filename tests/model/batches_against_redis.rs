//! Do the scripts of batches do what a model of them does? Batches that fill, become messages, and are split after a run, one
//! step after another, on a Redis and in the model: every reply and every state must be alike.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use redis::{Commands, RedisResult};

use crate::lua::{Bench, DEAD, DEATHS, DUE, LATER, PERIODIC, PROCESSING, QUEUE, TIMETABLE, TOKENS};
use crate::support::trial::message;
use crate::support::{cases, is_quick};

/// A path, one with a key, and another path.
const NAMES: [&str; 3] = ["f", "f k", "g"];
const IDS: u8 = 3;
/// Each is of the one worker.
const SLOTS: usize = 2;
const WORKER: &str = "q:aaaaaaaaaaaaaaaa";
/// Milliseconds; no sequence takes so long.
const LONG: u64 = 3_600_000;
const GRACE: u64 = 1_800_000;

/// What becomes of an item of a batch that was run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Done,
    Again,
    Later { id: u8, is_due: bool },
    Dead(u8),
}

#[derive(Debug, Clone)]
struct Filled {
    name: usize,
    most: usize,
    has_grace: bool,
    full: usize,
    count: usize,
}

#[derive(Debug, Clone)]
enum Step {
    Fill(Vec<Filled>),
    /// The time of a batch comes.
    Due(usize),
    Promote(usize),
    /// A slot claims the first message.
    Own(usize),
    /// A process that owned the message of a slot has died.
    Suspect(usize),
    Split {
        slot: usize,
        fates: Vec<Fate>,
    },
}

/// What stands in Redis.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct World {
    /// The items of each filling batch, and when the first of them came.
    filling: BTreeMap<String, (u64, Vec<u8>)>,
    /// By member.
    due: BTreeMap<Vec<u8>, u64>,
    later: BTreeMap<u8, Vec<u8>>,
    waiting: Vec<Vec<u8>>,
    tokens: usize,
    slots: BTreeMap<usize, Vec<u8>>,
    deaths: BTreeSet<String>,
    /// Message, detail and attempt.
    dead: Vec<(Vec<u8>, String, String)>,
    seq: u64,
}

impl World {
    fn push(&mut self, message: Vec<u8>) {
        self.waiting.push(message);
        self.tokens += 1;
    }

    /// Adds items, which come at `now`. Returns how many messages were made.
    fn fill(&mut self, batch: &Filled, full: &[Vec<u8>], items: &[u8], now: u64) -> usize {
        let (name, before) = (NAMES[batch.name], self.waiting.len());
        full.iter().for_each(|items| self.push(batch_message(name, items)));
        let (mut since, mut filling) = self.filling.remove(name).unwrap_or((now, Vec::new()));
        for item in items {
            filling.push(*item);
            if filling.len() >= batch.most {
                self.push(batch_message(name, &std::mem::take(&mut filling)));
                since = now;
            }
        }
        let member = member_of(name);
        if !filling.is_empty() {
            if !items.is_empty() {
                let latest = since + LONG;
                self.due.insert(member, if batch.has_grace { latest.min(now + GRACE) } else { latest });
            }
            self.filling.insert(name.to_owned(), (since, filling));
        } else if !items.is_empty() {
            self.due.remove(&member);
        }
        self.waiting.len() - before
    }

    fn promote(&mut self, now: u64, count: usize) -> usize {
        let mut due: Vec<(u64, Vec<u8>)> =
            self.due.iter().map(|(member, due)| (*due, member.clone())).collect();
        due.retain(|(due, _)| *due <= now);
        due.sort_unstable();
        due.truncate(count);
        let before = self.waiting.len();
        // Calls come behind batches.
        due.sort_by_key(|(_, member)| member[0] != b'g');
        for (_, member) in due {
            self.due.remove(&member);
            let (kind, name) = member.split_at(1);
            if kind == b"g" {
                let name = std::str::from_utf8(name).unwrap();
                let filling = self.filling.remove(name).map(|(_, items)| batch_message(name, &items));
                filling.into_iter().for_each(|message| self.push(message));
            } else {
                let later = self.later.remove(&(name[0] - b'a')).unwrap();
                self.push(later);
            }
        }
        self.waiting.len() - before
    }

    /// Returns whether the slot owned something, and how many dead letters there are of it.
    fn split(&mut self, slot: usize, items: &[(Fate, Vec<u8>)], now: u64) -> (bool, usize) {
        self.seq += 1;
        let Some(owned) = self.slots.remove(&slot) else { return (false, 0) };
        self.deaths.remove(&digest(&owned));
        let again = items.iter().filter(|(fate, _)| *fate == Fate::Again);
        again.for_each(|(_, message)| self.push(message.clone()));
        let letters = self.dead.len();
        for (fate, message) in items {
            match *fate {
                Fate::Later { id, .. } if self.later.contains_key(&id) => self.push(message.clone()),
                Fate::Later { id, is_due } => {
                    self.due.insert(call_member(id), if is_due { now } else { now + LONG });
                    self.later.insert(id, message.clone());
                }
                Fate::Dead(attempt) => {
                    self.dead.push((message.clone(), format!("no {attempt}"), attempt.to_string()));
                }
                Fate::Done | Fate::Again => {}
            }
        }
        (true, self.dead.len() - letters)
    }
}

/// A call of the task of a batch with these items, which have one byte each.
fn batch_message(name: &str, items: &[u8]) -> Vec<u8> {
    let path = name.split(' ').next().unwrap();
    message(path, &[&[0x90 + u8::try_from(items.len()).unwrap()], items].concat())
}

fn member_of(name: &str) -> Vec<u8> {
    format!("g{name}").into_bytes()
}

fn bytes_of(id: u8) -> [u8; 16] {
    [b'a' + id; 16]
}

fn call_member(id: u8) -> Vec<u8> {
    [&b"c"[..], &bytes_of(id)].concat()
}

/// The field of a message in `deaths`.
fn digest(message: &[u8]) -> String {
    sha1_smol::Sha1::from(message).digest().to_string()
}

fn wire_id(slot: usize) -> String {
    format!("{WORKER}:{slot}")
}

fn any_fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        3 => Just(Fate::Done),
        1 => Just(Fate::Again),
        2 => (0..IDS, any::<bool>()).prop_map(|(id, is_due)| Fate::Later { id, is_due }),
        1 => (1..4_u8).prop_map(Fate::Dead),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let filled = (0..NAMES.len(), 1..5_usize, any::<bool>(), 0..3_usize, 0..6_usize).prop_map(
        |(name, most, has_grace, full, count)| Filled {
            name,
            most,
            has_grace,
            full: full.saturating_sub(1),
            count,
        },
    );
    prop_oneof![
        6 => proptest::collection::vec(filled, 1..3).prop_map(Step::Fill),
        2 => (0..NAMES.len()).prop_map(Step::Due),
        3 => (1..4_usize).prop_map(Step::Promote),
        5 => (0..SLOTS).prop_map(Step::Own),
        1 => (0..SLOTS).prop_map(Step::Suspect),
        5 => (0..SLOTS, proptest::collection::vec(any_fate(), 0..4))
            .prop_map(|(slot, fates)| Step::Split { slot, fates }),
    ]
}

struct Pair {
    bench: Bench,
    world: World,
    /// The last item.
    item: u8,
    /// How often each kind of step had an effect.
    made: BTreeMap<&'static str, u32>,
}

impl Pair {
    fn clear(&mut self) {
        let () = self.bench.redis.flushall().unwrap();
        self.world = World::default();
    }

    fn now(&mut self) -> u64 {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut self.bench.redis).unwrap();
        seconds * 1000 + micros / 1000
    }

    /// Items that are unlike those before them: small numbers.
    fn items(&mut self, count: usize) -> Vec<u8> {
        let next = |item: u8| if item >= 0x7e { 0x20 } else { item + 1 };
        let items: Vec<u8> =
            std::iter::successors(Some(next(self.item)), |item| Some(next(*item))).take(count).collect();
        self.item = items.last().copied().unwrap_or(self.item);
        items
    }

    /// Makes the step on both sides.
    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Fill(batches) => self.fill(batches)?,
            Step::Due(name) => {
                let member = member_of(NAMES[*name]);
                if let Some(due) = self.world.due.get_mut(&member) {
                    *due = 1;
                    let () = self.bench.redis.zadd(DUE, member, 1).unwrap();
                }
            }
            Step::Promote(count) => self.promote(*count)?,
            Step::Own(slot) => {
                if !self.world.slots.contains_key(slot) && !self.world.waiting.is_empty() {
                    let message = self.world.waiting.remove(0);
                    self.world.tokens -= 1;
                    let _: (Vec<u8>, Vec<u8>) = redis::pipe()
                        .lpop(QUEUE, None)
                        .lpop(TOKENS, None)
                        .query(&mut self.bench.redis)
                        .unwrap();
                    let () = self.bench.redis.hset(PROCESSING, wire_id(*slot), &message).unwrap();
                    self.world.slots.insert(*slot, message);
                }
            }
            Step::Suspect(slot) => {
                if let Some(owned) = self.world.slots.get(slot) {
                    let digest = digest(owned);
                    let () = self.bench.redis.hset(DEATHS, &digest, "1 1 q:w").unwrap();
                    self.world.deaths.insert(digest);
                }
            }
            Step::Split { slot, fates } => self.split(*slot, fates)?,
        }
        let after = self.read();
        if after == self.world {
            Ok(())
        } else {
            Err(format!("expected {:#?}\nit is {after:#?}", self.world))
        }
    }

    fn fill(&mut self, batches: &[Filled]) -> Result<(), String> {
        let given: Vec<(Vec<Vec<u8>>, Vec<u8>)> = batches
            .iter()
            .map(|batch| {
                let full = (0..batch.full).map(|_| self.items(batch.most)).collect();
                (full, self.items(batch.count))
            })
            .collect();
        let before = self.now();
        let reply: RedisResult<usize> = self.bench.call("fill", |script| {
            script.key(QUEUE).key(TOKENS).key(DUE).key(TIMETABLE).arg("q:due");
            for (batch, (full, items)) in batches.iter().zip(&given) {
                let grace = if batch.has_grace { GRACE } else { 0 };
                script
                    .arg(NAMES[batch.name])
                    .arg(batch.most)
                    .arg(LONG)
                    .arg(grace)
                    .arg(full.len())
                    .arg(items.len());
                for items in full {
                    script.arg(items.as_slice());
                }
                for item in items {
                    script.arg(&[*item][..]);
                }
            }
        });
        let made = reply.map_err(|error| format!("expected a reply: {error}"))?;
        // The time of the script is one of these.
        let (after, found) = (self.now(), self.read());
        let mut worlds = (before..=after).map(|now| {
            let mut world = self.world.clone();
            let given = batches.iter().zip(&given);
            let expected: usize =
                given.map(|(batch, (full, items))| world.fill(batch, full, items, now)).sum();
            (world, expected)
        });
        let last = worlds.next_back().expect("a moment");
        let (world, expected) = worlds.find(|(world, _)| *world == found).unwrap_or(last);
        self.world = world;
        self.count(if made > 0 { "full" } else { "filling" });
        if made == expected { Ok(()) } else { Err(format!("expected {expected} messages, not {made}")) }
    }

    fn promote(&mut self, count: usize) -> Result<(), String> {
        // What is due was due before this step.
        let now = self.now();
        let reply: RedisResult<(usize, i64)> = self.bench.call("promote", |script| {
            script.key(QUEUE).key(TOKENS).key(DUE).key(LATER).key(TIMETABLE).key(PERIODIC);
            script.arg("us").arg(1_000).arg(count).arg(0);
        });
        let (moved, _) = reply.map_err(|error| format!("expected a reply: {error}"))?;
        let expected = self.world.promote(now, count);
        self.count(if moved > 0 { "moved" } else { "none due" });
        if moved == expected { Ok(()) } else { Err(format!("expected {expected} to be moved, not {moved}")) }
    }

    fn split(&mut self, slot: usize, fates: &[Fate]) -> Result<(), String> {
        let items: Vec<(Fate, Vec<u8>)> =
            fates.iter().map(|fate| (*fate, batch_message("f", &self.items(1)))).collect();
        let (before, seq) = (self.now(), self.world.seq + 1);
        let reply: RedisResult<(u8, u64, Vec<String>)> = self.bench.call("split", |script| {
            script.key(PROCESSING).key(WORKER).key(DEATHS).key(QUEUE).key(TOKENS);
            script.key(DUE).key(LATER).key(TIMETABLE).key(DEAD);
            script.arg(seq).arg(wire_id(slot)).arg(1000).arg(1_u64 << 40).arg("host/1/w");
            for (fate, message) in items.iter().filter(|(fate, _)| *fate != Fate::Done) {
                let (id, delay, attempt) = match *fate {
                    Fate::Later { id, is_due } => (bytes_of(id).to_vec(), if is_due { 0 } else { LONG }, 0),
                    Fate::Dead(attempt) => (Vec::new(), 0, attempt),
                    Fate::Done | Fate::Again => (Vec::new(), 0, 0),
                };
                script.arg(id).arg(delay).arg(format!("no {attempt}")).arg(attempt).arg(message.as_slice());
            }
        });
        let (owned, trimmed, letters) = reply.map_err(|error| format!("expected a reply: {error}"))?;
        let (after, found) = (self.now(), self.read());
        let mut worlds = (before..=after).map(|now| {
            let mut world = self.world.clone();
            let expected = world.split(slot, &items, now);
            (world, expected)
        });
        let last = worlds.next_back().expect("a moment");
        let (world, expected) = worlds.find(|(world, _)| *world == found).unwrap_or(last);
        self.world = world;
        self.count(if owned == 1 { "split" } else { "not owned" });
        let reply = (owned == 1, letters.len());
        if reply == expected && trimmed == 0 && letters.iter().all(|letter| !letter.is_empty()) {
            Ok(())
        } else {
            Err(format!("expected the reply {expected:?}, it is {owned}, {trimmed}, {letters:?}"))
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.made.entry(what).or_default() += 1;
    }

    /// What stands in Redis.
    fn read(&mut self) -> World {
        let state = self.bench.state();
        let redis = &mut self.bench.redis;
        let mut world = World {
            tokens: usize::try_from(state.tokens).unwrap(),
            waiting: state.waiting,
            ..World::default()
        };
        for name in NAMES {
            let list: Vec<Vec<u8>> = redis.lrange(format!("{QUEUE}:g:{name}"), 0, -1).unwrap();
            if let Some((header, items)) = list.split_first() {
                let items: Vec<u8> = items.iter().flatten().copied().collect();
                let (since, bytes) = std::str::from_utf8(header).unwrap().split_once(' ').unwrap();
                assert_eq!(bytes.parse::<usize>().unwrap(), items.len(), "expected the bytes of all items");
                world.filling.insert(name.to_owned(), (since.parse().unwrap(), items));
            }
        }
        world.due =
            redis.zrange_withscores::<_, Vec<(Vec<u8>, u64)>>(DUE, 0, -1).unwrap().into_iter().collect();
        world.later = state.later.into_iter().map(|(id, message)| (id[0] - b'a', message)).collect();
        world.slots = (0..SLOTS)
            .filter_map(|slot| Some((slot, state.processing.get(&wire_id(slot))?.clone())))
            .collect();
        world.deaths = redis.hkeys::<_, Vec<String>>(DEATHS).unwrap().into_iter().collect();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let letters = state.dead.iter();
        world.dead = letters
            .map(|letter| (letter["message"].clone(), text(&letter["detail"]), text(&letter["attempt"])))
            .collect();
        world.seq = redis.hget::<_, _, Option<u64>>(WORKER, "seq").unwrap().unwrap_or_default();
        world
    }
}

#[test]
fn any_sequence_with_batches_is_as_in_the_model() {
    let pair = Pair { bench: Bench::new(), world: World::default(), item: 0, made: BTreeMap::new() };
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
    for rare in ["full", "filling", "moved", "none due", "split", "not owned"] {
        assert!(made.contains_key(rare) || is_quick(), "expected some steps to be {rare}: {made:?}");
    }
}
