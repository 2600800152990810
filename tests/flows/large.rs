//! Flows with many members, and with many levels.

use std::time::{Duration, Instant};

use delayed::{EncodeError, Error, IntoFlow, PlanError, chain, group};
use redis::Commands;

use super::{Site, tasks};
use crate::support::is_full;

/// How long a debug build may take on a busy machine.
const LONG: Duration = Duration::from_secs(300);

#[test]
fn group_of_many_members_gives_all_results() {
    let members: u64 = if is_full() { 100_000 } else { 20_000 };
    let mut site = Site::new();
    let mut worker = site.worker(&["--concurrency", "64"]);
    let memory = |site: &mut Site, what: &str| -> u64 {
        let info: String = redis::cmd("INFO").arg("memory").query(&mut site.trial.redis).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix(&format!("{what}:"))).unwrap();
        line.parse().unwrap()
    };
    let (before, began) = (memory(&mut site, "used_memory"), Instant::now());
    let handle = site.enqueue(group((0..members).map(tasks::number::call)).then(tasks::sum::step()));
    let sum = site.runtime.block_on(handle.wait(LONG)).unwrap();
    let (took, peak) = (began.elapsed(), memory(&mut site, "used_memory_peak"));
    assert_eq!(sum, members * (members - 1) / 2);
    site.assert_done();
    let flow = format!("q:f:{}", handle.id().unwrap().to_string().replace('-', ""));
    assert_eq!(site.trial.redis.hget::<_, _, u64>(&flow, "done").unwrap(), members + 1);
    let of_flow: u64 = redis::cmd("MEMORY").arg("USAGE").arg(&flow).query(&mut site.trial.redis).unwrap();
    let kept = memory(&mut site, "used_memory") - before;
    println!(
        "{members} members in {took:.1?}; bytes of Redis: {} at most, {kept} kept, {of_flow} of these for the tree",
        peak - before
    );
    site.trial.stop(&mut worker);
}

#[test]
fn flow_may_have_thirty_two_levels_and_no_more() {
    let mut site = Site::new();
    let mut worker = site.worker(&[]);
    let nested = |levels: usize| {
        let mut flow = chain::<(), _>(tasks::note_run::call("first".into()));
        for level in 1..levels {
            flow = group([flow]).then(tasks::end::step(format!("{level}")));
        }
        flow.into_flow()
    };
    // A chain and a group for each, and the step.
    let handle = site.enqueue(nested(16));
    assert_eq!(site.wait(&handle), "15");
    site.assert_done();
    let expected: Vec<String> =
        ["first".to_owned()].into_iter().chain((1..16).map(|level| format!("{level} 1"))).collect();
    assert_eq!(site.trial.ledger.lines(), expected);
    let refused = site.runtime.block_on(site.client.enqueue_flow(nested(17))).unwrap_err();
    let is_too_deep = matches!(&refused, Error::Encode { source: EncodeError::Flow(PlanError::TooDeep), .. });
    assert!(is_too_deep, "{refused}");
    site.trial.stop(&mut worker);
}
