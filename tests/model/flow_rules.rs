//! What keeps a flow from calling what follows twice, early or never? Each rule can be switched off, and then the checker must
//! find what it prevents.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::flows::{Faults, Flow, Group, State, Work};

const ONCE: &str = "what follows a group is enqueued once";
const NOT_EARLY: &str = "nothing follows a group before all its steps succeeded";
const COUNTED: &str = "no step counts that has not ended";
const GOES_ON: &str = "at rest, a flow has ended, and what follows was called";
const NEVER_AGAIN: &str = "what was cancelled does not begin";

const ALL: [&str; 5] = [ONCE, NOT_EARLY, COUNTED, GOES_ON, NEVER_AGAIN];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// The script that ends a step writes its outcome.
    OutcomeComesWithTheEnd,
    /// An outcome leaves the outbox when it counts, not before.
    OutcomeLeavesWhenItCounts,
    /// An outcome of a step that has ended has no effect.
    StepCountsOnce,
    /// Nor has an outcome of an earlier round.
    OutcomeNamesItsRound,
    /// What follows is written by the script that lets the outcome count.
    JoinNotesWhatFollows,
    /// It leaves the outbox when it is done, not before.
    WhatIsDoneLeaves,
    /// The id of a call is made of its flow and its number.
    CallHasOneId,
    /// A cancellation marks also what has not begun.
    CancelMarksWhatHasNotBegun,
}

impl Rule {
    const ALL: [Self; 8] = [
        Self::OutcomeComesWithTheEnd,
        Self::OutcomeLeavesWhenItCounts,
        Self::StepCountsOnce,
        Self::OutcomeNamesItsRound,
        Self::JoinNotesWhatFollows,
        Self::WhatIsDoneLeaves,
        Self::CallHasOneId,
        Self::CancelMarksWhatHasNotBegun,
    ];

    /// Where it is needed, and what goes wrong without it.
    fn needed_in(self) -> (Flow, &'static str) {
        match self {
            Self::OutcomeComesWithTheEnd
            | Self::OutcomeLeavesWhenItCounts
            | Self::JoinNotesWhatFollows
            | Self::WhatIsDoneLeaves => (DEATHS, GOES_ON),
            Self::StepCountsOnce => (DEATHS, NOT_EARLY),
            Self::CallHasOneId => (DEATHS, ONCE),
            Self::OutcomeNamesItsRound => (RETRIES, COUNTED),
            Self::CancelMarksWhatHasNotBegun => (CANCELS, NEVER_AGAIN),
        }
    }
}

const NO_FAULTS: Faults = Faults { crash: 0, fail: 0, retry: 0, cancel: 0 };
const DEATHS: Flow = Flow { faults: Faults { crash: 1, ..NO_FAULTS }, without: None };
const RETRIES: Flow = Flow { faults: Faults { crash: 1, fail: 2, retry: 1, ..NO_FAULTS }, without: None };
const CANCELS: Flow = Flow { faults: Faults { crash: 1, cancel: 1, ..NO_FAULTS }, without: None };

pub(super) fn properties() -> Vec<Property<Flow>> {
    vec![
        Property::always(ONCE, |_, state: &State| state.callbacks <= 1),
        Property::always(NOT_EARLY, |_, state: &State| !state.was_early),
        Property::always(COUNTED, |_, state: &State| !state.counted_nothing),
        Property::always(GOES_ON, |_, state: &State| {
            let called = match state.group {
                Group::Open => false,
                Group::Succeeded => state.callbacks > 0,
                Group::Failed => state.alerts > 0,
                Group::Cancelled => state.is_cancelled,
            };
            !is_at_rest(state) || called
        }),
        Property::always(NEVER_AGAIN, |_, state: &State| !state.ran_cancelled),
        Property::sometimes("every fault has come", |_, state: &State| state.left == NO_FAULTS),
        Property::sometimes("the flow has ended", |_, state: &State| {
            is_at_rest(state) && state.group != Group::Open
        }),
    ]
}

/// All steps have ended, and nothing is left to be delivered or done.
fn is_at_rest(state: &State) -> bool {
    let are_empty = state.unwritten.is_empty() && state.outcomes.is_empty() && state.to_do.is_empty();
    let rests = |work: &Work| matches!(work, Work::Idle | Work::Died);
    are_empty && state.steps.iter().all(|step| step.ended.is_some()) && state.processes.iter().all(rests)
}

fn explore(flow: Flow, until: HasDiscoveries) -> impl Checker<Flow> {
    flow.checker().finish_when(until).spawn_bfs().join()
}

#[test]
fn nothing_goes_wrong_with_a_flow() {
    for flow in [DEATHS, RETRIES, CANCELS] {
        let began = Instant::now();
        let checker = explore(flow, HasDiscoveries::AnyFailures);
        println!("{:?}: {} states, {:?}", flow.faults, checker.unique_state_count(), began.elapsed());
        for property in flow.properties() {
            match (property.expectation.discovery_is_failure(), checker.discovery(property.name)) {
                (true, Some(path)) => {
                    let last = path.last_state().clone();
                    panic!("expected `{}`, but after\n{:#?}\n{last:#?}", property.name, path.into_actions());
                }
                (false, None) => panic!("expected a state in which {}: {flow:?}", property.name),
                _ => {}
            }
        }
    }
}

#[test]
fn without_any_rule_a_flow_goes_wrong() {
    let mut wrong = Vec::new();
    for rule in Rule::ALL {
        let (flow, expected) = rule.needed_in();
        let flow = Flow { without: Some(rule), ..flow };
        let checker = explore(flow, HasDiscoveries::AnyOf([expected].into()));
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
