use super::*;

const EXPIRY: u64 = 60_000;

fn kill(bench: &mut Bench, id: &str, message: &str) -> RedisResult<i64> {
    kill_by(bench, id, message, "anna at home", 100)
}

fn kill_by(bench: &mut Bench, id: &str, message: &str, by: &str, most: u64) -> RedisResult<i64> {
    bench.call("kill", |call| {
        call.key(PROCESSING).key(WORKER).key(id).key(ORDERS).key(answer(id));
        call.arg(id).arg(digest(message)).arg(by).arg(EXPIRY).arg(most);
    })
}

fn answer(id: &str) -> String {
    format!("{id}:told")
}

fn seed(bench: &mut Bench) {
    bench.own(&[(&slot(0), "a"), (&slot(1), "b")]);
    let () = bench.redis.hset(WORKER, "seq", 7).unwrap();
}

fn orders(bench: &mut Bench) -> BTreeMap<String, String> {
    bench.redis.hgetall(ORDERS).unwrap()
}

#[test]
fn leaves_an_order_that_expires() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let before = everything(&mut bench.redis);
    assert_eq!(kill(&mut bench, &slot(1), "b").unwrap(), 1, "expected the order to stand");
    let expected = BTreeMap::from([(slot(1), format!("{} 7 anna at home", digest("b")))]);
    assert_eq!(orders(&mut bench), expected, "expected the digest, the last call, and by whom");
    bench.assert_expires(ORDERS, EXPIRY);
    let () = bench.redis.del(ORDERS).unwrap();
    bench.assert_unchanged(&before, "beside the order");
}

#[test]
fn an_order_that_nobody_takes_is_gone_in_the_end() {
    let mut bench = Bench::new();
    seed(&mut bench);
    kill(&mut bench, &slot(1), "b").unwrap();
    let () = bench.redis.pexpire(ORDERS, 1).unwrap();
    crate::support::wait::until("the order to expire", std::time::Duration::from_secs(30), || {
        orders(&mut bench).is_empty()
    });
    assert_eq!(bench.state().processing.len(), 2, "expected both messages to be owned as before");
}

#[test]
fn a_worker_of_which_no_call_is_known_is_told_too() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let () = bench.redis.del(WORKER).unwrap();
    assert_eq!(kill(&mut bench, &slot(0), "a").unwrap(), 1, "expected the order to stand");
    assert_eq!(orders(&mut bench)[&slot(0)], format!("{} 0 anna at home", digest("a")));
}

#[test]
fn later_kill_request_replaces_an_earlier_one_and_its_answer() {
    let mut bench = Bench::new();
    seed(&mut bench);
    kill(&mut bench, &slot(0), "a").unwrap();
    let () = bench.redis.pset_ex(answer(&slot(0)), "digest blocks", EXPIRY).unwrap();
    assert_eq!(kill_by(&mut bench, &slot(0), "a", "berta", 1).unwrap(), 1, "expected the order to stand");
    let expected = BTreeMap::from([(slot(0), format!("{} 7 berta", digest("a")))]);
    assert_eq!(orders(&mut bench), expected, "expected one order");
    assert!(!bench.redis.exists::<_, bool>(answer(&slot(0))).unwrap(), "expected no answer yet");
}

#[test]
fn a_slot_that_owns_something_else_is_not_hit() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let before = everything(&mut bench.redis);
    for (id, message) in [(slot(0), "b"), (slot(2), "a"), (slot(0), "")] {
        assert_eq!(kill(&mut bench, &id, message).unwrap(), 0, "expected no order for {message:?} in {id}");
    }
    bench.assert_unchanged(&before, "for another message");
}

#[test]
fn a_dead_worker_and_one_with_too_many_orders_get_none() {
    let mut bench = Bench::new();
    seed(&mut bench);
    kill(&mut bench, &slot(0), "a").unwrap();
    let before = everything(&mut bench.redis);
    assert_eq!(kill_by(&mut bench, &slot(1), "b", "anna", 1).unwrap(), -2, "expected one order to be enough");
    bench.assert_unchanged(&before, "with too many orders");
    let () = bench.redis.del(slot(1)).unwrap();
    let before = everything(&mut bench.redis);
    assert_eq!(kill(&mut bench, &slot(1), "b").unwrap(), -1, "expected a dead worker");
    bench.assert_unchanged(&before, "for a dead worker");
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    assert_eq!(kill(&mut bench, &slot(0), "a").unwrap(), 1, "expected a full Redis to be no obstacle");
    bench.assert_expires(ORDERS, EXPIRY);
}

#[test]
fn changes_nothing_when_it_is_refused() {
    let (id, told) = (slot(0), answer(&slot(0)));
    let keys = [PROCESSING, WORKER, ORDERS];
    changes_nothing_it_may_not(&keys, seed, |bench| kill(bench, &id, "a"));
    let mut bench = Bench::new();
    for key in [&id, &told] {
        let () = bench.redis.flushall().unwrap();
        seed(&mut bench);
        let () = bench.redis.del(key).unwrap();
        let () = bench.redis.hset(key, "field", "value").unwrap();
        bench.refuses(WRONG_TYPE, &format!("with a hash at {key}"), |bench| kill(bench, &id, "a"));
    }
}
