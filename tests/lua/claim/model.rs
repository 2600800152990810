//! Does `claim` do what the model says? Case by case.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::model::deaths::Deaths;
use crate::model::pair::{Pair, SLOTS, WORKER_COUNT};
use crate::model::world::{Claim, MOVED, Message, World};

#[derive(Debug, Clone)]
struct Case {
    ask: Claim,
    renew: bool,
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

/// The message that a released slot owns.
fn old(number: usize) -> Message {
    100 + small::<Message>(number)
}

fn small<T: TryFrom<usize>>(number: usize) -> T {
    T::try_from(number).unwrap_or_else(|_| panic!("expected a small number, not {number}"))
}

/// What stands there before the claim of a worker, the first of all.
fn before(case: &Case) -> World {
    let mut world = World::new(usize::from(WORKER_COUNT), usize::from(SLOTS));
    (world.tokens, world.hand) = (case.tokens, case.hand);
    world.waiting = (0..small(case.waiting)).collect();
    for i in (0..case.ask.released).filter(|i| !case.lost.contains(i)) {
        world.processing.push((small(i), old(i)));
        world.live[i] = true;
    }
    // Another worker's, which must stay as it is.
    world.processing.push((SLOTS, 99));
    case.live.iter().for_each(|slot| world.live[*slot] = true);
    world.deaths = case.suspects.iter().map(|slot| (old(*slot), Deaths::of(vec![1]))).collect();
    world
}

/// Compares script and model. The error says where they differ.
fn compare(pair: &mut Pair, case: &Case) -> Result<(), String> {
    pair.set(before(case));
    pair.claim(0, 1, &case.ask, case.renew)
}

fn case(released: usize, kept: usize, free: usize, in_hand: usize) -> Case {
    let ask = Claim { in_hand, forgive: 0, released, kept, wires: (0..small(released + free)).collect() };
    let none = BTreeSet::new;
    Case { ask, renew: false, waiting: 0, tokens: 0, hand: 0, lost: none(), live: none(), suspects: none() }
}

#[test]
fn every_small_case_is_as_in_the_model() {
    let mut pair = Pair::new();
    let mut cases = 0;
    for released in 0..=2 {
        // Nothing in hand, a token that was popped, and one that was moved and is still there, or not.
        let hands = [(0, 1), (1, 0), (MOVED, 0), (MOVED, 1), (MOVED, 2)];
        for (kept, free, (in_hand, hand)) in (0..=released)
            .flat_map(|kept| (0..=2).flat_map(move |free| hands.map(|in_hand| (kept, free, in_hand))))
        {
            for (waiting, tokens) in (0..=3).flat_map(|waiting| (0..=3).map(move |tokens| (waiting, tokens)))
            {
                for mask in 0..1 << released {
                    let lost = (0..released).filter(|i| mask >> i & 1 == 1).collect();
                    let case = Case { waiting, tokens, hand, lost, ..case(released, kept, free, in_hand) };
                    compare(&mut pair, &case).unwrap_or_else(|wrong| panic!("{case:?}: {wrong}"));
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
        Case { ask: Claim { forgive, ..ask }, renew, waiting, tokens, hand, lost, live, suspects }
    }
}

#[test]
fn any_case_is_as_in_the_model() {
    let pair = std::cell::RefCell::new(Pair::new());
    let mut runner = TestRunner::new(Config { cases: 1000, failure_persistence: None, ..Config::default() });
    let result = runner.run(&any_case(), |case| {
        compare(&mut pair.borrow_mut(), &case).map_err(TestCaseError::fail)?;
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("expected the script to do as the model does: {error}"));
}
