use super::*;

const ID: &[u8; 16] = &[7; 16];
const RECORD: &str = "q:c:07070707070707070707070707070707";
const LOCK: &str = "q:u:01010101010101010101010101010101";

fn start(bench: &mut Bench, slot: &str, mode: u8) -> RedisResult<i64> {
    bench.call("start", |call| {
        call.key(QUEUE).key(PROCESSING);
        call.arg(slot).arg(&ID[..]).arg([vec![mode], vec![1; 16]].concat()).arg(2);
    })
}

fn seed() -> Bench {
    let mut bench = Bench::new();
    bench.own(&[(&slot(0), &format!("<{}>", std::str::from_utf8(ID).unwrap())), (&slot(2), "another")]);
    let () = bench.redis.hset(RECORD, "state", "waiting").unwrap();
    let () = bench.redis.set(LOCK, &ID[..]).unwrap();
    bench
}

#[test]
fn notes_that_the_call_runs_and_where() {
    let mut bench = seed();
    assert_eq!(start(&mut bench, &slot(0), b'd').unwrap(), 1);
    let record: BTreeMap<String, String> = bench.redis.hgetall(RECORD).unwrap();
    let values = ["state", "attempt", "slot"].map(|name| record[name].as_str());
    assert_eq!(values, ["running", "2", &slot(0)]);
    bench.assert_expires(LOCK, 86_400_000);
}

#[test]
fn frees_the_lock_that_holds_until_the_start() {
    for (mode, is_held) in [(b's', false), (b'r', false), (b'd', true), (b'p', true)] {
        let mut bench = seed();
        start(&mut bench, &slot(0), mode).unwrap();
        assert_eq!(bench.redis.exists::<_, bool>(LOCK).unwrap(), is_held, "{}", char::from(mode));
    }
    let mut bench = seed();
    let () = bench.redis.set(LOCK, [8; 16].as_slice()).unwrap();
    start(&mut bench, &slot(0), b's').unwrap();
    assert!(bench.redis.exists::<_, bool>(LOCK).unwrap(), "expected another's lock to be held");
}

#[test]
fn comes_too_late_for_a_slot_that_owns_nothing() {
    let mut bench = seed();
    assert_eq!(start(&mut bench, &slot(1), b's').unwrap(), 0);
    assert_eq!(start(&mut bench, &slot(2), b's').unwrap(), 0, "expected another call to own the slot");
    assert!(bench.redis.exists::<_, bool>(LOCK).unwrap());
    assert_eq!(bench.redis.hget::<_, _, String>(RECORD, "state").unwrap(), "waiting");
}

#[test]
fn full_redis_and_keys_of_others_are_no_obstacle() {
    let mut bench = seed();
    assert_eq!(bench.when_full(|bench| start(bench, &slot(0), b's')).unwrap(), 1);
    for key in [RECORD, LOCK] {
        let mut bench = seed();
        let () = bench.redis.del(key).unwrap();
        let () = bench.redis.rpush(key, "of another program").unwrap();
        start(&mut bench, &slot(0), b's').unwrap();
        assert_eq!(bench.redis.lrange::<_, Vec<String>>(key, 0, -1).unwrap(), ["of another program"]);
    }
    let mut bench = seed();
    let () = bench.redis.del(PROCESSING).unwrap();
    let () = bench.redis.set(PROCESSING, "text").unwrap();
    bench.refuses(WRONG_TYPE, "with a text", |bench| start(bench, &slot(0), b's'));
}
