//! What shall hold in every state that can be reached?

use stateright::Property;

use super::protections::Protection;
use super::system::{Call, Faults, State, System};
use super::worker::{Answer, Kind, Verdict};
use super::world::Message;

pub(super) const ONE_PLACE: &str = "a call is in one place";
pub(super) const RUN: &str = "what is released was run to its end";
pub(super) const ONCE: &str = "a call runs twice only when a fault covers it";
pub(super) const NOT_STUCK: &str = "at rest, nothing is stuck";
pub(super) const INNOCENT: &str = "what is buried has killed its processes itself";
pub(super) const ALONE: &str = "who dies of a suspect has no other one";
pub(super) const OWN: &str = "what is buried has died often enough itself, alone";
pub(super) const FOUND: &str = "without a fault, who pops a token finds a message";

pub(super) fn all() -> Vec<Property<System>> {
    vec![
        Property::always(ONE_PLACE, |system, state: &State| {
            (0..).zip(&state.calls).all(|(message, call)| {
                places(system, state, message) + usize::from(call.released) == usize::from(call.sent)
            })
        }),
        Property::always(RUN, |_, state: &State| {
            state.calls.iter().all(|call| call.released == 0 || call.ended)
        }),
        Property::always(ONCE, |_, state: &State| {
            state.calls.iter().all(|call| call.begun <= call.sent + call.excused)
        }),
        Property::always(NOT_STUCK, |system, state: &State| !is_stuck(state) || !system.is_at_rest(state)),
        Property::always(INNOCENT, |system, state: &State| {
            !state.world.dead.iter().any(|message| system.is_innocent(*message))
        }),
        Property::always(ALONE, |_, state: &State| !state.dragged),
        Property::always(OWN, |_, state: &State| !state.buried_early),
        Property::always(FOUND, |system, state: &State| {
            !state.found_nothing || Faults { stop: 0, ..system.faults } != Faults::default()
        }),
        Property::sometimes("all calls are under way or done", |system, state: &State| {
            let over = |(message, call): (Message, &Call)| {
                let killed = system.poison() == Some(message) && !state.world.dead.is_empty();
                call.sent > 0 && (call.released > 0 || killed || (system.endless && call.begun > 0))
            };
            (0..).zip(&state.calls).all(over)
        }),
        Property::sometimes("every fault has come", |_, state: &State| state.left == Faults::default()),
    ]
}

/// In how many places a call is: waiting, owned or dead, or on its way where a script has several steps.
fn places(system: &System, state: &State, message: Message) -> usize {
    let count = |messages: &[Message]| messages.iter().filter(|other| **other == message).count();
    let owned = state.world.processing.iter().filter(|(_, other)| *other == message).count();
    count(&state.world.waiting) + owned + count(&state.world.dead) + in_steps(system, state, message)
}

fn in_steps(system: &System, state: &State, message: Message) -> usize {
    if !matches!(system.without, Some(Protection::ClaimIsOneStep | Protection::RetryIsOneStep)) {
        return 0;
    }
    let on_the_way = |kind: &Kind, answer: &Answer| match (kind, answer) {
        (_, Answer::Claimed(claimed)) if system.without == Some(Protection::ClaimIsOneStep) => {
            claimed.messages.iter().filter(|other| **other == message).count()
        }
        (Kind::Settle(_, other, Verdict::Retry), Answer::Settled(true))
            if system.without == Some(Protection::RetryIsOneStep) =>
        {
            usize::from(*other == message)
        }
        _ => 0,
    };
    let unheard = state.workers.iter().flat_map(|worker| worker.asked.iter().zip(&worker.answers));
    unheard.map(|(request, answer)| on_the_way(&request.kind, answer)).sum()
}

/// A message that nobody comes to fetch, or that nobody will ever report on.
fn is_stuck(state: &State) -> bool {
    !state.world.processing.is_empty() || (!state.world.waiting.is_empty() && state.world.tokens == 0)
}
