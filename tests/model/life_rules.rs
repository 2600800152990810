//! What keeps scheduled calls from running early, unique ones from running twice, and cancelled ones from running at all? Each
//! rule can be switched off, and then the checker must find what it prevents.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::life::{Cancelling, Faults, Life, State, Work};

const ONE_PLACE: &str = "a call is in one place";
const IN_TIME: &str = "no call leaves the timetable before it is due";
const NEVER_AGAIN: &str = "what was cancelled does not begin";
const ONE_HOLDER: &str = "of calls with one lock, one is under way";
const OWN_LOCK: &str = "nobody frees the lock of another";
const FREE: &str = "at rest, the lock is free";
const FINAL: &str = "an end is never taken back";
const TOLD: &str = "at rest, each record says how its call ended";
const UNMARKED: &str = "at rest, nothing is marked";

const ALL: [&str; 9] = [ONE_PLACE, IN_TIME, NEVER_AGAIN, ONE_HOLDER, OWN_LOCK, FREE, FINAL, TOLD, UNMARKED];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// Nothing is moved out of the timetable before it is due.
    PromoteAsksForTheTime,
    /// A call is taken out of the timetable and put into the queue at once.
    PromoteIsOneStep,
    /// A cancellation marks the call, and looks for it in the slots then.
    MarkComesBeforeTheSearch,
    /// A claim tells what is marked of what it brings.
    ClaimReadsMarks,
    /// So does a reconcile.
    ReconcileReadsMarks,
    /// A retry leaves the mark.
    RetryKeepsTheMark,
    /// Every end of a call drops its mark.
    EveryEndDropsTheMark,
    /// A cancellation does not mark what has ended.
    CancelAsksForTheEnd,
    /// A start is not noted for what its slot owns no more, or what has ended.
    StartAsksForItsSlot,
    /// The end of a run is not noted for what its slot owns no more.
    EndAsksForItsSlot,
    /// A lock is freed only by the call that has it.
    LockIsAsked,
    /// Also a burial frees the lock.
    EveryEndFreesTheLock,
    /// A retry does not.
    RetryKeepsTheLock,
}

impl Rule {
    const ALL: [Self; 13] = [
        Self::PromoteAsksForTheTime,
        Self::PromoteIsOneStep,
        Self::MarkComesBeforeTheSearch,
        Self::ClaimReadsMarks,
        Self::ReconcileReadsMarks,
        Self::RetryKeepsTheMark,
        Self::EveryEndDropsTheMark,
        Self::CancelAsksForTheEnd,
        Self::StartAsksForItsSlot,
        Self::EndAsksForItsSlot,
        Self::LockIsAsked,
        Self::EveryEndFreesTheLock,
        Self::RetryKeepsTheLock,
    ];

    /// Where it is needed, and what goes wrong without it.
    fn needed_in(self) -> (Life, &'static str) {
        match self {
            Self::PromoteAsksForTheTime => (DEATHS, IN_TIME),
            Self::PromoteIsOneStep => (DEATHS, ONE_PLACE),
            Self::MarkComesBeforeTheSearch | Self::ClaimReadsMarks => (DEATHS, NEVER_AGAIN),
            Self::ReconcileReadsMarks => (LOST, NEVER_AGAIN),
            Self::RetryKeepsTheMark => (FAILURES, NEVER_AGAIN),
            Self::EveryEndDropsTheMark | Self::CancelAsksForTheEnd => (DEATHS, UNMARKED),
            Self::StartAsksForItsSlot => (DEATHS, FINAL),
            Self::EndAsksForItsSlot => (SILENCE, ONE_PLACE),
            Self::LockIsAsked => (STARTED, OWN_LOCK),
            Self::EveryEndFreesTheLock => (FAILURES, FREE),
            Self::RetryKeepsTheLock => (FAILURES, ONE_HOLDER),
        }
    }
}

const NO_FAULTS: Faults = Faults { crash: 0, silence: 0, lost: 0, fail: 0 };
const DEATHS: Life =
    Life { calls: 2, until_started: false, faults: Faults { crash: 1, ..NO_FAULTS }, without: None };
const SILENCE: Life = Life { faults: Faults { silence: 1, ..NO_FAULTS }, ..DEATHS };
const LOST: Life = Life { faults: Faults { lost: 1, crash: 1, ..NO_FAULTS }, ..DEATHS };
const FAILURES: Life = Life { faults: Faults { fail: 2, silence: 1, ..NO_FAULTS }, ..DEATHS };
const STARTED: Life = Life { until_started: true, ..SILENCE };

