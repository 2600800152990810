//! Do the scripts of flows do what a model of them does? Outcomes in any order, ends and new rounds, one after another, on a
//! Redis and in the model: every reply and every state must be alike.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use redis::{Commands, RedisResult};

use self::Part::{Chain, Group, Step as Leaf};
use crate::lua::{Bench, FLOW, FLOW_ID, FLOWS, OUTBOX, QUEUE};
use crate::support::{cases, is_quick};

const RECORD: &str = "q:c:09090909090909090909090909090909";
const LOCK: &str = "q:u:01010101010101010101010101010101";
const DONE: &str = "succeeded";
const STATES: [&str; 4] = [DONE, "dead", "cancelled", "expired"];
/// Milliseconds: how long what is known is kept after the end, and before.
const KEEP: u64 = 700_000;
const LIFE: u64 = 30 * 24 * 60 * 60 * 1000;

/// A part of a flow: a step, a chain, or a group with how many may run at a time, and its policy.
#[derive(Debug, Clone)]
enum Part {
    Step,
    Chain(Vec<Part>),
    Group(Vec<Part>, usize, &'static str),
}

/// Flows of few steps, so that they end.
fn shapes() -> [Part; 4] {
    [
        Chain(vec![Leaf, Group(vec![Leaf; 4], 2, "a"), Leaf]),
        Group(vec![Chain(vec![Leaf, Leaf]), Leaf, Leaf], 0, "f"),
        Group(vec![Leaf, Group(vec![Leaf, Leaf], 0, "a"), Leaf], 1, "s"),
        Chain(vec![Chain(vec![Leaf]), Group(vec![Leaf, Leaf], 1, "f")]),
    ]
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Step,
    Chain,
    Group { most: usize, policy: &'static str },
}

#[derive(Debug, Clone)]
struct Node {
    kind: Kind,
    parent: Option<usize>,
    place: usize,
    first: usize,
    count: usize,
}

/// Fields to forget, and fields to set.
type Changes<'a> = (&'a [String], &'a [(String, String)]);

/// An outcome: which step, its state, the field beside it, and whether it is one of another round.
type Outcome = (usize, usize, usize, bool);

#[derive(Debug, Clone)]
enum Step {
    Join(Vec<Outcome>),
    Close(usize),
    /// An operator lets the flow go on: a round begins.
    Reopen,
    /// What did not succeed is forgotten; sometimes by one that has read an earlier round.
    Forget {
        is_late: bool,
    },
    /// Outcomes count again.
    GoOn {
        is_late: bool,
    },
    /// A process has done something that was to be done.
    Did(usize),
}

/// What stands in Redis, without what the nodes are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Known {
    /// `o`, `v`, `r`, `g`, `k`, `b` and `w`, each with the number of a node, and what is known of the flow.
    fields: BTreeMap<String, String>,
    outbox: BTreeSet<String>,
    /// State, and whether it has ended.
    record: (String, bool),
    is_locked: bool,
    expires_soon: bool,
}

#[derive(Debug, Clone, Default)]
struct World {
    nodes: Vec<Node>,
    on_error: Option<usize>,
    known: Known,
}

impl World {
    fn new(shape: &Part, has_on_error: bool) -> Self {
        let mut nodes = Vec::new();
        let mut level = vec![(shape, None, 0)];
        while !level.is_empty() {
            let (begin, mut next) = (nodes.len(), Vec::new());
            let first_of_next = begin + level.len();
            for (number, (part, parent, place)) in (begin..).zip(level) {
                let (kind, parts) = match part {
                    Leaf => (Kind::Step, &[][..]),
                    Chain(parts) => (Kind::Chain, &parts[..]),
                    Group(parts, most, policy) => (Kind::Group { most: *most, policy }, &parts[..]),
                };
                let (first, count) = (first_of_next + next.len(), parts.len());
                nodes.push(Node { kind, parent, place, first, count });
                next.extend(parts.iter().enumerate().map(|(place, part)| (part, Some(number), place)));
            }
            level = next;
        }
        let on_error = has_on_error.then_some(nodes.len());
        nodes.extend(on_error.map(|_| Node { kind: Kind::Step, parent: None, place: 0, first: 0, count: 0 }));
        let record = ("running".to_owned(), false);
        Self { nodes, on_error, known: Known { record, is_locked: true, ..Known::default() } }
    }

