//! What `claim` should do, said once more in Rust, and compared with the script case by case.

use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;

#[derive(Debug, Clone)]
struct Case {
    ask: Ask,
    waiting: usize,
    tokens: usize,
    /// Tokens in the hand.
    hand: usize,
    /// Released slots whose message was taken away, by number.
    lost: BTreeSet<usize>,
    /// Slots with a live key that nobody owns a message for.
    live: BTreeSet<usize>,
    /// Released slots whose message is a suspect, by number.
    suspects: BTreeSet<usize>,
}

/// What stands in Redis, as far as `claim` may change it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct World {
    waiting: VecDeque<Vec<u8>>,
    tokens: usize,
    hand: usize,
    processing: BTreeMap<String, Vec<u8>>,
    live: BTreeSet<String>,
    deaths: BTreeSet<String>,
    seq: Option<u64>,
}

/// A token was moved to the hand, for `in_hand`.
const MOVED: usize = 2;

/// The message that a released slot owns.
fn old(number: usize) -> String {
    format!("old{number}")
}

impl World {
    fn before(case: &Case) -> Self {
        let mut world = Self { tokens: case.tokens, hand: case.hand, ..Self::default() };
        world.waiting = (0..case.waiting).map(|i| format!("new{i}").into_bytes()).collect();
        for i in (0..case.ask.released).filter(|i| !case.lost.contains(i)) {
            world.processing.insert(slot(i), old(i).into_bytes());
            world.live.insert(slot(i));
        }
        // Another worker's, which must stay as it is.
        world.processing.insert("4711".into(), b"theirs".to_vec());
        world.live.extend(case.live.iter().map(|i| slot(*i)));
        world.deaths.extend(case.suspects.iter().map(|i| digest(&old(*i))));
        world
    }

    fn claim(&mut self, ask: &Ask) -> Reply {
        self.seq = Some(ask.seq);
        let mut reply = Reply { suspects: !self.deaths.is_empty(), ..Reply::default() };
        for (i, id) in ask.ids[..ask.released].iter().enumerate() {
            match self.processing.remove(id) {
                Some(message) => {
                    if i < ask.forgive {
                        self.deaths.remove(&digest(std::str::from_utf8(&message).unwrap()));
                    }
                }
                None => reply.lost += 1,
            }
        }
        if self.waiting.is_empty() {
            self.tokens = 0;
            if ask.in_hand == MOVED {
                self.hand = 0;
            }
        }
        let mut popped = usize::from(ask.in_hand == 1);
        let mut moved = usize::from(ask.in_hand == MOVED && self.hand > 0);
        for id in &ask.ids[ask.kept..] {
            // Notification first: without one nothing is taken.
            if self.waiting.is_empty() || popped + moved + self.tokens == 0 {
                break;
            }
            if popped > 0 {
                popped = 0;
            } else if moved > 0 {
                moved = 0;
                self.hand -= 1;
            } else {
                self.tokens -= 1;
            }
            let message = self.waiting.pop_front().unwrap();
            self.processing.insert(id.clone(), message.clone());
            self.live.insert(id.clone());
            reply.messages.push(message);
        }
        reply.waiting = i64::try_from(self.waiting.len()).unwrap();
        reply
    }

    fn write(&self, bench: &mut Bench) {
        let mut pipe = redis::pipe();
        pipe.cmd("FLUSHALL").ignore();
        for message in &self.waiting {
            pipe.rpush(QUEUE, message);
        }
        if self.tokens > 0 {
            pipe.rpush(TOKENS, vec!["1"; self.tokens]);
        }
        if self.hand > 0 {
            pipe.rpush(HAND, vec!["1"; self.hand]);
        }
        for (id, message) in &self.processing {
            pipe.hset(PROCESSING, id, message);
        }
        for id in &self.live {
            pipe.pset_ex(id, "1", LEASE);
        }
        for digest in &self.deaths {
            pipe.hset(DEATHS, digest, "1 q:w");
        }
        let () = pipe.query(&mut bench.redis).unwrap();
    }

