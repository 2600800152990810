//! What may happen to calls that are scheduled, unique, followed and cancelled? One queue, as in `system.rs`, without what is
//! shown there: requests come in their order, and tokens are not lost.

use stateright::{Model, Property};

use super::life_rules::{self, Rule};

/// A call, by number. Number 0 is scheduled, and somebody cancels it; all are unique, with one lock.
pub(super) type Id = usize;

#[derive(Debug, Clone, Copy)]
pub(super) struct Life {
    pub(super) calls: usize,
    /// The lock is free when a run begins, not when the call is done.
    pub(super) until_started: bool,
    pub(super) faults: Faults,
    pub(super) without: Option<Rule>,
}

/// How often each fault may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Faults {
    /// A worker dies.
    pub(super) crash: u8,
    /// A worker is silent for longer than its lease.
    pub(super) silence: u8,
    /// The reply to a claim is lost.
    pub(super) lost: u8,
    /// A run fails.
    pub(super) fail: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) enum Record {
    #[default]
    None,
    Scheduled,
    Waiting,
    Running,
    Retrying,
    Succeeded,
    Dead,
    Cancelled,
}

impl Record {
    pub(super) fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Dead | Self::Cancelled)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Call {
    pub(super) sent: bool,
    /// Another call had the lock.
    pub(super) refused: bool,
    pub(super) record: Record,
    /// How often it is in the timetable, and in the queue.
    pub(super) scheduled: u8,
    pub(super) waiting: u8,
    pub(super) is_due: bool,
    pub(super) is_marked: bool,
    /// How often it was run, retried, and taken out for good.
    pub(super) begun: u8,
    pub(super) retried: u8,
    pub(super) ended: u8,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum End {
    Succeeds,
    Retries,
    IsBuried,
    IsCancelled,
}

/// What a worker of one slot is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Work {
    Idle,
    /// The reply to its claim was lost: it is to reconcile.
    Doubts,
    /// What it claimed, and whether that is marked.
    Claimed(Id, bool),
    /// What it runs, and whether it heard that this was cancelled.
    Runs(Id, bool),
    Ended(Id, End),
    Died,
}

/// How far a cancellation is, and what it answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Cancelling {
    No,
    /// The next step is to look for the call in the slots, or to mark it if that has been done.
    Marked,
    Searched,
    Scheduled,
    Waiting,
    /// It was found in the slot of this worker.
    Running(usize),
    Ended,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) calls: Vec<Call>,
    pub(super) slots: [Option<Id>; 2],
    pub(super) workers: [Work; 2],
    pub(super) lock: Option<Id>,
    /// Requests to note that a run begins: nobody waits for them.
    pub(super) starts: Vec<(usize, Id)>,
    pub(super) kills: [Option<Id>; 2],
    pub(super) cancelling: Cancelling,
    /// What two processes have seen in the timetable and not moved yet.
    pub(super) seen: [bool; 2],
    pub(super) left: Faults,
    /// What may never be: see the properties.
    pub(super) was_early: bool,
    pub(super) began_cancelled: bool,
    pub(super) came_back: bool,
    pub(super) freed_anothers: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Action {
    Submits(Id),
    IsDue,
    Promotes,
    Sees(usize),
    Moves(usize),
    Claims(usize, Id),
    ClaimIsLost(usize, Id),
    Reconciles(usize),
    Begins(usize),
    StartIsRead(usize),
    HearsOfIt(usize),
    Ends(usize, End),
    Settles(usize),
    Cancels,
    Crashes(usize),
    IsSwept(usize),
}

impl Life {
    pub(super) fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }
}

impl Model for Life {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            calls: vec![Call::default(); self.calls],
            slots: [None; 2],
            workers: [Work::Idle; 2],
            lock: None,
            starts: Vec::new(),
            kills: [None; 2],
            cancelling: Cancelling::No,
            seen: [false; 2],
            left: self.faults,
            was_early: false,
            began_cancelled: false,
            came_back: false,
            freed_anothers: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let first = &state.calls[0];
        actions.extend((0..self.calls).filter(|id| !state.calls[*id].sent).map(Action::Submits));
        if first.sent && !first.is_due {
            actions.push(Action::IsDue);
        }
        let may_move = first.scheduled > 0 && (first.is_due || !self.has(Rule::PromoteAsksForTheTime));
        if may_move && self.has(Rule::PromoteIsOneStep) {
            actions.push(Action::Promotes);
        } else if !self.has(Rule::PromoteIsOneStep) {
            let sees = (0..2).filter(|process| may_move && !state.seen[*process]);
            actions.extend(sees.map(Action::Sees));
            actions.extend((0..2).filter(|process| state.seen[*process]).map(Action::Moves));
        }
        actions.extend((0..state.starts.len()).map(Action::StartIsRead));
        let is_open = matches!(state.cancelling, Cancelling::No | Cancelling::Marked | Cancelling::Searched);
        if first.sent && !first.refused && is_open {
            actions.push(Action::Cancels);
        }
        for worker in 0..2 {
            self.of_worker(state, worker, actions);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        state.act(self, action);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        life_rules::properties()
    }
}

impl Life {
    fn of_worker(&self, state: &State, worker: usize, actions: &mut Vec<Action>) {
        let (work, slot, left) = (state.workers[worker], state.slots[worker], state.left);
        match work {
            Work::Idle if slot.is_none() => {
                let waiting = (0..self.calls).filter(|id| state.calls[*id].waiting > 0);
                for id in waiting {
                    actions.push(Action::Claims(worker, id));
                    if left.lost > 0 {
                        actions.push(Action::ClaimIsLost(worker, id));
                    }
                }
            }
            Work::Doubts => actions.push(Action::Reconciles(worker)),
            Work::Claimed(..) => actions.push(Action::Begins(worker)),
            Work::Runs(id, killed) => {
                if state.kills[worker] == Some(id) && !killed {
                    actions.push(Action::HearsOfIt(worker));
                }
                actions.push(Action::Ends(worker, End::Succeeds));
                if killed {
                    actions.push(Action::Ends(worker, End::IsCancelled));
                } else if left.fail > 0 {
                    let end = if state.calls[id].retried == 0 { End::Retries } else { End::IsBuried };
                    actions.extend([Action::Ends(worker, end), Action::Ends(worker, End::IsBuried)]);
                }
            }
            Work::Ended(..) => actions.push(Action::Settles(worker)),
            Work::Idle | Work::Died => {}
        }
        if work != Work::Died && left.crash > 0 {
            actions.push(Action::Crashes(worker));
        }
        if slot.is_some() && (work == Work::Died || left.silence > 0) {
            actions.push(Action::IsSwept(worker));
        }
    }
}
