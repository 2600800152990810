use super::*;

/// Long after the end of its lease a worker is forgotten.
const FORGET: u64 = 60_000;

/// Something that stands in Redis, and how it comes there.
type Seed = (&'static str, fn(&mut Connection));

fn call_beat(bench: &mut Bench, ids: &[String]) -> RedisResult<Vec<String>> {
    bench.call("beat", |call| {
        call.key(WORKER).key(WORKERS).key(ORDERS);
        call.key(QUEUE)
            .key(TOKENS)
            .key(HAND)
            .key(PROCESSING)
            .key(DEATHS)
            .key(DUE)
            .key(PAUSED)
            .key(OUTBOX)
            .key(ids);
        call.arg(LEASE).arg(WORKER_ID).arg("who I am").arg(FORGET);
    })
}

/// Whether there is something to sweep, and the orders.
fn look(bench: &mut Bench, ids: &[String]) -> RedisResult<(bool, Vec<(String, String)>)> {
    let reply: Vec<String> = call_beat(bench, ids)?;
    let (found, orders) =
        reply.split_first().expect("expected to be told whether there is something to sweep");
    assert!(found == "0" || found == "1", "expected no list of another program: {found}");
    Ok((found == "1", orders.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()))
}

fn beat(bench: &mut Bench, ids: &[String]) -> RedisResult<Vec<(String, String)>> {
    look(bench, ids).map(|(_, orders)| orders)
}

#[track_caller]
fn assert_alive(bench: &mut Bench, ids: &[String]) {
    bench.assert_expires(WORKER, 4 * LEASE);
    for id in ids {
        bench.assert_expires(id, LEASE);
        assert_eq!(bench.redis.get::<_, String>(id).unwrap(), "1", "expected the ancestors' value at {id}");
    }
    let (seconds, _): (u64, u64) = redis::cmd("TIME").query(&mut bench.redis).unwrap();
    let end: u64 = bench.redis.zscore(WORKERS, WORKER_ID).unwrap();
    let expected = seconds * 1000 + LEASE;
    assert!(end.abs_diff(expected) < 30_000, "expected the lease to end at about {expected}, not at {end}");
}

#[test]
fn says_who_is_there_and_for_how_long() {
    let mut bench = Bench::new();
    assert_eq!(beat(&mut bench, &[]).unwrap(), [], "expected no orders");
    assert_alive(&mut bench, &[]);
    assert_eq!(bench.redis.hget::<_, _, String>(WORKER, "info").unwrap(), "who I am", "expected the info");
    assert_eq!(bench.state().keys, [WORKER, WORKERS], "expected no other key");
}

#[test]
fn renews_what_is_there_and_makes_what_is_not() {
    let mut bench = Bench::new();
    let ids = slots(1000);
    let () = bench.redis.pset_ex(&ids[0], "1", 50).unwrap();
    let () = bench.redis.hset(WORKER, "seq", 7).unwrap();
    let () = bench.redis.zadd(WORKERS, WORKER_ID, 1).unwrap();
    assert_eq!(beat(&mut bench, &ids).unwrap(), [], "expected no orders");
    assert_alive(&mut bench, &ids);
    assert_eq!(bench.seq(), Some(7), "expected the number of the last call to stay");
}

#[test]
fn takes_the_orders_that_stand() {
    let mut bench = Bench::new();
    let () = bench.redis.hset(ORDERS, slot(0), "digest 5 anna").unwrap();
    let () = bench.redis.hset(ORDERS, slot(7), "other 6 berta at home").unwrap();
    let mut orders = beat(&mut bench, &slots(1)).unwrap();
    orders.sort();
    let expected = [(slot(0), "digest 5 anna".into()), (slot(7), "other 6 berta at home".into())];
    assert_eq!(orders, expected, "expected all of them, whether the beat covers their slots or not");
    assert_eq!(bench.state().keys, [WORKER, &slot(0), WORKERS], "expected them to be taken away");
    assert_eq!(beat(&mut bench, &[]).unwrap(), [], "expected them to be told once");
}

#[test]
fn tells_whether_there_is_something_to_sweep() {
    let found = |seed: fn(&mut Connection)| {
        let mut bench = Bench::new();
        seed(&mut bench.redis);
        look(&mut bench, &slots(1)).unwrap().0
    };
    assert!(!found(|_| {}), "expected nothing to be found on a queue that has no key");
    let seeds: [Seed; 10] = [
        ("a message that waits", |redis| redis.rpush(QUEUE, "m").unwrap()),
        ("a token", |redis| redis.rpush(TOKENS, "1").unwrap()),
        ("a token in the hand", |redis| redis.rpush(HAND, "1").unwrap()),
        ("what another worker owns", |redis| redis.hset(PROCESSING, "another", "m").unwrap()),
        ("what this worker owns", |redis| redis.hset(PROCESSING, slot(0), "m").unwrap()),
        ("a death", |redis| redis.hset(DEATHS, digest("m"), "1 5 another").unwrap()),
        ("a call that is to run later", |redis| redis.zadd(DUE, "c", 1).unwrap()),
        ("something to be done for a flow", |redis| redis.hset(OUTBOX, "x", 1).unwrap()),
        ("a list of another type", |redis| redis.set(TOKENS, "x").unwrap()),
        ("a worker that was silent for long", |redis| redis.zadd(WORKERS, "another", 1).unwrap()),
    ];
    for (what, seed) in seeds {
        assert!(found(seed), "expected {what} to be found");
    }
    let others: [Seed; 2] = [
        ("a dead letter", |redis| {
            redis::cmd("XADD").arg(DEAD).arg("*").arg("message").arg("m").query(redis).unwrap()
        }),
        ("a worker whose lease ended just now", |redis| {
            let (now, _): (u64, u64) = redis::cmd("TIME").query(redis).unwrap();
            redis.zadd(WORKERS, "another", now * 1000 - FORGET / 2).unwrap()
        }),
    ];
    for (what, seed) in others {
        assert!(!found(seed), "expected {what} to be left alone");
    }
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = Bench::new();
    bench.fill();
    beat(&mut bench, &slots(2)).expect("expected even a first beat to be done");
    assert_alive(&mut bench, &slots(2));
}

#[test]
fn changes_nothing_when_it_is_refused() {
    let seed = |bench: &mut Bench| {
        let () = bench.redis.hset(WORKER, "info", "older").unwrap();
        let () = bench.redis.pset_ex(slot(0), "1", 5_000).unwrap();
    };
    changes_nothing_it_may_not(&[WORKER, WORKERS, ORDERS], seed, |bench| beat(bench, &slots(2)));
}

#[test]
fn tells_whether_the_queue_is_paused() {
    let beat = |bench: &mut Bench| call_beat(bench, &[]).unwrap();
    let mut bench = Bench::new();
    assert_eq!(beat(&mut bench), ["0"]);
    let () = bench.redis.set(PAUSED, "17 anna").unwrap();
    let () = bench.redis.hset(ORDERS, slot(0), "digest 5 anna").unwrap();
    assert_eq!(beat(&mut bench), ["8", "17 anna", &slot(0), "digest 5 anna"]);
    bench.wait(&["x"]);
    assert_eq!(beat(&mut bench), ["9", "17 anna"]);
    let () = bench.redis.set(PAUSED, "another program's").unwrap();
    assert_eq!(beat(&mut bench), ["1"]);
}
