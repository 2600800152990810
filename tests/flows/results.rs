//! What flows come to.

use std::time::Duration;

use delayed::{CallState, Inspector, IntoFlow, WaitError, chain, group, group_of};

use super::{Site, tasks};
use crate::support::trial::PATIENCE;
use crate::support::wait;

#[test]
fn chain_passes_results_from_step_to_step() {
    let mut site = Site::new();
    let mut worker = site.worker(&[]);
    let flow = chain(tasks::number::call(1))
        .then(tasks::add::step(2))
        .then(tasks::add_apart::step(3))
        .then(tasks::double::step());
    let handle = site.enqueue(flow);
    assert_eq!(site.wait(&handle), 12);
    assert_eq!(site.runtime.block_on(handle.state()).unwrap(), Some(CallState::Succeeded));
    site.assert_done();
    site.trial.stop(&mut worker);
}

#[test]
fn group_gives_its_results_in_order() {
    let site = Site::new();
    let mut worker = site.worker(&[]);
    let handle = site.enqueue(group((0..50).map(tasks::number::call)));
    assert_eq!(site.wait(&handle), (0..50).collect::<Vec<u64>>());
    let handle = site.enqueue(group((0..50).map(tasks::number::call)).at_most(3).then(tasks::sum::step()));
    assert_eq!(site.wait(&handle), 1225);
    let empty = site.enqueue(group(Vec::<delayed::Call<u64>>::new()).then(tasks::sum::step()));
    assert_eq!(site.wait(&empty), 0);
    site.trial.stop(&mut worker);
}

#[test]
fn parts_are_nested_in_each_other() {
    let site = Site::new();
    let mut worker = site.worker(&[]);
    let sums = (1..4).map(|n| chain(tasks::add::step(n)).then(tasks::double::step()));
    let of_kinds = group_of((
        chain(tasks::note_run::call("a".into())),
        chain(tasks::number::call(5)).then(tasks::double::step()),
        group([1, 2].map(tasks::add::step)),
    ));
    let flow = chain(tasks::number::call(10))
        .then(group(sums))
        .then(tasks::sum::step())
        .then(of_kinds)
        .then(tasks::words::step("end".into()));
    // (11 + 12 + 13) * 2
    let handle = site.enqueue(flow);
    assert_eq!(site.wait(&handle), "a 10 [73, 74] end");
    site.trial.stop(&mut worker);
}

#[test]
fn calls_ignore_the_results_before_them() {
    let site = Site::new();
    let mut worker = site.worker(&[]);
    let flow = chain(tasks::number::call(1)).then(tasks::number::call(2)).then(tasks::add::step(5));
    assert_eq!(site.wait(&site.enqueue(flow)), 7);
    site.trial.stop(&mut worker);
}

#[test]
fn steps_have_options_of_their_own() {
    let site = Site::new();
    let mut worker = site.worker(&[]);
    let late = Duration::from_millis(300);
    let flow = chain(tasks::flaky::call(1).keep(Duration::from_secs(60)))
        .then(tasks::add::step(2).with(|call| call.after(late).expires(Duration::from_secs(60)).front()))
        .then(tasks::add::step(3).with(|call| call.queue("other")));
    let begun = std::time::Instant::now();
    let handle = site.enqueue(flow);
    assert_eq!(site.wait(&handle), 6);
    assert!(begun.elapsed() >= late);
    let tree = site.tree(&handle);
    let queues: Vec<_> = tree.root.parts.iter().filter_map(|part| part.queue.as_deref()).collect();
    assert_eq!(queues, ["q", "q", "other"]);
    site.trial.stop(&mut worker);
}

#[test]
fn flow_is_a_call_with_options() {
    let site = Site::new();
    let flow = || chain(tasks::number::call(1)).then(tasks::add::step(2));
    let call = || flow().into_flow().call().unique_key("once").after(Duration::from_millis(200));
    let first = site.runtime.block_on(site.client.enqueue(call())).unwrap();
    let second = site.runtime.block_on(site.client.enqueue(call())).unwrap();
    assert_eq!((first.is_new(), second.is_new(), first.id()), (true, false, second.id()));
    let mut worker = site.worker(&[]);
    assert_eq!(site.runtime.block_on(first.wait(PATIENCE)).unwrap(), 3);
    let third = site.runtime.block_on(site.client.enqueue(call())).unwrap();
    assert!(third.is_new(), "expected the lock to be free after the end of the flow");
    site.trial.stop(&mut worker);
}

