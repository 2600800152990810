//! How does a worker wait for a token, and what stands behind its wait? `src/worker/wait.rs` without its clocks, and a
//! reader beside it that pops tokens, as the ancestors do.

use super::protections::Protection;
use super::system::{Action, Faults, State, System};
use super::worker::{Answer, Ask, Kind, Request, Slot, Worker};
use super::world::World;

/// Where the token is that a worker was woken with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Token {
    /// Only the worker knows of it.
    Popped,
    /// In the hand, unless another claim has taken it.
    Moved,
}

/// A `BLMOVE` that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Wait {
    Blocks,
    /// Redis has ended it, and its worker has not heard of that. Whether it moved a token.
    Ended(bool),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum WaitStep {
    TokenMoves,
    /// Its time is up, or it was told to end.
    Ends,
    Heard,
    /// Its connection breaks.
    Breaks,
    /// A token moves for one whose connection is broken.
    TokenMovesLate,
    /// A token that is of no use is given back.
    GivesBack,
}

/// A foreign worker: pops a token, then claims one message, which it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Reader {
    Waits,
    HasToken,
    Died,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ReaderStep {
    Pops,
    Claims,
    Dies,
}

impl Request {
    /// Whether it was sent behind a wait.
    pub(super) fn is_pick_up(&self) -> bool {
        matches!(self.kind, Kind::Claim { picks_up: true, .. })
    }

    /// The wait before it has ended without a token.
    fn finds_no_token(&mut self, world: &World) {
        if let Kind::Claim { in_hand, .. } = &mut self.kind
            && !world.has(Protection::EveryWaitLooksInTheHand)
        {
            *in_hand = None;
        }
    }
}

impl Worker {
    /// A pick-up stands behind its wait.
    pub(super) fn picks_up(&self) -> bool {
        self.asked.iter().any(Request::is_pick_up)
    }

    /// Whether Redis can run the next of its requests.
    pub(super) fn can_be_read(&self) -> bool {
        self.answers.len() < self.asked.len() && !(self.picks_up() && self.wait == Some(Wait::Blocks))
    }

    /// Whether a wait may begin where nothing tempts. The last claim got less than it asked for, so there is a free
    /// slot, or one of which it does not know yet.
    fn may_wait(&self) -> bool {
        let claims = |request: &Request| matches!(request.kind, Kind::Claim { claims: true, .. });
        self.accepts()
            && self.wait.is_none()
            && self.token.is_none()
            && !self.asked.iter().any(claims)
            && self.slots.iter().any(|slot| matches!(slot, Slot::Free | Slot::Asked))
    }

    fn is_idle(&self) -> bool {
        self.accepts()
            && self.token.is_none()
            && self.asked.is_empty()
            && self.doubt.is_empty()
            && self.slots.iter().all(|slot| *slot == Slot::Free)
    }

    fn has_no_use_for_its_token(&self) -> bool {
        let room = self.slots.iter().any(|slot| matches!(slot, Slot::Free | Slot::Succeeded));
        self.lives() && self.token.is_some() && !(self.accepts() && room)
    }

    /// The connection of its wait breaks, or it ends.
    pub(super) fn lose_wait(&mut self) {
        self.late_wait |= self.wait.take() == Some(Wait::Blocks);
        if self.picks_up() {
            self.lose_connection();
        }
    }
}

impl System {
    fn moves(&self, worker: usize) -> bool {
        worker < self.movers
    }

    /// Whether a worker pops its tokens, and waits for one.
    pub(super) fn listens(&self, number: usize, worker: &Worker) -> bool {
        !self.moves(number) && worker.listens()
    }

    /// What a wait goes on with, without any fault.
    pub(super) fn waiting(&self, state: &State, actions: &mut Vec<Action>) {
        for (number, worker) in state.workers.iter().enumerate() {
            let mut step = |step| actions.push(Action::Wait(number, step));
            if worker.has_no_use_for_its_token() {
                step(WaitStep::GivesBack);
            }
            match worker.wait {
                Some(Wait::Blocks) => {
                    if state.world.tokens > 0 {
                        step(WaitStep::TokenMoves);
                    }
                    if !worker.accepts() || self.end_would_bring(state, number) {
                        step(WaitStep::Ends);
                    }
                }
                Some(Wait::Ended(_)) if !worker.picks_up() => step(WaitStep::Heard),
                _ => {}
            }
        }
        let mut step = |step| actions.push(Action::Reader(step));
        match state.reader {
            Some(Reader::Waits) if state.world.tokens > 0 => step(ReaderStep::Pops),
            Some(Reader::HasToken) => step(ReaderStep::Claims),
            _ => {}
        }
    }

