//! What becomes of a message whose run has ended, and of a request that failed? Verdicts are carried out until Redis
//! answers; what is uncertain is reconciled, never guessed at.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::broker::{BrokerError, BrokerErrorKind, MAX_BATCH, Place, ReconcileRequest, Reconciled};
use crate::crash;
use crate::isolation::Isolation;
use crate::protocol::message::Message;
use crate::runner::{Done, Outcome, Traces};
use crate::task::TaskOptions;
use crate::worker::claim::ClaimLoop;
use crate::worker::lane::LaneState;
use crate::worker::request::{Request, RequestKind};
use crate::worker::shutdown::Phase;
use crate::worker::slots::{Running, Settlement, Stop};
use crate::worker::stats::count;
use crate::worker::verdict::{Verdict, decide};

/// How far a reconciliation jumps ahead of all requests that may still be on their way.
const JUMP: u64 = 1 << 20;
/// How long runs may react to their cancellation before they are dropped.
const REACT: Duration = Duration::from_millis(100);
/// How long Redis may take to answer the last requests of a worker.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

impl ClaimLoop {
    /// A run has ended, or was dropped.
    pub(super) fn on_end(&mut self, done: Done) {
        let Done { slot, outcome, traces } = done;
        let timed_out = || {
            // Without a clock it was dropped since the worker ends: it is put back.
            let clock = self.slots.running_in(slot)?.clock?;
            clock.is_up().then(|| clock.timed_out())
        };
        if let Some(outcome) = outcome.or_else(timed_out) {
            self.on_done(slot, outcome, traces);
        }
    }

    /// A run has ended with this outcome: decides, and queues what is to be done.
    pub(super) fn on_done(&mut self, slot: usize, outcome: Outcome, traces: Option<Box<Traces>>) {
        let Some(running) = self.slots.running_in(slot) else { return };
        crash::point("run", "heard");
        let outcome = self.orders.outcome_of(slot, running.judged(outcome));
        let outcome =
            if self.phase() > Phase::Quiet { outcome.while_stopping(traces.as_deref()) } else { outcome };
        if self.closing && matches!(outcome, Outcome::Failed(_) | Outcome::Lost { .. }) {
            // It heard that it was cancelled: it is put back, and no attempt is counted.
            self.slots.stop_by(slot, Stop::NotNeeded);
            return;
        }
        let Some(running) = self.slots.end(slot) else { return };
        if let Some(clock) = running.clock
            && clock.is_overdue()
        {
            tracing::info!(queue = %self.lanes[running.lane].lane.queue, %outcome, after = ?clock.elapsed(), "a run has ended that could not be stopped");
        }
        self.forget_losses(&running, &outcome);
        let lane = &mut self.lanes[running.lane];
        if outcome != Outcome::Unknown {
            lane.on_known();
        }
        if outcome == Outcome::Succeeded {
            count(&self.counters.succeeded, 1);
            lane.finished.push((slot, running.suspect));
            return;
        }
        let message = Message::decode(&running.message).ok();
        let options = message
            .and_then(|message| self.known.get(message.task()))
            .map_or(TaskOptions::DEFAULT, |known| known.task.options);
        let verdict = decide(&outcome, message.as_ref(), options, self.unknown);
        let task = message.map_or("", |message| message.task());
        if has_failed(&outcome) {
            count(&self.counters.failed, 1);
        }
        let settlement = match verdict {
            Verdict::Release => {
                tracing::debug!(queue = %lane.lane.queue, task, "unknown task ignored");
                lane.finished.push((slot, running.suspect));
                return;
            }
            Verdict::Retry(bytes) => {
                count(&self.counters.retried, 1);
                tracing::warn!(queue = %lane.lane.queue, task, %outcome, "it is tried again");
                Settlement::Retry(bytes)
            }
            Verdict::Bury { reason, mut detail, attempt } => {
                let Traces { usage, output, .. } = traces.map_or_else(Traces::default, |traces| *traces);
                if let Some(usage) = usage {
                    detail = format!("{detail} ({usage})");
                }
                count(&self.counters.buried, 1);
                tracing::error!(queue = %lane.lane.queue, task, reason, detail, attempt, "sent to the dead letters");
                self.bury(running.lane, slot, Settlement::Bury { reason, detail, attempt, output });
                return;
            }
            Verdict::Leave => {
                count(&self.counters.lost, 1);
                tracing::error!(queue = %lane.lane.queue, task, %outcome, "a sweeper brings it back, and counts it as a death");
                return;
            }
            Verdict::PutBack => {
                count(&self.counters.put_back, 1);
                lane.foreign += 1;
                Settlement::PutBack(Place::Tail)
            }
            Verdict::PutBackFirst => {
                count(&self.counters.put_back, 1);
                // From now on, or it would be claimed again as soon as it is there. One pause for all that are lost at once, and
                // one word of it.
                if let Some(pause) = lane.losses.fail_once() {
                    tracing::warn!(queue = %lane.lane.queue, task, %outcome, ?pause, "it is put back, and nothing is claimed for a while");
                } else {
                    tracing::debug!(queue = %lane.lane.queue, task, %outcome, "it is put back");
                }
                Settlement::PutBack(Place::Head)
            }
        };
        lane.settlements.push_back((slot, settlement));
    }

