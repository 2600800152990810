//! The last requests of a worker: puts back the messages that still run.

use std::time::{Duration, Instant};

use crate::broker::{BrokerError, MAX_BATCH, Place, ReconcileRequest};
use crate::worker::queue::Queues;
use crate::worker::stats::count;

impl Queues {
    /// Settles only owned messages from now on, and puts back those that could not be buried or read.
    pub(in crate::worker) fn drain(&mut self) {
        self.is_draining = true;
    }

    /// Puts back the messages that could not be buried or read.
    pub(in crate::worker) fn give_up_kept(&mut self) {
        for client in &mut self.clients {
            count(&self.counters.put_back, client.give_up_kept() as u64);
        }
    }

    /// Whether a pick-up is queued behind a wait. Its reply arrives when the wait has ended.
    pub(in crate::worker) fn picks_up(&self) -> bool {
        self.clients.iter().any(|client| client.pending().picks_up())
    }

    /// When requests may be made again after errors.
    pub(in crate::worker) fn errors_until(&self) -> Option<Instant> {
        self.clients.iter().filter_map(|client| client.errors_until()).min()
    }

    /// Puts these slots of a queue back to its head, in their order, as soon as Redis answers.
    pub(in crate::worker) async fn put_back_last(&mut self, queue: usize, slots: &[usize], until: Instant) {
        for chunk in slots.rchunks(MAX_BATCH) {
            self.put_back_chunk(queue, chunk, until).await;
        }
    }

    async fn put_back_chunk(&mut self, queue: usize, slots: &[usize], until: Instant) {
        let mut doubt = None;
        loop {
            let tried = self.try_to_put_back(queue, slots, &mut doubt);
            let error = match tokio::time::timeout_at(until.into(), tried).await {
                Ok(Ok(put_back)) => {
                    count(&self.counters.put_back, put_back);
                    count(&self.counters.lost, slots.len() as u64 - put_back);
                    slots.iter().for_each(|slot| self.served(queue).disown(*slot));
                    return;
                }
                Ok(Err(error)) => error,
                Err(_) => {
                    tracing::error!(queue = %self.name(queue), "redis did not respond; running messages are requeued when the lease ends");
                    return;
                }
            };
            let pause: Duration = self.clients[queue].errors_mut().fail();
            self.log_error(queue, &error);
            if Instant::now() + pause > until {
                tracing::error!(queue = %self.name(queue), "messages not put back; they are requeued when the lease ends");
                return;
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Returns how many of these slots owned a message. `doubt` is the number of the previous attempt, whose reply was
    /// lost: it may have put them back.
    async fn try_to_put_back(
        &mut self,
        queue: usize,
        slots: &[usize],
        doubt: &mut Option<u64>,
    ) -> Result<u64, BrokerError> {
        let (client, sender) = (&mut self.clients[queue], &self.sender);
        let jump = doubt.map(|last| (last, client.pending_mut().jump()));
        if let Some((last, seq)) = jump {
            // Whatever happened to this request, a later number is accepted again afterwards.
            let served = client.served();
            let wire_ids = &served.ids(&slots[..1]);
            let ask = ReconcileRequest { worker_key: &served.worker_key, seq, lease: sender.lease, wire_ids };
            let reconciled = sender.broker.reconcile(&served.keys, &ask).await?;
            if reconciled.applied.is_some_and(|applied| applied >= last) {
                return Ok(slots.len() as u64);
            }
        }
        let seq = client.pending_mut().next_number();
        *doubt = Some(seq);
        let served = client.served();
        sender.broker.put_back(&served.keys, &served.worker_key, seq, Place::Head, &served.ids(slots)).await
    }
}
