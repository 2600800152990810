//! Do the scripts do what the model says? Random steps, one after another, on a Redis and in the model: every reply and
//! every state must be alike.

use std::cell::{Cell, RefCell};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::pair::{Pair, Step, WORKER_COUNT};
use super::world::Place;

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
        1 => Just(Step::MoveBack),
        12 => (worker(), number(), (0..=2u8, any::<bool>()), 0..=SLOTS, 0..=SLOTS, 0..=SLOTS, some_slots(0)).prop_map(
            |(worker, number, (in_hand, renew), forgive, released, kept, wires)| Step::Claim {
                worker, number, in_hand, renew, forgive, released, kept, wires
            }
        ),
        3 => (worker(), number(), slot()).prop_map(|(worker, number, slot)| Step::PickUp { worker, number, slot }),
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

#[test]
fn any_sequence_of_steps_is_as_in_the_model() {
    let (pair, steps) = (RefCell::new(Pair::new()), Cell::new(0));
    let config = Config { cases: 120, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&proptest::collection::vec(any_step(), 1..80), |sequence| {
        let mut pair = pair.borrow_mut();
        pair.clear();
        for (at, step) in sequence.iter().enumerate() {
            pair.step(step).map_err(|wrong| TestCaseError::fail(format!("step {at}, {step:?}: {wrong}")))?;
            steps.set(steps.get() + 1);
        }
        Ok(())
    });
    println!("{} steps were made", steps.get());
    result.unwrap_or_else(|error| panic!("expected the scripts to do as the model does: {error}"));
}
