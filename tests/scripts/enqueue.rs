use super::*;

fn enqueue<M: redis::ToRedisArgs>(bench: &mut Bench, messages: M) -> RedisResult<u64> {
    bench.call("enqueue", |call| {
        call.key(QUEUE).key(TOKENS).arg(messages);
    })
}

#[test]
fn appends_in_order_with_a_token_each() {
    let mut bench = Bench::new();
    assert_eq!(enqueue(&mut bench, &["a"]).unwrap(), 1, "expected the number that wait");
    let raw = b"\x00\xff\r\n\xc0".to_vec();
    assert_eq!(
        enqueue(&mut bench, &[b"b".to_vec(), raw.clone()]).unwrap(),
        3,
        "expected the number that wait"
    );
    let state = bench.state();
    assert_eq!(
        state.waiting,
        [b"a".to_vec(), b"b".to_vec(), raw],
        "expected the order of enqueueing, to the byte"
    );
    assert_eq!(state.tokens, 3, "expected a token for each");
    assert_eq!(state.keys, [QUEUE, TOKENS], "expected no other key");
}

#[test]
fn takes_a_thousand_in_a_call() {
    let mut bench = Bench::new();
    let messages: Vec<String> = (0..1000).map(|i| i.to_string()).collect();
    assert_eq!(enqueue(&mut bench, &messages).unwrap(), 1000, "expected all to wait");
    let state = bench.state();
    assert_eq!((state.waiting.len(), state.tokens), (1000, 1000), "expected a token for each");
    assert!(state.waiting.iter().zip(&messages).all(|(a, b)| a == b.as_bytes()), "expected their order");
}

#[test]
fn more_than_lua_can_take_changes_nothing() {
    let mut bench = Bench::new();
    bench.refuses("too many results to unpack", "when there are too many", |bench| {
        enqueue(bench, vec!["a"; 10_000])
    });
}

#[test]
fn changes_nothing_when_it_is_refused() {
    let seed = |bench: &mut Bench| bench.wait(&["a"]);
    changes_nothing_it_may_not(&[QUEUE, TOKENS], seed, |bench| enqueue(bench, &["b"]));
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    bench.refuses(FULL, "when Redis is full", |bench| enqueue(bench, &["b"]));
}
