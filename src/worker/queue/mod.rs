//! The queues of a worker: claims messages from them, and settles each message.
//!
//! [`Queues`] owns all requests and all slots. The event loop passes in its [`Demand`] and a [`Settlement`] for each
//! message, and receives the results as [`QueueEvent`]s. The requests of a queue are numbered without gaps and sent in that
//! order. Up to two claims of a queue are in flight, so that Redis works on one batch while the worker works on another.

mod claim_size;
mod client;
pub(super) mod cooldown;
mod last_requests;
mod limited;
pub(super) mod pause;
mod pending;
mod replies;
mod request;
mod schedule;
pub(super) mod served;
mod set_aside;
mod slots;
mod supply;
pub(super) mod tally;
mod to_settle;
mod wait;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{unconstrained, yield_now};

use crate::broker::{Place, Started};
use crate::protocol::names::QueueName;
use crate::repeats::Repeats;
use crate::sweeper::Timetable;
use crate::worker::outbox::Outbox;
use crate::worker::prefetch_limiter::PrefetchLimiter;
use crate::worker::queue::client::QueueClient;
use crate::worker::queue::pause::PauseEvent;
use crate::worker::queue::request::{Request, RequestKind};
use crate::worker::queue::served::ServedQueue;
use crate::worker::queue::slots::SlotPool;
use crate::worker::queue::wait::{NotificationWait, Woken};
use crate::worker::settlement::Settlement;
use crate::worker::stats::{Counters, count};

pub(super) use self::request::{Reply, Sender};
pub(super) use self::slots::SPARES;

/// The name of the event loop's requests in the log.
const REQUEST: &str = "request";

/// The current demand of the worker.
#[derive(Clone, Copy)]
pub(super) struct Demand<'a> {
    /// Whether anything may be claimed.
    pub(super) accepts: bool,
    /// Maximum number of concurrent runs.
    pub(super) concurrency: usize,
    /// Limits how many messages may be owned.
    pub(super) limiter: &'a PrefetchLimiter,
}

/// Input from Redis.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once, and replies are by far the most")]
pub(super) enum QueueInput {
    Reply(Reply),
    /// A wait for notifications has ended.
    Woken(Woken),
    /// News about pauses.
    Pause(PauseEvent),
}

/// An event for the event loop.
#[derive(Debug)]
pub(super) enum QueueEvent {
    /// These slots own these messages.
    Arrived {
        queue: usize,
        slots: Vec<usize>,
        messages: Vec<Bytes>,
        /// Whether the message is a suspect that must run alone.
        alone: bool,
        /// Whether suspects exist, so that a success must clear the message.
        suspects: bool,
    },
    /// A message was claimed whose call had been cancelled. It does not run.
    Cancelled { queue: usize, slot: usize, message: Bytes },
    /// Redis has recorded that the suspect in this slot begins to run.
    Begun { slot: usize },
    /// The message of a suspect that was to begin was taken away.
    NotOwned { queue: usize, slot: usize },
    /// A message became a dead letter; `letter` is its id, if the reply arrived.
    Buried { queue: usize, burial: Settlement, letter: Option<String> },
    /// A queue was paused.
    Paused { queue: usize },
    /// The message of a slot is gone: it was settled (`is_done`), or taken away or put back earlier.
    Settled { slot: usize, is_done: bool },
}

/// How many messages were taken away before they were settled.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Lost(u64);

/// The parts of [`Queues`].
pub(super) struct QueueParts {
    /// Each queue with its weight; 0 if queues are served strictly in order.
    pub(super) served: Vec<(Arc<ServedQueue>, u32)>,
    /// How many slots there are, without the spares.
    pub(super) slots: usize,
    pub(super) sender: Sender,
    pub(super) timetable: Arc<Timetable>,
    pub(super) outbox: Outbox,
    pub(super) pauses: UnboundedReceiver<PauseEvent>,
    pub(super) counters: Arc<Counters>,
    /// Whether the worker ends once its queues are empty.
    pub(super) is_burst: bool,
}