    fn steps(&self) -> Vec<usize> {
        let is_step =
            |number: &usize| self.nodes[*number].kind == Kind::Step && Some(*number) != self.on_error;
        (0..self.nodes.len()).filter(is_step).collect()
    }

    fn get(&self, letter: &str, number: usize) -> Option<&str> {
        self.known.fields.get(&format!("{letter}{number}")).map(String::as_str)
    }

    fn number(&self, letter: &str, number: usize) -> usize {
        self.get(letter, number).map_or(0, |text| text.parse().unwrap())
    }

    fn set(&mut self, field: impl Into<String>, value: impl ToString) {
        self.known.fields.insert(field.into(), value.to_string());
    }

    fn ended(&self, number: usize) -> Option<&str> {
        self.get("o", number)
    }

    fn round_of(&self, number: usize) -> usize {
        self.number("g", number)
    }

    fn round(&self) -> usize {
        self.number("round", 0)
    }

    fn join(&mut self, number: usize, round: usize, state: &str, field: &str, to_do: &mut Vec<String>) {
        if number >= self.nodes.len() || self.round_of(number) != round || self.ended(number).is_some() {
            return;
        }
        let (is_over, ok) = (self.ended(0).is_some(), state == DONE);
        self.set(format!("o{number}"), state);
        match field {
            "" => {}
            "result" => self.set(format!("v{number}"), "value"),
            _ => self.set(format!("r{number}"), "value"),
        }
        let done = self.known.fields.get("done").map_or(0, |done| done.parse::<usize>().unwrap());
        self.set("done", done + usize::from(Some(number) != self.on_error));
        if Some(number) == self.on_error {
            return;
        }
        if !ok && !self.known.fields.contains_key("failed") {
            self.set("failed", number);
        }
        if !is_over && let Some(succeeded) = self.climb(number, ok, to_do) {
            if let (false, Some(on_error)) = (succeeded, self.on_error) {
                to_do.push(format!("o{on_error}"));
            }
            to_do.push("e0".to_owned());
        }
    }

    /// Carries an outcome upwards. Returns how the flow ends, if it does.
    fn climb(&mut self, number: usize, ok: bool, to_do: &mut Vec<String>) -> Option<bool> {
        let Some(parent) = self.nodes[number].parent else { return Some(ok) };
        if self.ended(parent).is_some() {
            return None;
        }
        let above = self.nodes[parent].clone();
        let ok = match above.kind {
            Kind::Step => panic!("expected a step to have no parts"),
            Kind::Chain if ok && self.nodes[number].place + 1 < above.count => {
                to_do.push(format!("o{}", number + 1));
                return None;
            }
            Kind::Chain => ok,
            Kind::Group { most, policy } => {
                let (ended, failed) =
                    (self.number("k", parent) + 1, self.number("b", parent) + usize::from(!ok));
                self.set(format!("k{parent}"), ended);
                self.set(format!("b{parent}"), failed);
                let is_last = ended == above.count;
                if !ok && policy == "f" {
                    to_do.extend((!is_last).then(|| format!("x{parent}")));
                    false
                } else if is_last {
                    failed == 0 || policy == "s"
                } else {
                    let begun = self.get("w", parent).map_or(most, |begun| begun.parse().unwrap());
                    let next = (begun..above.count).find(|place| self.ended(above.first + place).is_none());
                    if let (1.., Some(place)) = (most, next) {
                        self.set(format!("w{parent}"), place + 1);
                        to_do.push(format!("o{}", above.first + place));
                    }
                    return None;
                }
            }
        };
        self.set(format!("o{parent}"), if ok { DONE } else { "dead" });
        self.climb(parent, ok, to_do)
    }

    fn close(&mut self, state: &str) -> usize {
        if self.known.fields.contains_key("state") {
            return 0;
        }
        if self.ended(0).is_none() {
            self.set("o0", state);
        }
        self.set("state", state);
        self.set("ended", "");
        if state == "cancelled" {
            self.known.outbox.insert("x0".into());
        }
        self.known.record = (state.to_owned(), true);
        (self.known.is_locked, self.known.expires_soon) = (false, true);
        1
    }

    /// Whether a flow can be reopened, or is being so in this round.
    fn is_open(&self, round: Option<usize>) -> bool {
        let state = self.known.fields.get("state").map(String::as_str);
        match round {
            None => state.is_some_and(|state| state != DONE),
            Some(round) => state == Some("reopening") && round == self.round(),
        }
    }

