use super::*;

fn park(bench: &mut Bench, seq: u64, ids: &[String]) -> RedisResult<u64> {
    bench.call("park", |call| {
        call.key(PROCESSING).key(WORKER).key(WAITERS).key(PARKED).arg(seq).arg(QUEUE).arg("l").arg(ids);
    })
}

fn seed(bench: &mut Bench) {
    bench.own(&[(&slot(0), "a"), (&slot(1), "b"), (&slot(2), "c")]);
}

#[test]
fn moves_messages_to_those_that_wait() {
    let mut bench = Bench::new();
    seed(&mut bench);
    assert_eq!(park(&mut bench, 1, &slots(2)).unwrap(), 2);
    assert_eq!(bench.redis.lrange::<_, Vec<String>>(WAITERS, 0, -1).unwrap(), ["a", "b"]);
    assert_eq!(bench.redis.smembers::<_, Vec<String>>(PARKED).unwrap(), ["l"]);
    assert_eq!(bench.state().processing, owned(&[(&slot(2), "c")]));
    let done = changes_only_its_number(&mut bench, 2, |bench, seq| park(bench, seq, &slots(2)));
    assert_eq!(done, 0, "expected them to be owned no more");
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    assert_eq!(park(&mut bench, 1, &slots(3)).unwrap(), 3);
}

#[test]
fn changes_nothing_when_it_is_refused() {
    changes_nothing_it_may_not(&[PROCESSING, WORKER, WAITERS, PARKED], seed, |bench| {
        park(bench, 1, &slots(2))
    });
    refuses_stale_calls(seed, |bench, seq| park(bench, seq, &slots(1)));
}