/// All queues of a worker.
pub(super) struct Queues {
    clients: Vec<QueueClient>,
    slots: SlotPool,
    sender: Sender,
    in_flight: FuturesUnordered<Pin<Box<dyn Future<Output = Reply> + Send>>>,
    /// Replies that arrived while a request was being sent.
    early: VecDeque<Reply>,
    /// A claim was sent while the reply of another may have arrived.
    yields: bool,
    /// One for the queues that can be waited for together: in a Cluster, those of one hash slot.
    waits: Vec<NotificationWait>,
    /// The virtual time of the queue that was served last, for weighted fair queueing.
    virtual_time: u64,
    troubles: Repeats<(QueueName, &'static str)>,
    timetable: Arc<Timetable>,
    outbox: Outbox,
    pauses: UnboundedReceiver<PauseEvent>,
    counters: Arc<Counters>,
    is_burst: bool,
    /// The worker is ending: only messages that it owns are settled.
    is_draining: bool,
    events: VecDeque<QueueEvent>,
    /// Tracked calls that have begun, still to be recorded in Redis.
    started: Vec<(usize, Started)>,
}

impl Queues {
    pub(super) fn new(parts: QueueParts) -> Self {
        let served: Vec<_> = parts.served.iter().map(|(served, _)| Arc::clone(served)).collect();
        Self {
            slots: SlotPool::new(parts.slots),
            waits: NotificationWait::all(&parts.sender.broker, parts.sender.lease, &served),
            clients: (parts.served.into_iter().enumerate())
                .map(|(index, (served, weight))| QueueClient::new(index, served, weight))
                .collect(),
            sender: parts.sender,
            in_flight: FuturesUnordered::new(),
            early: VecDeque::new(),
            yields: false,
            virtual_time: 0,
            troubles: Repeats::new(1),
            timetable: parts.timetable,
            outbox: parts.outbox,
            pauses: parts.pauses,
            counters: parts.counters,
            is_burst: parts.is_burst,
            is_draining: false,
            events: VecDeque::new(),
            started: Vec::new(),
        }
    }

    pub(super) fn served(&self, queue: usize) -> &ServedQueue {
        self.clients[queue].served()
    }

    pub(super) fn name(&self, queue: usize) -> &QueueName {
        &self.served(queue).queue
    }

    /// How many queues there are.
    pub(super) fn count(&self) -> usize {
        self.clients.len()
    }

    /// All queues, in the form shared with other parts of the worker.
    pub(super) fn all_served(&self) -> impl Iterator<Item = Arc<ServedQueue>> + '_ {
        self.clients.iter().map(|client| Arc::clone(client.served()))
    }

    /// The next event. [`Self::on_reply`] and [`Self::woken`] create events.
    pub(super) fn next_event(&mut self) -> Option<QueueEvent> {
        self.events.pop_front()
    }

    /// Sends every request that can be sent now.
    pub(super) fn flush(&mut self, demand: Demand<'_>) {
        self.send_started();
        while let Some(request) = self.next_request(demand) {
            self.send(request);
        }
    }

    /// Notes that a tracked call has begun.
    pub(super) fn note_started(&mut self, queue: usize, started: Started) {
        self.started.push((queue, started));
    }

    /// Records in Redis which tracked calls have begun. Does not wait for the reply.
    fn send_started(&mut self) {
        if self.started.is_empty() {
            return;
        }
        let mut all = std::mem::take(&mut self.started);
        all.sort_by_key(|(queue, _)| *queue);
        for calls in all.chunk_by_mut(|(queue, _), (other, _)| queue == other) {
            let Some((queue, _)) = calls.first() else { continue };
            let (served, broker) = (Arc::clone(self.clients[*queue].served()), self.sender.broker.clone());
            let calls: Vec<Started> = calls.iter().map(|(_, started)| started.clone()).collect();
            tokio::spawn(async move {
                let calls: Vec<_> = calls.iter().map(|call| (call, served.wire_id(call.slot))).collect();
                if let Err(error) = broker.start(&served.keys, &calls).await {
                    tracing::debug!(queue = %served.queue, %error, "calls not recorded as running");
                }
            });
        }
    }

