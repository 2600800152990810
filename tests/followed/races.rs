//! A cancellation races with other transitions. The network holds one of the two, so that each order is played.

use std::time::Duration;

use delayed::testing::{Fault, Proxy, Requests, Side, Trap};
use delayed::{CallState, Cancelled, Client, Handle, WaitError};
use redis::Commands;

use super::{Site, tasks};
use crate::support::process::Program;
use crate::support::trial::{PATIENCE, open};
use crate::support::wait;

impl Site {
    /// A handle of the same call, of a client behind a proxy.
    fn behind<R>(&self, proxy: &Proxy, handle: &Handle<R>) -> Handle<R> {
        let client = self.runtime.block_on(Client::connect(proxy.url())).unwrap();
        client.handle_of(handle.queue(), handle.id().unwrap())
    }

    /// Cancels by that handle while the network holds one of its requests or replies; in between, `meanwhile` happens.
    fn cancel_across<R: 'static>(
        &mut self,
        handle: Handle<R>,
        trap: &Trap,
        meanwhile: impl FnOnce(&mut Self),
    ) -> Cancelled {
        let cancelling = self.runtime.spawn(async move { handle.cancel().await });
        arrive(trap);
        meanwhile(self);
        trap.release();
        self.runtime.block_on(cancelling).unwrap().unwrap()
    }

    /// It was cancelled, never ran, and nothing is left of it.
    fn assert_dropped<R: serde::de::DeserializeOwned + std::fmt::Debug>(&mut self, handle: &Handle<R>) {
        let end = self.wait(handle);
        assert!(matches!(end, Err(WaitError::Cancelled { .. })), "{end:?}");
        self.assert_clean();
        self.trial.ledger.assert_each_once(Vec::<String>::new());
    }

    fn assert_clean(&mut self) {
        self.trial.wait_settled();
        let later = self.trial.state().later.len();
        let marks: usize = self.trial.redis.zcard("q_cancelled").unwrap();
        assert_eq!((later, marks, self.trial.dead()), (0, 0, 0));
    }

    fn worker_behind(&self, proxy: &Proxy) -> Program {
        self.trial.worker_at(proxy.url(), &["--lease", "2s"])
    }
}

fn arrive(trap: &Trap) {
    wait::until("the network to hold it", PATIENCE, || trap.struck() > 0);
}

#[test]
fn cancel_before_the_claim_is_heard_ends_the_run() {
    let mut site = Site::new();
    let (proxy, gate) = (site.trial.server.proxy(), site.trial.gate("gate"));
    let handle = site.enqueue(tasks::gated::call(gate));
    let claim = proxy.trap(Side::Reply, Requests::script("claim"), Fault::Hold);
    let mut worker = site.trial.start_at(proxy.url(), &["--queue", "q", "--lease", "2s"]);
    arrive(&claim);
    assert_eq!(site.runtime.block_on(handle.cancel()).unwrap(), Cancelled::Running);
    claim.release();
    site.assert_dropped(&handle);
    site.trial.stop(&mut worker);
}

#[test]
fn cancel_before_the_claim_is_sent_leaves_a_mark() {
    let mut site = Site::new();
    let proxy = site.trial.server.proxy();
    let handle = site.enqueue(tasks::noted::call("a".into()));
    let claim = proxy.trap(Side::Request, Requests::script("claim"), Fault::Hold);
    let mut worker = site.trial.start_at(proxy.url(), &["--queue", "q", "--lease", "2s"]);
    arrive(&claim);
    assert_eq!(site.runtime.block_on(handle.cancel()).unwrap(), Cancelled::Waiting);
    claim.release();
    site.assert_dropped(&handle);
    site.trial.stop(&mut worker);
}

#[test]
fn cancel_before_the_pick_up_is_sent_leaves_a_mark() {
    let mut site = Site::new();
    let proxy = site.trial.server.proxy();
    let pick_up = proxy.trap(Side::Request, Requests::script("pick_up"), Fault::Hold);
    let mut worker = site.worker_behind(&proxy);
    arrive(&pick_up);
    let handle = site.enqueue(tasks::noted::call("a".into()));
    assert_eq!(site.runtime.block_on(handle.cancel()).unwrap(), Cancelled::Waiting);
    pick_up.release();
    site.assert_dropped(&handle);
    site.trial.stop(&mut worker);
}

