//! Does what runs report of themselves go where a model says? Calls that begin, move between slots and end, and notes that come
//! late, one after another, on a Redis and in the model: every reply and every record must be alike.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use redis::{Commands, RedisResult};

use crate::lua::{Bench, PROCESSING, QUEUE};
use crate::support::{cases, is_quick};

const IDS: u8 = 2;
const SLOTS: u8 = 3;
const STATES: [&str; 5] = ["waiting", "retrying", "running", "succeeded", "dead"];
/// Bytes of a log that are kept, and of lines of which two are more.
const MOST: usize = 16_384;
const LONG: usize = 9_000;

#[derive(Debug, Clone)]
enum Step {
    Own {
        slot: u8,
        id: u8,
    },
    Leave(u8),
    /// A call that another script has moved or ended; its record is made if it has none.
    Become {
        id: u8,
        state: usize,
    },
    Forget(u8),
    Start {
        slot: u8,
        id: u8,
    },
    Note {
        slot: u8,
        id: u8,
        progress: Option<u8>,
        lines: Option<usize>,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Record {
    state: String,
    slot: Option<String>,
    progress: Option<(String, String)>,
    log: String,
}

/// What stands in Redis.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct World {
    owned: BTreeMap<u8, u8>,
    records: BTreeMap<u8, Record>,
}

impl World {
    fn start(&mut self, slot: u8, id: u8) -> usize {
        let is_owned = self.owned.get(&slot) == Some(&id);
        let Some(record) = self.records.get_mut(&id).filter(|record| is_owned && !record.has_ended()) else {
            return 0;
        };
        (record.state, record.slot) = ("running".into(), Some(wire_id(slot)));
        1
    }

    fn note(&mut self, slot: u8, id: u8, progress: Option<u8>, lines: &str) -> usize {
        let is_owned = self.owned.get(&slot) == Some(&id);
        let Some(record) = self.records.get_mut(&id) else { return 0 };
        // Of the run that goes on, or of the last one that has begun. A short one has ended before that was noted.
        let is_last = match &record.slot {
            Some(last) => *last == wire_id(slot),
            None => record.has_ended() || record.state == "retrying",
        };
        let is_its = is_owned && !record.has_ended() || is_last;
        if !is_its && lines.is_empty() {
            return 0;
        }
        if let Some(progress) = progress.filter(|_| is_its) {
            record.progress = Some((progress.to_string(), format!("step {progress}")));
        }
        record.log.push_str(lines);
        record.log.drain(..record.log.len().saturating_sub(MOST));
        1
    }
}

impl Record {
    fn has_ended(&self) -> bool {
        matches!(self.state.as_str(), "succeeded" | "dead")
    }
}

fn wire_id(slot: u8) -> String {
    format!("q:aaaaaaaaaaaaaaaa:{slot}")
}

fn bytes_of(id: u8) -> [u8; 16] {
    [b'a' + id; 16]
}

fn record(id: u8) -> String {
    format!("{QUEUE}:c:{}", format!("{:02x}", b'a' + id).repeat(16))
}

fn message(id: u8) -> Vec<u8> {
    [b"message ", &bytes_of(id)[..]].concat()
}

fn any_step() -> impl Strategy<Value = Step> {
    let (slot, id) = (|| 0..SLOTS, || 0..IDS);
    let lines = proptest::option::of(prop_oneof![4 => 1..20_usize, 1 => Just(LONG)]);
    prop_oneof![
        4 => (slot(), id()).prop_map(|(slot, id)| Step::Own { slot, id }),
        2 => slot().prop_map(Step::Leave),
        4 => (id(), 0..STATES.len()).prop_map(|(id, state)| Step::Become { id, state }),
        1 => id().prop_map(Step::Forget),
        4 => (slot(), id()).prop_map(|(slot, id)| Step::Start { slot, id }),
        10 => (slot(), id(), proptest::option::of(0..9_u8), lines)
            .prop_map(|(slot, id, progress, lines)| Step::Note { slot, id, progress, lines }),
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
        let redis = &mut self.bench.redis;
        let mut answers = None;
        match *step {
            Step::Own { slot, id } => {
                let () = redis.hset(PROCESSING, wire_id(slot), message(id)).unwrap();
                self.world.owned.insert(slot, id);
            }
            Step::Leave(slot) => {
                let () = redis.hdel(PROCESSING, wire_id(slot)).unwrap();
                self.world.owned.remove(&slot);
            }
            Step::Become { id, state } => {
                let () = redis.hset(record(id), "state", STATES[state]).unwrap();
                self.world.records.entry(id).or_default().state = STATES[state].to_owned();
            }
            Step::Forget(id) => {
                let () = redis.del(record(id)).unwrap();
                self.world.records.remove(&id);
            }
            Step::Start { slot, id } => {
                let reply = self.bench.call("start", |script| {
                    script.key(QUEUE).key(PROCESSING).arg(wire_id(slot)).arg(&bytes_of(id)).arg("").arg(1);
                });
                answers = Some(("start", reply, self.world.start(slot, id)));
            }
            Step::Note { slot, id, progress, lines } => {
                let lines =
                    lines.map(|length| format!("{}\n", id.to_string().repeat(length))).unwrap_or_default();
                let reply = self.bench.call("note", |script| {
                    script.key(PROCESSING).arg(QUEUE).arg(wire_id(slot)).arg(&bytes_of(id));
                    script.arg(progress.map(|progress| progress.to_string()).unwrap_or_default());
                    script
                        .arg(progress.map(|progress| format!("step {progress}")).unwrap_or_default())
                        .arg(&lines);
                });
                answers = Some(("note", reply, self.world.note(slot, id, progress, &lines)));
            }
        }
        if let Some((name, reply, expected)) = answers {
            let reply: RedisResult<usize> = reply;
            let reply = reply.map_err(|error| format!("expected a reply: {error}"))?;
            if reply != expected {
                return Err(format!("expected the reply {expected}, it is {reply}"));
            }
            *self.made.entry(format!("{name} {reply}")).or_default() += 1;
        }
        let after = self.read();
        if after == self.world {
            Ok(())
        } else {
            Err(format!("expected {:#?}\nit is {after:#?}", self.world))
        }
    }

    /// What stands in Redis.
    fn read(&mut self) -> World {
        let redis = &mut self.bench.redis;
        let mut world = World::default();
        for slot in 0..SLOTS {
            let message: Option<Vec<u8>> = redis.hget(PROCESSING, wire_id(slot)).unwrap();
            world.owned.extend(message.and_then(|message| Some((slot, message.last()? - b'a'))));
        }
        for id in 0..IDS {
            let mut fields: BTreeMap<String, String> = redis.hgetall(record(id)).unwrap();
            let Some(state) = fields.remove("state") else { continue };
            let progress = fields.remove("progress").zip(fields.remove("text"));
            let log = fields.remove("log").unwrap_or_default();
            world.records.insert(id, Record { state, slot: fields.remove("slot"), progress, log });
        }
        world
    }
}

#[test]
fn any_sequence_of_notes_is_as_in_the_model() {
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
    for reply in ["start 0", "start 1", "note 0", "note 1"] {
        assert!(made.contains_key(reply) || is_quick(), "expected some steps to answer {reply}: {made:?}");
    }
}
