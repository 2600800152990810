use super::*;

fn balance(bench: &mut Bench, gap: i64) -> RedisResult<i64> {
    bench.call("balance", |call| {
        call.key(QUEUE).key(TOKENS).key(HAND).arg(gap);
    })
}

/// So many messages wait, with so many tokens.
fn seed(bench: &mut Bench, waiting: usize, tokens: usize) {
    for (key, count) in [(QUEUE, waiting), (TOKENS, tokens)] {
        for part in vec!["1"; count].chunks(10_000) {
            let () = bench.redis.rpush(key, part).unwrap();
        }
    }
}

#[test]
fn adds_and_takes_no_more_than_asked_for_and_than_the_gap() {
    for (waiting, tokens, asked, changed) in [
        (5, 2, 3, 3),
        (5, 2, 2, 2),
        (5, 2, 100, 3),
        (2, 5, -3, -3),
        (2, 5, -1, -1),
        (2, 5, -100, -3),
        (0, 4, -9, -4),
        (4, 0, 9, 4),
        // The gap has closed, or turned, since the caller looked.
        (5, 5, 3, 0),
        (5, 5, -3, 0),
        (2, 5, 3, 0),
        (5, 2, -3, 0),
        (5, 2, 0, 0),
        (0, 0, 7, 0),
    ] {
        let mut bench = Bench::new();
        seed(&mut bench, waiting, tokens);
        let case = format!("{waiting} messages, {tokens} tokens, asked for {asked}");
        assert_eq!(balance(&mut bench, asked).unwrap(), changed, "expected so many for {case}");
        let state = bench.state();
        let expected = (waiting, u64::try_from(tokens as i64 + changed).unwrap());
        assert_eq!((state.waiting.len(), state.tokens), expected, "expected the tokens to follow for {case}");
    }
}

#[test]
fn closes_a_gap_of_a_hundred_thousand_in_steps() {
    for (waiting, tokens, step) in [(100_000, 0, 10_000), (0, 100_000, -10_000)] {
        let mut bench = Bench::new();
        seed(&mut bench, waiting, tokens);
        for _ in 0..10 {
            assert_eq!(balance(&mut bench, step * 10).unwrap(), step, "expected a bounded step");
        }
        assert_eq!(
            bench.redis.llen::<_, usize>(TOKENS).unwrap(),
            waiting,
            "expected one token for each message"
        );
        assert_eq!(balance(&mut bench, step).unwrap(), 0, "expected nothing more to do");
    }
}

#[test]
fn missing_tokens_are_made_and_those_in_the_hand_returned() {
    for (waiting, tokens, hand, asked, changed, left) in [
        // One is missing and one is in the hand: it is that one.
        (3, 2, 1, 1, 1, 0),
        (5, 2, 1, 3, 3, 0),
        (5, 2, 9, 3, 3, 6),
        // It may be on its way to a claim: nobody has watched.
        (3, 2, 1, 0, 0, 1),
        (3, 1, 2, 1, 1, 1),
        // One is nowhere, as one that was popped and is given back. A claim may be coming for what is in the hand.
        (2, 0, 1, 1, 1, 1),
        (5, 2, 1, 2, 2, 1),
        // No message lacks a token.
        (3, 3, 2, 0, 0, 0),
        (3, 3, 2, 1, 0, 0),
        (2, 5, 1, -3, -3, 0),
        (0, 0, 1, 0, 0, 0),
    ] {
        let mut bench = Bench::new();
        seed(&mut bench, waiting, tokens);
        let () = bench.redis.rpush(HAND, vec!["1"; hand]).unwrap();
        let case = format!("{waiting} messages, {tokens} tokens and {hand} in the hand, asked for {asked}");
        assert_eq!(balance(&mut bench, asked).unwrap(), changed, "expected so many for {case}");
        let state = bench.state();
        assert_eq!(state.waiting.len(), waiting, "expected the messages to stay for {case}");
        assert_eq!(state.tokens, u64::try_from(tokens as i64 + changed).unwrap(), "tokens for {case}");
        assert_eq!(
            bench.redis.llen::<_, usize>(HAND).unwrap(),
            left,
            "expected so many in the hand for {case}"
        );
    }
}

#[test]
fn works_when_redis_is_full() {
    // Without tokens nobody would drain the queue that fills it.
    for (waiting, tokens, gap) in [(3, 0, 3), (0, 3, -3)] {
        let mut bench = Bench::new();
        seed(&mut bench, waiting, tokens);
        let () = bench.redis.rpush(HAND, "1").unwrap();
        bench.fill();
        assert_eq!(balance(&mut bench, gap).unwrap(), gap, "expected a full Redis to be no obstacle");
    }
}

#[test]
fn changes_nothing_when_it_is_refused() {
    let keys = [QUEUE, TOKENS, HAND];
    changes_nothing_it_may_not(&keys, |bench| seed(bench, 3, 1), |bench| balance(bench, 2));
    changes_nothing_it_may_not(&keys, |bench| seed(bench, 1, 3), |bench| balance(bench, -2));
}