    fn reopen(&mut self) -> usize {
        if !self.is_open(None) {
            return 0;
        }
        let round = self.round() + 1;
        self.set("round0", round);
        self.set("state", "reopening");
        round
    }

    /// What has to be forgotten and set below a node, as `src/flow/reopen.rs` finds it. Returns whether the node succeeded.
    fn changes(
        &self,
        number: usize,
        round: usize,
        forget: &mut Vec<String>,
        set: &mut Vec<(String, String)>,
    ) -> bool {
        if number != 0 && self.ended(number) == Some(DONE) {
            return true;
        }
        let node = &self.nodes[number];
        let Node { first, count, .. } = *node;
        let most = match node.kind {
            Kind::Step => {
                forget.extend(["o", "v", "r"].map(|letter| format!("{letter}{number}")));
                set.push((format!("g{number}"), round.to_string()));
                return false;
            }
            Kind::Chain => None,
            Kind::Group { most, .. } => Some(most),
        };
        let (mut succeeded, mut begun) = (0, 0);
        for place in 0..count {
            succeeded += usize::from(self.changes(first + place, round, forget, set));
            if most.is_some_and(|most| place + 1 - succeeded <= most) {
                begun = place + 1;
            }
        }
        if let Some(most) = most {
            set.extend((most > 0).then(|| (format!("w{number}"), begun.to_string())));
            set.push((format!("k{number}"), succeeded.to_string()));
            set.push((format!("b{number}"), "0".into()));
        }
        match succeeded == count {
            true => set.push((format!("o{number}"), DONE.into())),
            false => forget.push(format!("o{number}")),
        }
        succeeded == count
    }

    fn forget(&mut self, round: usize, forget: &[String], set: &[(String, String)]) -> usize {
        if !self.is_open(Some(round)) {
            return 0;
        }
        forget.iter().for_each(|field| drop(self.known.fields.remove(field)));
        set.iter().for_each(|(field, value)| self.set(field, value));
        round
    }

    fn go_on(&mut self, round: usize) -> usize {
        if !self.is_open(Some(round)) {
            return 0;
        }
        let is_complete = self.ended(0) == Some(DONE);
        self.known.outbox.insert(if is_complete { "e0" } else { "o0" }.into());
        let gone: &[&str] = if is_complete { &[] } else { &["o0"] };
        for field in gone.iter().chain(&["state", "ended", "failed"]) {
            self.known.fields.remove(*field);
        }
        self.known.record = ("running".into(), false);
        self.known.expires_soon = false;
        round
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    // Mostly one that succeeds.
    let state = prop_oneof![6 => Just(0), 2 => 1..STATES.len()];
    let outcome = (0..12_usize, state, 0..3_usize, proptest::bool::weighted(0.1));
    let is_late = || proptest::bool::weighted(0.1);
    prop_oneof![
        12 => proptest::collection::vec(outcome, 1..4).prop_map(Step::Join),
        2 => (0..STATES.len()).prop_map(Step::Close),
        3 => Just(Step::Reopen),
        3 => is_late().prop_map(|is_late| Step::Forget { is_late }),
        3 => is_late().prop_map(|is_late| Step::GoOn { is_late }),
        6 => any::<usize>().prop_map(Step::Did),
    ]
}

struct Pair {
    bench: Bench,
    world: World,
    /// How often each kind of step had an effect.
    made: BTreeMap<&'static str, u32>,
}

impl Pair {
    /// Begins a flow.
    fn begin(&mut self, world: World) {
        let redis = &mut self.bench.redis;
        let () = redis.flushall().unwrap();
        for (number, node) in world.nodes.iter().enumerate() {
            let (kind, most, policy) = match &node.kind {
                Kind::Step => ("s", 0, ""),
                Kind::Chain => ("c", 0, ""),
                Kind::Group { most, policy } => ("g", *most, *policy),
            };
            let parent = node.parent.map_or(-1, |parent| i64::try_from(parent).unwrap());
            let bytes =
                rmp_serde::to_vec(&(kind, parent, node.place, node.first, node.count, most, policy)).unwrap();
            let () = redis.hset(FLOW, format!("n{number}"), bytes).unwrap();
        }
        let () = redis.hset_multiple(FLOW, &[("keep", KEEP), ("steps", world.steps().len() as u64)]).unwrap();
        let () = redis.hset(FLOW, "lock", [&b"d"[..], &[1; 16]].concat()).unwrap();
        if let Some(on_error) = world.on_error {
            let () = redis.hset(FLOW, "on_error", on_error).unwrap();
        }
        let () = redis.pexpire(FLOW, LIFE as i64).unwrap();
        let () = redis.zadd(FLOWS, &FLOW_ID[..], LIFE).unwrap();
        let () = redis.hset(RECORD, "state", "running").unwrap();
        let () = redis.set(LOCK, &FLOW_ID[..]).unwrap();
        self.world = world;
    }

