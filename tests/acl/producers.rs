//! A client and workers do all that they can do with the permissions of their roles.

use std::time::Duration;

use delayed::{CallState, Client, Handle, Limit, Overflow, Overlap, Periodic, Unique, chain, group};
use nix::sys::signal::Signal;

use super::{QUEUES, Site};
use crate::support::trial::{PATIENCE, mark, open, ready};
use crate::support::wait;
use crate::{
    batches::tasks as batches, flows::tasks as flows, followed::tasks as followed, limited::tasks as limited,
};

const HOUR: Duration = Duration::from_secs(3600);

impl Site {
    fn enqueue<C: delayed::IntoCall>(&self, client: &Client, call: C) -> Handle<C::Output> {
        self.runtime.block_on(client.enqueue(call)).unwrap()
    }

    fn wait_state<R>(&self, handle: &Handle<R>, state: CallState) {
        wait::until_ok(PATIENCE, || match self.runtime.block_on(handle.state()).unwrap() {
            Some(found) if found == state => Ok(()),
            found => Err(format!("the call to be {state}, not {found:?}")),
        });
    }
}

#[test]
fn client_submits_calls_of_every_kind() {
    let mut site = Site::new();
    let url = site.user("producer", &QUEUES);
    let client = site.client(&url);
    for call in [
        followed::charge::call(1),
        followed::charge::call(2).after(HOUR),
        followed::charge::call(3).front(),
        followed::charge::call(4).unique_key("order:7"),
        followed::charge::call(5).unique(Unique::Replace).unique_key("order:8").after(HOUR),
        followed::charge::call(6).unique(Unique::Replace).unique_key("order:8").after(HOUR),
        followed::charge::call(7).ordered("customer"),
        followed::charge::call(8).ordered("customer"),
        followed::charge::call(9).max_len(1).overflow(Overflow::BuryOldest),
        followed::charge::call(10).limit("few").expires(HOUR),
    ] {
        site.enqueue(&client, call);
    }
    let limited = (0..3).map(|n| limited::span::call(n.to_string(), 1));
    site.runtime.block_on(client.enqueue_many(limited)).unwrap();
    let later = (0..3).map(|n| limited::plain::call(n.to_string()).after(HOUR));
    site.runtime.block_on(client.enqueue_many(later)).unwrap();
    for n in 0..4 {
        site.enqueue(&client, batches::short::call(n));
    }
    site.runtime.block_on(client.enqueue_many((0..7).map(batches::short::call))).unwrap();

    let flow = chain(group([1, 2].map(flows::number::call)).at_most(1)).then(flows::sum::step());
    let flow = site.runtime.block_on(client.enqueue_flow(flow)).unwrap();
    site.runtime.block_on(flow.cancel()).unwrap();

    site.run_all(
        &url,
        &[
            "enqueue trial.mark [\"x\"] --queue q",
            "enqueue trial.mark [\"x\"] --queue q --as go",
            "enqueue followed.charge [1] --after 1h --id order:9",
            "enqueue followed.charge [1] --front --keep 1h --unique until-done --limit few",
            "enqueue followed.charge [2] --ordered customer",
            "enqueue followed.charge [1] --max-len 1 --overflow bury-oldest",
        ],
    );

    let name = |name: &str| Periodic::new(name, "@daily", limited::plain::call("tick".into()).queue("q"));
    site.runtime.block_on(client.define_periodic(name("a").overlap(Overlap::Queue))).unwrap();
    site.runtime.block_on(client.define_all_periodic([name("b"), name("c").overlap(Overlap::Skip)])).unwrap();
    let queue = "q".parse().unwrap();
    assert!(site.runtime.block_on(client.remove_periodic(&queue, "a")).unwrap());
    let limit = Limit::concurrent(1).rate(1000, Duration::from_secs(1));
    site.runtime.block_on(client.set_limit("few", limit)).unwrap();

    for call in [followed::charge::call(20).after(HOUR), followed::charge::call(21)] {
        let handle = site.enqueue(&client, call);
        site.runtime.block_on(handle.cancel()).unwrap();
        site.runtime.block_on(handle.progress()).unwrap();
    }
    let plain = site.enqueue(&client, limited::span::call("n".into(), 1));
    site.runtime.block_on(plain.cancel()).unwrap();
    site.assert_nothing_refused();
}

