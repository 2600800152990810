use super::join::to_do;
use super::*;

const RECORD: &str = "q:c:09090909090909090909090909090909";
/// Milliseconds.
const KEEP: u64 = 700_000;
const LIFE: u64 = 30 * 24 * 60 * 60 * 1000;

fn reopen(bench: &mut Bench, round: u64) -> RedisResult<u64> {
    bench.call("reopen", |call| {
        call.key(FLOW).key(OUTBOX).key(FLOWS).arg(QUEUE).arg(&FLOW_ID[..]).arg(round);
    })
}

/// Forgets and sets fields.
fn rewrite(bench: &mut Bench, round: u64, forget: &[&str], set: &[(&str, &str)]) -> RedisResult<u64> {
    bench.call("reopen", |call| {
        call.key(FLOW).key(OUTBOX).key(FLOWS).arg(QUEUE).arg(&FLOW_ID[..]).arg(round);
        call.arg(forget.len()).arg(forget);
        for (name, value) in set {
            call.arg(*name).arg(*value);
        }
    })
}

/// A flow that has failed.
fn seed(bench: &mut Bench) {
    let flow = [("keep", "700000"), ("state", "dead"), ("ended", "5"), ("failed", "1"), ("o0", "dead")];
    let () = bench.redis.hset_multiple(FLOW, &flow).unwrap();
    let () = bench.redis.pexpire(FLOW, KEEP as i64).unwrap();
    let () = bench.redis.zadd(FLOWS, &FLOW_ID[..], 1).unwrap();
    let record = [("state", "dead"), ("ended", "5"), ("reason", "failed"), ("error", "no"), ("task", "f")];
    let () = bench.redis.hset_multiple(RECORD, &record).unwrap();
}

fn fields(bench: &mut Bench, key: &str) -> BTreeMap<String, String> {
    bench.redis.hgetall(key).unwrap()
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn failed_flow_goes_on_in_a_new_round() {
    for state in ["dead", "cancelled"] {
        let mut bench = Bench::new();
        seed(&mut bench);
        let () = bench.redis.hset(FLOW, "state", state).unwrap();
        assert_eq!(reopen(&mut bench, 0).unwrap(), 1);
        let between = fields(&mut bench, FLOW);
        assert_eq!((&between["state"][..], &between["o0"][..]), ("reopening", "dead"));
        assert_eq!(fields(&mut bench, RECORD)["state"], "dead", "expected it to wait for the second step");
        assert_eq!(reopen(&mut bench, 1).unwrap(), 1);
        assert_eq!(fields(&mut bench, FLOW), map(&[("keep", "700000"), ("round", "1")]));
        assert_eq!(fields(&mut bench, RECORD), map(&[("state", "running"), ("task", "f")]));
        assert_eq!(to_do(&mut bench), ["o0"]);
        bench.assert_expires(FLOW, LIFE);
        bench.assert_expires(RECORD, LIFE);
        let forgotten: u64 = bench.redis.zscore(FLOWS, &FLOW_ID[..]).unwrap();
        assert!(forgotten.abs_diff(bench.server_ms() + LIFE) < 30_000, "expected it to be listed for long");
        for round in [0, 1] {
            let before = everything(&mut bench.redis);
            assert_eq!(reopen(&mut bench, round).unwrap(), 0);
            bench.assert_unchanged(&before, "for a flow that goes on");
        }
    }
}

#[test]
fn flow_that_succeeded_or_is_not_known_stays_as_it_is() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let () = bench.redis.hset(FLOW, "state", "succeeded").unwrap();
    for round in [0, 1] {
        let before = everything(&mut bench.redis);
        assert_eq!(reopen(&mut bench, round).unwrap(), 0);
        bench.assert_unchanged(&before, "for a flow that succeeded");
    }
    let () = bench.redis.flushall().unwrap();
    for round in [0, 1] {
        assert_eq!(reopen(&mut bench, round).unwrap(), 0);
        assert_eq!(bench.state().keys, [""; 0]);
    }
}

