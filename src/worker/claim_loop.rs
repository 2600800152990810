//! What does the worker do next? One loop claims, dispatches and settles; nothing else touches the slots.
//!
//! A turn makes all requests that can be made, then waits for a reply, an end of a run, a token, or an order. Requests
//! of a lane are numbered without gaps and sent in that order. Up to two claims of a lane are under way, so that Redis
//! works on one batch while the worker works on another.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::task::{unconstrained, yield_now};

use crate::config::Unknown;
use crate::runner::{Done, Processes};
use crate::worker::attention::Attention;
use crate::worker::backlog::Ahead;
use crate::worker::batch::Batch;
use crate::worker::blocking::{BlockingRuns, Shared};
use crate::worker::known::Known;
use crate::worker::lane::Lane;
use crate::worker::lane_state::LaneState;
use crate::worker::orders::Orders;
use crate::worker::prefetch::Outlook;
use crate::worker::request::{Effect, Reply, Request, RequestKind, Sender};
use crate::worker::shutdown::{Phase, StopReason};
use crate::worker::slots::Slots;
use crate::worker::stats::Counters;
use crate::worker::timeouts::Timers;
use crate::worker::wait::Doorbell;

/// After how long runs of quick blocking tasks that still wait get threads of their own.
const HELP_AFTER: Duration = Duration::from_millis(2);

/// How the loop ended.
pub(super) struct Ended {
    pub(super) reason: StopReason,
    /// Runs of functions that block and cannot be stopped; their messages were put back.
    pub(super) still_running: usize,
}

/// The loop and all that it owns.
pub(super) struct ClaimLoop {
    pub(super) lanes: Vec<LaneState>,
    pub(super) slots: Slots,
    pub(super) sender: Sender,
    pub(super) known: HashMap<&'static str, Known>,
    pub(super) shared: Shared,
    pub(super) unknown: Unknown,
    pub(super) counters: Arc<Counters>,
    pub(super) done: UnboundedSender<Done>,
    pub(super) blocking: BlockingRuns,
    /// Where tasks run that are not to run in this process.
    pub(super) processes: Option<Processes>,
    pub(super) help_at: Option<Instant>,
    pub(super) timers: Timers,
    ended: UnboundedReceiver<Done>,
    under_way: FuturesUnordered<Pin<Box<dyn Future<Output = Reply> + Send>>>,
    /// Replies that came while a request was being made.
    early: VecDeque<Reply>,
    /// A claim was made beside one whose reply may be here.
    hands_on: bool,
    attention: Attention,
    pub(super) doorbell: Doorbell,
    pub(super) orders: Orders,
    pub(super) end_wait_at: Option<Instant>,
    phase: watch::Receiver<Phase>,
    pub(super) burst: bool,
    /// The loop is over; only what is left is settled.
    pub(super) closing: bool,
    /// How many runs go on at the most.
    pub(super) concurrency: usize,
    /// How many messages may be owned.
    pub(super) outlook: Outlook,
    /// What was claimed ahead and has not begun.
    pub(super) backlog: VecDeque<Ahead>,
    /// When it is looked whether that has waited for too long.
    pub(super) look_at: Option<Instant>,
    /// What the lane that was served last had got for its weight before.
    pub(super) pace: u64,
}

/// What the loop is made of.
pub(super) struct Parts {
    pub(super) lanes: Vec<(Arc<Lane>, u32)>,
    pub(super) concurrency: usize,
    pub(super) slots: usize,
    pub(super) outlook: Outlook,
    pub(super) sender: Sender,
    pub(super) orders: Orders,
    pub(super) known: HashMap<&'static str, Known>,
    pub(super) shared: Shared,
    pub(super) unknown: Unknown,
    pub(super) counters: Arc<Counters>,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) burst: bool,
    pub(super) done: UnboundedSender<Done>,
    pub(super) ended: UnboundedReceiver<Done>,
    pub(super) processes: Option<Processes>,
}

impl ClaimLoop {
    pub(super) fn new(parts: Parts) -> Self {
        let (done, ended) = (parts.done, parts.ended);
        let shared_lanes = parts.lanes.iter().map(|(lane, _)| Arc::clone(lane)).collect();
        Self {
            slots: Slots::new(parts.slots),
            known: parts.known,
            blocking: BlockingRuns::new(done.clone(), parts.shared.clone()),
            processes: parts.processes,
            doorbell: Doorbell::new(&parts.sender.broker, parts.sender.lease, shared_lanes),
            lanes: parts.lanes.into_iter().map(|(lane, weight)| LaneState::new(lane, weight)).collect(),
            sender: parts.sender,
            orders: parts.orders,
            shared: parts.shared,
            unknown: parts.unknown,
            counters: parts.counters,
            done,
            help_at: None,
            timers: Timers::default(),
            ended,
            under_way: FuturesUnordered::new(),
            early: VecDeque::new(),
            hands_on: false,
            attention: Attention::new(),
            end_wait_at: None,
            phase: parts.phase,
            burst: parts.burst,
            closing: false,
            concurrency: parts.concurrency,
            outlook: parts.outlook,
            backlog: VecDeque::new(),
            look_at: None,
            pace: 0,
        }
    }

