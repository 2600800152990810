use super::*;

/// An item that failed: its id in the timetable, its delay, why it is buried, its attempt, and its message.
type Item<'a> = (&'a [u8], u64, &'a str, u32, &'a str);

const ITEMS: [Item<'static>; 4] = [
    (b"", 0, "", 0, "now"),
    (&[7; 16], 5_000, "", 0, "later"),
    (b"", 0, "no", 2, "dead"),
    (b"", 0, "", 3, "mute"),
];

fn split(bench: &mut Bench, seq: u64, id: &str, items: &[Item<'_>]) -> RedisResult<(i64, u64, Vec<String>)> {
    bench.call("split", |call| {
        call.key(PROCESSING)
            .key(WORKER)
            .key(DEATHS)
            .key(QUEUE)
            .key(TOKENS)
            .key(DUE)
            .key(LATER)
            .key(TIMETABLE)
            .key(DEAD);
        call.arg(seq).arg(id).arg(100).arg(LEASE).arg("host/1/w");
        for (id, delay, detail, attempt, message) in items {
            call.arg(*id).arg(*delay).arg(*detail).arg(*attempt).arg(*message);
        }
    })
}

fn seed(bench: &mut Bench) {
    bench.wait(&["first"]);
    bench.own(&[(&slot(0), "batch"), (&slot(1), "other")]);
    let () = bench.redis.hset(DEATHS, digest("batch"), "1 1 q:w").unwrap();
}

#[test]
fn each_item_goes_where_it_belongs() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let before = bench.server_ms();
    let (done, trimmed, letters) = split(&mut bench, 1, &slot(0), &ITEMS).unwrap();
    let after = bench.server_ms();
    assert_eq!((done, trimmed, letters.len()), (1, 0, 2), "expected it to be done, with two letters");
    let state = bench.state();
    assert_eq!((state.waiting, state.tokens), (bytes(&["first", "now"]), 2));
    assert_eq!(state.later, BTreeMap::from([(vec![7; 16], b"later".to_vec())]));
    let due: u64 = bench.redis.zscore(DUE, [b"c", &[7; 16][..]].concat()).unwrap();
    assert!((before + 5_000..=after + 5_000).contains(&due), "expected it 5 s from now: {due}");
    let fields = |name: &str| state.dead.iter().map(|letter| letter[name].clone()).collect::<Vec<_>>();
    assert_eq!(fields("message"), bytes(&["dead", "mute"]));
    assert_eq!(fields("detail"), bytes(&["no", ""]), "expected an error without a text to be one");
    assert_eq!(fields("attempt"), bytes(&["2", "3"]));
    assert_eq!(state.processing, owned(&[(&slot(1), "other")]), "expected only this slot to be empty");
    assert!(
        !bench.redis.exists::<_, bool>(DEATHS).unwrap(),
        "expected the deaths of the batch to be forgotten"
    );
    assert_eq!(bench.seq(), Some(1), "expected the number of the call to be stored");
}

#[test]
fn slot_without_a_message_moves_nothing() {
    let mut bench = Bench::new();
    seed(&mut bench);
    assert_eq!(split(&mut bench, 1, &slot(5), &ITEMS).unwrap(), (0, 0, vec![]));
    let state = bench.state();
    assert_eq!((state.waiting, state.later.len(), state.dead.len()), (bytes(&["first"]), 0, 0));
    assert_eq!(bench.seq(), Some(1), "expected the number of the call to be stored");
}

#[test]
fn what_has_no_place_goes_to_the_queue() {
    for key in [DUE, LATER, DEAD] {
        let mut bench = Bench::new();
        seed(&mut bench);
        let () = bench.redis.set(key, "text").unwrap();
        let (done, trimmed, letters) = split(&mut bench, 1, &slot(0), &ITEMS).unwrap();
        assert_eq!((done, trimmed), (1, 0));
        let waiting: Vec<Vec<u8>> = bench.redis.lrange(QUEUE, 0, -1).unwrap();
        let expected: &[&str] = match key {
            DEAD => &["first", "now", "dead", "mute"],
            _ => &["first", "now", "later"],
        };
        assert_eq!(waiting, bytes(expected), "{key}");
        assert_eq!(
            letters.iter().filter(|letter| letter.is_empty()).count(),
            if key == DEAD { 2 } else { 0 }
        );
        let text: String = bench.redis.get(key).unwrap();
        assert_eq!(text, "text", "{key}");
        assert!(!bench.redis.hexists::<_, _, bool>(PROCESSING, slot(0)).unwrap(), "{key}");
    }
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.scheduled("x");
    let () = bench.redis.hset(LATER, vec![7; 16], "another").unwrap();
    split(&mut bench, 1, &slot(0), &ITEMS).unwrap();
    assert_eq!(bench.redis.lrange::<_, Vec<String>>(QUEUE, 0, -1).unwrap(), ["first", "now", "later"]);
    assert_eq!(bench.redis.hget::<_, _, String>(LATER, vec![7; 16]).unwrap(), "another");
}

#[test]
fn old_letters_make_room() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.letter("1-0", "old");
    let (done, trimmed, letters) = split(&mut bench, 1, &slot(0), &ITEMS).unwrap();
    assert_eq!((done, trimmed, letters.len()), (1, 1, 2), "expected the one of 1970 to go");
}

#[test]
fn holder_of_the_timetable_loses_its_lease_to_an_earlier_item() {
    for (other, kept) in [(1_000, true), (90_000, false)] {
        let mut bench = Bench::new();
        seed(&mut bench);
        let due = bench.server_ms() + other;
        let () = bench.redis.zadd(DUE, "cother", due).unwrap();
        let () = bench.redis.set(TIMETABLE, "somebody").unwrap();
        split(&mut bench, 1, &slot(0), &ITEMS).unwrap();
        assert_eq!(bench.redis.exists::<_, bool>(TIMETABLE).unwrap(), kept, "with one in {other} ms");
    }
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    let (done, _, letters) = split(&mut bench, 1, &slot(0), &ITEMS).unwrap();
    assert_eq!((done, letters.iter().filter(|letter| !letter.is_empty()).count()), (1, 2));
    let state = bench.state();
    assert_eq!((state.waiting, state.tokens, state.later.len()), (bytes(&["first", "now"]), 2, 1));
    assert_eq!(state.processing, owned(&[(&slot(1), "other")]), "expected the slot to be empty");
}

#[test]
fn changes_nothing_when_it_may_not() {
    let call = |bench: &mut Bench| split(bench, 1, &slot(0), &ITEMS);
    changes_nothing_it_may_not(&[PROCESSING, WORKER, DEATHS, QUEUE, TOKENS], seed, call);
    refuses_stale_calls(seed, |bench, seq| split(bench, seq, &slot(0), &ITEMS));
}

#[test]
fn comes_to_the_same_without_each_right() {
    let call = |bench: &mut Bench| {
        let (done, _, letters) = split(bench, 1, &slot(0), &ITEMS)?;
        let state = bench.state();
        Ok((done, letters.len(), state.waiting, state.later.len(), state.dead.len()))
    };
    assert_same_without_each_right("split", seed, call, &(1, 2, bytes(&["first", "now"]), 1, 2));
}
