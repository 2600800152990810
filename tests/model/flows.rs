//! What may happen to a flow: a group of two steps, what follows it, and what is called if it fails? Its messages are as in
//! `system.rs`; here are the outboxes, and two processes that deliver what is in them.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use super::flow_rules::{self, Rule};

/// A step, by number.
pub(super) type Step = usize;

/// How many there are.
pub(super) const STEPS: usize = 2;

#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    pub(super) faults: Faults,
    pub(super) without: Option<Rule>,
}

/// How often each fault may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Faults {
    /// A process dies.
    pub(super) crash: u8,
    /// A step fails.
    pub(super) fail: u8,
    /// An operator lets the failed flow go on.
    pub(super) retry: u8,
    /// Somebody cancels the flow.
    pub(super) cancel: u8,
}

/// How a step ended: an entry of the outbox of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Outcome {
    pub(super) step: Step,
    pub(super) round: u8,
    pub(super) ok: bool,
}

/// What the flow has to do: an entry of the outbox of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum ToDo {
    /// Begin what follows the group, or what is called if that failed.
    Open(Follower),
    /// Cancel what has begun and has not ended.
    Cancel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Follower {
    Callback,
    OnError,
}

/// How the group ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Group {
    Open,
    Succeeded,
    Failed,
    Cancelled,
}

/// What a process is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Work {
    Idle,
    /// It has read how a step ended.
    Read(Outcome),
    /// That counts, and is to leave the outbox; and what follows, if only the process knows.
    Joined(Outcome, Option<ToDo>),
    /// What it does now, and whether there is anything to do.
    Does(ToDo, bool),
    /// What it has done, and is to leave the outbox.
    Did(ToDo),
    Died,
}

/// What is known of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Known {
    /// Whether its end counts, and how it ended.
    pub(super) counted: Option<bool>,
    pub(super) round: u8,
    /// How its call of this round ended, counted or not.
    pub(super) ended: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) steps: [Known; STEPS],
    /// Ends that are not in an outbox: the process that recorded them is to write that.
    pub(super) unwritten: BTreeSet<Outcome>,
    pub(super) outcomes: BTreeSet<Outcome>,
    pub(super) to_do: BTreeSet<ToDo>,
    /// How many steps of the group have ended, and failed.
    pub(super) ended: u8,
    pub(super) failed: u8,
    pub(super) group: Group,
    pub(super) processes: [Work; 2],
    /// How often what follows was enqueued, and was called after a failure.
    pub(super) callbacks: u8,
    pub(super) alerts: u8,
    /// The call that follows is marked as cancelled; it was run.
    pub(super) is_marked: bool,
    pub(super) has_run: bool,
    /// The cancellation is done.
    pub(super) is_cancelled: bool,
    pub(super) left: Faults,
    /// What may never be: see the properties.
    pub(super) was_early: bool,
    pub(super) counted_nothing: bool,
    pub(super) ran_cancelled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Ends(Step, bool),
    Writes(Outcome),
    IsLost(Outcome),
    Reads(usize, Outcome),
    Joins(usize),
    Acknowledges(usize),
    Takes(usize, ToDo),
    Carries(usize),
    Drops(usize),
    RunsCallback,
    Crashes(usize),
    Retries,
    Cancels,
}

impl Flow {
    pub(super) fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }
}

impl Model for Flow {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            steps: [Known::default(); STEPS],
            unwritten: BTreeSet::new(),
            outcomes: BTreeSet::new(),
            to_do: BTreeSet::new(),
            ended: 0,
            failed: 0,
            group: Group::Open,
            processes: [Work::Idle; 2],
            callbacks: 0,
            alerts: 0,
            is_marked: false,
            has_run: false,
            is_cancelled: false,
            left: self.faults,
            was_early: false,
            counted_nothing: false,
            ran_cancelled: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (step, known) in state.steps.iter().enumerate().filter(|(_, known)| known.ended.is_none()) {
            actions.push(Action::Ends(step, true));
            if state.left.fail > 0 && known.round == 0 {
                actions.push(Action::Ends(step, false));
            }
        }
        actions.extend(state.unwritten.iter().copied().map(Action::Writes));
        if state.left.crash > 0 {
            actions.extend(state.unwritten.iter().copied().map(Action::IsLost));
        }
        for (process, work) in state.processes.iter().enumerate() {
            match work {
                Work::Idle => {
                    actions.extend(state.outcomes.iter().map(|outcome| Action::Reads(process, *outcome)));
                    actions.extend(state.to_do.iter().map(|what| Action::Takes(process, *what)));
                }
                Work::Read(_) => actions.push(Action::Joins(process)),
                Work::Joined(..) => actions.push(Action::Acknowledges(process)),
                Work::Does(..) => actions.push(Action::Carries(process)),
                Work::Did(_) => actions.push(Action::Drops(process)),
                Work::Died => {}
            }
            if *work != Work::Died && state.left.crash > 0 {
                actions.push(Action::Crashes(process));
            }
        }
        if state.callbacks > 0 && !state.has_run {
            actions.push(Action::RunsCallback);
        }
        if state.group == Group::Failed && state.left.retry > 0 && state.to_do.is_empty() {
            actions.push(Action::Retries);
        }
        if matches!(state.group, Group::Open | Group::Succeeded) && !state.has_run && state.left.cancel > 0 {
            actions.push(Action::Cancels);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        state.act(self, action);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        flow_rules::properties()
    }
}

