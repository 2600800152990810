//! Which child runs which call? Preforked ones run one after another; what must have a child of its own goes to
//! `fresh.rs`.
//!
//! A call goes to a preforked child that is idle, else it waits. A child that reports takes the next one, and of quick
//! tasks a few at once, so that it need not sleep between them.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use crate::isolation::{Isolation, Limits};
use crate::runner::fresh::Fresh;
use crate::runner::job::{Command, Done, Job, Ticket};
use crate::runner::link::Link;
use crate::runner::seat::{Seat, serve};
use crate::runner::zygote::Zygote;
use crate::sys::memory_kills;

/// For how long a call that no child could be forked for waits for one of those that are there.
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(1);

/// How preforked children are used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolOptions {
    /// How many there are at the most.
    pub(crate) children: usize,
    /// For how many runs one is used.
    pub(crate) runs: u64,
    /// Above how much anonymous and shared memory after a run it is replaced, in bytes.
    pub(crate) memory: Option<u64>,
    /// What holds for all of them from their start.
    pub(crate) lasting: Limits,
}

/// The children of a worker. When this is dropped, all are killed.
pub(crate) struct Processes(Arc<Pool>);

pub(super) struct Pool {
    pub(super) link: Link,
    fresh: Arc<Fresh>,
    pub(super) options: PoolOptions,
    done: UnboundedSender<Done>,
    next: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Arc<Ticket>>,
    idle: Vec<Arc<Seat>>,
    /// Preforked children that live or are being forked.
    children: usize,
}

/// A run in a process of its own, for whoever may want to end it.
pub(crate) struct RunHandle {
    ticket: Arc<Ticket>,
    pool: Arc<Pool>,
}

impl Processes {
    /// Children of this zygote, whose runs are told to `done`. Within a runtime.
    ///
    /// # Errors
    /// The connection to the zygote cannot be watched.
    pub(crate) fn start(
        zygote: Zygote,
        options: PoolOptions,
        done: UnboundedSender<Done>,
    ) -> io::Result<Self> {
        memory_kills::begin();
        let link = Link::start(zygote)?;
        let (next, state) = (AtomicU64::new(0), Mutex::default());
        let fresh = Arc::new(Fresh::new(link.clone(), options.lasting));
        Ok(Self(Arc::new(Pool { link, fresh, options, done, next, state })))
    }

    /// Runs a call: in a fresh child, or in one of the pool. What a preforked child could not undo has a fresh one.
    pub(crate) fn run(&self, job: Job, isolation: Isolation) -> RunHandle {
        let pool = &self.0;
        let run = pool.next.fetch_add(1, Ordering::Relaxed);
        let lasting = job.limits.lasting();
        let ticket = Arc::new(Ticket::new(run, job, pool.done.clone()));
        if isolation == Isolation::Prefork && lasting == pool.options.lasting {
            pool.submit(Arc::clone(&ticket));
        } else {
            tokio::spawn(Arc::clone(&pool.fresh).run(lasting, Arc::clone(&ticket)));
        }
        RunHandle { ticket, pool: Arc::clone(pool) }
    }

    /// Comes when no process is left, after these have been dropped or the zygote has died.
    pub(crate) fn end(&self) -> impl Future<Output = ()> + Send + use<> {
        self.0.link.end()
    }

    /// Comes when the zygote is dead. Cancel-safe.
    pub(crate) fn death(&self) -> impl Future<Output = ()> + Send + use<> {
        self.0.link.death()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.0.link.close();
    }
}

impl fmt::Debug for RunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHandle").field("run", &self.ticket.run).finish_non_exhaustive()
    }
}

impl RunHandle {
    /// Asks the run to end; what it comes to is told only when it succeeds.
    pub(crate) fn cancel(&self) {
        self.give(Command::Cancel);
    }

    /// Kills it for good.
    pub(crate) fn kill(&self, by: String) {
        self.give(Command::Kill { by });
    }

    /// Kills it, and tells nothing.
    pub(crate) fn abandon(&self) {
        self.give(Command::Abandon);
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ticket.has_ended()
    }

