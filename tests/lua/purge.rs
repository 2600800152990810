use super::*;

fn purge(bench: &mut Bench, count: u64) -> RedisResult<u64> {
    bench.call("purge", |call| {
        call.key(QUEUE).key(TOKENS).key(DEATHS).arg(count).arg(QUEUE);
    })
}

#[test]
fn drops_the_oldest_with_their_tokens() {
    let mut bench = Bench::new();
    bench.wait(&["a", "b", "c"]);
    bench.own(&[(&slot(0), "o")]);
    assert_eq!(purge(&mut bench, 2).unwrap(), 2, "expected two to be dropped");
    let state = bench.state();
    assert_eq!(
        (state.waiting, state.tokens),
        (bytes(&["c"]), 1),
        "expected the newest to stay, with its token"
    );
    assert_eq!(state.processing, owned(&[(&slot(0), "o")]), "expected what is owned to stay");
    assert_eq!(purge(&mut bench, 0).unwrap(), 0, "expected nothing to be dropped");
    assert_eq!(purge(&mut bench, 10).unwrap(), 1, "expected as many as there were");
    assert_eq!(
        bench.state().keys,
        [slot(0), PROCESSING.to_owned()],
        "expected an empty queue without tokens"
    );
    assert_eq!(purge(&mut bench, 10).unwrap(), 0, "expected an empty queue to be no error");
}

#[test]
fn forgets_deaths_as_it_may_drop_what_they_were_counted_for() {
    let mut bench = Bench::new();
    let () = bench.redis.hset(DEATHS, digest("a"), "2 1 =2 q:a q:b").unwrap();
    assert_eq!(purge(&mut bench, 1).unwrap(), 0);
    assert_eq!(bench.state().deaths.len(), 1, "expected nothing to be forgotten where nothing was dropped");
    bench.wait(&["a", "a"]);
    assert_eq!(purge(&mut bench, 1).unwrap(), 1);
    assert!(bench.state().deaths.is_empty(), "expected the other one not to inherit its deaths");
}

#[test]
fn leaves_the_tokens_of_those_that_stay() {
    for (tokens, left) in [(0, 0), (1, 1), (3, 3), (4, 3), (9, 7)] {
        let mut bench = Bench::new();
        let () = bench.redis.rpush(QUEUE, &["a", "b", "c", "d", "e"]).unwrap();
        if tokens > 0 {
            let () = bench.redis.rpush(TOKENS, vec!["1"; tokens]).unwrap();
        }
        assert_eq!(purge(&mut bench, 2).unwrap(), 2, "expected two to be dropped");
        assert_eq!(
            bench.state().tokens,
            left,
            "expected of {tokens} tokens to take away at most two, and surplus"
        );
    }
}

#[test]
fn drops_ten_thousand_also_from_a_full_redis() {
    let mut bench = Bench::new();
    bench.wait_many(10_001);
    bench.fill();
    assert_eq!(purge(&mut bench, 10_000).unwrap(), 10_000, "expected a full Redis to be no obstacle");
    let state = bench.state();
    assert_eq!((state.waiting, state.tokens), (bytes(&["10000"]), 1), "expected the newest to stay");
}

#[test]
fn changes_nothing_when_it_is_refused() {
    let seed = |bench: &mut Bench| bench.wait(&["a", "b"]);
    changes_nothing_it_may_not(&[QUEUE, TOKENS, DEATHS], seed, |bench| purge(bench, 1));
}

#[test]
fn drops_messages_that_wait_for_a_limit_and_no_tokens() {
    let mut bench = Bench::new();
    bench.wait(&["x"]);
    bench.park(&["a", "b"]);
    let dropped: RedisResult<u64> = bench.call("purge", |call| {
        call.key(WAITERS).key(TOKENS).key(DEATHS).arg(1).arg(QUEUE);
    });
    assert_eq!((dropped.unwrap(), bench.state().tokens), (1, 1));
    assert_eq!(bench.redis.lrange::<_, Vec<String>>(WAITERS, 0, -1).unwrap(), ["b"]);
}

/// A call of its own waits, and a step of a flow, and another call.
fn seed_step(bench: &mut Bench) {
    bench.wait(&[b"a".to_vec(), step_message(7), b"b".to_vec()]);
}

#[test]
fn outcome_of_a_step_is_left_in_the_outbox() {
    let mut bench = Bench::new();
    seed_step(&mut bench);
    assert_eq!(purge(&mut bench, 100).unwrap(), 3);
    assert_outcome(&mut bench, 7, &["cancelled", "by", "purge"]);
    assert_eq!(bench.redis.hlen::<_, u64>(OUTBOX).unwrap(), 1);
}

#[test]
fn step_is_not_dropped_without_its_outcome() {
    let mut bench = Bench::new();
    seed_step(&mut bench);
    let () = bench.redis.set(OUTBOX, "text").unwrap();
    let refused = purge(&mut bench, 100).unwrap_err();
    assert_eq!(refused.code(), Some(WRONG_TYPE), "{refused}");
    let state = bench.state();
    assert_eq!((state.waiting, state.tokens), (vec![step_message(7), b"b".to_vec()], 2));
    let () = bench.redis.del(OUTBOX).unwrap();
    assert_eq!(purge(&mut bench, 100).unwrap(), 2);
    assert_outcome(&mut bench, 7, &["cancelled", "by", "purge"]);
}