    /// Runs until the worker is told to end, and everything is settled or put back.
    pub(super) async fn run(mut self) -> Ended {
        let mut batch = Vec::with_capacity(256);
        let reason = loop {
            let look = self.look_at.is_some_and(|at| at <= Instant::now());
            if look || self.help_at.is_some() || !self.timers.is_empty() {
                // Not left to the timer alone: a busy loop seldom comes to it.
                self.on_timer();
            }
            self.pump();
            self.hand_on().await;
            while let Some(reply) = self.early.pop_front() {
                self.on_reply(reply);
                self.pump();
                self.hand_on().await;
            }
            if let Some(reason) = self.is_over() {
                break reason;
            }
            let timer = self.next_timer();
            let looks = self.can_begin_ahead() || self.attention.looks(self.only_waits());
            // Not in a fixed order: a queue of quick tasks always has the next reply ready.
            tokio::select! {
                Ok(()) = self.phase.changed() => self.on_phase(),
                Some(reply) = self.under_way.next(), if !self.under_way.is_empty() => self.on_reply(reply),
                _ = self.ended.recv_many(&mut batch, 256) => {
                    for done in batch.drain(..) {
                        self.on_end(done);
                    }
                }
                Some((lane, order)) = self.orders.given.recv() => self.on_order(lane, order),
                woken = self.doorbell.ended() => {
                    self.on_woken(woken);
                    // What was picked up behind the wait is here, too.
                    if let Some(Some(reply)) = self.under_way.next().now_or_never() {
                        self.on_reply(reply);
                    }
                }
                () = sleep_until(timer), if timer.is_some() => self.on_timer(),
                () = yield_now(), if looks => continue,
            }
            self.attention.came();
        };
        let still_running = self.put_back_all().await;
        Ended { reason, still_running }
    }

    pub(super) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Whether something may be claimed now.
    pub(super) fn accepts(&self) -> bool {
        !self.closing && self.phase() == Phase::Running && !self.slots.is_one_alone()
    }

    /// Whether the loop may end: nothing runs and nothing is left to settle, or there is no more time.
    fn is_over(&self) -> Option<StopReason> {
        let idle = self.slots.running() == 0 && !self.lanes.iter().any(LaneState::has_work);
        match self.phase() {
            Phase::Now => Some(StopReason::Requested),
            Phase::Stopping { deadline } if idle || Instant::now() >= deadline => Some(StopReason::Requested),
            Phase::Running if self.burst && idle => {
                self.lanes.iter().all(LaneState::is_drained).then_some(StopReason::Drained)
            }
            _ => None,
        }
    }

    /// Whether there is nothing to do until a claim is answered, and more is to be expected of it.
    fn only_waits(&self) -> bool {
        let brings_more = |lane: &LaneState| lane.claims > 0 && !lane.picks_up && !lane.dry;
        self.slots.running() == 0 && self.lanes.iter().any(brings_more)
    }

    fn next_timer(&mut self) -> Option<Instant> {
        let deadline = match self.phase() {
            Phase::Stopping { deadline } => Some(deadline),
            _ => None,
        };
        let run = self.timers.next(&self.slots);
        let pauses = self.lanes.iter().flat_map(LaneState::pauses);
        pauses
            .chain(deadline)
            .chain(run)
            .chain(self.help_at)
            .chain(self.end_wait_at)
            .chain(self.look_at)
            .min()
    }

    pub(super) fn on_timer(&mut self) {
        let now = Instant::now();
        for lane in &mut self.lanes {
            lane.backoff.expire(now);
            lane.rest.expire(now);
            lane.losses.expire(now);
            lane.burials.expire(now);
        }
        self.on_time_up(now);
        if self.help_at.is_some_and(|at| at <= now) {
            self.help_at = None;
            self.blocking.help_all();
        }
        if self.end_wait_at.is_some_and(|at| at <= now) {
            self.end_wait_at = None;
        }
        if self.look_at.is_some_and(|at| at <= now) {
            self.look_at = None;
            self.look_ahead();
        }
    }

