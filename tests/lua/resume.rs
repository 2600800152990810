use super::pause::{pause, published};
use super::*;

fn resume(bench: &mut Bench, by: &str) -> RedisResult<Option<String>> {
    bench.call("resume", |call| {
        call.key(PAUSED).arg(by).arg("q:paused");
    })
}

#[test]
fn ends_the_pause_and_tells_workers() {
    let mut bench = Bench::new();
    let (_, text) = pause(&mut bench, "anna").unwrap();
    let told = published(&mut bench, |bench| {
        assert_eq!(resume(bench, "berta at home").unwrap(), Some(text));
        assert!(bench.state().keys.is_empty(), "expected the key to be gone");
    });
    assert_eq!(told, ["resumed berta at home"]);
}

#[test]
fn queue_that_is_not_paused_is_left_and_nobody_is_told() {
    let mut bench = Bench::new();
    let told = published(&mut bench, |bench| {
        assert_eq!(resume(bench, "berta").unwrap(), None);
        assert!(bench.state().keys.is_empty());
    });
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = Bench::new();
    pause(&mut bench, "anna").unwrap();
    bench.fill();
    assert!(resume(&mut bench, "anna").unwrap().is_some());
    assert_eq!(pause(&mut bench, "anna").unwrap().0, 1, "expected a pause to be possible, too");
}

#[test]
fn changes_nothing_when_it_is_refused() {
    let seed = |bench: &mut Bench| drop(pause(bench, "anna").unwrap());
    changes_nothing_it_may_not(&[PAUSED], seed, |bench| resume(bench, "anna"));
    let mut bench = Bench::new();
    let () = bench.redis.rpush(PAUSED, "a call of a queue with this name").unwrap();
    bench.refuses(WRONG_TYPE, "with a list", |bench| resume(bench, "anna"));
}
