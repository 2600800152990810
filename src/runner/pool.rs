//! Assigns calls to children. Preforked children run one call after another; calls that need a child of their own go to
//! `one_shot.rs`.
//!
//! A call goes to an idle preforked child, or waits for one. A child that reports the end of a run gets the next call, or a few
//! if the tasks are quick, so that it does not sleep between them.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use crate::isolation::{Isolation, Limits};
use crate::runner::job::{Command, Done, Job, RunState};
use crate::runner::link::Link;
use crate::runner::one_shot::OneShot;
use crate::runner::pooled_child::{PooledChild, serve};
use crate::runner::zygote::Zygote;
use crate::sys::memory_kills;

/// How long a call waits for an existing child if none could be forked for it.
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(1);

/// How preforked children are used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolOptions {
    /// Maximum number of children.
    pub(crate) children: usize,
    /// How many calls one child runs.
    pub(crate) runs: u64,
    /// If a child has more anonymous and shared memory than this after a run, in bytes, it is replaced.
    pub(crate) memory: Option<u64>,
    /// The limits that apply to all of them from their start.
    pub(crate) lasting: Limits,
}

/// The children of a worker. When this is dropped, all are killed.
pub(crate) struct Processes(Arc<Pool>);

pub(super) struct Pool {
    pub(super) link: Link,
    one_shot: Arc<OneShot>,
    pub(super) options: PoolOptions,
    done: UnboundedSender<Done>,
    next: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Arc<RunState>>,
    idle: Vec<Arc<PooledChild>>,
    /// Preforked children that live or are being forked.
    children: usize,
}

/// A handle to end a run in a process of its own.
pub(crate) struct RunHandle {
    run_state: Arc<RunState>,
    pool: Arc<Pool>,
}

impl Processes {
    /// Starts to fork children from this zygote; the ends of their runs go to `done`. Call it within a runtime.
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
        let one_shot = Arc::new(OneShot::new(link.clone(), options.lasting));
        Ok(Self(Arc::new(Pool { link, one_shot, options, done, next, state })))
    }

    /// Runs a call in a child of the pool or, if it needs isolation or limits that a preforked child could not lift, in a
    /// one-shot child.
    pub(crate) fn run(&self, job: Job, isolation: Isolation) -> RunHandle {
        let pool = &self.0;
        let run = pool.next.fetch_add(1, Ordering::Relaxed);
        let lasting = job.limits.lasting();
        let run_state = Arc::new(RunState::new(run, job, pool.done.clone()));
        if isolation == Isolation::Prefork && lasting == pool.options.lasting {
            pool.submit(Arc::clone(&run_state));
        } else {
            tokio::spawn(Arc::clone(&pool.one_shot).run(lasting, Arc::clone(&run_state)));
        }
        RunHandle { run_state, pool: Arc::clone(pool) }
    }

    /// Resolves when no process is left, after this was dropped or the zygote died.
    pub(crate) fn end(&self) -> impl Future<Output = ()> + Send + use<> {
        self.0.link.end()
    }

    /// Resolves when the zygote has died. Cancel-safe.
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
        f.debug_struct("RunHandle").field("run", &self.run_state.run).finish_non_exhaustive()
    }
}

impl RunHandle {
    /// Asks the run to end; its outcome is reported only if it succeeds.
    pub(crate) fn cancel(&self) {
        self.give(Command::Cancel);
    }

    /// Kills the run. It is not retried.
    pub(crate) fn kill(&self, by: String) {
        self.give(Command::Kill { by });
    }

    /// Kills the run without a report.
    pub(crate) fn abandon(&self) {
        self.give(Command::Abandon);
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.run_state.has_ended()
    }