#[test]
fn cancel_before_a_pick_up_is_heard_ends_the_run() {
    let mut site = Site::new();
    let (proxy, gate) = (site.trial.server.proxy(), site.trial.gate("gate"));
    let pick_up = proxy.trap(Side::Reply, Requests::script("pick_up"), Fault::Hold);
    let mut worker = site.worker_behind(&proxy);
    // Else it may still claim without a wait.
    wait::until("the worker to wait", PATIENCE, || {
        let clients: String = redis::cmd("INFO").arg("clients").query(&mut site.trial.redis).unwrap();
        clients.contains("blocked_clients:1\r")
    });
    let handle = site.enqueue(tasks::gated::call(gate));
    arrive(&pick_up);
    assert_eq!(site.runtime.block_on(handle.cancel()).unwrap(), Cancelled::Running);
    pick_up.release();
    site.assert_dropped(&handle);
    site.trial.stop(&mut worker);
}

#[test]
fn marked_call_of_a_claim_that_was_lost_is_dropped() {
    for script in ["claim", "pick_up"] {
        let mut site = Site::new();
        let proxy = site.trial.server.proxy();
        let lost = proxy.trap(Side::Reply, Requests::script(script), Fault::End);
        let handle = if script == "claim" {
            let handle = site.enqueue(tasks::noted::call("a".into()));
            assert_eq!(site.runtime.block_on(handle.cancel()).unwrap(), Cancelled::Waiting);
            handle
        } else {
            let sent = proxy.trap(Side::Request, Requests::script(script), Fault::Hold);
            let mut worker = site.worker_behind(&proxy);
            arrive(&sent);
            let handle = site.enqueue(tasks::noted::call("a".into()));
            assert_eq!(site.runtime.block_on(handle.cancel()).unwrap(), Cancelled::Waiting);
            sent.release();
            site.assert_dropped(&handle);
            assert!(lost.struck() > 0, "expected the reply to be lost");
            site.trial.stop(&mut worker);
            continue;
        };
        let mut worker = site.trial.start_at(proxy.url(), &["--queue", "q", "--lease", "2s"]);
        site.assert_dropped(&handle);
        assert!(lost.struck() > 0, "expected the reply to be lost");
        site.trial.stop(&mut worker);
    }
}

#[test]
fn cancel_before_the_start_is_noted_ends_the_run() {
    for side in [Side::Request, Side::Reply] {
        let mut site = Site::new();
        let (proxy, gate) = (site.trial.server.proxy(), site.trial.gate("gate"));
        let start = proxy.trap(side, Requests::script("start"), Fault::Hold);
        let mut worker = site.worker_behind(&proxy);
        let handle = site.enqueue(tasks::gated::call(gate));
        arrive(&start);
        assert_eq!(site.runtime.block_on(handle.cancel()).unwrap(), Cancelled::Running);
        start.release();
        site.assert_dropped(&handle);
        site.trial.stop(&mut worker);
    }
}

#[test]
fn finish_between_mark_and_search_leaves_no_mark() {
    let mut site = Site::new();
    let (proxy, gate) = (site.trial.server.proxy(), site.trial.gate("gate"));
    let mut worker = site.trial.worker(&[]);
    let handle = site.enqueue(tasks::gated::call(gate.clone()));
    site.wait_state(&handle, CallState::Running);
    let canceller = site.behind(&proxy, &handle);
    let marked = proxy.trap(Side::Reply, Requests::script("cancel"), Fault::Hold);
    let found = site.cancel_across(canceller, &marked, |site| {
        open(&gate);
        site.wait_state(&handle, CallState::Succeeded);
    });
    assert_eq!(found, Cancelled::Ended(CallState::Succeeded));
    assert_eq!(site.wait(&handle).unwrap(), "opened");
    site.assert_clean();
    site.trial.stop(&mut worker);
}

#[test]
fn cancel_before_a_promote_is_heard_drops_the_call() {
    let mut site = Site::new();
    let proxy = site.trial.server.proxy();
    let promote = proxy.trap(Side::Reply, Requests::script("promote"), Fault::Hold);
    let handle = site.enqueue(tasks::noted::call("a".into()).after(Duration::from_millis(1)));
    // Sweeps and claims nothing: it only moves what is due.
    let mut sweeper = site.trial.command(crate::support::process::DELAYED);
    sweeper.args(["sweeper", "--queue", "q", "--interval", "50ms", "--redis", proxy.url()]);
    let mut sweeper = Program::spawn(&mut sweeper);
    arrive(&promote);
    site.wait_state(&handle, CallState::Waiting);
    assert_eq!(site.runtime.block_on(handle.cancel()).unwrap(), Cancelled::Waiting);
    promote.release();
    let mut worker = site.trial.worker(&[]);
    site.assert_dropped(&handle);
    site.trial.stop(&mut worker);
    sweeper.kill9();
}