    /// Has Redis record that the suspect in a slot begins to run, if requests can be made now.
    pub(super) fn begin(&mut self, queue: usize, slot: usize) {
        if self.clients[queue].is_open() {
            let request = self.clients[queue].number(RequestKind::Begin { slot });
            self.send(request);
        }
    }

    /// Whether Redis refuses to record anything about this queue.
    pub(super) fn is_blocked(&self, queue: usize) -> bool {
        self.clients[queue].pending().is_blocked()
    }

    fn send(&mut self, request: Request) {
        let client = &mut self.clients[request.queue];
        self.yields |= client.pending_mut().sent(&request);
        if let RequestKind::Claim { slots, kept, .. } = &request.kind {
            // A reply may take longer than a lease. A pick-up owns nothing while it waits, gives its slot a whole lease,
            // and is discarded if its reply comes late.
            slots[*kept..].iter().for_each(|slot| client.served().may_own(*slot));
            client.served().add_uncertain(request.claimed());
        }
        self.in_flight.push(Box::pin(self.sender.clone().send(Arc::clone(client.served()), request)));
        // Polled once now, so that requests are sent in the order of their numbers.
        if let Some(Some(reply)) = unconstrained(self.in_flight.next()).now_or_never() {
            self.early.push_back(reply);
        }
    }

    /// Lets the connection write a claim before the reply to another is taken in. Otherwise both claims would be sent
    /// together and answered together, and Redis would be idle while the worker runs.
    pub(super) async fn hand_on(&mut self) {
        if std::mem::take(&mut self.yields) {
            yield_now().await;
        }
    }

    /// A reply that arrived while a request was being sent.
    pub(super) fn early_reply(&mut self) -> Option<Reply> {
        self.early.pop_front()
    }

    /// A reply that has already arrived.
    pub(super) fn ready_reply(&mut self) -> Option<Reply> {
        self.in_flight.next().now_or_never().flatten()
    }

    /// The next reply; `None` when no request is in flight. Cancel-safe.
    pub(super) async fn next_reply(&mut self) -> Option<Reply> {
        match self.early.pop_front() {
            Some(reply) => Some(reply),
            None => self.in_flight.next().await,
        }
    }

    /// The next reply, the end of a wait for notifications, or news about pauses. Cancel-safe. Never resolves if none of
    /// these can come.
    pub(super) async fn next(&mut self) -> QueueInput {
        tokio::select! {
            Some(reply) = self.in_flight.next(), if !self.in_flight.is_empty() => QueueInput::Reply(reply),
            Some(news) = self.pauses.recv() => QueueInput::Pause(news),
            woken = wait::ended(&mut self.waits) => QueueInput::Woken(woken),
        }
    }

    /// Settles the message of a slot with one of the next requests.
    pub(super) fn settle(&mut self, queue: usize, slot: usize, settlement: Settlement) {
        if self.fails_alone(queue) && settlement != Settlement::Leave {
            self.slots.set_aside(slot);
        }
        match settlement {
            Settlement::Bury { .. } if self.clients[queue].burials_fail() => {
                self.keep_burial(queue, slot, settlement)
            }
            other => self.clients[queue].settle(slot, other),
        }
    }

    /// Puts a message back unchanged. Pass messages that go to the head in reverse order of their claims.
    pub(super) fn put_back(&mut self, queue: usize, slot: usize, place: Place) {
        count(&self.counters.put_back, 1);
        if self.fails_alone(queue) {
            self.slots.set_aside(slot);
        }
        self.clients[queue].settle(slot, Settlement::PutBack { place });
    }

    /// Whether requests of this queue fail, but perhaps not those of others: a node of a Cluster is away. Spare slots serve
    /// the others meanwhile.
    pub(super) fn fails_alone(&self, queue: usize) -> bool {
        self.waits.len() > 1 && self.clients[queue].is_failing()
    }

    /// Forgets the message of a slot, which was taken away before it began.
    pub(super) fn forget(&mut self, queue: usize, slot: usize) {
        self.clients[queue].free(slot, &mut self.slots);
        self.note_lost(queue, Lost(1));
    }

    /// Notes a call of a known task.
    pub(super) fn note_known(&mut self, queue: usize) {
        self.clients[queue].supply_mut().note_known();
    }