#[test]
fn periodic_flow_begins_with_each_tick() {
    let mut site = Site::new();
    let mut worker = site.worker(&[]);
    let members = group(["a", "b"].map(|n| tasks::note_run::call(n.into())));
    let flow = members.then(tasks::end::step("end".into())).into_flow();
    let periodic = delayed::Periodic::new("notes", "@every 1s", flow);
    site.runtime.block_on(site.client.define_periodic(periodic)).unwrap();
    wait::until("two flows to end", PATIENCE, || {
        site.trial.ledger.lines().iter().filter(|line| *line == "end 2").count() >= 2
    });
    let queue = "q".parse().unwrap();
    let inspector = site.runtime.block_on(Inspector::connect(&site.trial.server.url())).unwrap();
    assert_eq!(site.runtime.block_on(inspector.pause_periodic(&queue, "notes", "anna")).unwrap(), Some(true));
    // Each flow has three steps, and each of them notes its run.
    let count = wait::until_ok(PATIENCE, || {
        let ticks = site.runtime.block_on(inspector.periodic_history(&queue, "notes")).unwrap().unwrap();
        let (count, runs) = (ticks.len(), site.trial.ledger.total());
        let is_each = ticks.iter().all(|tick| tick.result == "enqueued") && runs as usize == 3 * count;
        if is_each { Ok(count) } else { Err(format!("3 runs for each tick, not {runs}: {ticks:?}")) }
    });
    assert!(count < 50, "expected a history that has all ticks, not {count}");
    site.trial.wait_settled();
    site.assert_done();
    let expected = ["a", "b", "end 2"].map(|step| (step.to_owned(), count as u32));
    assert_eq!(site.trial.ledger.executions(), expected.into(), "expected a flow for each of {count} ticks");
    site.trial.stop(&mut worker);
}

#[test]
fn result_that_is_too_large_fails_what_takes_it() {
    let site = Site::new();
    let mut worker = site.worker(&[]);
    let ignored = chain(tasks::text::call(2 << 20)).then(tasks::number::call(3));
    assert_eq!(site.wait(&site.enqueue(ignored)), 3);
    let taken = site.enqueue(chain(tasks::text::call(2 << 20)).then(tasks::length::step()));
    let WaitError::Dead { reason, error, .. } = site.try_wait(&taken).unwrap_err() else {
        panic!("expected the flow to be dead")
    };
    assert_eq!(reason, "failed");
    assert!(error.contains("at most 1 MiB can be passed on"), "{error}");
    let large = site.enqueue(group([tasks::text::call(700_000), tasks::text::call(700_000)]));
    assert!(matches!(site.try_wait(&large).unwrap_err(), WaitError::TooLarge { bytes: 1_400_011 }));
    site.trial.stop(&mut worker);
}

#[test]
fn tree_shows_every_step() {
    let site = Site::new();
    let flow = group([1, 2].map(tasks::number::call))
        .at_most(1)
        .then(tasks::sum::step())
        .on_error(tasks::alert::step());
    let handle = site.enqueue(flow);
    assert!(site.runtime.block_on(handle.tree()).unwrap().is_none(), "expected it not to have begun");
    let mut worker = site.worker(&[]);
    assert_eq!(site.wait(&handle), 3);
    let tree = site.tree(&handle);
    let id = handle.id().unwrap();
    let expected = format!(
        "flow {id} in q: succeeded, 3 steps\n\
         chain  succeeded\n\
         ├─ group of 2, 1 at a time  succeeded\n\
         │  ├─ flows.number  succeeded\n\
         │  └─ flows.number  succeeded\n\
         └─ flows.sum  succeeded\n\
         on error: flows.alert  -"
    );
    assert_eq!(tree.to_string(), expected);
    let mermaid = tree.mermaid();
    assert!(mermaid.starts_with("flowchart LR\n"), "{mermaid}");
    for arrow in ["n3 --> n2", "n4 --> n2", "n2 -. on error .-> n5"] {
        assert!(mermaid.contains(arrow), "expected {arrow} in\n{mermaid}");
    }
    site.trial.stop(&mut worker);
}

#[test]
fn example_prints_what_became_of_its_flows() {
    let site = Site::new();
    let program = crate::support::example::example("flow");
    let mut command = site.trial.command(program.to_str().unwrap());
    let output = command.arg(site.trial.server.url()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let (alerts, lines): (Vec<&str>, Vec<&str>) =
        printed.lines().partition(|line| *line == "flow::print failed: failed: no paper");
    assert_eq!(alerts.len(), 1, "{printed}");
    let expected = [
        "the call is dead (failed): the step 3 is dead: failed: no paper",
        "steps to run again: 1",
        "printed Fables (page 1, page 2, page 3)",
        "flowchart LR",
        "5 steps, succeeded",
    ];
    assert_eq!(lines, expected, "{printed}");
}
