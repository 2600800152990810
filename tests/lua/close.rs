use super::join::to_do;
use super::*;

const RECORD: &str = "q:c:09090909090909090909090909090909";
const LOCK: &str = "q:u:01010101010101010101010101010101";
/// Milliseconds.
const KEEP: u64 = 700_000;
const LIFE: u64 = 30 * 24 * 60 * 60 * 1000;

fn close(bench: &mut Bench, state: &str, fields: &[(&str, &str)]) -> RedisResult<i64> {
    bench.call("close", |call| {
        call.key(FLOW).key(OUTBOX).key(FLOWS).arg(QUEUE).arg(&FLOW_ID[..]).arg(state);
        for (name, value) in fields {
            call.arg(*name).arg(*value);
        }
    })
}

/// A flow that goes on, its record, and its lock.
fn seed(bench: &mut Bench) {
    let lock = [&b"d"[..], &[1; 16]].concat();
    let () = bench.redis.hset_multiple(FLOW, &[("keep", KEEP), ("steps", 2)]).unwrap();
    let () = bench.redis.hset(FLOW, "lock", lock).unwrap();
    let () = bench.redis.pexpire(FLOW, LIFE as i64).unwrap();
    let () = bench.redis.zadd(FLOWS, &FLOW_ID[..], LIFE).unwrap();
    let () = bench.redis.hset(RECORD, "state", "running").unwrap();
    let () = bench.redis.set(LOCK, &FLOW_ID[..]).unwrap();
}

/// The fields of a HASH, without those that are times.
fn fields(bench: &mut Bench, key: &str) -> BTreeMap<String, String> {
    let mut fields: BTreeMap<String, Vec<u8>> = bench.redis.hgetall(key).unwrap();
    fields.retain(|name, _| name != "lock");
    if let Some(ended) = fields.remove("ended") {
        let ended: u64 = String::from_utf8(ended).unwrap().parse().unwrap();
        assert!(bench.server_ms().abs_diff(ended) < 30_000, "expected it to end now, not at {ended}");
    }
    fields.into_iter().map(|(name, value)| (name, String::from_utf8(value).unwrap())).collect()
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn flow_ends_once_and_its_waiters_hear_how() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let mut listener = bench.server.connection();
    let mut heard = listener.as_pubsub();
    heard.subscribe(RECORD).unwrap();
    assert_eq!(close(&mut bench, "succeeded", &[("result", "\x05")]).unwrap(), 1);
    assert_eq!(fields(&mut bench, RECORD), map(&[("state", "succeeded"), ("result", "\x05")]));
    let flow = map(&[("keep", "700000"), ("steps", "2"), ("state", "succeeded"), ("o0", "succeeded")]);
    assert_eq!(fields(&mut bench, FLOW), flow);
    bench.assert_expires(FLOW, KEEP);
    bench.assert_expires(RECORD, KEEP);
    let forgotten: u64 = bench.redis.zscore(FLOWS, &FLOW_ID[..]).unwrap();
    assert!(forgotten.abs_diff(bench.server_ms() + KEEP) < 30_000, "expected it to be listed until then");
    assert_eq!(bench.redis.zrange::<_, Vec<Vec<u8>>>("q_done", 0, -1).unwrap(), [FLOW_ID.to_vec()]);
    let left: (bool, bool) = (bench.redis.exists(LOCK).unwrap(), bench.redis.exists(OUTBOX).unwrap());
    assert_eq!(left, (false, false), "expected its lock to be free, and nothing to be done");
    let message: rmpv::Value =
        rmpv::decode::read_value(&mut heard.get_message().unwrap().get_payload_bytes()).unwrap();
    assert_eq!(message[0].as_str(), Some("succeeded"));
    for state in ["succeeded", "dead", "cancelled"] {
        let before = everything(&mut bench.redis);
        assert_eq!(close(&mut bench, state, &[("reason", "other")]).unwrap(), 0);
        bench.assert_unchanged(&before, "for a flow that has ended");
    }
}

#[test]
fn failed_flow_says_why() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let () = bench.redis.hset(FLOW, "o0", "dead").unwrap();
    let why = [("reason", "failed"), ("error", "the step 1 is dead")];
    assert_eq!(close(&mut bench, "dead", &why).unwrap(), 1);
    let mut expected = map(&why);
    expected.insert("state".into(), "dead".into());
    assert_eq!(fields(&mut bench, RECORD), expected);
    assert_eq!(fields(&mut bench, FLOW)["o0"], "dead");
}

#[test]
fn cancelled_flow_leaves_its_steps_in_the_outbox() {
    let mut bench = Bench::new();
    seed(&mut bench);
    assert_eq!(close(&mut bench, "cancelled", &[("by", "anna")]).unwrap(), 1);
    assert_eq!(to_do(&mut bench), ["x0"]);
    assert_eq!(fields(&mut bench, FLOW)["o0"], "cancelled", "expected nothing to climb there any more");
    assert_eq!(fields(&mut bench, RECORD), map(&[("state", "cancelled"), ("by", "anna")]));
    // One whose root has ended, but which was not closed yet.
    let mut bench = Bench::new();
    seed(&mut bench);
    let () = bench.redis.hset(FLOW, "o0", "succeeded").unwrap();
    assert_eq!(close(&mut bench, "cancelled", &[]).unwrap(), 1);
    assert_eq!(fields(&mut bench, FLOW)["o0"], "succeeded");
}

#[test]
fn unknown_flow_is_left_alone() {
    let mut bench = Bench::new();
    let before = everything(&mut bench.redis);
    assert_eq!(close(&mut bench, "cancelled", &[]).unwrap(), 0);
    bench.assert_unchanged(&before, "for a flow that is not known");
    // One whose nodes are not all written.
    let () = bench.redis.hset(FLOW, "n0", "x").unwrap();
    let before = everything(&mut bench.redis);
    assert_eq!(close(&mut bench, "cancelled", &[]).unwrap(), 0);
    bench.assert_unchanged(&before, "for a flow that has not begun");
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    assert_eq!(close(&mut bench, "cancelled", &[("by", "anna")]).unwrap(), 1);
    assert_eq!(fields(&mut bench, RECORD)["state"], "cancelled");
    assert_eq!(to_do(&mut bench), ["x0"]);
}

#[test]
fn changes_nothing_when_it_is_refused() {
    changes_nothing_it_may_not(&[FLOW, OUTBOX, FLOWS], seed, |bench| close(bench, "cancelled", &[]));
    let mut bench = Bench::new();
    for key in [OUTBOX, FLOWS] {
        let () = bench.redis.flushall().unwrap();
        seed(&mut bench);
        let before = everything(&mut bench.redis);
        bench.without_right_to_write(key);
        let refused = close(&mut bench, "cancelled", &[]).unwrap_err();
        assert!(refused.to_string().contains("access"), "{refused}");
        bench.with_all_rights();
        bench.assert_unchanged(&before, "without the right to a key");
    }
    assert_eq!(close(&mut bench, "cancelled", &[]).unwrap(), 1);
}

#[test]
fn refused_end_is_complete_when_it_comes_again() {
    let call = |bench: &mut Bench| {
        let closed = close(bench, "cancelled", &[("by", "anna")])?;
        // By a command that the script does not use.
        let left: String = redis::cmd("TYPE").arg(LOCK).query(&mut bench.redis)?;
        Ok((closed, left, fields(bench, RECORD), fields(bench, FLOW), to_do(bench)))
    };
    let mut bench = Bench::new();
    seed(&mut bench);
    let expected = call(&mut bench).unwrap();
    assert_same_without_each_right("close", seed, call, &expected);
}
