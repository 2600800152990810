use super::*;

struct Bury<'a> {
    seq: u64,
    id: &'a str,
    max_count: u64,
    max_age: u64,
    output: &'a str,
}

const ASK: Bury<'static> = Bury {
    seq: 1,
    id: "q:abcdefghijklmn27:0",
    max_count: 100,
    max_age: 90 * 24 * 60 * 60 * 1000,
    output: "",
};

/// What was done, and how many older letters had to go. The reply has the id of the letter too.
fn bury(bench: &mut Bench, ask: &Bury<'_>) -> RedisResult<(i64, u64)> {
    let (done, trimmed, id): (i64, u64, String) = bench.call("bury", |call| {
        call.key(PROCESSING).key(WORKER).key(DEAD).key(DEATHS);
        call.arg(ask.seq).arg(ask.id).arg(ask.max_count).arg(ask.max_age);
        call.arg("failed").arg("it said no").arg(3).arg("host/1/w").arg(ask.output);
    })?;
    let last: Vec<(String, redis::Value)> = match done {
        1 => {
            redis::cmd("XREVRANGE").arg(DEAD).arg("+").arg("-").arg("COUNT").arg(1).query(&mut bench.redis)?
        }
        _ => Vec::new(),
    };
    let last = last.first().map_or("", |(id, _)| id.as_str());
    assert_eq!(id, last, "expected the id of the dead letter, or none");
    Ok((done, trimmed))
}

fn seed(bench: &mut Bench) {
    bench.own(&[(&slot(0), "a"), (&slot(1), "b")]);
    let () = bench.redis.hset(DEATHS, digest("a"), "1 1 q:w").unwrap();
    let () = bench.redis.hset(DEATHS, digest("b"), "2 1 q:w").unwrap();
    bench.letter("1-0", "old");
}

#[test]
fn moves_the_message_to_the_dead_letters_with_the_reason() {
    let mut bench = Bench::new();
    seed(&mut bench);
    // An entry of 1970 is older than any age: it has to go.
    assert_eq!(bury(&mut bench, &ASK).unwrap(), (1, 1), "expected it to be done, and the old one to go");
    let state = bench.state();
    let letter: Vec<(&str, &str)> = state.dead[0]
        .iter()
        .map(|(field, value)| (field.as_str(), std::str::from_utf8(value).unwrap()))
        .collect();
    let expected = [
        ("attempt", "3"),
        ("detail", "it said no"),
        ("message", "a"),
        ("reason", "failed"),
        ("worker", "host/1/w"),
    ];
    assert_eq!(letter, expected, "expected the fields of a dead letter");
    assert_eq!(state.dead.len(), 1, "expected no other dead letter");
    assert_eq!(state.processing, owned(&[(&slot(1), "b")]), "expected only this slot to be empty");
    let forgotten = BTreeMap::from([(digest("b"), "2 1 q:w".to_owned())]);
    assert_eq!(state.deaths, forgotten, "expected only its deaths to be forgotten");
    assert_eq!(bench.seq(), Some(1), "expected the number of the call to be stored");
}

#[test]
fn keeps_what_the_process_wrote_when_it_wrote_something() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bury(&mut bench, &Bury { output: "one\nlast\0 word", ..ASK }).unwrap();
    assert_eq!(bench.state().dead[0]["output"], b"one\nlast\0 word", "expected it in a field of its own");
}

#[test]
fn keeps_no_more_than_it_may() {
    let mut bench = Bench::new();
    let ids = slots(6);
    for (i, id) in ids.iter().enumerate() {
        bench.own(&[(id, &i.to_string())]);
        let ask = Bury { seq: i as u64 + 1, id, max_count: 4, ..ASK };
        let gone = u64::from(i >= 4);
        assert_eq!(bury(&mut bench, &ask).unwrap(), (1, gone), "expected the oldest to go from the fifth on");
    }
    let kept: Vec<Vec<u8>> = bench.state().dead.iter().map(|letter| letter["message"].clone()).collect();
    assert_eq!(kept, bytes(&["2", "3", "4", "5"]), "expected the newest four");
}

#[test]
fn takes_any_age_for_the_limit() {
    for max_age in [1, u64::MAX / 2] {
        let mut bench = Bench::new();
        seed(&mut bench);
        let ask = Bury { max_age, ..ASK };
        assert_eq!(
            bury(&mut bench, &ask).unwrap().0,
            1,
            "expected it to be done with an age of {max_age} ms"
        );
        assert!(
            !bench.state().dead.is_empty(),
            "expected the new letter to stay with an age of {max_age} ms"
        );
    }
}

#[test]
fn does_nothing_for_a_slot_that_lost_its_message() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let id = slot(7);
    let done =
        changes_only_its_number(&mut bench, 1, |bench, seq| bury(bench, &Bury { seq, id: &id, ..ASK }));
    assert_eq!(done, (0, 0), "expected it to own nothing");
}

#[test]
fn message_stays_in_its_slot_when_dead_letters_are_another_type() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let () = bench.redis.pset_ex(DEAD, "a text that expires", LEASE).unwrap();
    let done = changes_only_its_number(&mut bench, 1, |bench, seq| bury(bench, &Bury { seq, ..ASK }));
    assert_eq!(done, (-1, 0), "expected it to say so");
    let id = slot(7);
    let done =
        changes_only_its_number(&mut bench, 3, |bench, seq| bury(bench, &Bury { seq, id: &id, ..ASK }));
    assert_eq!(done, (0, 0), "expected a slot that owns nothing to be told first");
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    assert_eq!(bury(&mut bench, &ASK).unwrap().0, 1, "expected a full Redis to be no obstacle");
    let state = bench.state();
    assert_eq!(state.dead[0]["message"], b"a", "expected the dead letter");
    assert_eq!(state.processing, owned(&[(&slot(1), "b")]), "expected the slot to be empty");
}

#[test]
fn changes_nothing_when_it_is_refused() {
    changes_nothing_it_may_not(&[PROCESSING, WORKER, DEATHS], seed, |bench| bury(bench, &ASK));
    refuses_stale_calls(seed, |bench, seq| bury(bench, &Bury { seq, ..ASK }));
}

/// A slot owns a step of a flow.
fn seed_step(bench: &mut Bench) {
    let () = bench.redis.hset(PROCESSING, slot(0), step_message(7)).unwrap();
}

#[test]
fn outcome_of_a_step_is_left_in_the_outbox() {
    let mut bench = Bench::new();
    seed_step(&mut bench);
    assert_eq!(bury(&mut bench, &ASK).unwrap(), (1, 0));
    let expected = ["dead", "reason", "failed", "error", "it said no", "attempt", "3", "letter"];
    assert_outcome(&mut bench, 7, &expected);
    assert_eq!(bury(&mut bench, &Bury { seq: 2, ..ASK }).unwrap(), (0, 0));
    assert_eq!(bench.redis.hlen::<_, u64>(OUTBOX).unwrap(), 1);
}

#[test]
fn step_is_not_buried_without_its_outcome() {
    ends_no_step_without_the_outbox(seed_step, |bench| bury(bench, &ASK));
}
