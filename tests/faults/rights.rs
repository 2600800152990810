//! A right is missing, from the start or all at once: nothing is lost, and all goes on when it is given.

use redis::Connection;

use crate::support::process::{DELAYED, Program};
use crate::support::trial::{PATIENCE, QUEUE, Trial, call, marks};
use crate::support::wait;

pub(super) fn set(redis: &mut Connection, rules: &[&str]) {
    redis::cmd("ACL").arg("SETUSER").arg("poor").arg(rules).exec(redis).unwrap();
}

/// A trial with a user that may do all but that, and that user's address.
pub(super) fn without(rights: &str) -> (Trial, String) {
    let mut trial = Trial::new();
    let rules = ["reset", "on", ">word", "~*", "&*", "+@all"].into_iter().chain(rights.split(' '));
    set(&mut trial.redis, &rules.collect::<Vec<_>>());
    let url = format!("{}?user=poor&pass=word", trial.server.url());
    (trial, url)
}

/// Whether there are as many messages as before, wherever they are.
fn kept(trial: &mut Trial) -> usize {
    let state = trial.state();
    state.waiting.len() + state.processing.len() + state.dead.len()
}

#[test]
fn a_worker_loses_nothing() {
    for rights in [
        "-set",
        "-exists",
        "-hset",
        "-hsetnx",
        "-hdel",
        "-lpush",
        "-rpush",
        "-lpop",
        "-unlink",
        "-xadd",
        "-xtrim",
        "-xlen",
        "-set -lpush",
        "-exists -lpush",
        "-hset -lpush",
        "-hsetnx -lpush",
    ] {
        let (mut trial, url) = without(rights);
        let mut worker = trial.start_at(&url, &["--queue", QUEUE, "--lease", "1s", "--concurrency", "4"]);
        let fails: Vec<Vec<u8>> = (0..3).map(|n| call("trial.no_such_task", &[n.into()])).collect();
        trial.push(&[marks(40), fails].concat());
        wait::until("the refusal, or all to be done without that right", PATIENCE, || {
            let printed = worker.printed();
            let serves = printed.contains("\"serving\"");
            let refused = printed.contains("grant it");
            printed.contains("error: ") || (serves && refused) || trial.left() == (0, 0)
        });
        set(&mut trial.redis, &["+@all"]);
        if worker.printed().contains("error: ") {
            assert_eq!(worker.wait_exit(PATIENCE).code(), Some(4), "{rights}: {}", worker.printed());
            assert_eq!(
                kept(&mut trial),
                43,
                "{rights}: expected a worker that does not start to take nothing"
            );
            worker = trial.worker_at(&url, &["--lease", "1s", "--concurrency", "4"]);
        }
        trial.wait_settled();
        trial.stop(&mut worker);
        trial.ledger.assert_each_at_least_once(0..40, u32::MAX);
        assert_eq!(trial.dead(), 3, "{rights}: {:#?}", trial.state());
    }
}

#[test]
fn a_sweeper_loses_nothing_and_makes_nothing_twice() {
    for right in ["-hdel", "-lpush", "-xadd", "-xtrim", "-xlen", "-persist"] {
        let (mut trial, url) = without(right);
        // Each ran alone when its worker died.
        let fill = "
            local at = redis.call('TIME')[1] - 60
            for i = 1, 5 do
              local message, slot = 'message ' .. i, 'aaaaaaaaaaaaaaaa:' .. i
              redis.call('HSET', KEYS[1], 'q:' .. slot, message)
              redis.call('HSET', KEYS[2], redis.sha1hex(message), '2 ' .. at .. '000 =;' .. slot .. '!0 q:b q:c')
            end";
        redis::Script::new(fill).key("q_processing").key("q_deaths").invoke::<()>(&mut trial.redis).unwrap();
        let mut command = trial.command(DELAYED);
        let words = [
            "sweeper",
            "--queue",
            QUEUE,
            "--interval",
            "100ms",
            "--max-deaths",
            "1",
            "--redis",
            &url,
            "--log-level",
            "delayed=debug",
        ];
        let mut sweeper = Program::spawn(command.args(words));
        wait::until("a refusal, or all to be done without that right", PATIENCE, || {
            sweeper.printed().matches("grant it").count() > 3 || trial.dead() == 5
        });
        assert_eq!(kept(&mut trial), 5, "{right}: {:#?}", trial.state());
        set(&mut trial.redis, &["+@all"]);
        wait::until("all to be buried", PATIENCE, || trial.left() == (0, 0));
        assert_eq!(trial.dead(), 5, "{right}: {:#?}", trial.state());
        sweeper.signal(nix::sys::signal::Signal::SIGTERM);
        assert_eq!(sweeper.wait_exit(PATIENCE).code(), Some(0), "{}", sweeper.printed());
    }
}

