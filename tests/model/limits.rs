//! What may happen to calls that share a limit? Every order of the steps of a few workers and a sweeper, of which one may die, and the
//! rules that keep the limit and let no call wait for ever. Each rule can be switched off, and then the checker must find what it
//! prevents.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model, Property};

const KEPT: &str = "no more calls run than the limit allows";
const IN_LINE: &str = "nobody overtakes those that wait";
const NEVER_STUCK: &str = "at rest, every call has run";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// A call gives its place back when its run has ended.
    PlaceIsHeldForTheRun,
    /// The heartbeat of a living worker renews its places.
    HeartbeatRenews,
    /// The place of a dead worker is free when its lease ends.
    DeadPlacesEnd,
    /// A call that comes while others wait joins the line.
    LineIsHonored,
    /// A call that is told to come before it is parked is looked for again.
    ToldAreLookedForAgain,
    /// A sweep tells calls again that have not come.
    SweepTellsAgain,
    /// A sweep finds parked calls that the limit has forgotten.
    SweepFindsStrays,
}

impl Rule {
    const ALL: [Self; 7] = [
        Self::PlaceIsHeldForTheRun,
        Self::HeartbeatRenews,
        Self::DeadPlacesEnd,
        Self::LineIsHonored,
        Self::ToldAreLookedForAgain,
        Self::SweepTellsAgain,
        Self::SweepFindsStrays,
    ];

    /// Where it is needed, and what goes wrong without it.
    fn needed_in(self) -> (Limits, &'static str) {
        match self {
            Self::PlaceIsHeldForTheRun | Self::HeartbeatRenews => (QUIET, KEPT),
            Self::LineIsHonored => (QUIET, IN_LINE),
            Self::ToldAreLookedForAgain => (QUIET, NEVER_STUCK),
            Self::DeadPlacesEnd | Self::SweepTellsAgain => (DEATHS, NEVER_STUCK),
            Self::SweepFindsStrays => (IMPATIENT, NEVER_STUCK),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    workers: usize,
    calls: usize,
    most: usize,
    /// Workers that may die.
    deaths: u8,
    /// Whether somebody sweeps.
    sweeps: bool,
    /// Whether a call is given up that is told to come and is not parked yet, which takes two seconds.
    gives_up: bool,
    without: Option<Rule>,
}

const QUIET: Limits =
    Limits { workers: 2, calls: 3, most: 1, deaths: 0, sweeps: false, gives_up: false, without: None };
const DEATHS: Limits = Limits { deaths: 1, sweeps: true, ..QUIET };
const IMPATIENT: Limits = Limits { sweeps: true, gives_up: true, ..QUIET };
const TWO_PLACES: Limits = Limits { workers: 3, most: 2, ..DEATHS };

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Waiting,
    Owned,
    Parked,
    Done,
}

/// What a worker of one slot is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Work {
    Idle,
    Claimed(usize),
    /// The limit has put it into the line.
    ToPark(usize),
    Runs(usize),
    /// Its message is released, its place is not.
    Ended(usize),
    /// What it owned, until a sweep has brought that back.
    Died(Option<usize>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    calls: Vec<Place>,
    workers: Vec<Work>,
    /// Which worker holds a place for which call.
    holders: BTreeSet<(usize, usize)>,
    line: Vec<usize>,
    woken: usize,
    /// Calls that a worker is to unpark.
    told: BTreeSet<(usize, usize)>,
    deaths: u8,
    overtook: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Action {
    Claims(usize, usize),
    Acquires(usize),
    Parks(usize),
    Ends(usize),
    GivesBack(usize),
    /// A worker unparks a call that it was told of, or finds that it is not parked.
    Unparks(usize, usize),
    GivesUp(usize, usize),
    Dies(usize),
    IsSwept(usize),
    LeaseEnds(usize),
    Sweeps,
}

impl Limits {
    fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }
}

impl State {
    /// The calls that may use the free places.
    fn wake_next(&mut self, limits: &Limits, again: bool) -> Vec<usize> {
        let free = limits.most.saturating_sub(self.holders.len());
        let upto = free.min(self.line.len());
        let first = if again { 0 } else { self.woken };
        let told = self.line.get(first..upto).unwrap_or_default().to_vec();
        self.woken = self.woken.max(upto);
        told
    }

    fn leave_line(&mut self, call: usize, within: usize) -> bool {
        let Some(place) = self.line.iter().take(within).position(|other| *other == call) else {
            return false;
        };
        self.line.remove(place);
        self.woken -= usize::from(place < self.woken);
        true
    }