    fn on_phase(&mut self) {
        if let Phase::Stopping { deadline } = self.phase() {
            self.slots.announce(deadline);
        }
    }

    /// Notes that quick blocking tasks were handed over, and looks after them a little later.
    pub(super) fn help_later(&mut self) {
        self.help_at.get_or_insert_with(|| Instant::now() + HELP_AFTER);
    }

    /// Begins what can begin now, makes every request that can be made, and waits for tokens where a queue is dry.
    pub(super) fn pump(&mut self) {
        self.begin_alone();
        let mut batch = Batch::new();
        loop {
            let more = self.begin_ahead(&mut batch);
            while let Some(request) = self.next_request() {
                self.issue(request);
            }
            if !more {
                break;
            }
        }
        self.mind_ahead();
        self.mind_doorbell();
    }

    /// Sends a request.
    pub(super) fn issue(&mut self, request: Request) {
        let lane = &mut self.lanes[request.lane];
        lane.requests += 1;
        self.hands_on |= lane.claims > 0 && request.is_claim();
        lane.claims += usize::from(request.is_claim());
        lane.picks_up |= request.is_pick_up();
        if let RequestKind::Claim { slots, kept, .. } = &request.kind {
            // A reply may take longer than a lease. A pick-up owns nothing while it stands, gives its slot a whole one, and is not
            // believed when its reply comes late.
            slots[*kept..].iter().for_each(|slot| lane.lane.may_own(*slot));
        }
        self.under_way.push(Box::pin(self.sender.clone().send(Arc::clone(&lane.lane), request)));
        // Polled once, so that requests go out in the order of their numbers, and now.
        if let Some(Some(reply)) = unconstrained(self.under_way.next()).now_or_never() {
            self.early.push_back(reply);
        }
    }

    pub(super) fn on_reply(&mut self, reply: Reply) {
        let Reply { request, result } = reply;
        let took = (!request.is_pick_up()).then(|| (request.made.elapsed(), request.slots().len()));
        let lane = &mut self.lanes[request.lane];
        lane.requests -= 1;
        lane.claims -= usize::from(request.is_claim());
        lane.picks_up &= !request.is_pick_up();
        match result {
            Ok(effect) => {
                lane.applied = lane.applied.max(request.seq);
                // A reconcile needs fewer keys: that it is done tells nothing of what is refused.
                lane.barred &= matches!(request.kind, RequestKind::Reconcile { .. });
                if lane.backoff.is_failing() && lane.doubt.is_empty() {
                    tracing::info!(queue = %lane.lane.queue, "Redis answers again");
                    lane.backoff.succeed();
                }
                match effect {
                    Effect::Claimed(claimed) => self.on_claimed(request, claimed),
                    Effect::Settled(owned) => self.on_settled(&request, owned),
                    Effect::PutBack(count) => self.on_put_back(request, count),
                    Effect::Unburied => self.on_unburied(request),
                    Effect::Reconciled(reconciled) => self.on_reconciled(request, reconciled),
                }
            }
            Err(error) => self.on_error(request, &error),
        }
        if let Some((took, slots)) = took {
            self.attention.answered(took, slots, self.slots.begun() == 0);
        }
        self.on_early_orders();
    }

    /// Lets the connection write a claim before the reply of another is taken in. If that waited until its messages have
    /// run, both claims would go out together and be answered together, and Redis would rest while the worker runs.
    async fn hand_on(&mut self) {
        if std::mem::take(&mut self.hands_on) {
            yield_now().await;
        }
    }

    /// The next reply of a request that is under way; none when there is none.
    pub(super) async fn next_reply(&mut self) -> Option<Reply> {
        match self.early.pop_front() {
            Some(reply) => Some(reply),
            None => self.under_way.next().await,
        }
    }

    /// Takes in the ends of runs that have come so far.
    pub(super) fn take_ended(&mut self) {
        while let Ok(done) = self.ended.try_recv() {
            self.on_end(done);
        }
    }

    /// Waits for the end of a run, for up to `pause`.
    pub(super) async fn wait_ended(&mut self, pause: Duration) {
        if let Ok(Some(done)) = tokio::time::timeout(pause, self.ended.recv()).await {
            self.on_end(done);
        }
    }
}

impl Drop for ClaimLoop {
    /// The worker's future was dropped, or the loop has ended: nothing of it runs on.
    fn drop(&mut self) {
        self.slots.cancel_all();
        self.blocking.withdraw();
        self.slots.abort_all();
    }
}

async fn sleep_until(timer: Option<Instant>) {
    match timer {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