#[test]
fn claim_between_mark_and_search_drops_the_call() {
    let mut site = Site::new();
    let proxy = site.trial.server.proxy();
    let handle = site.enqueue(tasks::noted::call("a".into()));
    let canceller = site.behind(&proxy, &handle);
    let marked = proxy.trap(Side::Reply, Requests::script("cancel"), Fault::Hold);
    let mut worker = None;
    let found = site.cancel_across(canceller, &marked, |site| {
        worker = Some(site.trial.worker(&[]));
        site.wait_state(&handle, CallState::Cancelled);
    });
    assert_eq!(found, Cancelled::Waiting);
    site.assert_dropped(&handle);
    site.trial.stop(&mut worker.unwrap());
}

#[test]
fn call_that_finishes_before_the_kill_request_has_ended() {
    let mut site = Site::new();
    let (proxy, gate) = (site.trial.server.proxy(), site.trial.gate("gate"));
    let mut worker = site.trial.worker(&[]);
    let handle = site.enqueue(tasks::gated::call(gate.clone()));
    site.wait_state(&handle, CallState::Running);
    let canceller = site.behind(&proxy, &handle);
    let kill = proxy.trap(Side::Request, Requests::script("kill"), Fault::Hold);
    let found = site.cancel_across(canceller, &kill, |site| {
        open(&gate);
        site.wait_state(&handle, CallState::Succeeded);
    });
    assert_eq!(found, Cancelled::Ended(CallState::Succeeded));
    assert_eq!(site.wait(&handle).unwrap(), "opened");
    site.assert_clean();
    site.trial.stop(&mut worker);
}

#[test]
fn call_whose_finish_is_on_its_way_succeeds() {
    let mut site = Site::new();
    let (proxy, gate) = (site.trial.server.proxy(), site.trial.gate("gate"));
    let mut worker = site.worker_behind(&proxy);
    let handle = site.enqueue(tasks::gated::call(gate.clone()));
    site.wait_state(&handle, CallState::Running);
    let finish = proxy.trap(Side::Request, Requests::script("finish"), Fault::Hold);
    open(&gate);
    arrive(&finish);
    assert_eq!(site.runtime.block_on(handle.cancel()).unwrap(), Cancelled::Running);
    finish.release();
    assert_eq!(site.wait(&handle).unwrap(), "opened");
    site.assert_clean();
    site.trial.stop(&mut worker);
}

#[test]
fn call_that_became_due_first_is_cancelled_as_waiting() {
    let mut site = Site::new();
    let proxy = site.trial.server.proxy();
    let handle = site.enqueue(tasks::noted::call("a".into()).after(Duration::from_millis(1)));
    let canceller = site.behind(&proxy, &handle);
    let cancel = proxy.trap(Side::Request, Requests::script("cancel"), Fault::Hold);
    let mut sweeper = None;
    let found = site.cancel_across(canceller, &cancel, |site| {
        sweeper = Some(site.trial.sweeper(&["--queue", "q", "--interval", "50ms"]));
        site.wait_state(&handle, CallState::Waiting);
    });
    assert_eq!(found, Cancelled::Waiting);
    let mut worker = site.trial.worker(&[]);
    site.assert_dropped(&handle);
    site.trial.stop(&mut worker);
    sweeper.unwrap().kill9();
}

#[test]
fn call_cancelled_before_it_is_promoted_never_waits() {
    let mut site = Site::new();
    let proxy = site.trial.server.proxy();
    let promote = proxy.trap(Side::Request, Requests::script("promote"), Fault::Hold);
    let handle = site.enqueue(tasks::noted::call("a".into()).after(Duration::from_millis(1)));
    let mut worker = site.trial.start_at(proxy.url(), &["--queue", "q", "--lease", "2s"]);
    arrive(&promote);
    assert_eq!(site.runtime.block_on(handle.cancel()).unwrap(), Cancelled::Scheduled);
    promote.release();
    site.assert_dropped(&handle);
    site.trial.stop(&mut worker);
}

#[test]
fn prefetched_call_is_dropped_before_it_begins() {
    let mut site = Site::new();
    let gate = site.trial.gate("gate");
    let calls: Vec<_> = (0..8).map(|n| site.enqueue(tasks::charge_blocking::call(n))).collect();
    let mut worker = site.trial.worker(&["--concurrency", "1", "--prefetch", "16"]);
    calls.iter().for_each(|call| assert!(site.wait(call).is_ok()));
    let running = site.enqueue(tasks::gated_blocking::call(gate.clone()));
    site.wait_state(&running, CallState::Running);
    let prefetched: Vec<_> = (0..8).map(|n| site.enqueue(tasks::noted::call(n.to_string()))).collect();
    for handle in &prefetched {
        let found = site.runtime.block_on(handle.cancel()).unwrap();
        assert!(matches!(found, Cancelled::Running | Cancelled::Waiting), "{found:?}");
        let again = site.runtime.block_on(handle.cancel()).unwrap();
        assert!(matches!(again, Cancelled::Running | Cancelled::Waiting | Cancelled::Ended(_)), "{again:?}");
    }
    prefetched.iter().for_each(|handle| site.wait_state(handle, CallState::Cancelled));
    open(&gate);
    site.wait(&running).unwrap();
    prefetched.iter().for_each(|handle| site.assert_dropped(handle));
    site.trial.stop(&mut worker);
}

