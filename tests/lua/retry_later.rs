use super::*;

const ID: &[u8; 16] = &[7; 16];

fn retry_later(bench: &mut Bench, seq: u64, id: &str, message: &str, delay: u64) -> RedisResult<i64> {
    bench.call("retry_later", |call| {
        call.key(PROCESSING).key(WORKER).key(DEATHS).key(DUE).key(LATER).key(TIMETABLE);
        call.arg(seq).arg(id).arg(message).arg(&ID[..]).arg(delay).arg("");
    })
}

fn seed(bench: &mut Bench) {
    bench.wait(&["a"]);
    bench.own(&[(&slot(0), "b"), (&slot(1), "c")]);
}

fn now(bench: &mut Bench) -> u64 {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut bench.redis).unwrap();
    seconds * 1000 + micros / 1000
}

fn member() -> Vec<u8> {
    [b"c", &ID[..]].concat()
}

#[test]
fn moves_the_message_to_the_timetable() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let before = now(&mut bench);
    assert_eq!(retry_later(&mut bench, 1, &slot(0), "b again", 5_000).unwrap(), 1, "expected it to be done");
    let after = now(&mut bench);
    let state = bench.state();
    assert_eq!(state.later, BTreeMap::from([(ID.to_vec(), b"b again".to_vec())]));
    assert_eq!(state.processing, owned(&[(&slot(1), "c")]), "expected only this slot to be empty");
    assert_eq!((state.waiting, state.tokens), (bytes(&["a"]), 1), "expected the queue as before");
    let due: u64 = bench.redis.zscore(DUE, member()).unwrap();
    assert!((before + 5_000..=after + 5_000).contains(&due), "expected it 5 s from now: {due}");
    assert_eq!(bench.seq(), Some(1), "expected the number of the call to be stored");
}

#[test]
fn moves_nothing_under_an_id_that_the_timetable_has() {
    let mut bench = Bench::new();
    seed(&mut bench);
    retry_later(&mut bench, 1, &slot(0), "b again", 5_000).unwrap();
    assert_eq!(retry_later(&mut bench, 2, &slot(1), "c again", 5_000).unwrap(), -1, "expected it refused");
    let state = bench.state();
    assert_eq!(state.later, BTreeMap::from([(ID.to_vec(), b"b again".to_vec())]));
    assert_eq!(state.processing, owned(&[(&slot(1), "c")]), "expected the slot to own its message");
    assert_eq!(bench.seq(), Some(2), "expected the number of the call to be stored");
}

#[test]
fn moves_nothing_when_a_timetable_key_holds_another_type() {
    for key in [DUE, LATER] {
        let mut bench = Bench::new();
        seed(&mut bench);
        let () = bench.redis.set(key, "text").unwrap();
        assert_eq!(retry_later(&mut bench, 1, &slot(0), "b again", 5_000).unwrap(), -1, "{key}");
        let owned: Option<String> = bench.redis.hget(PROCESSING, slot(0)).unwrap();
        assert_eq!(owned.as_deref(), Some("b"), "{key}: expected the slot to own its message");
        let left: String = bench.redis.get(key).unwrap();
        assert_eq!(left, "text", "{key}");
    }
}

#[test]
fn takes_the_lease_back_where_the_entry_is_the_earliest() {
    for (delay, kept) in [(1_000, false), (90_000, true)] {
        let mut bench = Bench::new();
        seed(&mut bench);
        let other = now(&mut bench) + 60_000;
        let () = bench.redis.zadd(DUE, "cother", other).unwrap();
        let () = bench.redis.set(TIMETABLE, "somebody").unwrap();
        retry_later(&mut bench, 1, &slot(0), "b again", delay).unwrap();
        assert_eq!(bench.redis.exists::<_, bool>(TIMETABLE).unwrap(), kept, "after {delay} ms");
    }
    let mut bench = Bench::new();
    seed(&mut bench);
    let () = bench.redis.rpush(TIMETABLE, "data of others").unwrap();
    assert_eq!(retry_later(&mut bench, 1, &slot(0), "b again", 1).unwrap(), 1);
    assert_eq!(
        bench.redis.llen::<_, u64>(TIMETABLE).unwrap(),
        1,
        "expected what is no lease to be left alone"
    );
}

#[test]
fn forgets_the_deaths_of_the_bytes_that_it_moves() {
    let mut bench = Bench::new();
    seed(&mut bench);
    for message in ["b", "c"] {
        let () = bench.redis.hset(DEATHS, digest(message), "1 1 q:w").unwrap();
    }
    retry_later(&mut bench, 1, &slot(0), "b again", 1).unwrap();
    retry_later(&mut bench, 2, &slot(7), "c again", 1).unwrap();
    let left = BTreeMap::from([(digest("c"), "1 1 q:w".to_owned())]);
    assert_eq!(bench.state().deaths, left, "expected only those of what was moved to be forgotten");
}

#[test]
fn does_nothing_for_a_slot_that_lost_its_message() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let done =
        changes_only_its_number(&mut bench, 1, |bench, seq| retry_later(bench, seq, &slot(7), "b again", 1));
    assert_eq!(done, 0, "expected it to own nothing");
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    let done = retry_later(&mut bench, 1, &slot(0), "b again", 1).unwrap();
    assert_eq!(done, 1, "expected a full Redis to be no obstacle");
    assert_eq!(bench.state().later.len(), 1, "expected it in the timetable");
}

#[test]
fn refuses_calls_that_are_not_the_next() {
    refuses_stale_calls(seed, |bench, seq| retry_later(bench, seq, &slot(7), "b again", 1));
}

#[test]
fn changes_nothing_when_it_is_refused() {
    changes_nothing_it_may_not(&[PROCESSING, WORKER, DEATHS], seed, |bench| {
        retry_later(bench, 1, &slot(0), "b again", 1)
    });
}

#[test]
fn keeps_every_message_without_a_right() {
    denied::keeps_every_message_without_a_right("retry_later", seed, |bench| {
        retry_later(bench, 1, &slot(0), "b again", 500)
    });
}