#[test]
fn worker_runs_and_settles_calls_of_every_kind() {
    let mut site = Site::new();
    let (url, of_worker) = (site.user("producer", &QUEUES), site.user("worker", &QUEUES));
    let client = site.client(&url);
    let words = ["--queue", "other", "--keep-finished", "10", "--lease", "1s"];
    let mut worker = site.trial.worker_at(&of_worker, &words);
    site.runtime
        .block_on(client.set_limit("few", Limit::concurrent(1).rate(20, Duration::from_secs(1))))
        .unwrap();
    let tick = limited::plain::call("tick".into()).queue("q");
    site.runtime.block_on(client.define_periodic(Periodic::new("often", "* * * * * *", tick))).unwrap();

    let gate = site.trial.gate("gate");
    let running = site.enqueue(&client, followed::gated::call(gate.clone()));
    site.wait_state(&running, CallState::Running);
    site.runtime.block_on(running.cancel()).unwrap();
    site.wait_state(&running, CallState::Cancelled);
    let charged = site.enqueue(&client, followed::charge::call(1));
    assert_eq!(site.runtime.block_on(charged.wait(PATIENCE)).unwrap().order, 1);
    site.run_all(&url, &["enqueue followed.charge [9] --wait=30s"]);
    site.enqueue(&client, followed::charge_apart::call(2));
    site.enqueue(&client, followed::text_apart::call(3));
    let failed = site.enqueue(&client, followed::fail::call("no".into()));
    site.wait_state(&failed, CallState::Dead);
    let again = site.enqueue(&client, followed::second_time::call());
    site.runtime.block_on(again.wait(PATIENCE)).unwrap();
    let later = site.enqueue(&client, followed::charge::call(4).after(Duration::from_millis(50)));
    site.runtime.block_on(later.wait(PATIENCE)).unwrap();
    let steps = site.enqueue(&client, followed::steps::call(gate.clone()));
    site.wait_state(&steps, CallState::Running);
    open(&gate);
    site.runtime.block_on(steps.wait(PATIENCE)).unwrap();
    let ordered: Vec<_> =
        (5..8).map(|n| site.enqueue(&client, followed::charge::call(n).ordered("customer"))).collect();
    for handle in ordered {
        site.runtime.block_on(handle.wait(PATIENCE)).unwrap();
    }
    let limited = (0..6).map(|n| limited::span::call(n.to_string(), 1));
    site.runtime.block_on(client.enqueue_many(limited)).unwrap();
    site.enqueue(&client, limited::flaky::call("f".into()));
    site.runtime.block_on(client.enqueue_many((0..6).map(batches::whole::call))).unwrap();
    site.runtime
        .block_on(client.enqueue_many((0..4).map(|n| batches::collect::call(n.to_string()))))
        .unwrap();
    let members = group([1, 2, 3].map(flows::number::call)).at_most(1);
    let flow = site
        .runtime
        .block_on(client.enqueue_flow(chain(members).then(flows::sum::step()).then(flows::double::step())))
        .unwrap();
    assert_eq!(site.runtime.block_on(flow.wait(PATIENCE)).unwrap(), 12);
    let broken = chain(flows::needs::call(site.trial.gate("none"))).then(flows::double::step());
    let broken = site.runtime.block_on(client.enqueue_flow(broken.on_error(flows::alert::step()))).unwrap();
    site.runtime.block_on(broken.wait(PATIENCE)).unwrap_err();
    let gate = site.trial.gate("gate of a step");
    let held = chain(flows::gated::call("a".into(), gate.clone())).then(flows::note_run::call("b".into()));
    let held = site.runtime.block_on(client.enqueue_flow(held)).unwrap();
    wait::until("the step to run", PATIENCE, || site.trial.ledger.lines().contains(&"+a".to_owned()));
    assert!(site.runtime.block_on(held.tree()).unwrap().is_some());
    site.runtime.block_on(held.cancel()).unwrap();
    site.runtime.block_on(held.wait(PATIENCE)).unwrap_err();
    open(&gate);
    wait::until_ok(PATIENCE, || match site.runtime.block_on(held.retry()).unwrap() {
        Some(_) => Ok(()),
        None => Err("the flow to go on".into()),
    });
    site.runtime.block_on(held.wait(PATIENCE)).unwrap();
    site.trial.push(&[b"junk".to_vec(), mark(1)]);
    site.trial.wait_settled();

    // One dies, and the other one takes over.
    let never = site.trial.gate("never");
    let held = site.enqueue(&client, followed::gated::call(never.clone()));
    site.wait_state(&held, CallState::Running);
    let mut other = site.trial.start_at(&of_worker, &["--queue", "q", "--concurrency", "2", "--lease", "1s"]);
    ready(&other);
    worker.kill9();
    open(&never);
    site.runtime.block_on(held.wait(PATIENCE)).unwrap();
    let () = redis::cmd("CLIENT")
        .arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"])
        .query::<u64>(&mut site.trial.redis)
        .map(drop)
        .unwrap();
    site.trial.push(&[mark(2), mark(3)]);
    site.trial.wait_settled();
    other.signal(Signal::SIGTERM);
    other.wait_exit(PATIENCE);
    site.assert_nothing_refused();
}
