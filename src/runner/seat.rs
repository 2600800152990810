//! What is a preforked child given, from its fork to its end? One run after another, and of quick tasks a few ahead. What
//! it has not read when one turns out not to be quick is taken back out of its socket and given to others.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::runner::forward::{self, Origin};
use crate::runner::frame::{Report, Reuse};
use crate::runner::job::Ticket;
use crate::runner::outcome::Outcome;
use crate::runner::pool::Pool;
use crate::runner::process::{Event, Process, Requests};
use crate::runner::watch::{log_retired, see_off, watch};

/// How many calls of quick tasks a child is given at once.
const AHEAD: usize = 16;
/// After how long what a child has not read is taken back from it.
const TAKE_BACK_AFTER: Duration = Duration::from_millis(2);
/// A run with a shorter timeout is not handed over ahead, and none behind it.
const UNHURRIED: Duration = Duration::from_millis(100);
/// The largest message that is handed over ahead.
const SMALL: usize = 4 << 10;

/// A preforked child, as those see it who give it work.
pub(super) struct Seat {
    requests: Requests,
    /// The first one runs; the others were handed over ahead.
    given: Mutex<VecDeque<Arc<Ticket>>>,
    pub(super) work: Notify,
}

impl Seat {
    fn new(requests: Requests) -> Self {
        Self { requests, given: Mutex::default(), work: Notify::new() }
    }

    pub(super) fn given(&self) -> MutexGuard<'_, VecDeque<Arc<Ticket>>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it may be given this one too, beside those.
    pub(super) fn may_take(given: &VecDeque<Arc<Ticket>>, next: &Ticket) -> bool {
        let is_quick = |running: &Arc<Ticket>| may_go_ahead(running) && may_go_ahead(next);
        given.len() < AHEAD && given.front().is_none_or(is_quick)
    }

    /// Hands a run over. Gives it back when there is no room.
    pub(super) fn send(&self, given: &mut VecDeque<Arc<Ticket>>, ticket: Arc<Ticket>) -> Option<Arc<Ticket>> {
        let sent = ticket
            .job
            .encode(ticket.run, forward::level_now())
            .and_then(|(packet, file)| Ok(self.requests.send(&packet, file.as_ref())?));
        match sent {
            Ok(true) => given.push_back(ticket),
            Ok(false) => return Some(ticket),
            Err(error) => ticket.lose(format!("its request could not be sent: {error}")),
        }
        None
    }

    /// Whether something waits behind the run that goes on.
    fn is_ahead(&self) -> bool {
        self.given().len() > 1
    }

    /// Takes back what the child has not read, but for the first, in the order in which it was given.
    fn take_back(&self) -> Vec<Arc<Ticket>> {
        let mut given = self.given();
        let unread = self.requests.unread();
        let Some(first) = given.pop_front() else { return Vec::new() };
        let (back, kept): (Vec<_>, Vec<_>) = given.drain(..).partition(|ticket| unread.contains(&ticket.run));
        if unread.contains(&first.run) {
            // The child has not come to it yet, and is the one that is minded for it.
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
fn may_go_ahead(ticket: &Ticket) -> bool {
    let job = &ticket.job;
    let unhurried = job.deadline.is_none() && job.timeout.is_none_or(|timeout| timeout >= UNHURRIED);
    job.speed.is_quick() && unhurried && job.message.len() <= SMALL
}

/// A preforked child from its fork to its end.
pub(super) async fn serve(pool: Arc<Pool>) {
    let options = pool.options;
    let reuse = Reuse { runs: options.runs, memory: options.memory };
    let (mut process, requests) = match Process::fork(&pool.link, options.lasting, reuse).await {
        Ok(forked) => forked,
        Err(error) => return pool.leave(None, Some(&format!("no process could be had: {error}"))),
    };
    let seat = Arc::new(Seat::new(requests));
    pool.refill(&seat);
    let problem = mind(&pool, &seat, &mut process).await;
    pool.close(&seat);
    if seat.given().is_empty() {
        pool.leave(Some(&seat), problem.as_deref());
        see_off(process).await;
    } else {
        // What it was given ahead, and may have begun, is run by another only when this one is gone.
        see_off(process).await;
        pool.leave(Some(&seat), problem.as_deref());
    }
}

/// Minds a child and its runs until it ends, or must. Gives why no child can be had, when that is so.
async fn mind(pool: &Arc<Pool>, seat: &Arc<Seat>, process: &mut Process) -> Option<String> {
    let mut has_run = false;
    loop {
        let running = seat.given().front().cloned();
        let Some(ticket) = running else {
            let event = tokio::select! {
                event = process.next() => event,
                () = seat.work.notified() => continue,
            };
            if !seat.given().is_empty() {
                // Of a run that was given meanwhile.
                process.retell(event);
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
        let mut watched = pin!(watch(process, &ticket));
        let end = loop {
            tokio::select! {
                biased;
                end = &mut watched => break end,
                () = tokio::time::sleep(TAKE_BACK_AFTER), if seat.is_ahead() => {
                    ticket.job.speed.learn(TAKE_BACK_AFTER);
                    pool.put_back(seat.take_back());
                }
            }
        };
        if !end.begun {
            return None;
        }
        match &end.outcome {
            Some(Outcome::Succeeded(_)) => ticket.job.speed.learn(end.took),
            Some(outcome @ (Outcome::Crashed(_) | Outcome::Orphaned))
                if seat.requests.unread().contains(&ticket.run) =>
            {
                // What has run may have died of what a run left behind, which is no fault of this one, nor of the system.
                let is_new = !has_run || matches!(outcome, Outcome::Orphaned);
                return is_new.then(|| format!("before it had begun anything, {outcome}"));
            }
            _ => {}
        }
        has_run = true;
        seat.given().pop_front();
        if end.alive {
            pool.refill(seat);
        }
        ticket.finish(end.outcome, end.traces);
        if !end.alive {
            return end.problem;
        }
    }
}
