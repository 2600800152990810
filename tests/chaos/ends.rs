//! How did a process of the fleet end: as it was told to, for want of a Redis at its start, or unasked?

use std::process::ExitStatus;

/// With which a program ends that cannot reach its Redis.
const UNREACHABLE: i32 = 3;
/// What it says then.
const SENTENCES: [&str; 3] =
    ["Redis cannot be reached: ", "the connection to Redis broke: ", "Redis is not ready yet: "];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Asked,
    /// A worker that does not find its Redis when it starts is to be started again.
    CouldNotStart,
    Unasked,
}

/// What is known of a process that has ended.
pub(crate) struct Ended<'a> {
    pub(crate) status: ExitStatus,
    pub(crate) printed: &'a str,
    /// It was brought to its end: is that to be a success?
    pub(crate) asked: Option<bool>,
    pub(crate) is_worker: bool,
    /// Redis, or its way to it, was away at some time of its life.
    pub(crate) was_away: bool,
}

impl Ended<'_> {
    pub(crate) fn judge(&self) -> End {
        match self.asked {
            Some(success) if self.status.success() == success => End::Asked,
            None if self.is_worker && self.was_away && self.found_no_redis() => End::CouldNotStart,
            _ => End::Unasked,
        }
    }

    /// Its last word is that it found no Redis, and it had not begun to serve.
    fn found_no_redis(&self) -> bool {
        let last = self.printed.lines().last().unwrap_or_default();
        self.status.code() == Some(UNREACHABLE)
            && last.starts_with("error: ")
            && SENTENCES.iter().any(|sentence| last.contains(sentence))
            && !self.printed.contains("\"serving\"")
    }
}

#[cfg(test)]
mod tests {
    use delayed::testing::{Fault, Proxy, Requests, Side};
    use redis::Commands;

    use super::*;
    use crate::support::trial::{PATIENCE, Trial, ready};

    fn start_and_judge(trial: &Trial, url: &str, was_away: bool) -> (End, String) {
        let mut worker = trial.start_at(url, &["--queue", "q"]);
        let status = worker.wait_exit(PATIENCE);
        let printed = worker.last_words();
        let end = Ended { status, printed: &printed, asked: None, is_worker: true, was_away }.judge();
        (end, printed)
    }

    #[test]
    fn worker_without_redis_may_fail_to_start_only_during_an_outage() {
        let mut trial = Trial::new();
        trial.server.kill();
        let url = trial.server.url();
        for (was_away, expected) in [(true, End::CouldNotStart), (false, End::Unasked)] {
            let (end, printed) = start_and_judge(&trial, &url, was_away);
            assert_eq!(end, expected, "{printed}");
        }
    }

    #[test]
    fn so_could_one_whose_connection_breaks_before_it_serves() {
        let trial = Trial::new();
        for (requests, side) in [
            (Requests::script("beat"), Side::Request),
            (Requests::script("beat"), Side::Reply),
            (Requests::command("SADD"), Side::Reply),
        ] {
            let proxy = Proxy::to(&trial.server.url()).unwrap();
            let trap = proxy.trap(side, requests.clone(), Fault::End);
            let (end, printed) = start_and_judge(&trial, proxy.url(), true);
            assert!(trap.struck() > 0, "expected {requests:?} to have been struck: {printed}");
            assert_eq!(end, End::CouldNotStart, "{printed}");
        }
    }

    #[test]
    fn exit_for_another_reason_or_after_the_start_is_unasked() {
        let mut trial = Trial::new();
        let () = trial.redis.set("delayed_queues", "no set").unwrap();
        let (end, printed) = start_and_judge(&trial, &trial.server.url(), true);
        assert_eq!(end, End::Unasked, "expected a key of the wrong type to be no excuse: {printed}");
        let () = trial.redis.del("delayed_queues").unwrap();

        let mut worker = trial.start_at(&trial.server.url(), &["--queue", "q"]);
        ready(&worker);
        worker.kill9();
        let killed = Ended {
            status: worker.wait_exit(PATIENCE),
            printed: &worker.last_words(),
            asked: None,
            is_worker: true,
            was_away: true,
        };
        assert_eq!(killed.judge(), End::Unasked);

        trial.server.kill();
        let mut worker = trial.start_at(&trial.server.url(), &["--queue", "q"]);
        let (status, printed) = (worker.wait_exit(PATIENCE), worker.last_words());
        let ended = |printed, asked, is_worker| Ended { status, printed, asked, is_worker, was_away: true };
        let served = format!("{{\"message\":\"serving\"}}\n{printed}");
        assert_eq!(ended(&served, None, true).judge(), End::Unasked, "it had begun to serve");
        assert_eq!(ended("error: something else", None, true).judge(), End::Unasked);
        assert_eq!(ended(&printed, None, false).judge(), End::Unasked, "it is no worker");
        assert_eq!(ended(&printed, Some(true), true).judge(), End::Unasked, "it was to end well");
        assert_eq!(ended(&printed, Some(false), true).judge(), End::Asked);
    }
}