impl State {
    fn act(&mut self, flow: &Flow, action: Action) {
        match action {
            Action::Ends(step, ok) => {
                self.left.fail -= u8::from(!ok);
                let known = &mut self.steps[step];
                known.ended = Some(ok);
                let outcome = Outcome { step, round: known.round, ok };
                let is_written = flow.has(Rule::OutcomeComesWithTheEnd);
                let ends = if is_written { &mut self.outcomes } else { &mut self.unwritten };
                ends.insert(outcome);
            }
            Action::Writes(outcome) => {
                self.unwritten.remove(&outcome);
                self.outcomes.insert(outcome);
            }
            Action::IsLost(outcome) => {
                self.left.crash -= 1;
                self.unwritten.remove(&outcome);
            }
            Action::Reads(process, outcome) => {
                if !flow.has(Rule::OutcomeLeavesWhenItCounts) {
                    self.outcomes.remove(&outcome);
                }
                self.processes[process] = Work::Read(outcome);
            }
            Action::Joins(process) => {
                let Work::Read(outcome) = self.processes[process] else { return };
                let follows = self.join(flow, outcome);
                let written = flow.has(Rule::JoinNotesWhatFollows);
                self.to_do.extend(follows.filter(|_| written));
                self.processes[process] = Work::Joined(outcome, follows.filter(|_| !written));
            }
            Action::Acknowledges(process) => {
                let Work::Joined(outcome, follows) = self.processes[process] else { return };
                self.outcomes.remove(&outcome);
                self.processes[process] = follows.map_or(Work::Idle, |what| Work::Does(what, true));
            }
            Action::Takes(process, what) => {
                if !flow.has(Rule::WhatIsDoneLeaves) {
                    self.to_do.remove(&what);
                }
                let may = what == ToDo::Cancel || self.group != Group::Cancelled;
                self.processes[process] = Work::Does(what, may);
            }
            Action::Carries(process) => {
                let Work::Does(what, may) = self.processes[process] else { return };
                if may {
                    self.carry_out(flow, what);
                }
                self.processes[process] = Work::Did(what);
            }
            Action::Drops(process) => {
                let Work::Did(what) = self.processes[process] else { return };
                self.to_do.remove(&what);
                self.processes[process] = Work::Idle;
            }
            Action::RunsCallback => {
                self.has_run = true;
                self.ran_cancelled |= self.is_cancelled && !self.is_marked;
            }
            Action::Crashes(process) => {
                self.left.crash -= 1;
                self.processes[process] = Work::Died;
            }
            Action::Retries => self.retry(),
            Action::Cancels => {
                self.left.cancel -= 1;
                self.group = Group::Cancelled;
                self.to_do.insert(ToDo::Cancel);
            }
        }
    }

    /// `lua/join.lua`: returns what follows.
    fn join(&mut self, flow: &Flow, Outcome { step, round, ok }: Outcome) -> Option<ToDo> {
        let known = &mut self.steps[step];
        if known.round != round && flow.has(Rule::OutcomeNamesItsRound) {
            return None;
        }
        if known.counted.is_some() && flow.has(Rule::StepCountsOnce) {
            return None;
        }
        self.counted_nothing |= known.ended.is_none();
        known.counted = Some(ok);
        self.ended += 1;
        self.failed += u8::from(!ok);
        if self.group != Group::Open || usize::from(self.ended) < STEPS {
            return None;
        }
        let follower = if self.failed == 0 { Follower::Callback } else { Follower::OnError };
        self.group = if self.failed == 0 { Group::Succeeded } else { Group::Failed };
        Some(ToDo::Open(follower))
    }

    fn carry_out(&mut self, flow: &Flow, what: ToDo) {
        match what {
            // Its id is that of the step: it exists.
            ToDo::Open(Follower::Callback) => {
                self.was_early |= self.steps.iter().any(|known| known.ended != Some(true));
                if self.callbacks == 0 || !flow.has(Rule::CallHasOneId) {
                    self.callbacks += 1;
                }
            }
            ToDo::Open(Follower::OnError) => self.alerts = 1,
            ToDo::Cancel => {
                self.is_cancelled = true;
                self.is_marked |= self.callbacks > 0 || flow.has(Rule::CancelMarksWhatHasNotBegun);
            }
        }
    }

    /// `lua/reopen.lua`: the steps that failed run again.
    fn retry(&mut self) {
        self.left.retry -= 1;
        for known in self.steps.iter_mut().filter(|known| known.counted == Some(false)) {
            *known = Known { round: known.round + 1, ..Known::default() };
            self.ended -= 1;
        }
        self.failed = 0;
        self.group = Group::Open;
    }
}
