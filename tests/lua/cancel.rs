use super::*;

fn cancel(bench: &mut Bench, ids: &[&str]) -> RedisResult<Vec<String>> {
    bench.call("cancel", |call| {
        call.key(DUE).key(LATER).key(CANCELLED).arg(QUEUE).arg("anna").arg(ids);
    })
}

fn marked(bench: &mut Bench) -> Vec<String> {
    bench.redis.zrange(CANCELLED, 0, -1).unwrap()
}

#[test]
fn takes_calls_out_of_the_timetable() {
    let mut bench = Bench::new();
    bench.wait(&["a"]);
    ["x", "y", "z"].iter().for_each(|id| bench.scheduled(id));
    assert_eq!(cancel(&mut bench, &["z", "x", "other"]).unwrap(), ["scheduled", "scheduled", ""]);
    assert_eq!(marked(&mut bench), ["other"], "expected what is not scheduled to be marked");
    let state = bench.state();
    assert_eq!(state.later, BTreeMap::from([(b"y".to_vec(), b"message y".to_vec())]));
    assert_eq!(bench.redis.zrange::<_, Vec<String>>(DUE, 0, -1).unwrap(), ["cy"]);
    assert_eq!((state.waiting, state.tokens), (bytes(&["a"]), 1), "expected what waits to stay");
    assert_eq!(cancel(&mut bench, &["z"]).unwrap(), [""], "expected it to be gone");
}

#[test]
fn leaves_entries_of_other_kinds() {
    let mut bench = Bench::new();
    bench.scheduled("x");
    let () = bench.redis.zadd(DUE, "px", 1).unwrap();
    assert_eq!(cancel(&mut bench, &["x"]).unwrap(), ["scheduled"]);
    assert_eq!(bench.redis.zrange::<_, Vec<String>>(DUE, 0, -1).unwrap(), ["px"]);
}

#[test]
fn takes_five_hundred_also_from_a_full_redis() {
    let mut bench = Bench::new();
    let ids: Vec<String> = (0..500).map(|id| format!("{id:03}")).collect();
    ids.iter().for_each(|id| bench.scheduled(id));
    bench.fill();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    assert_eq!(cancel(&mut bench, &ids).unwrap().len(), 500, "expected a full Redis to be no obstacle");
    assert!(bench.state().later.is_empty());
}

#[test]
fn changes_nothing_when_it_is_refused() {
    changes_nothing_it_may_not(
        &[DUE, LATER, CANCELLED],
        |bench| bench.scheduled("x"),
        |bench| cancel(bench, &["x"]),
    );
}

#[test]
fn call_that_became_due_is_told_to_wait() {
    let mut bench = Bench::new();
    let (id, record) = ("\x07".repeat(16), format!("q:c:{}", "07".repeat(16)));
    for state in ["scheduled", "retrying"] {
        let () = bench.redis.hset(&record, "state", state).unwrap();
        assert_eq!(cancel(&mut bench, &[&id]).unwrap(), ["waiting"]);
    }
    assert_eq!(marked(&mut bench), [id]);
    bench.assert_expires(CANCELLED, 30 * 86_400_000);
}

#[test]
fn set_of_another_program_keeps_its_members() {
    let mut bench = Bench::new();
    let () = bench.redis.zadd(CANCELLED, "anna", 1).unwrap();
    cancel(&mut bench, &["0123456789abcdef"]).unwrap();
    assert!(marked(&mut bench).contains(&"anna".to_owned()));
    assert_eq!(bench.redis.pttl::<_, i64>(CANCELLED).unwrap(), -1, "expected it not to expire");
}

/// A step of a flow is in the timetable.
fn seed_step(bench: &mut Bench) {
    let id = "\x07".repeat(16);
    let () = bench.redis.zadd(DUE, format!("c{id}"), 1).unwrap();
    let () = bench.redis.hset(LATER, &id, step_message(7)).unwrap();
}

#[test]
fn outcome_of_a_step_is_left_in_the_outbox() {
    let mut bench = Bench::new();
    seed_step(&mut bench);
    let id = "\x07".repeat(16);
    assert_eq!(cancel(&mut bench, &[&id]).unwrap(), ["scheduled"]);
    assert_outcome(&mut bench, 7, &["cancelled", "by", "anna"]);
    // One that waits or runs is only marked: its outcome comes when a worker drops it.
    let () = bench.redis.del(OUTBOX).unwrap();
    assert_eq!(cancel(&mut bench, &[&id]).unwrap(), [""]);
    assert!(!bench.redis.exists::<_, bool>(OUTBOX).unwrap());
}

#[test]
fn step_is_not_cancelled_without_its_outcome() {
    let id = "\x07".repeat(16);
    ends_no_step_without_the_outbox(seed_step, |bench| cancel(bench, &[&id]));
}
