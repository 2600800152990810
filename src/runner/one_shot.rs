//! One-shot children: each runs one call, in a child that was forked ahead or is forked now.
//!
//! A fork takes longer than most other steps of a call. The zygote never changes, so an older child is as good as a new
//! one. After the first one-shot call, a few children are kept ready for later calls.

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::isolation::Limits;
use crate::runner::forward;
use crate::runner::frame::Reuse;
use crate::runner::job::RunState;
use crate::runner::link::Link;
use crate::runner::outcome::Outcome;
use crate::runner::process::{Process, Requests};
use crate::runner::watch::{see_off, watch};

/// How many children are kept ready at most.
const STOCK: usize = 2;

/// How long to wait for a run to end before forking the next child beside it.
const ALONE_FOR: Duration = Duration::from_millis(1);

/// Children for one run each.
pub(super) struct OneShot {
    link: Link,
    /// The limits of children that are forked ahead.
    lasting: Limits,
    spares: Mutex<Spares>,
}

#[derive(Default)]
struct Spares {
    /// Oldest first.
    waiting: VecDeque<(Process, Requests)>,
    coming: usize,
}

impl OneShot {
    pub(super) fn new(link: Link, lasting: Limits) -> Self {
        Self { link, lasting, spares: Mutex::default() }
    }

    /// Runs a call in a child with these limits.
    pub(super) async fn run(self: Arc<Self>, lasting: Limits, run_state: Arc<RunState>) {
        let spare = (lasting == self.lasting).then(|| self.take()).flatten();
        if let Some((process, requests)) = spare
            && self.run_in(process, &requests, &run_state).await.is_ok()
        {
            return;
        }
        match Process::fork(&self.link, lasting, Reuse::ONCE).await {
            Err(error) => run_state.lose(format!("no process could be created: {error}")),
            Ok((process, requests)) => {
                if let Err(problem) = self.run_in(process, &requests, &run_state).await {
                    run_state.lose(problem);
                }
            }
        }
    }

    /// Runs a call in this child. An error says why it did not begin there.
    async fn run_in(
        self: &Arc<Self>,
        mut process: Process,
        requests: &Requests,
        run_state: &RunState,
    ) -> Result<(), String> {
        send(requests, run_state).map_err(|error| format!("no process could be created: {error}"))?;
        let mut ran = pin!(async {
            let end = watch(&mut process, run_state).await;
            let begun = match end.outcome {
                _ if !end.begun => Err("its process had run another call before".to_owned()),
                Some(outcome @ (Outcome::Crashed(_) | Outcome::Orphaned))
                    if requests.unread().contains(&run_state.run) =>
                {
                    Err(format!("before it could begin, {outcome}"))
                }
                outcome => {
                    run_state.finish(outcome, end.stats);
                    Ok(())
                }
            };
            // The event loop may need this thread to settle the call.
            tokio::task::yield_now().await;
            see_off(process).await;
            begun
        });
        // A quick run and the report of its end must not compete with the fork of the next child for a processor.
        let early = tokio::time::timeout(ALONE_FOR, &mut ran).await;
        tokio::spawn(Arc::clone(self).stock());
        match early {
            Ok(begun) => begun,
            Err(_) => ran.await,
        }
    }

    fn spares(&self) -> MutexGuard<'_, Spares> {
        // No foreign code runs under the lock, so a panic leaves nothing half done.
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the oldest child that is still alive.
    fn take(&self) -> Option<(Process, Requests)> {
        let mut spares = self.spares();
        std::iter::from_fn(|| spares.waiting.pop_front()).find_map(|(mut process, requests)| {
            let waits = process.waits();
            waits.then_some((process, requests))
        })
    }

    /// Forks children until enough of them wait.
    async fn stock(self: Arc<Self>) {
        loop {
            {
                let mut spares = self.spares();
                if spares.waiting.len() + spares.coming >= STOCK {
                    return;
                }
                spares.coming += 1;
            }
            let forked = Process::fork(&self.link, self.lasting, Reuse::ONCE).await;
            let mut spares = self.spares();
            spares.coming -= 1;
            // The run that finds no child reports the reason.
            let Ok(spare) = forked else { return };
            spares.waiting.push_back(spare);
        }
    }
}

fn send(requests: &Requests, run_state: &RunState) -> io::Result<()> {
    let (packet, file) = run_state.job.encode(run_state.run, forward::level_now())?;
    match requests.send(&packet, file.as_ref())? {
        true => Ok(()),
        false => Err(io::Error::other("its request could not be sent")),
    }
}