#[test]
fn only_the_last_of_several_callers_lets_it_go_on() {
    let mut bench = Bench::new();
    seed(&mut bench);
    assert_eq!((reopen(&mut bench, 0).unwrap(), reopen(&mut bench, 0).unwrap()), (1, 2));
    assert_eq!(reopen(&mut bench, 1).unwrap(), 0, "expected the second caller to have taken it over");
    let before = everything(&mut bench.redis);
    assert_eq!(rewrite(&mut bench, 1, &["o0"], &[("g1", "1")]).unwrap(), 0);
    bench.assert_unchanged(&before, "for a round that another caller has ended");
    assert_eq!(fields(&mut bench, FLOW)["state"], "reopening");
    assert_eq!(reopen(&mut bench, 2).unwrap(), 2);
    assert_eq!(reopen(&mut bench, 2).unwrap(), 0);
}

#[test]
fn what_its_steps_came_to_is_forgotten_in_between() {
    let mut bench = Bench::new();
    seed(&mut bench);
    assert_eq!(rewrite(&mut bench, 0, &["o0"], &[]).unwrap(), 1, "expected this to be the first step");
    assert_eq!(rewrite(&mut bench, 1, &["o0", "o7"], &[("g1", "1"), ("k0", "2")]).unwrap(), 1);
    let flow = fields(&mut bench, FLOW);
    assert_eq!((flow.get("o0"), &flow["g1"][..], &flow["k0"][..]), (None, "1", "2"));
    assert_eq!(flow["state"], "reopening");
    assert!(!bench.redis.exists::<_, bool>(OUTBOX).unwrap());
    assert_eq!(reopen(&mut bench, 1).unwrap(), 1);
    assert_eq!(rewrite(&mut bench, 1, &["g1"], &[]).unwrap(), 0, "expected it to be too late");
}

#[test]
fn flow_whose_steps_all_succeeded_is_to_be_ended() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let () = bench.redis.hset_multiple(FLOW, &[("state", "cancelled"), ("o0", "succeeded")]).unwrap();
    assert_eq!((reopen(&mut bench, 0).unwrap(), reopen(&mut bench, 1).unwrap()), (1, 1));
    assert_eq!(to_do(&mut bench), ["e0"]);
    assert_eq!(fields(&mut bench, FLOW)["o0"], "succeeded");
}

#[test]
fn second_step_works_when_redis_is_full() {
    let mut bench = Bench::new();
    seed(&mut bench);
    assert_eq!(reopen(&mut bench, 0).unwrap(), 1);
    bench.fill();
    assert_eq!(reopen(&mut bench, 1).unwrap(), 1);
    assert_eq!(to_do(&mut bench), ["o0"]);
}

#[test]
fn first_step_is_refused_by_a_full_redis() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    bench.refuses(FULL, "in a full Redis", |bench| reopen(bench, 0));
}

#[test]
fn changes_nothing_when_it_is_refused() {
    changes_nothing_it_may_not(&[FLOW, OUTBOX, FLOWS], seed, |bench| reopen(bench, 0));
    let began = |bench: &mut Bench| {
        seed(bench);
        let () = bench.redis.hset_multiple(FLOW, &[("state", "reopening"), ("round", "1")]).unwrap();
    };
    changes_nothing_it_may_not(&[FLOW, OUTBOX, FLOWS], began, |bench| reopen(bench, 1));
}

#[test]
fn refused_steps_are_complete_when_they_come_again() {
    let began = |bench: &mut Bench| {
        seed(bench);
        let () = bench.redis.hset_multiple(FLOW, &[("state", "reopening"), ("round", "1")]).unwrap();
    };
    let call = |bench: &mut Bench| {
        let round = reopen(bench, 1)?;
        Ok((round, fields(bench, FLOW), fields(bench, RECORD), to_do(bench)))
    };
    let mut bench = Bench::new();
    began(&mut bench);
    let expected = call(&mut bench).unwrap();
    assert_same_without_each_right("reopen", began, call, &expected);
}