    /// A verdict was carried out, or came too late.
    pub(super) fn on_settled(&mut self, request: &Request, owned: bool) {
        let RequestKind::Settle { slot, settlement } = &request.kind else { return };
        let lane = &mut self.lanes[request.lane];
        lane.lane.disown(*slot);
        self.slots.give(*slot);
        self.orders.on_settled(*slot, owned);
        if !owned {
            self.on_lost(request.lane, 1);
            return;
        }
        match settlement {
            // It may be the only one in the queue, and a round that was foreign till now has one of ours again.
            Settlement::Retry(_) | Settlement::PutBack(Place::Head) => {
                lane.on_known();
                self.wake(request.lane);
            }
            Settlement::PutBack(Place::Tail) => {
                lane.on_foreign();
                self.wake(request.lane);
            }
            Settlement::Bury { .. } => self.on_buried(request.lane),
        }
    }

    /// So many messages were taken away from us before their ends were in Redis.
    pub(super) fn on_lost(&self, index: usize, lost: u64) {
        if lost > 0 {
            count(&self.counters.lost, lost);
            tracing::warn!(queue = %self.lanes[index].lane.queue, lost, "messages were taken away from us before they were settled: the lease had ended, they run again elsewhere");
        }
    }

    /// Ends the pauses of a lane whose calls got no processes, when one has got one again.
    fn forget_losses(&mut self, running: &Running, outcome: &Outcome) {
        let losses = &mut self.lanes[running.lane].losses;
        if losses.is_failing() && (has_failed(outcome) || *outcome == Outcome::Succeeded) {
            let known =
                Message::decode(&running.message).ok().and_then(|message| self.known.get(message.task()));
            if known.is_some_and(|known| known.isolation != Isolation::Inline) {
                losses.succeed();
            }
        }
    }

    /// A request failed: what was not applied is taken back, what is uncertain is put in doubt.
    pub(super) fn on_error(&mut self, request: Request, error: &BrokerError) {
        let index = request.lane;
        let lane = &mut self.lanes[index];
        lane.barred = match error.kind() {
            BrokerErrorKind::WrongType | BrokerErrorKind::Denied => true,
            BrokerErrorKind::Stale => lane.barred, // It stood behind one that was refused.
            _ => false,
        };
        match lane.backoff.fail_once() {
            Some(pause) => self.log_error(index, error, pause),
            None => {
                tracing::debug!(queue = %lane.lane.queue, %error, "Redis did not do this either; it is asked again")
            }
        }
        if let RequestKind::Reconcile { .. } = request.kind {
            return; // What it asked about is still in doubt.
        }
        if error.may_have_been_applied() || error.kind() == BrokerErrorKind::Stale {
            let lane = &mut self.lanes[index];
            request.slots().iter().for_each(|slot| lane.lane.may_own(*slot));
            lane.doubt.push(request);
        } else {
            self.lanes[index].refused = true;
            self.take_back(request);
        }
    }

    /// A request was not applied: its slots are as they were before it.
    fn take_back(&mut self, request: Request) {
        let lane = &mut self.lanes[request.lane];
        match request.kind {
            RequestKind::Claim { slots, released, forgive, in_hand, .. } => {
                for (place, slot) in slots.into_iter().enumerate() {
                    if place < released {
                        lane.finished.push((slot, place < forgive));
                    } else {
                        lane.lane.disown(slot);
                        self.slots.give(slot);
                    }
                }
                lane.token = lane.token.or(in_hand);
            }
            RequestKind::Settle { slot, settlement } => lane.settlements.push_back((slot, settlement)),
            RequestKind::Reconcile { .. } => {}
        }
    }

