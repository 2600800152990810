use super::*;

fn wake(
    bench: &mut Bench,
    again: u8,
    released: &[(&str, &str)],
    lost: &[&str],
) -> RedisResult<(u64, Vec<String>)> {
    let reply: Vec<Value> = bench.call("wake", |call| {
        for key in LIMIT {
            call.key(key);
        }
        call.arg(again).arg(released.len());
        for (holder, digest) in released {
            call.arg(*holder).arg(*digest);
        }
        for message in lost {
            call.arg(entry(message));
        }
    })?;
    let mut reply = reply.into_iter();
    let waiting = redis::from_redis_value(reply.next().unwrap()).unwrap();
    Ok((waiting, reply.map(|entry| redis::from_redis_value(entry).unwrap()).collect()))
}

fn seed(bench: &mut Bench) {
    bench.limit(&[("concurrency", 2)]);
    let ends = bench.server_ms() + LEASE;
    let () = bench.redis.zadd_multiple(LIMIT[1], &[(ends, "h1"), (ends, "h2")]).unwrap();
    bench.park(&["a", "b", "c"]);
}

#[test]
fn first_of_the_line_is_told_when_a_place_is_given_back() {
    let mut bench = Bench::new();
    seed(&mut bench);
    assert_eq!(wake(&mut bench, 0, &[], &[]).unwrap(), (3, vec![]));
    assert_eq!(wake(&mut bench, 0, &[("h1", "")], &[]).unwrap(), (3, vec![entry("a")]));
    assert_eq!(wake(&mut bench, 0, &[("h1", "")], &[]).unwrap(), (3, vec![]), "expected it to be told once");
    assert_eq!(wake(&mut bench, 0, &[("h2", "")], &[]).unwrap(), (3, vec![entry("b")]));
}

#[test]
fn call_that_is_nowhere_to_be_found_leaves_the_line() {
    let mut bench = Bench::new();
    seed(&mut bench);
    assert_eq!(wake(&mut bench, 0, &[("h1", "")], &[]).unwrap().1, [entry("a")]);
    assert_eq!(wake(&mut bench, 0, &[], &["a", "c"]).unwrap(), (2, vec![entry("b")]));
}

#[test]
fn call_that_does_not_come_is_told_again_and_then_dropped() {
    let mut bench = Bench::new();
    seed(&mut bench);
    assert_eq!(wake(&mut bench, 0, &[("h1", "")], &[]).unwrap().1, [entry("a")]);
    let since = bench.server_ms() - 11_000;
    let () = bench.redis.hset(LIMIT[3], "since", since).unwrap();
    assert_eq!(wake(&mut bench, 0, &[], &[]).unwrap().1, [""; 0]);
    assert_eq!(wake(&mut bench, 1, &[], &[]).unwrap().1, [entry("a")]);
    let () = bench.redis.hset(LIMIT[3], "since", since - 50_000).unwrap();
    assert_eq!(wake(&mut bench, 0, &[], &[]).unwrap(), (2, vec![entry("b")]));
}

#[test]
fn all_are_told_when_the_limit_is_gone() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let () = bench.redis.del(LIMIT[0]).unwrap();
    assert_eq!(wake(&mut bench, 0, &[], &[]).unwrap().1.len(), 3);
}

#[test]
fn token_that_was_not_used_is_kept() {
    let mut bench = Bench::new();
    seed(&mut bench);
    assert_eq!(wake(&mut bench, 0, &[("h1", &digest("x"))], &[]).unwrap().1.len(), 1);
    assert!(!bench.redis.exists::<_, bool>(LIMIT[4]).unwrap(), "expected none where there is no rate");
    bench.limit(&[("rate", 1), ("period", 1000)]);
    assert_eq!(wake(&mut bench, 0, &[("h2", &digest("x"))], &[]).unwrap().1.len(), 1);
    let permits: Vec<String> = bench.redis.zrange(LIMIT[4], 0, -1).unwrap();
    assert!(permits[0].starts_with(&format!("{} ", digest("x"))), "{permits:?}");
    bench.assert_expires(LIMIT[4], 3_600_000);
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.limit(&[("rate", 1), ("period", 1000)]);
    bench.fill();
    assert_eq!(wake(&mut bench, 0, &[("h1", &digest("x"))], &["c"]).unwrap(), (3, vec![entry("a")]));
    assert_eq!(bench.redis.zrange::<_, Vec<String>>(LIMIT[1], 0, -1).unwrap(), ["h2"]);
    assert_eq!(bench.redis.zcard::<_, u64>(LIMIT[4]).unwrap(), 1, "expected its token to be kept");
}

#[test]
fn changes_nothing_when_it_is_refused() {
    changes_nothing_it_may_not(&LIMIT, seed, |bench| wake(bench, 0, &[("h1", "")], &[]));
}