    fn read(bench: &mut Bench) -> Self {
        let state = bench.state();
        let is_live = |key: &String| key.starts_with(&format!("{WORKER}:"));
        Self {
            waiting: state.waiting.into(),
            tokens: usize::try_from(state.tokens).unwrap(),
            hand: bench.redis.llen(HAND).unwrap(),
            processing: state.processing,
            live: state.keys.iter().filter(|key| is_live(key)).cloned().collect(),
            deaths: state.deaths.into_keys().collect(),
            seq: bench.seq(),
        }
    }
}

/// Compares script and model. The error says where they differ.
fn compare(bench: &mut Bench, case: &Case) -> Result<(), String> {
    let mut world = World::before(case);
    world.write(bench);
    let reply = claim(bench, &case.ask).map_err(|error| format!("expected a reply: {error}"))?;
    let expected = world.claim(&case.ask);
    if reply != expected {
        return Err(format!("expected the reply {expected:?}, it is {reply:?}"));
    }
    let after = World::read(bench);
    if after != world {
        return Err(format!("expected {world:#?}\nit is {after:#?}"));
    }
    Ok(())
}

fn case(released: usize, kept: usize, free: usize, in_hand: usize) -> Case {
    let ask = Ask { in_hand, released, kept, ..Ask::free(released + free) };
    let none = BTreeSet::new;
    Case { ask, waiting: 0, tokens: 0, hand: 0, lost: none(), live: none(), suspects: none() }
}

#[test]
fn every_small_case_is_as_in_the_model() {
    let mut bench = Bench::new();
    let mut cases = 0;
    for released in 0..=2 {
        // Nothing in hand, a token that was popped, and one that was moved and is still there, or not.
        let hands = [(0, 1), (1, 0), (MOVED, 0), (MOVED, 1), (MOVED, 2)];
        for (kept, free, (in_hand, hand)) in (0..=released).flat_map(|kept| {
            (0..=2).flat_map(move |free| hands.map(|in_hand_and_hand| (kept, free, in_hand_and_hand)))
        }) {
            for (waiting, tokens) in (0..=3).flat_map(|waiting| (0..=3).map(move |tokens| (waiting, tokens)))
            {
                for mask in 0..1 << released {
                    let lost = (0..released).filter(|i| mask >> i & 1 == 1).collect();
                    let case = Case { waiting, tokens, hand, lost, ..case(released, kept, free, in_hand) };
                    compare(&mut bench, &case).unwrap_or_else(|wrong| panic!("{case:?}: {wrong}"));
                    cases += 1;
                }
            }
        }
    }
    assert_eq!(cases, 4080, "expected every combination to be tried");
}

prop_compose! {
    fn any_case()(released in 0..24usize, free in 0..24usize)(
        kept in 0..=released,
        forgive in 0..=released,
        in_hand in 0..=MOVED,
        hand in 0..3usize,
        renew in any::<bool>(),
        waiting in 0..50usize,
        tokens in 0..50usize,
        lost in proptest::collection::btree_set(0..released.max(1), 0..=released),
        live in proptest::collection::btree_set(0..(released + free).max(1), 0..=released + free),
        suspects in proptest::collection::btree_set(0..released.max(1), 0..=released),
        shape in Just((released, free)),
    ) -> Case {
        let (released, free) = shape;
        let Case { ask, .. } = case(released, kept, free, in_hand);
        let live = live.into_iter().filter(|i| *i < released + free).collect();
        Case { ask: Ask { renew, forgive, ..ask }, waiting, tokens, hand, lost, live, suspects }
    }
}

#[test]
fn any_case_is_as_in_the_model() {
    let bench = std::cell::RefCell::new(Bench::new());
    let mut runner = TestRunner::new(Config { cases: 1000, failure_persistence: None, ..Config::default() });
    let result = runner.run(&any_case(), |case| {
        compare(&mut bench.borrow_mut(), &case).map_err(TestCaseError::fail)?;
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("expected the script to do as the model does: {error}"));
}