    /// Asks what became of the requests in doubt.
    pub(super) fn reconcile(&mut self, index: usize) -> Request {
        let lane = &mut self.lanes[index];
        let mut slots: Vec<usize> = lane.doubt.iter().flat_map(|request| request.slots()).copied().collect();
        slots.sort_unstable();
        slots.dedup();
        lane.seq += JUMP;
        Request { lane: index, seq: lane.seq, kind: RequestKind::Reconcile { slots } }
    }

    /// Knows now which requests in doubt were applied: those up to the number that Redis had stored.
    pub(super) fn on_reconciled(&mut self, request: Request, reconciled: Reconciled) {
        let index = request.lane;
        let RequestKind::Reconcile { slots } = request.kind else { return };
        let alone: Vec<usize> =
            reconciled.alone.iter().filter_map(|place| slots.get(*place)).copied().collect();
        let owned = slots.into_iter().zip(reconciled.owned);
        let mut owned: HashMap<usize, Option<Vec<u8>>> = owned.collect();
        let (mut found, mut lost) = (Vec::new(), 0);
        let doubt = std::mem::take(&mut self.lanes[index].doubt);
        tracing::info!(queue = %self.lanes[index].lane.queue, applied = ?reconciled.applied, requests = doubt.len(), "reconciled what was uncertain");
        for request in doubt {
            // When Redis does not know, it forgot the worker: then what a slot was to get is run, at worst once more, and
            // what it owns no more was given to others.
            let known = reconciled.applied.map(|applied| request.seq <= applied);
            let applied = known.unwrap_or(true);
            let is_surely_applied = known == Some(true);
            let lane = &mut self.lanes[index];
            match request.kind {
                RequestKind::Claim { slots, released, forgive, in_hand, .. } => {
                    lane.token = lane.token.or(in_hand.filter(|_| !applied));
                    for (place, slot) in slots.into_iter().enumerate() {
                        match owned.remove(&slot).flatten() {
                            // Not released yet, and known to be done.
                            Some(_) if !applied && place < released => {
                                lane.finished.push((slot, place < forgive))
                            }
                            Some(message) => found.push((slot, message)),
                            None => {
                                lost += u64::from(place < released && !is_surely_applied);
                                lane.lane.disown(slot);
                                self.slots.give(slot);
                            }
                        }
                    }
                }
                RequestKind::Settle { slot, settlement } => match owned.remove(&slot).flatten() {
                    // What was settled would not be there.
                    Some(_) => lane.settlements.push_back((slot, settlement)),
                    None => {
                        lost += u64::from(!is_surely_applied);
                        self.orders.on_settled(slot, applied);
                        lane.lane.disown(slot);
                        self.slots.give(slot);
                    }
                },
                RequestKind::Reconcile { .. } => {}
            }
        }
        self.on_lost(index, lost);
        count(&self.counters.claimed, found.len() as u64);
        self.wake(index);
        // The answer that was lost would have said whether there are any; the next one does.
        self.lanes[index].suspects |= !found.is_empty();
        let (lonely, others): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(slot, _)| alone.contains(slot));
        for (slot, message) in lonely {
            self.dispatch(index, &[slot], vec![message], true);
        }
        let (slots, messages): (Vec<usize>, Vec<Vec<u8>>) = others.into_iter().unzip();
        self.dispatch(index, &slots, messages, false);
    }

    /// The end: cancels what runs, puts it back to the heads of its queues, and settles the rest, as long as Redis
    /// answers. Gives the number of runs that nothing can stop.
    pub(super) async fn put_back_all(&mut self) -> usize {
        self.closing = true;
        let last = Instant::now() + LAST_REQUESTS;
        self.slots.cancel_all();
        for slot in self.blocking.withdraw() {
            self.slots.stop_by(slot, Stop::NotNeeded);
        }
        let react = Instant::now() + REACT;
        while self.slots.underway() > 0 && Instant::now() < react {
            self.wait_ended(react.saturating_duration_since(Instant::now())).await;
        }
        // A run that is aborted goes on to its next `await`, and may come to its end there.
        self.slots.abort_all();
        let react = Instant::now() + REACT;
        while self.slots.aborting() > 0 && Instant::now() < react {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.take_ended();
        let ordered = self.give_up_ordered();
        self.give_up_burials();
        if self.lanes.iter().any(|lane| lane.standing) {
            // Its reply comes when the wait before it has ended.
            self.hang_up(last).await;
        }
        self.settle_rest(last).await;
        let mut by_lane: Vec<Vec<usize>> = self.lanes.iter().map(|_| Vec::new()).collect();
        let still_running = ordered + self.slots.stuck();
        for slot in self.slots.in_order() {
            if let Some(running) = self.slots.end(slot) {
                by_lane[running.lane].push(slot);
            }
        }
        for (index, slots) in by_lane.into_iter().enumerate() {
            for chunk in slots.rchunks(MAX_BATCH) {
                self.put_back_chunk(index, chunk, last).await;
            }
        }
        self.hang_up(last).await;
        still_running
    }

    /// Makes the requests that are left, until all are answered or `until`.
    async fn settle_rest(&mut self, until: Instant) {
        loop {
            self.pump();
            let reply = tokio::time::timeout_at(until.into(), self.next_reply()).await;
            match reply {
                Ok(Some(reply)) => self.on_reply(reply),
                Ok(None) => {
                    if !self.lanes.iter().any(LaneState::has_work) {
                        return;
                    }
                    let pause = self.lanes.iter().filter_map(|lane| lane.backoff.until()).min();
                    match pause {
                        Some(pause) if pause < until => {
                            tokio::time::sleep_until(pause.into()).await;
                            self.on_timer();
                        }
                        _ => return,
                    }
                }
                Err(_) => {
                    tracing::error!(
                        "Redis did not answer; what this worker owns is requeued when its lease ends"
                    );
                    return;
                }
            }
            self.take_ended();
        }
    }

    /// Puts back what these slots own, as soon as Redis answers.
    async fn put_back_chunk(&mut self, index: usize, slots: &[usize], until: Instant) {
        let lane = Arc::clone(&self.lanes[index].lane);
        let mut doubt = None;
        loop {
            let tried = self.try_to_put_back(index, slots, &mut doubt);
            match tokio::time::timeout_at(until.into(), tried).await {
                Ok(Ok(put_back)) => {
                    count(&self.counters.put_back, put_back);
                    count(&self.counters.lost, slots.len() as u64 - put_back);
                    slots.iter().for_each(|slot| lane.disown(*slot));
                    return;
                }
                Ok(Err(error)) => {
                    let pause = self.lanes[index].backoff.fail();
                    self.log_error(index, &error, pause);
                    if Instant::now() + pause > until {
                        tracing::error!(queue = %lane.queue, "could not put back what runs; it is requeued when the lease ends");
                        return;
                    }
                    tokio::time::sleep(pause).await;
                }
                Err(_) => {
                    tracing::error!(queue = %lane.queue, "Redis did not answer; what runs is requeued when the lease ends");
                    return;
                }
            }
        }
    }

    /// Gives how many of these slots owned something. `doubt` is the number of the last try, whose reply was lost: it may
    /// have put them back.
    async fn try_to_put_back(
        &mut self,
        index: usize,
        slots: &[usize],
        doubt: &mut Option<u64>,
    ) -> Result<u64, BrokerError> {
        let (lane, sender) = (&mut self.lanes[index], &self.sender);
        let (keys, worker_key) = (&lane.lane.keys, lane.lane.worker_key.as_str());
        if let Some(last) = *doubt {
            // Whatever became of it, a later number is accepted again after this.
            lane.seq += JUMP;
            let wire_ids = &lane.lane.ids(&slots[..1]);
            let ask = ReconcileRequest { worker_key, seq: lane.seq, lease: sender.lease, wire_ids };
            let reconciled = sender.broker.reconcile(keys, &ask).await?;
            if reconciled.applied.is_some_and(|applied| applied >= last) {
                return Ok(slots.len() as u64);
            }
        }
        lane.seq += 1;
        *doubt = Some(lane.seq);
        sender.broker.put_back(keys, worker_key, lane.seq, Place::Head, &lane.lane.ids(slots)).await
    }
}

/// Whether there was a run, and it came to no good end.
fn has_failed(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Failed(_)
        | Outcome::Panicked { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Killed { .. }
        | Outcome::Exceeded { .. }
        | Outcome::Crashed(_) => true,
        Outcome::Succeeded
        | Outcome::Expired { .. }
        | Outcome::Arguments { .. }
        | Outcome::Unknown
        | Outcome::Malformed { .. }
        | Outcome::Lost { .. }
        | Outcome::Orphaned => false,
    }
}
