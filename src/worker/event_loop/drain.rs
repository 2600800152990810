//! Ends the loop: stops runs, settles finished messages, and puts the rest back.

use std::time::{Duration, Instant};

use crate::worker::event_loop::{EventLoop, demand};

/// How long runs may take to react to their cancellation before they are dropped.
const REACT: Duration = Duration::from_millis(100);
/// How long Redis may take to answer the worker's last requests.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

impl EventLoop {
    /// Cancels the runs, puts their messages back to the heads of their queues, and settles the rest, as long as Redis
    /// answers. Returns the number of runs that cannot be stopped.
    pub(super) async fn drain(&mut self) -> usize {
        self.is_draining = true;
        self.queues.drain();
        let last = Instant::now() + LAST_REQUESTS;
        self.stop_runs().await;
        let killed = self.give_up_killed();
        self.queues.give_up_kept();
        if self.queues.picks_up() {
            // The reply arrives after the wait before it has ended.
            self.queues.hang_up(last, demand(&self.executor, false)).await;
        }
        self.settle_rest(last).await;
        let still_running = killed + self.executor.stuck();
        let mut left = self.executor.take_all();
        left.append(&mut self.cancelled);
        left.sort_unstable_by_key(|run| run.order);
        for queue in 0..self.queues.count() {
            let slots: Vec<usize> =
                left.iter().filter(|run| run.queue == queue).map(|run| run.slot).collect();
            self.queues.put_back_last(queue, &slots, last).await;
        }
        self.permits.give_back_all();
        self.queues.hang_up(last, demand(&self.executor, false)).await;
        still_running
    }

    /// Asks all runs to end, and drops those that do not.
    async fn stop_runs(&mut self) {
        self.executor.cancel_all();
        let react = Instant::now() + REACT;
        while self.executor.underway() > 0 && Instant::now() < react {
            let mut reports = Vec::new();
            let ended = self.executor.ended(&mut reports, 1);
            if tokio::time::timeout_at(react.into(), ended).await.is_ok() {
                reports.into_iter().for_each(|done| self.on_end(done));
            }
        }
        // An aborted run continues to its next `await`, and may finish there.
        self.executor.abort_all();
        let react = Instant::now() + REACT;
        while self.executor.aborting() > 0 && Instant::now() < react {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.take_ended();
    }

    /// Sends the remaining requests until all are answered, or until `until`.
    async fn settle_rest(&mut self, until: Instant) {
        loop {
            self.flush();
            match tokio::time::timeout_at(until.into(), self.queues.next_reply()).await {
                Ok(Some(reply)) => self.on_reply(reply),
                Ok(None) => {
                    if !self.queues.have_work() {
                        return;
                    }
                    match self.queues.errors_until() {
                        Some(pause) if pause < until => {
                            tokio::time::sleep_until(pause.into()).await;
                            self.on_timer();
                        }
                        _ => return,
                    }
                }
                Err(_) => {
                    tracing::error!("redis did not respond; owned messages are requeued when the lease ends");
                    return;
                }
            }
            self.take_ended();
        }
    }
}