    /// `lua/acquire.lua`
    fn acquire(&mut self, limits: &Limits, worker: usize, call: usize) {
        let free = limits.most.saturating_sub(self.holders.len());
        let before = self.line.iter().position(|other| *other == call).unwrap_or(self.line.len());
        let may = if limits.has(Rule::LineIsHonored) {
            self.leave_line(call, free) || self.line.len() < free
        } else {
            free > 0
        };
        if may {
            self.leave_line(call, usize::MAX);
            self.overtook |= before >= free;
            self.holders.insert((worker, call));
            self.workers[worker] = Work::Runs(call);
        } else {
            if !self.line.contains(&call) {
                self.line.push(call);
            }
            self.workers[worker] = Work::ToPark(call);
        }
        let told = self.wake_next(limits, false);
        self.told.extend(told.into_iter().map(|call| (worker, call)));
    }

    /// `lua/wake.lua`
    fn give_back(&mut self, limits: &Limits, worker: usize, call: usize) {
        self.holders.remove(&(worker, call));
        let told = self.wake_next(limits, false);
        self.told.extend(told.into_iter().map(|call| (worker, call)));
    }

    fn sweep(&mut self, limits: &Limits) {
        if limits.has(Rule::SweepTellsAgain) {
            for call in self.wake_next(limits, true) {
                self.unpark(call);
            }
        }
        if limits.has(Rule::SweepFindsStrays) {
            let strays = (0..self.calls.len()).filter(|call| !self.line.contains(call));
            let strays: Vec<usize> = strays.filter(|call| self.calls[*call] == Place::Parked).collect();
            for call in strays {
                self.unpark(call);
            }
        }
    }

    fn unpark(&mut self, call: usize) -> bool {
        let is_parked = self.calls[call] == Place::Parked;
        if is_parked {
            self.calls[call] = Place::Waiting;
        }
        is_parked
    }

    /// Whether its worker is about to park a call.
    fn comes_yet(&self, call: usize) -> bool {
        self.workers.contains(&Work::ToPark(call))
    }
}

impl Model for Limits {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            calls: vec![Place::Waiting; self.calls],
            workers: vec![Work::Idle; self.workers],
            holders: BTreeSet::new(),
            line: Vec::new(),
            woken: 0,
            told: BTreeSet::new(),
            deaths: self.deaths,
            overtook: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (worker, work) in state.workers.iter().copied().enumerate() {
            match work {
                Work::Idle => {
                    let first = state.calls.iter().position(|place| *place == Place::Waiting);
                    actions.extend(first.map(|call| Action::Claims(worker, call)));
                }
                Work::Claimed(_) => actions.push(Action::Acquires(worker)),
                Work::ToPark(_) => actions.push(Action::Parks(worker)),
                Work::Runs(_) => actions.push(Action::Ends(worker)),
                Work::Ended(_) => actions.push(Action::GivesBack(worker)),
                Work::Died(owned) => actions.extend(owned.map(|_| Action::IsSwept(worker))),
            }
            let is_dead = matches!(work, Work::Died(_));
            if matches!(work, Work::Runs(_)) && !self.has(Rule::PlaceIsHeldForTheRun) {
                actions.push(Action::GivesBack(worker));
            }
            let holds = state.holders.iter().any(|(holder, _)| *holder == worker);
            let may_end =
                if is_dead { self.has(Rule::DeadPlacesEnd) } else { !self.has(Rule::HeartbeatRenews) };
            if holds && may_end {
                actions.push(Action::LeaseEnds(worker));
            }
            if !is_dead && state.deaths > 0 {
                actions.push(Action::Dies(worker));
            }
        }
        for (worker, call) in &state.told {
            // While it is not parked yet, a look changes nothing.
            if !state.comes_yet(*call) || !self.has(Rule::ToldAreLookedForAgain) {
                actions.push(Action::Unparks(*worker, *call));
            }
            if self.gives_up && state.calls[*call] != Place::Parked {
                actions.push(Action::GivesUp(*worker, *call));
            }
        }
        let mut swept = state.clone();
        swept.sweep(self);
        if self.sweeps && swept != *state {
            actions.push(Action::Sweeps);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Claims(worker, call) => {
                state.calls[call] = Place::Owned;
                state.workers[worker] = Work::Claimed(call);
            }
            Action::Acquires(worker) => {
                let Work::Claimed(call) = state.workers[worker] else { return None };
                state.acquire(self, worker, call);
            }
            Action::Parks(worker) => {
                let Work::ToPark(call) = state.workers[worker] else { return None };
                state.calls[call] = Place::Parked;
                state.workers[worker] = Work::Idle;
            }
            Action::Ends(worker) => {
                let Work::Runs(call) = state.workers[worker] else { return None };
                state.calls[call] = Place::Done;
                state.workers[worker] = Work::Ended(call);
            }
            Action::GivesBack(worker) => {
                let (Work::Ended(call) | Work::Runs(call)) = state.workers[worker] else { return None };
                if state.workers[worker] == Work::Ended(call) {
                    state.workers[worker] = Work::Idle;
                } else if !state.holders.contains(&(worker, call)) {
                    return None;
                }
                state.give_back(self, worker, call);
            }
            Action::Unparks(worker, call) => {
                state.told.remove(&(worker, call));
                if !state.unpark(call) && self.has(Rule::ToldAreLookedForAgain) {
                    self.lose(&mut state, worker, call);
                }
            }
            Action::GivesUp(worker, call) => {
                state.told.remove(&(worker, call));
                self.lose(&mut state, worker, call);
            }
            Action::Dies(worker) => {
                state.deaths -= 1;
                let owned = match state.workers[worker] {
                    Work::Claimed(call) | Work::ToPark(call) | Work::Runs(call) => Some(call),
                    Work::Idle | Work::Ended(_) | Work::Died(_) => None,
                };
                state.workers[worker] = Work::Died(owned);
                state.told.retain(|(teller, _)| *teller != worker);
            }
            Action::IsSwept(worker) => {
                let Work::Died(Some(call)) = state.workers[worker] else { return None };
                state.calls[call] = Place::Waiting;
                state.workers[worker] = Work::Died(None);
            }
            Action::LeaseEnds(worker) => state.holders.retain(|(holder, _)| *holder != worker),
            Action::Sweeps => state.sweep(self),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(KEPT, |limits: &Self, state: &State| {
                let running = state.workers.iter().filter(|work| matches!(work, Work::Runs(_)));
                running.count() <= limits.most
            }),
            Property::always(IN_LINE, |_, state: &State| !state.overtook),
            Property::always(NEVER_STUCK, |limits: &Self, state: &State| {
                let mut actions = Vec::new();
                limits.actions(state, &mut actions);
                // Somebody is left to run them.
                let lives = state.workers.iter().any(|work| !matches!(work, Work::Died(_)));
                let is_done = state.calls.iter().all(|place| *place == Place::Done);
                actions.iter().any(|action| !matches!(action, Action::Dies(_))) || is_done || !lives
            }),
            Property::sometimes("calls were parked and have run", |_, state: &State| {
                state.calls.iter().all(|place| *place == Place::Done) && state.line.is_empty()
            }),
            Property::sometimes("a call waits for the limit", |_, state: &State| {
                state.calls.contains(&Place::Parked)
            }),
        ]
    }
}