#[test]
fn cancelled_call_of_a_killed_worker_never_runs_again() {
    let mut site = Site::new();
    let (proxy, gate) = (site.trial.server.proxy(), site.trial.gate("gate"));
    let mut first = site.worker_behind(&proxy);
    let handle = site.enqueue(tasks::gated::call(gate));
    site.wait_state(&handle, CallState::Running);
    // Its beats do not come through any more: it never hears of that.
    let beat = proxy.trap(Side::Request, Requests::script("beat"), Fault::Hold);
    assert_eq!(site.runtime.block_on(handle.cancel()).unwrap(), Cancelled::Running);
    assert_eq!(
        site.runtime.block_on(handle.cancel()).unwrap(),
        Cancelled::Running,
        "expected it to be harmless"
    );
    first.kill9();
    beat.release();
    let mut sweeper = site.trial.sweeper(&["--queue", "q", "--interval", "100ms"]);
    let mut second = site.trial.worker(&[]);
    site.assert_dropped(&handle);
    assert!(
        site.enqueue(tasks::gated::call(site.trial.gate("gate"))).is_new(),
        "expected the lock to be free"
    );
    open(&site.trial.gate("gate"));
    site.trial.wait_settled();
    site.trial.stop(&mut second);
    sweeper.kill9();
}

#[test]
fn call_without_a_record_that_ends_well_loses_its_mark() {
    let mut site = Site::new();
    let (proxy, gate) = (site.trial.server.proxy(), site.trial.gate("gate"));
    let mut worker = site.worker_behind(&proxy);
    let call = tasks::stubborn::call("a".into(), gate.clone()).with_id();
    let handle = site.enqueue(call);
    site.trial.wait_runs(1);
    assert_eq!(site.runtime.block_on(handle.cancel()).unwrap(), Cancelled::Running);
    worker.wait_for_line("kill requested");
    open(&gate);
    site.assert_clean();
    let stopped = site.trial.stop(&mut worker);
    assert_eq!(crate::support::trial::count(&stopped, "succeeded"), 1);
}

#[test]
fn call_that_is_snoozed_while_it_is_looked_for_is_removed() {
    let mut site = Site::new();
    let (proxy, gate) = (site.trial.server.proxy(), site.trial.gate("gate"));
    let mut worker = site.trial.worker(&[]);
    let handle = site.enqueue(tasks::snoozes::call("a".into(), gate.clone()).with_id());
    site.trial.wait_runs(1);
    let canceller = site.behind(&proxy, &handle);
    let marked = proxy.trap(Side::Reply, Requests::script("cancel"), Fault::Hold);
    let found = site.cancel_across(canceller, &marked, |site| {
        open(&gate);
        wait::until("it to be in the timetable", PATIENCE, || site.trial.state().later.len() == 1);
    });
    assert_eq!(found, Cancelled::Scheduled);
    site.assert_clean();
    site.trial.stop(&mut worker);
}

#[test]
fn call_that_moves_up_while_it_is_looked_for_is_found() {
    let mut site = Site::new();
    let proxy = site.trial.server.proxy();
    let calls: Vec<_> = (0..1100).map(|n| tasks::snoozes::call(n.to_string(), "".into()).with_id()).collect();
    site.runtime.block_on(site.client.enqueue_many(calls)).unwrap();
    let messages = site.trial.state().waiting;
    let id: delayed::CallId =
        delayed::inspect::MessageSummary::of(&messages[550], 0).call_id.unwrap().parse().unwrap();
    let handle = site.client.handle_of::<()>(&"q".parse().unwrap(), id);
    let canceller = site.behind(&proxy, &handle);
    let page = proxy.trap(Side::Reply, Requests::command("LRANGE"), Fault::Hold);
    let found = site.cancel_across(canceller, &page, |site| {
        let taken: Vec<Vec<u8>> = site.trial.redis.lpop("q", std::num::NonZeroUsize::new(200)).unwrap();
        assert_eq!(taken.len(), 200);
    });
    assert_eq!(found, Cancelled::Waiting);
    assert_eq!(site.trial.redis.zcard::<_, u64>("q_cancelled").unwrap(), 1);
}
