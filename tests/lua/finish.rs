use super::*;

const ID: &[u8; 16] = &[7; 16];
const RECORD: &str = "q:c:07070707070707070707070707070707";
const LOCK: &str = "q:u:01010101010101010101010101010101";

fn finish(bench: &mut Bench, seq: u64, slot: &str, keep: &str, state: &str) -> RedisResult<Vec<i64>> {
    finish_all(bench, seq, &[(slot, ID, keep, state)])
}

fn finish_all(bench: &mut Bench, seq: u64, calls: &[(&str, &[u8; 16], &str, &str)]) -> RedisResult<Vec<i64>> {
    bench.call("finish", |call| {
        call.key(PROCESSING).key(WORKER).key(DEATHS).key(CANCELLED);
        call.arg(seq).arg(QUEUE);
        for (slot, id, keep, state) in calls {
            call.arg(*slot).arg(&id[..]).arg(*keep).arg([&b"d"[..], &[1; 16]].concat());
            call.arg("").arg(*state).arg(250).arg(1);
            match *state {
                "succeeded" => call.arg("result").arg(b"\x05"),
                _ => call.arg("").arg(""),
            };
        }
    })
}

fn seed(bench: &mut Bench) {
    bench.own(&[(&slot(0), "a"), (&slot(1), "b")]);
    let () = bench.redis.hset_multiple(RECORD, &[("state", "running"), ("task", "f")]).unwrap();
    let () = bench.redis.set(LOCK, &ID[..]).unwrap();
    let () = bench.redis.zadd(CANCELLED, &ID[..], 1).unwrap();
}

#[test]
fn releases_the_message_and_notes_the_end() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let mut listener = bench.server.connection();
    let mut heard = listener.as_pubsub();
    heard.subscribe(RECORD).unwrap();
    assert_eq!(finish(&mut bench, 1, &slot(0), "60000", "succeeded").unwrap(), [1]);
    assert_eq!(bench.state().processing, owned(&[(&slot(1), "b")]));
    let record: BTreeMap<String, Vec<u8>> = bench.redis.hgetall(RECORD).unwrap();
    assert_eq!((&record["state"][..], &record["result"][..]), (&b"succeeded"[..], &b"\x05"[..]));
    let number = |name: &str| String::from_utf8(record[name].clone()).unwrap().parse::<u64>().unwrap();
    assert_eq!(number("ended") - number("began"), 250);
    bench.assert_expires(RECORD, 60_000);
    assert_eq!(bench.redis.zrange::<_, Vec<Vec<u8>>>("q_done", 0, -1).unwrap(), [ID.to_vec()]);
    let left: (bool, bool) = (bench.redis.exists(LOCK).unwrap(), bench.redis.exists(CANCELLED).unwrap());
    assert_eq!((left, bench.seq()), ((false, false), Some(1)));
    let message: rmpv::Value =
        rmpv::decode::read_value(&mut heard.get_message().unwrap().get_payload_bytes()).unwrap();
    assert_eq!(message[0].as_str(), Some("succeeded"));
}

#[test]
fn record_that_is_not_kept_goes_and_is_told_of() {
    let mut bench = Bench::new();
    seed(&mut bench);
    assert_eq!(finish(&mut bench, 1, &slot(0), "0", "succeeded").unwrap(), [1]);
    let left: (bool, bool) = (bench.redis.exists(RECORD).unwrap(), bench.redis.exists("q_done").unwrap());
    assert_eq!(left, (false, false));
}

#[test]
fn notes_nothing_for_a_slot_that_owns_nothing() {
    let mut bench = Bench::new();
    seed(&mut bench);
    assert_eq!(finish(&mut bench, 1, &slot(5), "60000", "succeeded").unwrap(), [0]);
    assert_eq!(bench.redis.hget::<_, _, String>(RECORD, "state").unwrap(), "running");
    assert!(bench.redis.exists::<_, bool>(LOCK).unwrap(), "expected the lock to be held");
    bench.refuses(STALE, "out of order", |bench| finish(bench, 5, &slot(0), "60000", "succeeded"));
}

#[test]
fn full_redis_is_no_obstacle() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    assert_eq!(finish(&mut bench, 1, &slot(0), "60000", "succeeded").unwrap(), [1]);
    assert_eq!(bench.redis.hget::<_, _, String>(RECORD, "state").unwrap(), "succeeded");
}