    /// Makes the step on both sides.
    fn step(&mut self, step: &Step) -> Result<(), String> {
        let (reply, expected, name) = match step {
            Step::Join(outcomes) => self.join(outcomes)?,
            Step::Close(state) => {
                let state = STATES[*state];
                let reply = self.bench.call("close", |script| {
                    script.key(FLOW).key(OUTBOX).key(FLOWS).arg(QUEUE).arg(&FLOW_ID[..]).arg(state);
                });
                (reply, self.world.close(state), "close")
            }
            Step::Reopen => (self.reopen(0, None), self.world.reopen(), "reopen"),
            Step::Forget { is_late } => {
                let round = self.read_round(*is_late);
                let (mut forget, mut set) = (Vec::new(), Vec::new());
                self.world.changes(0, round, &mut forget, &mut set);
                if let Some(number) = self.world.on_error {
                    forget.extend(["o", "v", "r"].map(|letter| format!("{letter}{number}")));
                    set.push((format!("g{number}"), round.to_string()));
                }
                let again =
                    self.world.steps().iter().filter(|step| forget.contains(&format!("o{step}"))).count();
                set.push(("done".into(), (self.world.steps().len() - again).to_string()));
                let reply = self.reopen(round, Some((&forget, &set)));
                (reply, self.world.forget(round, &forget, &set), "forget")
            }
            Step::GoOn { is_late } => {
                let round = self.read_round(*is_late);
                (self.reopen(round, None), self.world.go_on(round), "go on")
            }
            Step::Did(which) => {
                let to_do: Vec<String> = self.world.known.outbox.iter().cloned().collect();
                if let Some(place) = which.checked_rem(to_do.len()) {
                    self.world.known.outbox.remove(&to_do[place]);
                    let () = self.bench.redis.hdel(OUTBOX, field_of(&to_do[place])).unwrap();
                }
                (Ok(0), 0, "did")
            }
        };
        let reply = reply.map_err(|error| format!("expected a reply: {error}"))?;
        if reply != expected {
            return Err(format!("expected the reply {expected}, it is {reply}"));
        }
        if reply > 0 {
            *self.made.entry(name).or_default() += 1;
        }
        let after = self.read();
        if after == self.world.known {
            Ok(())
        } else {
            Err(format!("expected {:#?}\nit is {after:#?}", self.world.known))
        }
    }

    /// The round that a caller got, or one before: 0 would begin another.
    fn read_round(&self, is_late: bool) -> usize {
        (self.world.round() - usize::from(is_late && self.world.round() > 1)).max(1)
    }

    /// Returns how much is to be done.
    fn join(&mut self, outcomes: &[Outcome]) -> Result<(RedisResult<usize>, usize, &'static str), String> {
        let mut numbers = self.world.steps();
        numbers.extend(self.world.on_error);
        numbers.push(99);
        let outcomes: Vec<_> = outcomes
            .iter()
            .map(|(which, state, field, is_other)| {
                let number = numbers[which % numbers.len()];
                let round = self.world.round_of(number) + usize::from(*is_other);
                (number, round, STATES[*state], ["", "result", "reason"][*field])
            })
            .collect();
        let reply: RedisResult<Vec<Vec<u8>>> = self.bench.call("join", |script| {
            script.key(FLOW).key(OUTBOX).arg(&FLOW_ID[..]);
            for (number, round, state, field) in &outcomes {
                script.arg(number).arg(round).arg(*state).arg(*field).arg("value");
            }
        });
        let mut to_do = Vec::new();
        for (number, round, state, field) in outcomes {
            self.world.join(number, round, state, field, &mut to_do);
        }
        self.world.known.outbox.extend(to_do.iter().cloned());
        let found = reply.map_err(|error| format!("expected a reply: {error}"))?;
        let found: Vec<String> = found.iter().map(|field| read_to_do(field)).collect();
        if found != to_do {
            return Err(format!("expected {to_do:?} to be done, not {found:?}"));
        }
        for what in &to_do {
            let kind = match what.as_bytes()[0] {
                b'o' => "open",
                b'x' => "cancel",
                _ => "end",
            };
            *self.made.entry(kind).or_default() += 1;
        }
        Ok((Ok(0), 0, "join"))
    }