    /// Whether the pick-up behind a wait that ends without a token would do something.
    fn end_would_bring(&self, state: &State, number: usize) -> bool {
        let worker = &state.workers[number];
        if !worker.picks_up() {
            return false;
        }
        let (mut request, mut world) = (worker.asked[0].clone(), state.world.clone());
        request.finds_no_token(&world);
        match request.apply(&mut world, number, self.slots) {
            Answer::Claimed(claimed) => !claimed.messages.is_empty(),
            _ => true,
        }
    }

    pub(super) fn wait_faults(&self, state: &State, left: &Faults, actions: &mut Vec<Action>) {
        for (number, worker) in state.workers.iter().enumerate() {
            let mut step = |step| actions.push(Action::Wait(number, step));
            if left.late > 0 && worker.late_wait && state.world.tokens > 0 {
                step(WaitStep::TokenMovesLate);
            }
            if left.cut > 0 && worker.wait.is_some() {
                step(WaitStep::Breaks);
            }
            // It need not bring anything.
            if worker.wait == Some(Wait::Blocks) {
                step(WaitStep::Ends);
            }
        }
        if left.crash > 0 && state.reader == Some(Reader::HasToken) {
            actions.push(Action::Reader(ReaderStep::Dies));
        }
    }

    /// What workers do at once: they begin what is to run alone, wait where nothing tempts them, and an idle one sends a
    /// pick-up behind its wait.
    /// A break in between is as one after both, when Redis never reads the claim.
    pub(super) fn do_at_once(&self, state: &mut State) {
        let tempting = state.is_tempting();
        for (number, worker) in state.workers.iter_mut().enumerate() {
            self.begin_alone(worker);
            if self.moves(number) && !tempting && worker.may_wait() {
                worker.wait = Some(Wait::Blocks);
            }
            if let Some(wait) = worker.wait
                && worker.is_idle()
            {
                worker.send(Ask::PickUp, self.jump());
                if wait == Wait::Ended(false) {
                    worker.asked[0].finds_no_token(&state.world);
                }
                worker.wait = Some(without_token(wait));
            }
        }
    }
}

impl State {
    /// A claim without a token would bring something.
    pub(super) fn is_tempting(&self) -> bool {
        !self.world.waiting.is_empty() && self.world.tokens > 0
    }

    pub(super) fn act_wait(&mut self, number: usize, step: WaitStep) {
        let (worker, world) = (&mut self.workers[number], &mut self.world);
        match step {
            WaitStep::TokenMoves => {
                let known = !worker.picks_up();
                worker.wait = Some(Wait::Ended(known));
                world.move_token();
            }
            WaitStep::Ends => {
                worker.wait = Some(Wait::Ended(false));
                worker.asked.iter_mut().for_each(|request| request.finds_no_token(world));
            }
            WaitStep::Heard => {
                if worker.wait.take() == Some(Wait::Ended(true)) {
                    worker.token = Some(Token::Moved);
                }
            }
            WaitStep::Breaks => {
                self.left.cut -= 1;
                worker.lose_wait();
            }
            WaitStep::TokenMovesLate => {
                worker.late_wait = false;
                world.move_token();
            }
            WaitStep::GivesBack => {
                if worker.token.take() == Some(Token::Moved) {
                    world.give_back();
                } else {
                    world.balance(1);
                }
            }
        }
    }

    pub(super) fn act_reader(&mut self, step: ReaderStep) {
        let next = match step {
            ReaderStep::Pops => {
                self.world.tokens -= 1;
                Reader::HasToken
            }
            ReaderStep::Claims => {
                if self.world.waiting.is_empty() {
                    self.found_nothing = true;
                } else {
                    let call = &mut self.calls[usize::from(self.world.waiting.remove(0))];
                    call.begun += 1;
                    call.released += 1;
                    call.ended = true;
                }
                Reader::Waits
            }
            ReaderStep::Dies => {
                self.left.crash -= 1;
                Reader::Died
            }
        };
        self.reader = Some(next);
    }
}

/// What it ended with is the pick-up's that stands behind it.
fn without_token(wait: Wait) -> Wait {
    match wait {
        Wait::Blocks => Wait::Blocks,
        Wait::Ended(_) => Wait::Ended(false),
    }
}