    fn give(&self, command: Command) {
        let waited = {
            let mut state = self.pool.state();
            let place = state.waiting.iter().position(|run_state| run_state.run == self.run_state.run);
            place.and_then(|place| state.waiting.remove(place))
        };
        match waited {
            Some(run_state) => run_state.end_by(command),
            None => self.run_state.give(command),
        }
    }
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, State> {
        // No foreign code runs under the lock, so a panic leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a run to an idle child, or lets it wait for one.
    fn submit(self: &Arc<Self>, run_state: Arc<RunState>) {
        let mut state = self.state();
        state.waiting.push_back(run_state);
        self.distribute(&mut state);
    }

    /// Puts runs that were taken back before all waiting runs.
    pub(super) fn put_back(self: &Arc<Self>, run_states: Vec<Arc<RunState>>) {
        let mut state = self.state();
        run_states.into_iter().rev().for_each(|run_state| state.waiting.push_front(run_state));
        self.distribute(&mut state);
    }

    /// Gives waiting runs to idle children, and forks more children if there are none.
    fn distribute(self: &Arc<Self>, state: &mut State) {
        self.hand_out(state);
        if !state.waiting.is_empty() && state.children < self.options.children {
            state.children += 1;
            tokio::spawn(serve(Arc::clone(self)));
        }
    }

    /// Gives waiting runs to idle children.
    fn hand_out(&self, state: &mut State) {
        while !state.waiting.is_empty()
            && let Some(pooled) = state.idle.pop()
        {
            self.fill(state, &pooled);
            if pooled.given().is_empty() {
                state.idle.push(pooled);
                break;
            }
        }
    }

    /// Gives a child more runs, or marks it as idle.
    pub(super) fn refill(&self, pooled: &Arc<PooledChild>) {
        let mut state = self.state();
        self.fill(&mut state, pooled);
        if pooled.given().is_empty() {
            state.idle.push(Arc::clone(pooled));
        }
    }

    fn fill(&self, state: &mut State, pooled: &PooledChild) {
        let mut given = pooled.given();
        let was_idle = given.is_empty();
        while state.waiting.front().is_some_and(|next| PooledChild::may_take(&given, next))
            && let Some(run_state) = state.waiting.pop_front()
        {
            if run_state.has_expired() {
                continue;
            }
            if let Some(command) = run_state.take_command() {
                // Sent while it was queued behind another run, from where it was taken back.
                run_state.end_by(command);
                continue;
            }
            if let Some(run_state) = pooled.send(&mut given, run_state) {
                state.waiting.push_front(run_state);
                break;
            }
        }
        if was_idle && !given.is_empty() {
            pooled.work.notify_one();
        }
    }

    /// Stops giving runs to a child.
    pub(super) fn close(&self, pooled: &Arc<PooledChild>) {
        self.state().idle.retain(|other| !Arc::ptr_eq(other, pooled));
    }

    /// A child is gone. Its unstarted runs go to other children; if no child can be started, they stop waiting.
    pub(super) fn leave(self: &Arc<Self>, pooled: Option<&Arc<PooledChild>>, problem: Option<&str>) {
        let mut state = self.state();
        state.children -= 1;
        if let Some(pooled) = pooled {
            let given = std::mem::take(&mut *pooled.given());
            given.into_iter().rev().for_each(|run_state| state.waiting.push_front(run_state));
        }
        match problem {
            Some(problem) if state.children == 0 => {
                state.waiting.drain(..).for_each(|run_state| run_state.lose(problem));
            }
            Some(problem) => {
                // The other children must suffice, unless they take too long.
                self.hand_out(&mut state);
                if let Some(last) = state.waiting.back().map(|run_state| run_state.run) {
                    tokio::spawn(Arc::clone(self).give_up(last, problem.to_owned()));
                }
            }
            None => self.distribute(&mut state),
        }
    }

    /// After a while, stops the wait of all calls up to this one.
    async fn give_up(self: Arc<Self>, last: u64, problem: String) {
        tokio::time::sleep(WAIT_FOR_OTHERS).await;
        let mut state = self.state();
        if state.children < self.options.children {
            let (tired, others): (Vec<_>, Vec<_>) =
                state.waiting.drain(..).partition(|run_state| run_state.run <= last);
            state.waiting = VecDeque::from(others);
            tired.iter().for_each(|run_state| run_state.lose(problem.as_str()));
        }
    }
}
