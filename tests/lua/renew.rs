use super::*;

fn renew(bench: &mut Bench, holders: &[&str]) -> RedisResult<u64> {
    bench.call("renew", |call| {
        call.key(LIMIT[1]).arg(LEASE).arg(holders);
    })
}

fn seed(bench: &mut Bench) {
    let () = bench.redis.zadd(LIMIT[1], "h", 5).unwrap();
}

#[test]
fn renews_what_is_held_and_nothing_else() {
    let mut bench = Bench::new();
    seed(&mut bench);
    assert_eq!(renew(&mut bench, &["h", "gone"]).unwrap(), 1);
    let held: Vec<(String, u64)> = bench.redis.zrange_withscores(LIMIT[1], 0, -1).unwrap();
    assert_eq!((held.len(), &*held[0].0), (1, "h"));
    assert!(held[0].1 > bench.server_ms() + LEASE - 30_000);
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    assert_eq!(renew(&mut bench, &["h"]).unwrap(), 1, "expected a full Redis to be no obstacle");
    let ends: u64 = bench.redis.zscore(LIMIT[1], "h").unwrap();
    assert!(ends > bench.server_ms(), "expected the lease to be renewed");
}

#[test]
fn changes_nothing_when_it_is_refused() {
    changes_nothing_it_may_not(&[LIMIT[1]], seed, |bench| renew(bench, &["h"]));
}