    fn give(&self, command: Command) {
        let waited = {
            let mut state = self.pool.state();
            let place = state.waiting.iter().position(|ticket| ticket.run == self.ticket.run);
            place.and_then(|place| state.waiting.remove(place))
        };
        match waited {
            Some(ticket) => ticket.end_by(command),
            None => self.ticket.give(command),
        }
    }
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code of others runs under the lock, so what it guards is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a run to a child that is idle, or lets it wait for one.
    fn submit(self: &Arc<Self>, ticket: Arc<Ticket>) {
        let mut state = self.state();
        state.waiting.push_back(ticket);
        self.distribute(&mut state);
    }

    /// Runs that were taken back wait again, before all others.
    pub(super) fn put_back(self: &Arc<Self>, tickets: Vec<Arc<Ticket>>) {
        let mut state = self.state();
        tickets.into_iter().rev().for_each(|ticket| state.waiting.push_front(ticket));
        self.distribute(&mut state);
    }

    /// Gives what waits to children that are idle, and has more forked when there are none.
    fn distribute(self: &Arc<Self>, state: &mut State) {
        self.hand_out(state);
        if !state.waiting.is_empty() && state.children < self.options.children {
            state.children += 1;
            tokio::spawn(serve(Arc::clone(self)));
        }
    }

    /// Gives what waits to children that are idle.
    fn hand_out(&self, state: &mut State) {
        while !state.waiting.is_empty()
            && let Some(seat) = state.idle.pop()
        {
            self.fill(state, &seat);
            if seat.given().is_empty() {
                state.idle.push(seat);
                break;
            }
        }
    }

    /// Gives a child more to do, or lets it be idle.
    pub(super) fn refill(&self, seat: &Arc<Seat>) {
        let mut state = self.state();
        self.fill(&mut state, seat);
        if seat.given().is_empty() {
            state.idle.push(Arc::clone(seat));
        }
    }

    fn fill(&self, state: &mut State, seat: &Seat) {
        let mut given = seat.given();
        let was_idle = given.is_empty();
        while state.waiting.front().is_some_and(|next| Seat::may_take(&given, next))
            && let Some(ticket) = state.waiting.pop_front()
        {
            if ticket.expires() {
                continue;
            }
            if let Some(command) = ticket.take_command() {
                // Given while it stood behind another, from where it was taken back.
                ticket.end_by(command);
                continue;
            }
            if let Some(ticket) = seat.send(&mut given, ticket) {
                state.waiting.push_front(ticket);
                break;
            }
        }
        if was_idle && !given.is_empty() {
            seat.work.notify_one();
        }
    }

    /// Gives a child nothing more.
    pub(super) fn close(&self, seat: &Arc<Seat>) {
        self.state().idle.retain(|other| !Arc::ptr_eq(other, seat));
    }

    /// A child is gone. What it has not begun is given to others; when no child can be had, nothing waits for one.
    pub(super) fn leave(self: &Arc<Self>, seat: Option<&Arc<Seat>>, problem: Option<&str>) {
        let mut state = self.state();
        state.children -= 1;
        if let Some(seat) = seat {
            let given = std::mem::take(&mut *seat.given());
            given.into_iter().rev().for_each(|ticket| state.waiting.push_front(ticket));
        }
        match problem {
            Some(problem) if state.children == 0 => {
                state.waiting.drain(..).for_each(|ticket| ticket.lose(problem));
            }
            Some(problem) => {
                // Those that are there have to do, unless they are too long about it.
                self.hand_out(&mut state);
                if let Some(last) = state.waiting.back().map(|ticket| ticket.run) {
                    tokio::spawn(Arc::clone(self).give_up(last, problem.to_owned()));
                }
            }
            None => self.distribute(&mut state),
        }
    }

    /// After a while, calls up to this one do not wait any more.
    async fn give_up(self: Arc<Self>, last: u64, problem: String) {
        tokio::time::sleep(WAIT_FOR_OTHERS).await;
        let mut state = self.state();
        if state.children < self.options.children {
            let (tired, others): (Vec<_>, Vec<_>) =
                state.waiting.drain(..).partition(|ticket| ticket.run <= last);
            state.waiting = VecDeque::from(others);
            tired.iter().for_each(|ticket| ticket.lose(problem.as_str()));
        }
    }
}
