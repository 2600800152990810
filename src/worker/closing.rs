//! What does the loop do last? It stops what runs, settles what is left, and puts the rest back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::broker::{BrokerError, MAX_BATCH, Place, ReconcileRequest};
use crate::worker::claim_loop::ClaimLoop;
use crate::worker::doubt::JUMP;
use crate::worker::lane_state::LaneState;
use crate::worker::slots::Stop;
use crate::worker::stats::count;

/// How long runs may react to their cancellation before they are dropped.
const REACT: Duration = Duration::from_millis(100);
/// How long Redis may take to answer the last requests of a worker.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

impl ClaimLoop {
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
        if self.lanes.iter().any(|lane| lane.picks_up) {
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
