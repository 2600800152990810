//! Messages without tokens and tokens without messages, 100,000 of them: mended, by a worker and by a sweeper.

use redis::Commands;

use crate::support::trial::{PATIENCE, QUEUE, Trial, alone, count, mark, marks};
use crate::support::wait;

const GAP: usize = 100_000;

#[test]
fn messages_without_tokens_all_run() {
    let _alone = alone();
    let mut trial = Trial::new();
    for part in marks(GAP).chunks(10_000) {
        let () = trial.redis.rpush(QUEUE, part).unwrap();
    }
    let mut worker = trial.worker(&["--concurrency", "64", "--lease", "2s"]);
    trial.wait_settled();
    let stopped = trial.stop(&mut worker);
    assert_eq!(count(&stopped, "succeeded"), GAP as u64, "{stopped}");
    trial.ledger.assert_each_once(0..GAP);
    trial.assert_only(&[]);
}

#[test]
fn tokens_without_messages_go() {
    let _alone = alone();
    let mut trial = Trial::new();
    for _ in 0..GAP / 10_000 {
        let () = trial.redis.rpush("q_noti", vec!["1"; 10_000]).unwrap();
    }
    trial.push(&marks(10));
    let mut worker = trial.worker(&[]);
    trial.wait_runs(10);
    wait::until("the tokens to go", PATIENCE, || trial.redis.llen::<_, u64>("q_noti").unwrap() == 0);
    trial.push(&[mark("after")]);
    trial.wait_runs(11);
    trial.wait_settled();
    trial.stop(&mut worker);
    trial.ledger.assert_each_once((0..10).map(|n| n.to_string()).chain(["after".to_owned()]));
    trial.assert_only(&[]);
}

#[test]
fn a_sweeper_alone_mends_both() {
    let _alone = alone();
    for (list, other) in [(QUEUE, "q_noti"), ("q_noti", QUEUE)] {
        let mut trial = Trial::new();
        for _ in 0..GAP / 10_000 {
            let () = trial.redis.rpush(list, vec!["1"; 10_000]).unwrap();
        }
        let expected = if list == QUEUE { GAP } else { 0 };
        // It finds a queue that nobody registered by its notifications, or when it is told its name.
        let sweeper = trial.sweeper(if list == QUEUE { &["--queue", QUEUE] } else { &[] });
        wait::until("as many tokens as messages", PATIENCE, || {
            trial.redis.llen::<_, usize>("q_noti").unwrap() == expected
        });
        assert_eq!(
            trial.redis.llen::<_, usize>(QUEUE).unwrap(),
            expected,
            "expected all of {list}, not {other}"
        );
        drop(sweeper);
    }
}
