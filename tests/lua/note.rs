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
fn comes_too_late_for_another_slot_or_without_a_record() {
    let mut bench = seed();
    assert_eq!(note(&mut bench, &slot(1), "0.4", "").unwrap(), 0);
    let () = bench.redis.hdel(PROCESSING, slot(0)).unwrap();
    let () = bench.redis.hset_multiple(RECORD, &[("state", "succeeded"), ("slot", &slot(0))]).unwrap();
    assert_eq!(note(&mut bench, &slot(0), "1", "last line\n").unwrap(), 1);
    assert_eq!(bench.redis.hget::<_, _, String>(RECORD, "log").unwrap(), "last line\n");
    assert_eq!(note(&mut bench, &slot(1), "0.4", "").unwrap(), 0);
    let () = bench.redis.del(RECORD).unwrap();
    assert_eq!(note(&mut bench, &slot(0), "0.4", "").unwrap(), 0);
    assert!(!bench.redis.exists::<_, bool>(RECORD).unwrap(), "expected no record to be made");
}
