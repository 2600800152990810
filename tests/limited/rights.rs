//! A right to the keys of a limit, or of ordered calls, is missing until it is given: no call is lost, and none runs twice.

use delayed::{Call, Limit};

use super::{Site, most, tasks};
use crate::support::trial::PATIENCE;
use crate::support::wait;

impl Site {
    fn allow(&mut self, rules: &[&str]) {
        redis::cmd("ACL").arg("SETUSER").arg("poor").arg(rules).exec(&mut self.trial.redis).unwrap();
    }
}

/// Calls that share a limit, and calls that run in their order.
fn calls() -> impl Iterator<Item = Call> {
    let limited = (0..12).map(|n| tasks::span::call(n.to_string(), 2).untyped());
    limited.chain((12..20).map(|n| tasks::free_span::call(n.to_string(), 1).ordered("k").untyped()))
}

#[test]
fn worker_without_a_right_loses_no_call_and_goes_on() {
    let all = "~*";
    for (right, keys) in [
        ("-zadd", all),
        ("-zrem", all),
        ("-zremrangebyscore", all),
        ("-lpos", all),
        ("-lrem", all),
        ("-sadd", all),
        ("-srem", all),
        ("-rpush", all),
        ("-ltrim", all),
        ("-srandmember", all),
        // Not the keys of limits.
        ("+@all", "~q*"),
    ] {
        let mut site = Site::new();
        site.set("few", Limit::concurrent(2));
        site.allow(&["reset", "on", ">word", "~*", "&*", "+@all"]);
        let url = format!("{}?user=poor&pass=word", site.trial.server.url());
        let mut worker = site.trial.worker_at(&url, &["--lease", "1s", "--concurrency", "8"]);
        site.allow(&["resetkeys", keys, right]);
        site.enqueue(calls());
        wait::until("a refusal, or all to be done without that right", PATIENCE, || {
            worker.printed().contains("lacks a permission") || site.trial.left() == (0, 0)
        });
        site.allow(&["~*", "+@all"]);
        site.trial.wait_runs(40);
        site.trial.wait_settled();
        let lines = site.trial.ledger.lines();
        let is_limited = |line: &&String| line[1..].parse::<usize>().unwrap() < 12;
        let (limited, ordered): (Vec<String>, Vec<String>) = (
            lines.iter().filter(is_limited).cloned().collect(),
            lines.iter().filter(|line| !is_limited(line)).cloned().collect(),
        );
        assert!(most(&limited) <= 2, "{right}: {limited:?}");
        assert_eq!(
            ordered,
            (12..20).flat_map(|n| [format!("+{n}"), format!("-{n}")]).collect::<Vec<_>>(),
            "{right}"
        );
        site.trial.ledger.assert_each_once((0..20).flat_map(|n| [format!("+{n}"), format!("-{n}")]));
        site.assert_free("few");
        site.trial.stop(&mut worker);
    }
}
