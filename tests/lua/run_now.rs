use super::*;

fn run_now(bench: &mut Bench, ids: &[&str]) -> RedisResult<u64> {
    bench.call("run_now", |call| {
        call.key(QUEUE).key(TOKENS).key(DUE).key(LATER).arg(ids);
    })
}

#[test]
fn moves_calls_to_the_tail_in_the_order_given() {
    let mut bench = Bench::new();
    bench.wait(&["a"]);
    ["x", "y", "z"].iter().for_each(|id| bench.scheduled(id));
    assert_eq!(run_now(&mut bench, &["z", "x", "other"]).unwrap(), 2);
    let state = bench.state();
    assert_eq!(state.waiting, bytes(&["a", "message z", "message x"]));
    assert_eq!(state.tokens, 3, "expected a token for each");
    assert_eq!(state.later, BTreeMap::from([(b"y".to_vec(), b"message y".to_vec())]));
    assert_eq!(bench.redis.zrange::<_, Vec<String>>(DUE, 0, -1).unwrap(), ["cy"]);
    let before = everything(&mut bench.redis);
    assert_eq!(run_now(&mut bench, &["z"]).unwrap(), 0, "expected it to be gone");
    bench.assert_unchanged(&before, "with nothing to do");
}

#[test]
fn moves_five_hundred_also_in_a_full_redis() {
    let mut bench = Bench::new();
    let ids: Vec<String> = (0..500).map(|id| format!("{id:03}")).collect();
    ids.iter().for_each(|id| bench.scheduled(id));
    bench.fill();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    assert_eq!(run_now(&mut bench, &ids).unwrap(), 500, "expected a full Redis to be no obstacle");
    let state = bench.state();
    assert_eq!((state.waiting.len(), state.tokens, state.later.len()), (500, 500, 0));
}

#[test]
fn changes_nothing_when_it_is_refused() {
    changes_nothing_it_may_not(
        &[QUEUE, TOKENS, DUE, LATER],
        |bench| {
            bench.wait(&["a"]);
            bench.scheduled("x");
        },
        |bench| run_now(bench, &["x"]),
    );
}

#[test]
fn keeps_every_message_without_a_right() {
    denied::keeps_every_message_without_a_right(
        "run_now",
        |bench| ["a", "b"].iter().for_each(|id| bench.scheduled(id)),
        |bench| run_now(bench, &["b", "a"]),
    );
}
