use super::*;

fn resign(bench: &mut Bench, ids: &[String]) -> RedisResult<u64> {
    bench.call("resign", |call| {
        call.key(WORKER).key(WORKERS).key(ORDERS).key(ids).arg(WORKER_ID).arg(LEASE);
    })
}

fn seed(bench: &mut Bench) {
    bench.own(&[(&slot(0), "a"), (&slot(1), "b")]);
    let () = bench.redis.hset_multiple(WORKER, &[("seq", "5"), ("info", "who")]).unwrap();
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
    assert_eq!(state.keys, [WORKER, PROCESSING, WORKERS], "expected its other keys to be gone");
    assert_eq!(
        bench.redis.hkeys::<_, Vec<String>>(WORKER).unwrap(),
        ["seq"],
        "expected nothing of who it was"
    );
    bench.assert_expires(WORKER, 4 * LEASE);
    assert_eq!(
        bench.redis.zrange::<_, Vec<String>>(WORKERS, 0, -1).unwrap(),
        ["another"],
        "expected the other"
    );
    assert_eq!(state.processing.len(), 2, "expected what it owns to stay: it is requeued by a sweep");
    assert_eq!(resign(&mut bench, &slots(3)).unwrap(), 0, "expected it to be unknown now");
}

#[test]
fn refuses_what_is_still_on_its_way() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.wait(&["new"]);
    let late = |bench: &mut Bench, seq: u64| {
        bench.call::<redis::Value>("claim", |call| {
            call.key(QUEUE)
                .key(TOKENS)
                .key(PROCESSING)
                .key(WORKER)
                .key(DEATHS)
                .key(HAND)
                .key(PAUSED)
                .key(CANCELLED);
            call.arg(seq).arg(LEASE).arg(0).arg(0).arg(0).arg(0).arg(0).arg(slot(2));
        })
    };
    // A worker that has asked nothing before; one whose call nobody knows the fate of; one that a reconcile may have fenced.
    for seq in [1, 6, 2 << 20] {
        resign(&mut bench, &slots(3)).unwrap();
        bench.refuses(STALE, &format!("claim {seq}"), |bench| late(bench, seq));
    }
}

#[test]
fn takes_a_thousand_slots_and_a_full_redis() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    assert_eq!(resign(&mut bench, &slots(1000)).unwrap(), 1, "expected it to be known");
    assert_eq!(bench.state().keys, [WORKER, PROCESSING, WORKERS], "expected its other keys to be gone");
}

#[test]
fn changes_nothing_when_it_is_refused() {
    changes_nothing_it_may_not(&[WORKER, WORKERS, ORDERS], seed, |bench| resign(bench, &slots(2)));
}
