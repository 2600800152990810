use super::*;

fn resign(bench: &mut Bench, ids: &[String]) -> RedisResult<u64> {
    bench.call("resign", |call| {
        call.key(WORKER).key(WORKERS).key(ORDERS).key(ids).arg(WORKER_ID);
    })
}

fn seed(bench: &mut Bench) {
    bench.own(&[(&slot(0), "a"), (&slot(1), "b")]);
    let () = bench.redis.hset(WORKER, "seq", 5).unwrap();
    let () = bench.redis.zadd(WORKERS, WORKER_ID, 1).unwrap();
    let () = bench.redis.zadd(WORKERS, "another", 2).unwrap();
    let () = bench.redis.hset(ORDERS, slot(0), "digest 5 anna").unwrap();
}

#[test]
fn leaves_no_sign_of_life() {
    let mut bench = Bench::new();
    seed(&mut bench);
    assert_eq!(resign(&mut bench, &slots(3)).unwrap(), 1, "expected it to be known");
    let state = bench.state();
    assert_eq!(state.keys, [PROCESSING, WORKERS], "expected its keys to be gone");
    assert_eq!(
        bench.redis.zrange::<_, Vec<String>>(WORKERS, 0, -1).unwrap(),
        ["another"],
        "expected the other"
    );
    assert_eq!(state.processing.len(), 2, "expected what it owns to stay: it is requeued by a sweep");
    assert_eq!(resign(&mut bench, &slots(3)).unwrap(), 0, "expected it to be unknown now");
}

#[test]
fn takes_a_thousand_slots_and_a_full_redis() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    assert_eq!(resign(&mut bench, &slots(1000)).unwrap(), 1, "expected it to be known");
    assert_eq!(bench.state().keys, [PROCESSING, WORKERS], "expected its keys to be gone");
}

#[test]
fn changes_nothing_when_it_is_refused() {
    changes_nothing_it_may_not(&[WORKER, WORKERS, ORDERS], seed, |bench| resign(bench, &slots(2)));
}
