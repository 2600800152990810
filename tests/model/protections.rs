//! What keeps calls from being lost, run twice or stuck? Each of these can be switched off in the model, and then the
//! checker must find what it prevents.

use stateright::{Checker, HasDiscoveries};

use super::properties::{ALONE, FOUND, INNOCENT, NOT_STUCK, ONCE, ONE_PLACE, OWN, RUN};
use super::scenarios::{self, Scenario, explore};
use super::system::System;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Protection {
    /// A claim takes a message out of the queue and writes the field of its slot at once.
    ClaimIsOneStep,
    /// A retry takes a message out of its field and puts it into the queue at once.
    RetryIsOneStep,
    /// A sweep looks for the live key and moves the message at once.
    RequeueIsOneStep,
    /// A claim makes the live keys too.
    LiveKeyFirst,
    /// A claim is refused when a slot that should be free owns a message.
    FieldFirst,
    /// A call is refused unless it is the worker's next.
    Numbers,
    /// Where Redis does not know the number of the worker's last call, it is refused unless it is the first of all.
    UnknownIsRefused,
    /// A reconcile stores its own number, so that what is still on its way is refused.
    ReconcileFences,
    /// That number is beyond any that was given before, also where numbers went back after a refusal.
    ReconcileJumpsFar,
    /// A reconcile whose reply was lost gives the same answer when it is asked again.
    ReconcileRemembersItsAnswer,
    /// A sweep takes only from slots without a live key.
    LeaseIsAsked,
    /// A retry does nothing for a slot that owns nothing.
    RetryAsksForItsField,
    /// So does putting back.
    PutBackAsksForItsField,
    /// So does burying.
    BuryAsksForItsField,
    /// No two workers have the same wire ids.
    WireIdsAreDrawn,
    /// A sweep adds the tokens that are missing.
    TokensAreBalanced,
    /// A wait of ours moves its token into the hand, where others find it.
    TokenIsMoved,
    /// A claim takes a token out of the hand only when one is there.
    HandIsCounted,
    /// A pick-up looks into the hand also when that wait has ended without a token.
    EveryWaitLooksInTheHand,
    /// A token that is missing is made anew before one is taken out of the hand, where a claim may come for it.
    MissingTokensAreMade,
    /// What two processes died of is the only message that its claim brings, and nothing is claimed beside it.
    SuspectComesAlone,
    /// A worker that runs something alone puts back what another claim of it brings to be run alone.
    SecondSuspectIsPutBack,
    /// What is to run alone begins when nothing is under way that may bring another.
    SuspectBeginsLast,
    /// A reconcile tells what is to run alone of what it finds.
    ReconcileTellsWhatRunsAlone,
    /// A pick-up gives live keys a whole lease.
    PickUpRenews,
    /// Deaths are counted for a call itself, not for all that has the same bytes.
    DeathsFollowTheirCall,
    /// Only what has begun to run alone counts a death of its own.
    OnlyRunsCount,
}

const ALL: [Protection; 27] = [
    Protection::ClaimIsOneStep,
    Protection::RetryIsOneStep,
    Protection::RequeueIsOneStep,
    Protection::LiveKeyFirst,
    Protection::FieldFirst,
    Protection::Numbers,
    Protection::UnknownIsRefused,
    Protection::ReconcileFences,
    Protection::ReconcileJumpsFar,
    Protection::ReconcileRemembersItsAnswer,
    Protection::LeaseIsAsked,
    Protection::RetryAsksForItsField,
    Protection::PutBackAsksForItsField,
    Protection::BuryAsksForItsField,
    Protection::WireIdsAreDrawn,
    Protection::TokensAreBalanced,
    Protection::TokenIsMoved,
    Protection::HandIsCounted,
    Protection::EveryWaitLooksInTheHand,
    Protection::MissingTokensAreMade,
    Protection::SuspectComesAlone,
    Protection::SecondSuspectIsPutBack,
    Protection::SuspectBeginsLast,
    Protection::ReconcileTellsWhatRunsAlone,
    Protection::PickUpRenews,
    Protection::DeathsFollowTheirCall,
    Protection::OnlyRunsCount,
];

impl Protection {
    /// Where it is needed, and what goes wrong without it.
    fn needed_in(self) -> (Scenario, &'static str) {
        match self {
            Self::ClaimIsOneStep | Self::RequeueIsOneStep => (scenarios::DEATHS, ONE_PLACE),
            Self::RetryIsOneStep | Self::BuryAsksForItsField | Self::RetryAsksForItsField => {
                (scenarios::FAILURES, ONE_PLACE)
            }
            Self::PutBackAsksForItsField => (scenarios::STOP, ONE_PLACE),
            Self::LiveKeyFirst | Self::LeaseIsAsked => (scenarios::DEATHS, ONCE),
            Self::FieldFirst => (scenarios::VERY_LATE_CLAIMS, RUN),
            Self::UnknownIsRefused => (scenarios::VERY_LATE, RUN),
            Self::Numbers => (scenarios::CUTS, RUN),
            Self::ReconcileFences => (scenarios::CUTS, RUN),
            Self::ReconcileRemembersItsAnswer => (scenarios::CUTS, ONCE),
            Self::ReconcileJumpsFar => (scenarios::REFUSALS, ONCE),
            Self::WireIdsAreDrawn => (scenarios::DEATHS, ONCE),
            Self::TokensAreBalanced => (scenarios::HALVES, NOT_STUCK),
            Self::TokenIsMoved | Self::EveryWaitLooksInTheHand => (scenarios::WAITS, NOT_STUCK),
            Self::HandIsCounted => (scenarios::MIXED, FOUND),
            Self::MissingTokensAreMade => (scenarios::MIXED, NOT_STUCK),
            Self::SuspectComesAlone | Self::SuspectBeginsLast => (scenarios::SUSPECTS, ALONE),
            Self::SecondSuspectIsPutBack | Self::ReconcileTellsWhatRunsAlone => {
                (scenarios::SUSPECTS, INNOCENT)
            }
            Self::PickUpRenews => (scenarios::WAITS, ONCE),
            Self::DeathsFollowTheirCall | Self::OnlyRunsCount => (scenarios::LOOK_ALIKES, OWN),
        }
    }
}

#[test]
fn without_any_of_them_something_goes_wrong() {
    let mut wrong = Vec::new();
    for protection in ALL {
        let (scenario, expected) = protection.needed_in();
        let checker = explore(
            System { without: Some(protection), ..scenario.system },
            HasDiscoveries::AnyOf([expected].into()),
        );
        let mut found = checker.discoveries();
        found.retain(|name, _| [ONE_PLACE, RUN, ONCE, NOT_STUCK, FOUND, INNOCENT, ALONE, OWN].contains(name));
        let states = checker.unique_state_count();
        match found.remove(expected) {
            Some(path) => {
                let steps = path.into_actions().len();
                println!(
                    "without {protection:?}, {}: {steps} steps break `{expected}` ({states} states)",
                    scenario.name
                );
            }
            None => {
                let other = found.keys().collect::<Vec<_>>();
                wrong.push(format!("{protection:?}: {other:?} in {states} states of {}", scenario.name));
            }
        }
    }
    assert!(wrong.is_empty(), "expected each of them to be needed:\n{}", wrong.join("\n"));
}
