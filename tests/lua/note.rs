use super::*;

const ID: &[u8; 16] = &[7; 16];
const RECORD: &str = "q:c:07070707070707070707070707070707";

fn note(bench: &mut Bench, slot: &str, progress: &str, lines: &str) -> RedisResult<i64> {
    bench.call("note", |call| {
        call.key(PROCESSING).arg(QUEUE).arg(slot).arg(&ID[..]).arg(progress).arg("reading").arg(lines);
    })
}

fn seed() -> Bench {
    let mut bench = Bench::new();
    let message = [&b"a"[..], ID].concat();
    bench.own(&[(&slot(0), std::str::from_utf8(&message).unwrap())]);
    let () = bench.redis.hset(RECORD, "state", "running").unwrap();
    bench
}

#[test]
fn writes_progress_and_keeps_the_end_of_the_log() {
    let mut bench = seed();
    assert_eq!(note(&mut bench, &slot(0), "0.4", "one\n").unwrap(), 1);
    assert_eq!(note(&mut bench, &slot(0), "", &"x".repeat(16_383)).unwrap(), 1);
    let record: BTreeMap<String, String> = bench.redis.hgetall(RECORD).unwrap();
    assert_eq!((&*record["progress"], &*record["text"]), ("0.4", "reading"));
    assert_eq!(record["log"], format!("\n{}", "x".repeat(16_383)));
}

#[test]
fn comes_too_late_for_a_call_that_is_not_owned_or_known() {
    let mut bench = seed();
    assert_eq!(note(&mut bench, &slot(1), "0.4", "").unwrap(), 0);
    let () = bench.redis.del(RECORD).unwrap();
    assert_eq!(note(&mut bench, &slot(0), "0.4", "").unwrap(), 0);
    assert!(!bench.redis.exists::<_, bool>(RECORD).unwrap(), "expected no record to be made");
}

#[test]
fn lines_of_an_earlier_run_are_kept_and_its_progress_is_not() {
    let mut bench = seed();
    let () = bench.redis.hset_multiple(RECORD, &[("state", "running"), ("slot", &slot(0))]).unwrap();
    assert_eq!(note(&mut bench, &slot(1), "0.9", "late\n").unwrap(), 1);
    let record: BTreeMap<String, String> = bench.redis.hgetall(RECORD).unwrap();
    assert_eq!((record.get("progress"), &*record["log"]), (None, "late\n"));
}

#[test]
fn last_words_of_a_run_come_behind_its_end() {
    for state in ["succeeded", "dead", "retrying", "waiting"] {
        let mut bench = seed();
        let () = bench.redis.hset_multiple(RECORD, &[("state", state), ("slot", &slot(0))]).unwrap();
        let () = bench.redis.expire(RECORD, 60).unwrap();
        assert_eq!(note(&mut bench, &slot(1), "0.2", "").unwrap(), 0, "{state}: of another run");
        let () = bench.redis.hset(PROCESSING, slot(0), "another").unwrap();
        assert_eq!(note(&mut bench, &slot(0), "1", "bye\n").unwrap(), 1, "{state}");
        bench.assert_expires(RECORD, 60_000);
        assert_eq!(bench.redis.hget::<_, _, String>(RECORD, "log").unwrap(), "bye\n", "{state}");
    }
    // A short run may end before its start is noted.
    let mut bench = seed();
    let () = bench.redis.hset(RECORD, "state", "succeeded").unwrap();
    let () = bench.redis.del(PROCESSING).unwrap();
    assert_eq!(note(&mut bench, &slot(0), "1", "").unwrap(), 1);
}

#[test]
fn changes_nothing_when_it_is_refused() {
    let call = |bench: &mut Bench| note(bench, &slot(0), "0.4", "one\n");
    let mut bench = seed();
    bench.fill();
    bench.refuses(FULL, "in a full Redis", call);
    for key in [PROCESSING, RECORD] {
        let mut bench = seed();
        let () = bench.redis.del(key).unwrap();
        let () = bench.redis.set(key, "text").unwrap();
        bench.refuses(WRONG_TYPE, key, call);
    }
}