impl Limits {
    /// A call that was told to come and is nowhere to be found leaves the line.
    fn lose(&self, state: &mut State, worker: usize, call: usize) {
        let woken = state.woken;
        state.leave_line(call, woken);
        let told = state.wake_next(self, false);
        state.told.extend(told.into_iter().map(|call| (worker, call)));
    }
}

fn explore(limits: Limits, until: HasDiscoveries) -> impl Checker<Limits> {
    limits.checker().finish_when(until).spawn_bfs().join()
}

#[test]
fn nothing_goes_wrong_with_calls_that_share_a_limit() {
    for limits in [QUIET, DEATHS, IMPATIENT, TWO_PLACES] {
        let checker = explore(limits, HasDiscoveries::AnyFailures);
        println!("{limits:?}: {} states", checker.unique_state_count());
        for property in limits.properties() {
            match (property.expectation.discovery_is_failure(), checker.discovery(property.name)) {
                (true, Some(path)) => {
                    let last = path.last_state().clone();
                    panic!("expected `{}`, but after\n{:#?}\n{last:#?}", property.name, path.into_actions());
                }
                (false, None) => panic!("expected a state in which {}: {limits:?}", property.name),
                _ => {}
            }
        }
    }
}

#[test]
fn without_any_rule_a_limited_call_goes_wrong() {
    let mut wrong = Vec::new();
    for rule in Rule::ALL {
        let (limits, expected) = rule.needed_in();
        let limits = Limits { without: Some(rule), ..limits };
        let checker = explore(limits, HasDiscoveries::AnyOf([expected].into()));
        let states = checker.unique_state_count();
        match checker.discovery(expected) {
            Some(path) => {
                let steps = path.into_actions();
                println!("without {rule:?}, {} steps break `{expected}` ({states} states)", steps.len());
            }
            None => wrong.push(format!("{rule:?} in {states} states")),
        }
    }
    assert!(wrong.is_empty(), "expected each of them to be needed:\n{}", wrong.join("\n"));
}
