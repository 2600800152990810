//! Supervises a preforked child from its fork to its end: sends it one run after another, and a few ahead if the tasks are
//! quick. If a run turns out to be slow, the requests behind it are taken back out of the socket and go to other children.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::runner::forward::{self, Origin};
use crate::runner::frame::{Report, Reuse};
use crate::runner::job::RunState;
use crate::runner::outcome::Outcome;
use crate::runner::pool::Pool;
use crate::runner::process::{Event, Process, Requests};
use crate::runner::watch::{log_retired, see_off, watch};

/// How many calls of quick tasks are sent to a child at once.
const AHEAD: usize = 16;
/// How long a run may take before unread requests are taken back from its child.
const TAKE_BACK_AFTER: Duration = Duration::from_millis(2);
/// Runs with a shorter timeout are not sent ahead, and none are sent behind them.
const UNHURRIED: Duration = Duration::from_millis(100);
/// The largest message that is sent ahead, in bytes.
const SMALL: usize = 4 << 10;

/// A preforked child, as the pool sees it.
pub(super) struct PooledChild {
    requests: Requests,
    /// The first one runs; the others were sent ahead.
    given: Mutex<VecDeque<Arc<RunState>>>,
    pub(super) work: Notify,
}

impl PooledChild {
    fn new(requests: Requests) -> Self {
        Self { requests, given: Mutex::default(), work: Notify::new() }
    }

    pub(super) fn given(&self) -> MutexGuard<'_, VecDeque<Arc<RunState>>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether `next` may be sent too, in addition to those that were given.
    pub(super) fn may_take(given: &VecDeque<Arc<RunState>>, next: &RunState) -> bool {
        let is_quick = |running: &Arc<RunState>| may_go_ahead(running) && may_go_ahead(next);
        given.len() < AHEAD && given.front().is_none_or(is_quick)
    }

    /// Sends a run to the child. Returns it if the socket has no room.
    pub(super) fn send(
        &self,
        given: &mut VecDeque<Arc<RunState>>,
        run_state: Arc<RunState>,
    ) -> Option<Arc<RunState>> {
        let sent = run_state
            .job
            .encode(run_state.run, forward::level_now())
            .and_then(|(packet, file)| Ok(self.requests.send(&packet, file.as_ref())?));
        match sent {
            Ok(true) => given.push_back(run_state),
            Ok(false) => return Some(run_state),
            Err(error) => run_state.lose(format!("its request could not be sent: {error}")),
        }
        None
    }

    /// Whether runs wait behind the current one.
    fn is_ahead(&self) -> bool {
        self.given().len() > 1
    }

    /// Takes back the requests that the child has not read, except the first, in their order.
    fn take_back(&self) -> Vec<Arc<RunState>> {
        let mut given = self.given();
        let unread = self.requests.unread();
        let Some(first) = given.pop_front() else { return Vec::new() };
        let (back, kept): (Vec<_>, Vec<_>) =
            given.drain(..).partition(|run_state| unread.contains(&run_state.run));
        if unread.contains(&first.run) {
            // Unread, but this child is already supervised for it.
            if let Some(first) = self.send(&mut given, first) {
                first.lose("its request could not be sent again");
            }
        } else {
            given.push_front(first);
        }
        given.extend(kept);
        back
    }
}

/// Whether a run may wait in a child for the one before it, or have one wait behind it.
fn may_go_ahead(run_state: &RunState) -> bool {
    let job = &run_state.job;
    let unhurried = job.expires.is_none() && job.timeout.is_none_or(|timeout| timeout >= UNHURRIED);
    job.speed.is_quick() && unhurried && job.message.len() <= SMALL
}

/// A preforked child from its fork to its end.
pub(super) async fn serve(pool: Arc<Pool>) {
    let options = pool.options;
    let reuse = Reuse { runs: options.runs, memory: options.memory };
    let (mut process, requests) = match Process::fork(&pool.link, options.lasting, reuse).await {
        Ok(forked) => forked,
        Err(error) => return pool.leave(None, Some(&format!("no process could be created: {error}"))),
    };
    let pooled = Arc::new(PooledChild::new(requests));
    pool.refill(&pooled);
    let problem = supervise(&pool, &pooled, &mut process).await;
    pool.close(&pooled);
    if pooled.given().is_empty() {
        pool.leave(Some(&pooled), problem.as_deref());
        see_off(process).await;
    } else {
        // It may have begun runs that were sent ahead, so others run them only when this child is gone.
        see_off(process).await;
        pool.leave(Some(&pooled), problem.as_deref());
    }
}

/// Supervises a child and its runs until it ends, or must end. Returns the problem if no child can be started.
async fn supervise(pool: &Arc<Pool>, pooled: &Arc<PooledChild>, process: &mut Process) -> Option<String> {
    let mut has_run = false;
    loop {
        let running = pooled.given().front().cloned();
        let Some(run_state) = running else {
            let event = tokio::select! {
                event = process.next() => event,
                () = pooled.work.notified() => continue,
            };
            if !pooled.given().is_empty() {
                // It belongs to a run that was sent meanwhile.
                process.push_front(event);
                continue;
            }
            match event {
                Event::Wrote => {
                    process.written().log(Origin::NOBODY);
                    continue;
                }
                Event::Report(Report::Log(line)) => {
                    forward::log(&line, Origin::NOBODY);
                    continue;
                }
                Event::Refused(errno) => {
                    let errno = nix::Error::from_raw(errno);
                    return Some(format!("no process could be forked: {}", errno.desc()));
                }
                Event::Orphaned => return Some("the zygote is dead".into()),
                Event::Report(Report::Retired { left }) => {
                    log_retired(process, &left);
                    return None;
                }
                Event::Report(_) | Event::Garbage | Event::HungUp | Event::Ended(..) => return None,
            }
        };
        let mut watched = pin!(watch(process, &run_state));
        let end = loop {
            tokio::select! {
                biased;
                end = &mut watched => break end,
                () = tokio::time::sleep(TAKE_BACK_AFTER), if pooled.is_ahead() => {
                    run_state.job.speed.learn(TAKE_BACK_AFTER);
                    pool.put_back(pooled.take_back());
                }
            }
        };
        if !end.begun {
            return None;
        }
        match &end.outcome {
            Some(Outcome::Succeeded(_)) => run_state.job.speed.learn(end.took),
            Some(outcome @ (Outcome::Crashed(_) | Outcome::Orphaned))
                if pooled.requests.unread().contains(&run_state.run) =>
            {
                // If something has run before, the child may have died of what that left behind, which is not a problem of
                // this run or of the system.
                let is_new = !has_run || matches!(outcome, Outcome::Orphaned);
                return is_new.then(|| format!("before it had begun anything, {outcome}"));
            }
            _ => {}
        }
        has_run = true;
        pooled.given().pop_front();
        if end.alive {
            pool.refill(pooled);
        }
        run_state.finish(end.outcome, end.stats);
        if !end.alive {
            return end.problem;
        }
    }
}
