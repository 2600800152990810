use super::*;

const CHANNEL: &str = "q:due";

/// Schedules calls, given as (id, when, message). Gives when each is due.
fn schedule(bench: &mut Bench, calls: &[(&str, &str, &str)]) -> RedisResult<Vec<u64>> {
    bench.call("schedule", |call| {
        call.key(DUE).key(LATER).key(TIMETABLE).arg(CHANNEL);
        for (id, when, message) in calls {
            call.arg(*id).arg(*when).arg(*message);
        }
    })
}

fn now(bench: &mut Bench) -> u64 {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut bench.redis).unwrap();
    seconds * 1000 + micros / 1000
}

fn score(bench: &mut Bench, id: &str) -> u64 {
    bench.redis.zscore(DUE, format!("c{id}")).unwrap()
}

#[test]
fn puts_calls_into_the_timetable_at_their_times() {
    let mut bench = Bench::new();
    let before = now(&mut bench);
    let dues = schedule(
        &mut bench,
        &[("a", "+5000", "message a"), ("b", "4102444800000", "message b"), ("c", "-1", "message c")],
    )
    .unwrap();
    let after = now(&mut bench);
    assert!((before + 5_000..=after + 5_000).contains(&dues[0]), "expected 5 s from now: {dues:?}");
    assert_eq!(dues[1], 4_102_444_800_000, "expected the first second of 2100");
    assert!((before..=after).contains(&dues[2]), "expected what has passed to be now: {dues:?}");
    for (id, due) in ["a", "b", "c"].into_iter().zip(&dues) {
        assert_eq!(score(&mut bench, id), *due, "{id}");
        assert_eq!(bench.redis.hget::<_, _, String>(LATER, id).unwrap(), format!("message {id}"));
    }
    assert!(bench.state().waiting.is_empty(), "expected nothing in the queue yet");
}

#[test]
fn refuses_an_id_that_the_timetable_has_and_takes_the_others() {
    let mut bench = Bench::new();
    let dues = schedule(&mut bench, &[("a", "+1000", "first"), ("a", "+2000", "second")]).unwrap();
    assert!(dues[0] > 0 && dues[1] == 0, "expected the second to be refused: {dues:?}");
    let dues = schedule(&mut bench, &[("a", "+3000", "third"), ("b", "+3000", "other")]).unwrap();
    assert!(dues[0] == 0 && dues[1] > 0, "expected only the known id to be refused: {dues:?}");
    let later = [("a", "first"), ("b", "other")].map(|(id, message)| (id.into(), message.into()));
    assert_eq!(bench.state().later, BTreeMap::from(later));
}

#[test]
fn tells_of_a_call_that_is_due_before_all_others() {
    let mut bench = Bench::new();
    let mut connection = bench.server.connection();
    let mut heard = connection.as_pubsub();
    heard.subscribe(CHANNEL).unwrap();
    for (id, when, tells) in [("a", "+60000", true), ("b", "+90000", false), ("c", "+30000", true)] {
        let () = bench.redis.set(TIMETABLE, "somebody").unwrap();
        schedule(&mut bench, &[(id, when, "message")]).unwrap();
        assert_eq!(!bench.redis.exists::<_, bool>(TIMETABLE).unwrap(), tells, "{id}: the lease");
        if tells {
            let after: u64 = heard.get_message().unwrap().get_payload().unwrap();
            assert_eq!(format!("+{after}"), when, "{id}");
        }
    }
}

#[test]
fn changes_nothing_when_it_is_refused() {
    let call = |bench: &mut Bench| schedule(bench, &[("b", "+1000", "message b")]);
    let seed = |bench: &mut Bench| {
        schedule(bench, &[("a", "+1000", "message a")]).unwrap();
    };
    changes_nothing_it_may_not(&[DUE, LATER], seed, call);
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    bench.refuses(FULL, "in a full Redis", call);
}