pub(super) fn properties() -> Vec<Property<Life>> {
    vec![
        Property::always(ONE_PLACE, |_, state: &State| {
            (0..state.calls.len()).all(|id| places(state, id) == u8::from(is_taken(state, id)))
        }),
        Property::always(IN_TIME, |_, state: &State| !state.was_early),
        Property::always(NEVER_AGAIN, |_, state: &State| !state.began_cancelled),
        Property::always(ONE_HOLDER, |life, state: &State| {
            let calls = state.calls.iter().enumerate();
            let under_way = calls.filter(|(id, call)| {
                let lives = is_taken(state, *id) && call.ended == 0;
                lives && !(life.until_started && call.begun > 0)
            });
            under_way.count() <= 1
        }),
        Property::always(OWN_LOCK, |_, state: &State| !state.freed_anothers),
        Property::always(FREE, |_, state: &State| !is_at_rest(state) || state.lock.is_none()),
        Property::always(FINAL, |_, state: &State| !state.came_back),
        Property::always(TOLD, |_, state: &State| {
            let told = |id| !is_taken(state, id) || state.calls[id].record.is_final();
            !is_at_rest(state) || (0..state.calls.len()).all(told)
        }),
        Property::always(UNMARKED, |_, state: &State| {
            let is_answered = !matches!(state.cancelling, Cancelling::Marked | Cancelling::Searched);
            !(is_at_rest(state) && is_answered) || state.calls.iter().all(|call| !call.is_marked)
        }),
        Property::sometimes("every fault has come", |_, state: &State| state.left == NO_FAULTS),
        Property::sometimes("the cancelled call waited", |_, state: &State| {
            state.cancelling == Cancelling::Waiting && is_at_rest(state)
        }),
        Property::sometimes("the cancelled call ran", |_, state: &State| {
            matches!(state.cancelling, Cancelling::Running(_)) && is_at_rest(state)
        }),
    ]
}

/// It was sent, and no other call had the lock.
fn is_taken(state: &State, id: usize) -> bool {
    state.calls[id].sent && !state.calls[id].refused
}

fn places(state: &State, id: usize) -> u8 {
    let call = &state.calls[id];
    let owned = state.slots.iter().filter(|slot| **slot == Some(id)).count();
    call.scheduled + call.waiting + call.ended + u8::try_from(owned).expect("two slots")
}

/// All calls were sent and have ended, and nobody runs anything.
fn is_at_rest(state: &State) -> bool {
    let is_done = |id: usize| state.calls[id].sent && (state.calls[id].refused || state.calls[id].ended > 0);
    let rests = |work: &Work| matches!(work, Work::Idle | Work::Died);
    (0..state.calls.len()).all(is_done) && state.workers.iter().all(rests)
}

fn explore(life: Life, until: HasDiscoveries) -> impl Checker<Life> {
    life.checker().finish_when(until).spawn_bfs().join()
}

#[test]
fn nothing_goes_wrong_with_calls_that_have_options() {
    for life in [DEATHS, SILENCE, LOST, FAILURES, STARTED] {
        let began = Instant::now();
        let checker = explore(life, HasDiscoveries::AnyFailures);
        println!("{:?}: {} states, {:?}", life.faults, checker.unique_state_count(), began.elapsed());
        for property in life.properties() {
            match (property.expectation.discovery_is_failure(), checker.discovery(property.name)) {
                (true, Some(path)) => {
                    let last = path.last_state().clone();
                    panic!("expected `{}`, but after\n{:#?}\n{last:#?}", property.name, path.into_actions());
                }
                (false, None) => panic!("expected a state in which {}: {life:?}", property.name),
                _ => {}
            }
        }
    }
}

#[test]
fn without_any_rule_a_call_with_options_goes_wrong() {
    let mut wrong = Vec::new();
    for rule in Rule::ALL {
        let (life, expected) = rule.needed_in();
        let life = Life { without: Some(rule), ..life };
        let checker = explore(life, HasDiscoveries::AnyOf([expected].into()));
        let (mut found, states) = (checker.discoveries(), checker.unique_state_count());
        found.retain(|name, _| ALL.contains(name));
        match found.remove(expected) {
            Some(path) => {
                let steps = path.into_actions();
                println!("without {rule:?}, {} steps break `{expected}` ({states} states)", steps.len());
            }
            None => wrong.push(format!("{rule:?}: {:?} in {states} states", found.keys())),
        }
    }
    assert!(wrong.is_empty(), "expected each of them to be needed:\n{}", wrong.join("\n"));
}
