//! Flows whose processes die: nothing is lost, nothing is counted twice.

use delayed::group;

use super::{Site, tasks};

#[test]
fn burst_ends_when_its_flows_have_ended() {
    let mut site = Site::new();
    let handle = site.enqueue(
        group((0..20).map(tasks::number::call)).then(tasks::sum::step()).then(tasks::add_apart::step(1)),
    );
    let mut worker = site.worker(&["--burst"]);
    site.trial.ended(&mut worker);
    assert_eq!(site.wait(&handle), 191);
    site.assert_done();
}