    fn reopen(&mut self, round: usize, changes: Option<Changes<'_>>) -> RedisResult<usize> {
        self.bench.call("reopen", |script| {
            script.key(FLOW).key(OUTBOX).key(FLOWS).arg(QUEUE).arg(&FLOW_ID[..]).arg(round);
            if let Some((forget, set)) = changes {
                script.arg(forget.len()).arg(forget);
                for (field, value) in set {
                    script.arg(field).arg(value);
                }
            }
        })
    }

    /// What stands in Redis.
    fn read(&mut self) -> Known {
        let redis = &mut self.bench.redis;
        let all: BTreeMap<String, Vec<u8>> = redis.hgetall(FLOW).unwrap();
        let (mut fields, of_plan) = (BTreeMap::new(), ["keep", "lock", "steps", "on_error"]);
        for (field, value) in all {
            if field.starts_with('n') || of_plan.contains(&field.as_str()) {
                continue;
            }
            let value = if field == "ended" { String::new() } else { String::from_utf8(value).unwrap() };
            fields.insert(if field == "round" { "round0".into() } else { field }, value);
        }
        let outbox = redis.hkeys::<_, Vec<Vec<u8>>>(OUTBOX).unwrap();
        let record: (String, Option<u64>) = redis.hmget(RECORD, &["state", "ended"]).unwrap();
        let left: u64 = redis.pttl(FLOW).unwrap();
        assert!(redis.zscore::<_, _, Option<u64>>(FLOWS, &FLOW_ID[..]).unwrap().is_some());
        Known {
            fields,
            outbox: outbox.iter().map(|field| read_to_do(field)).collect(),
            record: (record.0, record.1.is_some()),
            is_locked: redis.exists(LOCK).unwrap(),
            expires_soon: left <= KEEP,
        }
    }
}

/// A letter and a number, from an entry of the outbox.
fn read_to_do(field: &[u8]) -> String {
    let (flow, rest) = field.split_at(16);
    assert_eq!(flow, FLOW_ID, "expected the flow first");
    let number: [u8; 4] = rest[1..].try_into().expect("expected a letter and four bytes");
    format!("{}{}", char::from(rest[0]), u32::from_be_bytes(number))
}

fn field_of(to_do: &str) -> Vec<u8> {
    let number: u32 = to_do[1..].parse().unwrap();
    [&FLOW_ID[..], &to_do.as_bytes()[..1], &number.to_be_bytes()].concat()
}

#[test]
fn any_sequence_of_a_flow_is_as_in_the_model() {
    let pair = Pair { bench: Bench::new(), world: World::default(), made: BTreeMap::new() };
    let pair = std::cell::RefCell::new(pair);
    let config = Config { cases: cases(200), failure_persistence: None, ..Config::default() };
    let shapes = shapes();
    let sequences = (0..shapes.len(), any::<bool>(), proptest::collection::vec(any_step(), 1..60));
    let result = TestRunner::new(config).run(&sequences, |(shape, has_on_error, sequence)| {
        let mut pair = pair.borrow_mut();
        pair.begin(World::new(&shapes[shape], has_on_error));
        for (at, step) in sequence.iter().enumerate() {
            pair.step(step).map_err(|wrong| TestCaseError::fail(format!("step {at}, {step:?}: {wrong}")))?;
        }
        Ok(())
    });
    let made = pair.into_inner().made;
    println!("{made:?}");
    result.unwrap_or_else(|error| panic!("expected the scripts to do as the model does: {error}"));
    for rare in ["open", "cancel", "end", "close", "reopen", "forget", "go on"] {
        assert!(made.contains_key(rare) || is_quick(), "expected some steps to {rare}: {made:?}");
    }
}
