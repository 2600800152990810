//! Do the scripts do what the model says? Random steps, one after another, on a Redis and in the model: every reply and
//! every state must be alike.

use std::cell::{Cell, RefCell};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::deaths::Deaths;
use super::pair::{Pair, Step, WORKER_COUNT};
use super::world::Place;
use crate::support::{cases, is_quick};

/// Few, so that they are met again.
const SLOTS: u8 = 4;

/// Different slots, in any order, at least `least` of them.
fn some_slots(least: usize) -> impl Strategy<Value = Vec<u8>> {
    (Just((0..SLOTS).collect::<Vec<u8>>()).prop_shuffle(), least..=usize::from(SLOTS)).prop_map(
        |(mut slots, count)| {
            slots.truncate(count);
            slots
        },
    )
}

fn any_step() -> impl Strategy<Value = Step> {
    let worker = || 0..WORKER_COUNT;
    // Mostly the next one.
    let number = || prop_oneof![9 => Just(0i8), 1 => -2..=2i8];
    let slot = || 0..SLOTS;
    let place = prop_oneof![Just(Place::Head), Just(Place::Tail)];
    prop_oneof![
        6 => (1..4usize).prop_map(Step::Enqueue),
        1 => Just(Step::Push),
        1 => Just(Step::Pop),
        2 => Just(Step::Move),
        1 => Just(Step::GiveBack),
        12 => (worker(), number(), (0..=2u8, any::<bool>()), 0..=SLOTS, 0..=SLOTS, 0..=SLOTS, some_slots(0)).prop_map(
            |(worker, number, (in_hand, renew), forgive, released, kept, wires)| Step::Claim {
                worker, number, in_hand, renew, forgive, released, kept, wires
            }
        ),
        3 => (worker(), number(), slot()).prop_map(|(worker, number, slot)| Step::PickUp { worker, number, slot }),
        3 => (worker(), number(), slot()).prop_map(|(worker, number, slot)| Step::Begin { worker, number, slot }),
        3 => (worker(), number(), slot()).prop_map(|(worker, number, slot)| Step::Retry { worker, number, slot }),
        2 => (worker(), number(), place, some_slots(0)).prop_map(|(worker, number, place, slots)| Step::PutBack {
            worker, number, place, slots
        }),
        2 => (worker(), number(), slot()).prop_map(|(worker, number, slot)| Step::Bury { worker, number, slot }),
        3 => (worker(), -1..10i8, some_slots(1)).prop_map(|(worker, ahead, slots)| Step::Reconcile {
            worker, ahead, slots
        }),
        4 => Just(Step::RequeueLost),
        3 => (-3..=3i8).prop_map(Step::Balance),
        2 => (worker(), some_slots(0)).prop_map(|(worker, slots)| Step::Beat { worker, slots }),
        1 => (worker(), some_slots(0)).prop_map(|(worker, slots)| Step::Resign { worker, slots }),
        1 => any::<usize>().prop_map(Step::Revive),
        1 => (0..4usize).prop_map(Step::Purge),
        4 => worker().prop_map(Step::LiveKeysExpire),
        1 => worker().prop_map(Step::NumberExpires),
    ]
}

/// What may happen to messages of the same bytes that two workers died of: they run alone, and die again.
fn any_step_with_suspects() -> impl Strategy<Value = Step> {
    let worker = || 0..WORKER_COUNT;
    let (number, slot) = (0, || Just(0u8));
    let place = prop_oneof![4 => Just(Place::Head), 1 => Just(Place::Tail)];
    let claim = move |worker, slot| Step::Claim {
        worker,
        number,
        in_hand: 0,
        renew: true,
        forgive: 0,
        released: 0,
        kept: 0,
        wires: vec![slot],
    };
    prop_oneof![
        4 => (worker(), slot()).prop_map(move |(worker, slot)| claim(worker, slot)),
        4 => (worker(), slot()).prop_map(move |(worker, slot)| Step::PickUp { worker, number, slot }),
        8 => (worker(), slot()).prop_map(move |(worker, slot)| Step::Begin { worker, number, slot }),
        2 => (worker(), place, slot()).prop_map(move |(worker, place, slot)| Step::PutBack {
            worker, number, place, slots: vec![slot]
        }),
        4 => worker().prop_map(Step::LiveKeysExpire),
        4 => Just(Step::RequeueLost),
        1 => any_step(),
    ]
}

#[test]
fn any_sequence_of_steps_is_as_in_the_model() {
    run(120, any_step(), Pair::clear);
}

#[test]
fn any_sequence_of_steps_with_suspects_is_as_in_the_model() {
    let mut buried = 0;
    run(80, any_step_with_suspects(), |pair| {
        buried += pair.world.dead.len();
        pair.clear();
        let mut world = pair.world.clone();
        (world.waiting, world.tokens) = (vec![1; 5], 5);
        world.deaths.insert(1, Deaths::of(vec![0, 1]));
        pair.set(world);
        // From here on it is known which call of each comes next.
        for worker in 0..WORKER_COUNT {
            pair.step(&Step::Reconcile { worker, ahead: 0, slots: vec![0] }).unwrap();
        }
    });
    assert!(buried > 4 || is_quick(), "expected more of them to die: {buried}");
}

fn run(usual: u32, step: impl Strategy<Value = Step>, begin: impl FnMut(&mut Pair)) {
    let (pair, steps) = (RefCell::new(Pair::new()), Cell::new(0));
    let begin = RefCell::new(begin);
    let config = Config { cases: cases(usual), failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&proptest::collection::vec(step, 1..80), |sequence| {
        let mut pair = pair.borrow_mut();
        begin.borrow_mut()(&mut pair);
        for (at, step) in sequence.iter().enumerate() {
            pair.step(step).map_err(|wrong| TestCaseError::fail(format!("step {at}, {step:?}: {wrong}")))?;
            steps.set(steps.get() + 1);
        }
        Ok(())
    });
    println!("{} steps were made", steps.get());
    result.unwrap_or_else(|error| panic!("expected the scripts to do as the model does: {error}"));
}