    /// Notes that a call of an unknown task is put back.
    pub(super) fn note_unknown(&mut self, queue: usize) {
        self.clients[queue].supply_mut().note_unknown();
    }

    /// Pauses claims from a queue, because a call got no process or lost it. Calls lost at the same time share one pause.
    /// Returns the number of log lines suppressed before this one, if this one should be printed.
    pub(super) fn rest_after_loss(&mut self, queue: usize) -> Option<u64> {
        // From now on; otherwise the call would be claimed again as soon as it is back.
        let begins = self.clients[queue].losses_mut().fail_once().is_some();
        if begins { self.trouble(queue, "lost") } else { None }
    }

    /// Whether calls of a queue failed to get a process recently.
    pub(super) fn has_losses(&mut self, queue: usize) -> bool {
        self.clients[queue].losses_mut().is_failing()
    }

    /// Notes that a call got a process again.
    pub(super) fn end_losses(&mut self, queue: usize) {
        self.clients[queue].losses_mut().succeed();
    }

    /// Notes a problem of a queue that may recur. It should be printed once a minute, with the number of those suppressed
    /// before it.
    fn trouble(&mut self, queue: usize, what: &'static str) -> Option<u64> {
        let name = self.name(queue).clone();
        self.troubles.note((name, what), Instant::now())
    }

    fn note_lost(&self, queue: usize, lost: Lost) {
        if lost.0 > 0 {
            count(&self.counters.lost, lost.0);
            self.clients[queue].log_lost(lost);
        }
    }

    /// Whether enough messages of a queue are finished that they should be released before more are run.
    pub(super) fn should_release(&self, queue: usize, limiter: &PrefetchLimiter) -> bool {
        let client = &self.clients[queue];
        let size = client.supply().size();
        client.finished() >= claim_size::chunk(limiter.limit(size), size)
    }

    /// Whether nothing is in flight, and nothing is left to send except what Redis would refuse again.
    pub(super) fn are_quiet(&self) -> bool {
        self.clients.iter().all(QueueClient::is_quiet)
    }

    /// Whether some message that the worker owned is still to be settled.
    pub(super) fn have_work(&self) -> bool {
        self.clients.iter().any(QueueClient::has_work)
    }

    /// Whether nothing is left in any queue for this worker.
    pub(super) fn have_nothing(&self) -> bool {
        self.clients.iter().all(QueueClient::has_nothing)
    }

    /// Whether a claim is in flight that will probably bring messages.
    pub(super) fn expect_messages(&self) -> bool {
        self.clients.iter().any(|client| {
            let pending = client.pending();
            pending.claims() > 0 && !pending.picks_up() && !client.supply().is_drained()
        })
    }

    /// Whether all recent calls of a queue were of unknown tasks.
    pub(super) fn is_unknown(&self, queue: usize) -> bool {
        self.clients[queue].supply().is_unknown()
    }

    /// The number of the claim that last filled a slot; 0 if unknown.
    pub(super) fn claimed_by(&self, queue: usize, slot: usize) -> u64 {
        self.clients[queue].claimed_by(slot)
    }

    /// Whether a request up to this number may still deliver messages.
    pub(super) fn may_still_apply(&self, queue: usize, seq: u64) -> bool {
        self.clients[queue].pending().may_still_apply(seq)
    }

    /// When [`Self::on_timer`] is due.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.clients
            .iter()
            .flat_map(QueueClient::pauses)
            .chain(self.waits.iter().filter_map(NotificationWait::end_at))
            .min()
    }

    pub(super) fn on_timer(&mut self, now: Instant) {
        self.clients.iter_mut().for_each(|client| client.expire(now));
        self.waits.iter_mut().for_each(|wait| wait.expire(now));
    }
}

impl Reply {
    /// How long the last request took, and for how many slots, unless it was queued behind a wait.
    pub(super) fn took(&self) -> Option<(Duration, usize)> {
        (!self.request.is_pick_up()).then(|| (self.request.made.elapsed(), self.request.slots().len()))
    }

    /// The index of its queue, and the script that it ran.
    pub(super) fn script(&self) -> (usize, &'static str) {
        (self.request.queue, self.request.script())
    }
}
