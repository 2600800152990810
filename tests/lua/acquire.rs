use super::*;

type Answer = (Vec<i64>, Vec<String>);

fn acquire(bench: &mut Bench, calls: &[(&str, &str)]) -> RedisResult<Answer> {
    let reply: Value = bench.call("acquire", |call| {
        for key in LIMIT {
            call.key(key);
        }
        call.arg(LEASE);
        for (holder, message) in calls {
            call.arg(*holder).arg(entry(message));
        }
    })?;
    let Value::Array(mut reply) = reply else { panic!("expected an array, not {reply:?}") };
    let entries = redis::from_redis_value(Value::Array(reply.split_off(1))).unwrap();
    Ok((redis::from_redis_value(reply.remove(0)).unwrap(), entries))
}

fn answers(bench: &mut Bench, calls: &[(&str, &str)]) -> Vec<i64> {
    acquire(bench, calls).unwrap().0
}

#[test]
fn no_more_calls_hold_a_limit_than_it_allows() {
    let mut bench = Bench::new();
    bench.limit(&[("concurrency", 2)]);
    assert_eq!(answers(&mut bench, &[("h1", "a"), ("h2", "b"), ("h3", "c")]), [0, 0, -1]);
    assert_eq!(bench.redis.zrange::<_, Vec<String>>(LIMIT[1], 0, -1).unwrap(), ["h1", "h2"]);
    assert_eq!(bench.redis.lrange::<_, Vec<String>>(LIMIT[2], 0, -1).unwrap(), [entry("c")]);
    // The answer was lost, and it is asked again.
    assert_eq!(answers(&mut bench, &[("h1", "a")]), [0]);
    assert_eq!(bench.redis.zcard::<_, u64>(LIMIT[1]).unwrap(), 2);
}

#[test]
fn a_lease_that_has_ended_holds_nothing() {
    let mut bench = Bench::new();
    bench.limit(&[("concurrency", 1)]);
    let () = bench.redis.zadd(LIMIT[1], "dead", 1).unwrap();
    assert_eq!(answers(&mut bench, &[("h", "a")]), [0]);
}

#[test]
fn a_call_that_comes_later_does_not_overtake_the_line() {
    let mut bench = Bench::new();
    bench.limit(&[("concurrency", 1)]);
    bench.park(&["first", "second"]);
    let (answers, woken) = acquire(&mut bench, &[("h1", "new"), ("h2", "first"), ("h3", "second")]).unwrap();
    assert_eq!((answers, woken), (vec![-1, 0, -1], vec![]));
    // The second one asked though nobody had told it.
    let line: Vec<String> = bench.redis.lrange(LIMIT[2], 0, -1).unwrap();
    assert_eq!(line, [entry("second"), entry("new"), entry("second")]);
}

#[test]
fn calls_that_may_run_are_told_when_a_place_is_left() {
    let mut bench = Bench::new();
    bench.limit(&[("concurrency", 3)]);
    bench.park(&["a", "b", "c"]);
    let (answers, woken) = acquire(&mut bench, &[("h", "new")]).unwrap();
    assert_eq!((answers, woken), (vec![-1], vec![entry("a"), entry("b"), entry("c")]));
    assert_eq!(bench.redis.hget::<_, _, u64>(LIMIT[3], "woken").unwrap(), 3);
    assert_eq!(acquire(&mut bench, &[("h", "b")]).unwrap(), (vec![0], vec![]));
    assert_eq!(bench.redis.hget::<_, _, u64>(LIMIT[3], "woken").unwrap(), 2);
}

#[test]
fn call_that_was_told_keeps_its_place_when_a_limit_is_lowered() {
    let mut bench = Bench::new();
    bench.limit(&[("concurrency", 1)]);
    bench.park(&["a", "b"]);
    assert_eq!(acquire(&mut bench, &[("h", "x")]).unwrap(), (vec![-1], vec![entry("a")]));
    let ends = bench.server_ms() + LEASE;
    let () = bench.redis.zadd(LIMIT[1], "other", ends).unwrap();
    assert_eq!(answers(&mut bench, &[("h", "a")]), [-1]);
    let line: Vec<String> = bench.redis.lrange(LIMIT[2], 0, -1).unwrap();
    assert_eq!(line, [entry("a"), entry("b"), entry("x")]);
}

#[test]
fn calls_begin_evenly_and_have_their_tokens_when_they_come_back() {
    let mut bench = Bench::new();
    bench.limit(&[("rate", 10), ("period", 1000), ("burst", 2)]);
    let waits = answers(&mut bench, &[("h1", "a"), ("h2", "b"), ("h3", "c"), ("h4", "d")]);
    assert_eq!(waits[..2], [0, 0]);
    assert!((90..=100).contains(&waits[2]) && (190..=200).contains(&waits[3]), "{waits:?}");
    assert_eq!(bench.redis.zcard::<_, u64>(LIMIT[1]).unwrap(), 2, "expected no place for who waits");
    // Its time has come.
    let () = bench.redis.hdel(LIMIT[3], "begins").unwrap();
    let () = bench.redis.del(LIMIT[4]).unwrap();
    let permit = format!("{} {:013}.000", digest("c"), bench.server_ms());
    let () = bench.redis.zadd(LIMIT[4], permit, 0).unwrap();
    assert_eq!(answers(&mut bench, &[("h3", "c")]), [0]);
    assert!(!bench.redis.exists::<_, bool>(LIMIT[4]).unwrap());
}

#[test]
fn calls_that_are_late_together_begin_one_after_the_other() {
    let mut bench = Bench::new();
    bench.limit(&[("rate", 10), ("period", 1000)]);
    let past = bench.server_ms() - 5000;
    for message in ["a", "b", "c"] {
        let () = bench.redis.zadd(LIMIT[4], format!("{} {past:013}.000", digest(message)), 0).unwrap();
    }
    let waits = answers(&mut bench, &[("h1", "a"), ("h2", "b"), ("h3", "c")]);
    assert!(waits[0] == 0 && (96..=100).contains(&waits[1]) && (195..=199).contains(&waits[2]), "{waits:?}");
    let permits: Vec<String> = bench.redis.zrange(LIMIT[4], 0, -1).unwrap();
    assert!(permits.len() == 2 && permits.iter().all(|permit| permit.ends_with('b')), "{permits:?}");
}

#[test]
fn name_without_a_policy_limits_nothing() {
    let mut bench = Bench::new();
    assert_eq!(acquire(&mut bench, &[("h1", "a"), ("h2", "b")]).unwrap(), (vec![-2, -2], vec![]));
    assert!(everything(&mut bench.redis).is_empty());
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = Bench::new();
    bench.limit(&[("concurrency", 1), ("rate", 10), ("period", 1000)]);
    bench.fill();
    assert_eq!(answers(&mut bench, &[("h1", "a"), ("h2", "b")]), [0, -1]);
    assert_eq!(bench.redis.zrange::<_, Vec<String>>(LIMIT[1], 0, -1).unwrap(), ["h1"]);
    assert_eq!(bench.redis.lrange::<_, Vec<String>>(LIMIT[2], 0, -1).unwrap(), [entry("b")]);
}

#[test]
fn changes_nothing_when_it_is_refused() {
    let seed = |bench: &mut Bench| bench.limit(&[("concurrency", 1)]);
    changes_nothing_it_may_not(&LIMIT, seed, |bench| acquire(bench, &[("h", "a")]));
}
