//! Flows with many members, and with many levels.

use std::time::Duration;

use delayed::{EncodeError, Error, IntoFlow, PlanError, chain, group};
use redis::Commands;

use super::{Site, tasks};

/// How long a debug build may take on a busy machine.
const LONG: Duration = Duration::from_secs(300);

#[test]
fn group_of_twenty_thousand_members_gives_all_results() {
    const MEMBERS: u64 = 20_000;
    let mut site = Site::new();
    let mut worker = site.worker(&["--concurrency", "64"]);
    let handle = site.enqueue(group((0..MEMBERS).map(tasks::number::call)).then(tasks::sum::step()));
    let sum = site.runtime.block_on(handle.wait(LONG)).unwrap();
    assert_eq!(sum, MEMBERS * (MEMBERS - 1) / 2);
    site.assert_done();
    let flow = format!("q:f:{}", handle.id().unwrap().to_string().replace('-', ""));
    assert_eq!(site.trial.redis.hget::<_, _, u64>(flow, "done").unwrap(), MEMBERS + 1);
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
