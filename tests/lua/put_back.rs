use super::*;

fn put_back(bench: &mut Bench, seq: u64, place: &str, ids: &[String]) -> RedisResult<u64> {
    bench.call("put_back", |call| {
        call.key(QUEUE).key(TOKENS).key(PROCESSING).key(WORKER).key(DEATHS).arg(seq).arg(place).arg(ids);
    })
}

fn seed(bench: &mut Bench) {
    bench.wait(&["x", "y"]);
    bench.own(&[(&slot(0), "a"), (&slot(1), "b"), (&slot(2), "c")]);
}

#[test]
fn puts_back_to_the_head_in_the_order_of_claiming() {
    let mut bench = Bench::new();
    seed(&mut bench);
    assert_eq!(put_back(&mut bench, 1, "head", &slots(2)).unwrap(), 2, "expected both to be put back");
    let state = bench.state();
    assert_eq!(state.waiting, bytes(&["a", "b", "x", "y"]), "expected the oldest claim first");
    assert_eq!(state.tokens, 4, "expected a token for each");
    assert_eq!(state.processing, owned(&[(&slot(2), "c")]), "expected the other slot to keep its message");
    assert_eq!(bench.seq(), Some(1), "expected the number of the call to be stored");
}

#[test]
fn puts_back_to_the_tail_in_the_order_of_claiming() {
    let mut bench = Bench::new();
    seed(&mut bench);
    assert_eq!(put_back(&mut bench, 1, "tail", &slots(3)).unwrap(), 3, "expected all to be put back");
    let state = bench.state();
    assert_eq!(
        state.waiting,
        bytes(&["x", "y", "a", "b", "c"]),
        "expected the oldest claim first, behind all"
    );
    assert_eq!(
        (state.tokens, state.processing),
        (5, owned(&[])),
        "expected a token for each, and empty slots"
    );
}

#[test]
fn leaves_out_slots_that_lost_their_message() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let () = bench.redis.hdel(PROCESSING, slot(1)).unwrap();
    assert_eq!(put_back(&mut bench, 1, "head", &slots(3)).unwrap(), 2, "expected those that are still owned");
    let state = bench.state();
    assert_eq!(
        (state.waiting, state.tokens),
        (bytes(&["a", "c", "x", "y"]), 4),
        "expected those two at the head"
    );

    let done = changes_only_its_number(&mut bench, 2, |bench, seq| put_back(bench, seq, "head", &slots(3)));
    assert_eq!(done, 0, "expected none to be owned now");
}

#[test]
fn deaths_are_kept_at_the_head_and_lost_at_the_tail() {
    for (place, expected) in [("head", "2 1 =0,2,7;x:1=1 q:a q:b"), ("tail", "2 1 =7;x:1=1 q:a q:b")] {
        let mut bench = Bench::new();
        bench.own(&[(&slot(0), "m"), (&slot(1), "m")]);
        let known = "2 1 =7;abcdefghijklmn27:1!2;x:1=1 q:a q:b";
        let () = bench.redis.hset(DEATHS, digest("m"), known).unwrap();
        assert_eq!(put_back(&mut bench, 1, place, &slots(2)).unwrap(), 2);
        let known: String = bench.redis.hget(DEATHS, digest("m")).unwrap();
        assert_eq!(known, expected, "to the {place}");
    }
}

#[test]
fn takes_a_thousand_slots() {
    let mut bench = Bench::new();
    let ids = slots(1000);
    let fields: Vec<(&String, &String)> = ids.iter().map(|id| (id, id)).collect();
    let () = bench.redis.hset_multiple(PROCESSING, &fields).unwrap();
    assert_eq!(put_back(&mut bench, 1, "head", &ids).unwrap(), 1000, "expected all to be put back");
    let state = bench.state();
    assert!(state.waiting.iter().zip(&ids).all(|(a, b)| a == b.as_bytes()), "expected the order of claiming");
    assert_eq!((state.waiting.len(), state.tokens), (1000, 1000), "expected a token for each");
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    assert_eq!(
        put_back(&mut bench, 1, "head", &slots(3)).unwrap(),
        3,
        "expected a full Redis to be no obstacle"
    );
    assert_eq!(bench.state().waiting, bytes(&["a", "b", "c", "x", "y"]), "expected them at the head");
}

#[test]
fn changes_nothing_when_it_is_refused() {
    for place in ["head", "tail"] {
        let keys = [QUEUE, TOKENS, PROCESSING, WORKER, DEATHS];
        changes_nothing_it_may_not(&keys, seed, |bench| put_back(bench, 1, place, &slots(2)));
        refuses_stale_calls(seed, |bench, seq| put_back(bench, seq, place, &slots(1)));
    }
}

#[test]
fn keeps_every_message_without_a_right() {
    denied::keeps_every_message_without_a_right("put_back", seed, |bench| {
        put_back(bench, 1, "head", &slots(2))
    });
}