#[test]
fn a_sweeper_forgets_no_death_of_what_it_may_not_bury() {
    let (mut trial, url) = without("-xadd");
    let (message, owner) = (marks(1).remove(0), "q:aaaaaaaaaaaaaaaa:1");
    redis::cmd("HSET").arg("q_processing").arg(owner).arg(&message).exec(&mut trial.redis).unwrap();
    let count = "redis.call('HSET', KEYS[1], redis.sha1hex(ARGV[1]), '2 ' .. redis.call('TIME')[1] - 60 .. '000 =;aaaaaaaaaaaaaaaa:1!2 q:b: q:c:')";
    redis::Script::new(count).key("q_deaths").arg(&message).invoke::<()>(&mut trial.redis).unwrap();
    let mut command = trial.command(DELAYED);
    let words =
        ["sweeper", "--queue", QUEUE, "--interval", "100ms", "--redis", &url, "--log-level", "delayed=debug"];
    let mut sweeper = Program::spawn(command.args(words));
    sweeper.wait_for_lines("grant it", 3);
    set(&mut trial.redis, &["+@all"]);
    wait::until("its letter", PATIENCE, || trial.dead() == 1);
    assert_eq!(trial.left(), (0, 0));
    sweeper.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(sweeper.wait_exit(PATIENCE).code(), Some(0), "{}", sweeper.printed());
}

#[test]
fn dead_letters_that_may_not_go_back_stay() {
    for right in ["-rpush", "-xdel"] {
        let (mut trial, url) = without(right);
        let letter = call("trial.mark", &["dead".into()]);
        redis::cmd("XADD")
            .arg("q_dead")
            .arg("1-0")
            .arg("message")
            .arg(&letter)
            .exec(&mut trial.redis)
            .unwrap();
        let words = ["dead", "requeue", "1-0", "--queue", QUEUE, "--redis", &url];
        let mut tool = Program::spawn(trial.command(DELAYED).args(words));
        assert_ne!(tool.wait_exit(PATIENCE).code(), Some(0), "{right}: {}", tool.printed());
        let state = trial.state();
        assert_eq!((state.dead.len(), state.waiting.len()), (1, 0), "{right}: {state:#?}");
    }
}

#[test]
fn worker_that_may_not_read_a_pause_claims_nothing() {
    let (mut trial, url) = without("-get");
    let () = redis::Commands::set(&mut trial.redis, "q_paused", "17 anna").unwrap();
    trial.push(&marks(10));
    let mut worker = trial.worker_at(&url, &["--lease", "1s"]);
    worker.wait_for_line("grant it");
    assert_eq!((kept(&mut trial), trial.ledger.total()), (10, 0));
    set(&mut trial.redis, &["+@all"]);
    worker.wait_for_line("\"queue paused\"");
    assert_eq!((kept(&mut trial), trial.ledger.total()), (10, 0));
    let () = redis::Commands::del(&mut trial.redis, "q_paused").unwrap();
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once(0..10);
}