#[test]
fn keys_of_wrong_types_are_left_and_hinder_nothing() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let () = bench.redis.del(&[RECORD, LOCK, CANCELLED]).unwrap();
    for key in [RECORD, LOCK, CANCELLED, "q_done"] {
        let () = bench.redis.rpush(key, "another program's").unwrap();
    }
    assert_eq!(finish(&mut bench, 1, &slot(0), "60000", "succeeded").unwrap(), [1]);
    assert_eq!(bench.state().processing, owned(&[(&slot(1), "b")]));
    for key in [RECORD, LOCK, CANCELLED, "q_done"] {
        assert_eq!(bench.redis.llen::<_, u64>(key).unwrap(), 1, "{key}");
    }
}

#[test]
fn finishes_several_calls_and_tells_which_were_lost() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let other = &[0xc5; 16];
    let other_record = format!("q:c:{}", "c5".repeat(16));
    let () = bench.redis.hset(&other_record, "state", "running").unwrap();
    let calls = [
        (&slot(5)[..], ID, "60000", "succeeded"),
        (&slot(1), other, "60000", "expired"),
        (&slot(0), ID, "60000", "succeeded"),
    ];
    assert_eq!(finish_all(&mut bench, 1, &calls).unwrap(), [0, 1, 1]);
    assert_eq!((bench.state().processing, bench.seq()), (owned(&[]), Some(1)));
    let state = |bench: &mut Bench, key: &str| bench.redis.hget::<_, _, String>(key, "state").unwrap();
    assert_eq!(state(&mut bench, &other_record), "expired");
    assert_eq!(state(&mut bench, RECORD), "succeeded");
    let attempt: String = bench.redis.hget(&other_record, "attempt").unwrap();
    let has_result: bool = bench.redis.hexists(&other_record, "result").unwrap();
    assert_eq!((&attempt[..], has_result), ("1", false));
}

#[test]
fn set_of_another_program_keeps_its_members() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let () = bench.redis.zadd_multiple("q_done", &[(1, "anna"), (2, "bob")]).unwrap();
    assert_eq!(finish(&mut bench, 1, &slot(0), "60000", "succeeded").unwrap(), [1]);
    assert_eq!(bench.redis.zrange::<_, Vec<String>>("q_done", 0, -1).unwrap(), ["anna", "bob"]);
}

/// Finishes both slots: a call of its own, and a step of a flow.
fn finish_step(bench: &mut Bench, seq: u64) -> RedisResult<Vec<i64>> {
    bench.call("finish", |call| {
        call.key(PROCESSING).key(WORKER).key(DEATHS).key(CANCELLED).arg(seq).arg(QUEUE);
        call.arg(slot(1))
            .arg(&[8u8; 16][..])
            .arg("")
            .arg("")
            .arg("")
            .arg("succeeded")
            .arg(0)
            .arg(1)
            .arg("")
            .arg("");
        call.arg(slot(0)).arg(&ID[..]).arg("60000").arg("").arg(member());
        call.arg("succeeded").arg(250).arg(2).arg("result").arg(b"\x05");
    })
}

#[test]
fn outcome_of_a_step_is_left_in_the_outbox() {
    let mut bench = Bench::new();
    seed(&mut bench);
    assert_eq!(finish_step(&mut bench, 1).unwrap(), [1, 1]);
    assert_outcome(&mut bench, 7, &["succeeded", "began"]);
    let found = outcome(&mut bench, 7);
    assert_eq!(found[4..], [&b"attempt"[..], b"2", b"slot", slot(0).as_bytes(), b"result", b"\x05"]);
    assert_eq!(bench.redis.hlen::<_, u64>(OUTBOX).unwrap(), 1, "expected only the step in it");
    assert_eq!(finish_step(&mut bench, 2).unwrap(), [0, 0]);
    let before = everything(&mut bench.redis);
    bench.refuses(STALE, "a second time", |bench| finish_step(bench, 2));
    bench.assert_unchanged(&before, "for a step that has ended");
}

#[test]
fn step_ends_also_in_a_full_redis() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    assert_eq!(finish_step(&mut bench, 1).unwrap(), [1, 1]);
    assert_outcome(&mut bench, 7, &["succeeded", "began"]);
}

#[test]
fn step_is_not_released_without_its_outcome() {
    ends_no_step_without_the_outbox(seed, |bench| finish_step(bench, 1));
    let mut bench = Bench::new();
    seed(&mut bench);
    let () = bench.redis.set(OUTBOX, "text").unwrap();
    let other = finish(&mut bench, 1, &slot(1), "", "succeeded").unwrap();
    assert_eq!(other, [1], "expected other calls to end all the same");
}
