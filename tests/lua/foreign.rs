//! Keys of the names of ours that are another program's: no script takes anything out of them but tokens.

use super::*;

/// Messages of another program's queue.
const CALLS: [&[u8]; 3] = [b"\x92\xa1f\xc4\x01\x07", b"\x91\xa1g", b"\x91\xa1h"];

/// A queue of another program's at this key.
fn seed(bench: &mut Bench, key: &str) {
    let () = bench.redis.rpush(key, &CALLS).unwrap();
}

/// What is left of it, with the tokens that were pushed among it.
fn left(bench: &mut Bench, key: &str) -> Vec<Vec<u8>> {
    bench.redis.lrange(key, 0, -1).unwrap()
}

#[track_caller]
fn assert_all_left(bench: &mut Bench, key: &str, why: &str) {
    let mut calls = left(bench, key);
    calls.retain(|element| element != b"1");
    assert_eq!(calls, CALLS, "{why}: expected nothing to be taken out of {key}");
}

fn balance(bench: &mut Bench, gap: i64, moved: u8) -> i64 {
    let call = |call: &mut ScriptInvocation<'_>| {
        call.key(QUEUE).key(TOKENS).key(HAND).arg(gap).arg(moved);
    };
    bench.call("balance", call).unwrap()
}

fn claim(bench: &mut Bench, seq: u64, in_hand: u8) -> (i64, Vec<Vec<u8>>) {
    let reply: Vec<Value> = bench
        .call("claim", |call| {
            call.key(QUEUE)
                .key(TOKENS)
                .key(PROCESSING)
                .key(WORKER)
                .key(DEATHS)
                .key(HAND)
                .key(PAUSED)
                .key(CANCELLED);
            call.arg(seq).arg(LEASE).arg(in_hand).arg(1).arg(0).arg(0).arg(0).arg(slots(4));
        })
        .unwrap();
    let [_, Value::Int(waiting), _, messages] = &reply[..] else { panic!("expected four: {reply:?}") };
    (*waiting, messages_of(messages.clone()))
}

fn pick_up(bench: &mut Bench, seq: u64) -> Vec<Vec<u8>> {
    let (_, _, _, messages): (i64, i64, i64, Vec<Vec<u8>>) = bench
        .call("pick_up", |call| {
            call.key(QUEUE)
                .key(TOKENS)
                .key(PROCESSING)
                .key(WORKER)
                .key(DEATHS)
                .key(HAND)
                .key(PAUSED)
                .key(CANCELLED);
            call.arg(seq).arg(LEASE).arg(slot(0));
        })
        .unwrap();
    messages
}

#[test]
fn a_sweep_takes_nothing_out_of_another_programs_hand() {
    for (waiting, tokens, gap, added) in [(0, 0, 0, 0), (3, 3, 0, 0), (3, 0, 3, 3), (2, 5, -3, -3)] {
        let mut bench = Bench::new();
        seed(&mut bench, HAND);
        (0..waiting).for_each(|n: u8| bench.redis.rpush(QUEUE, n).unwrap());
        (0..tokens).for_each(|_: u8| bench.redis.rpush(TOKENS, "1").unwrap());
        let case = format!("{waiting} messages, {tokens} tokens");
        assert_eq!(balance(&mut bench, gap, 0), added, "{case}: expected as many as are missing");
        assert_eq!(left(&mut bench, HAND), CALLS, "{case}");
        assert_eq!(balance(&mut bench, 1, 1), 0, "{case}: expected no token of it to be given back");
        assert_eq!(left(&mut bench, HAND), CALLS, "{case}");
    }
}

#[test]
fn tokens_are_taken_out_of_the_hand_from_among_anything_else() {
    // As it is when another program's messages came between two tokens of ours.
    let mut bench = Bench::new();
    let () = bench.redis.rpush(QUEUE, &["a", "b"]).unwrap();
    let () = bench.redis.rpush(HAND, &[b"1", CALLS[0], b"1", b"1"]).unwrap();
    assert_eq!(balance(&mut bench, 2, 0), 2);
    assert_eq!(bench.state().tokens, 2);
    let () = bench.redis.del(QUEUE).unwrap();
    assert_eq!(balance(&mut bench, -2, 0), -2);
    let rest = left(&mut bench, HAND);
    assert!(rest.contains(&CALLS[0].to_vec()), "expected the message to be left: {rest:?}");
}

#[test]
fn no_surplus_is_taken_out_of_another_programs_notifications() {
    for elements in [&CALLS[..], &[b"1", CALLS[0]], &[CALLS[0], b"1"]] {
        let mut bench = Bench::new();
        let () = bench.redis.rpush(TOKENS, elements).unwrap();
        assert_eq!(balance(&mut bench, -3, 0), 0);
        assert_eq!(left(&mut bench, TOKENS), elements, "expected it to stay as it was");
    }
    // One with tokens at both ends loses those alone.
    let mut bench = Bench::new();
    let () = bench.redis.rpush(TOKENS, &[b"1", CALLS[0], b"1"]).unwrap();
    assert_eq!(balance(&mut bench, -3, 0), -2);
    assert_eq!(left(&mut bench, TOKENS), [CALLS[0]]);
}

#[test]
fn a_claim_takes_tokens_alone() {
    for in_hand in 0..=2 {
        let mut bench = Bench::new();
        seed(&mut bench, HAND);
        seed(&mut bench, TOKENS);
        // An empty queue, whose tokens are dropped.
        assert_eq!(claim(&mut bench, 1, in_hand), (0, vec![]));
        assert_eq!(left(&mut bench, HAND), CALLS);
        assert_eq!(left(&mut bench, TOKENS), CALLS);
        // Messages whose tokens came among something else.
        let () = bench.redis.rpush(QUEUE, &["a", "b"]).unwrap();
        let () = bench.redis.lpush(TOKENS, "1").unwrap();
        let () = bench.redis.rpush(TOKENS, "1").unwrap();
        assert_eq!(claim(&mut bench, 2, in_hand).1, bytes(&["a", "b"]), "in hand: {in_hand}");
        for key in [HAND, TOKENS] {
            assert_all_left(&mut bench, key, &format!("in hand: {in_hand}"));
        }
    }
}

#[test]
fn pick_up_takes_its_token_from_the_end_of_a_foreign_list() {
    let mut bench = Bench::new();
    seed(&mut bench, HAND);
    assert_eq!(pick_up(&mut bench, 1), Vec::<Vec<u8>>::new());
    assert_eq!(left(&mut bench, HAND), CALLS, "expected it not to be dropped");
    bench.wait(&["x", "y"]);
    let () = bench.redis.lmove(TOKENS, HAND, redis::Direction::Left, redis::Direction::Right).unwrap();
    assert_eq!(pick_up(&mut bench, 2), bytes(&["x"]));
    assert_eq!((left(&mut bench, HAND), bench.state().tokens), (CALLS.map(<[u8]>::to_vec).to_vec(), 1));
    // Without one in the hand.
    let () = bench.redis.hdel(PROCESSING, slot(0)).unwrap();
    assert_eq!(pick_up(&mut bench, 3), bytes(&["y"]));
    assert_eq!(left(&mut bench, HAND), CALLS);
    // What came out of another program's notifications stays.
    let () = bench.redis.hdel(PROCESSING, slot(0)).unwrap();
    seed(&mut bench, TOKENS);
    let () = bench.redis.rpush(QUEUE, "z").unwrap();
    assert_eq!(pick_up(&mut bench, 4), Vec::<Vec<u8>>::new(), "expected no token to be found");
    assert_eq!(left(&mut bench, TOKENS), CALLS);
    // Also in a Redis that is full.
    let found = bench.when_full(|bench| pick_up(bench, 5));
    assert_eq!(found, Vec::<Vec<u8>>::new());
    for key in [HAND, TOKENS] {
        assert_all_left(&mut bench, key, "in a full Redis");
    }
}

#[test]
fn a_purge_takes_tokens_alone() {
    let mut bench = Bench::new();
    bench.wait(&["a", "b"]);
    seed(&mut bench, TOKENS);
    let purged: u64 = bench
        .call("purge", |call| {
            call.key(QUEUE).key(TOKENS).key(DEATHS).arg(10).arg(QUEUE);
        })
        .unwrap();
    assert_eq!(purged, 2);
    assert_eq!(left(&mut bench, TOKENS), CALLS);
}

#[test]
fn a_beat_tells_of_lists_that_begin_with_something_else() {
    let told = |bench: &mut Bench| -> i64 {
        let reply: Vec<i64> = bench
            .call("beat", |call| {
                call.key(WORKER).key(WORKERS).key(ORDERS);
                call.key(QUEUE).key(TOKENS).key(HAND).key(PROCESSING).key(DEATHS).key(DUE).key(PAUSED);
                call.key(OUTBOX).arg(LEASE).arg(WORKER_ID).arg("info").arg(60_000);
            })
            .unwrap();
        reply[0]
    };
    let mut bench = Bench::new();
    assert_eq!(told(&mut bench), 0);
    bench.wait(&["a"]);
    assert_eq!(told(&mut bench), 1);
    seed(&mut bench, HAND);
    assert_eq!(told(&mut bench), 3);
    let () = bench.redis.del(TOKENS).unwrap();
    seed(&mut bench, TOKENS);
    assert_eq!(told(&mut bench), 7);
    let () = bench.redis.del(HAND).unwrap();
    assert_eq!(told(&mut bench), 5);
    let () = bench.redis.set(HAND, "text").unwrap();
    assert_eq!(told(&mut bench), 5, "expected a beat to mind no other type");
}

#[test]
fn foreign_stream_is_neither_trimmed_nor_written_to() {
    let entry = |bench: &mut Bench| {
        let command = redis::cmd("XADD").arg(DEAD).arg("1-0").arg("temperature").arg("21").to_owned();
        let () = command.query(&mut bench.redis).unwrap();
    };
    let mut bench = Bench::new();
    entry(&mut bench);
    bench.own(&[(&slot(0), "a")]);
    let reply: (i64, i64, String) = bench
        .call("bury", |call| {
            call.key(PROCESSING).key(WORKER).key(DEAD).key(DEATHS);
            call.arg(1)
                .arg(slot(0))
                .arg(10)
                .arg(1000)
                .arg("failed")
                .arg("a sentence")
                .arg(1)
                .arg("here")
                .arg("");
        })
        .unwrap();
    assert_eq!(reply, (-1, 0, String::new()), "expected the message to stay where it is");
    let () = bench.redis.del(slot(0)).unwrap();
    // It ran alone when its worker died.
    let (now, _): (u64, u64) = redis::cmd("TIME").query(&mut bench.redis).unwrap();
    let known = format!("2 {now}000 =;{WORKER_ID}:0!0 one another");
    let () = bench.redis.hset(DEATHS, digest("a"), known).unwrap();
    let swept: (i64, i64, i64, Vec<String>, i64, Vec<String>) = bench
        .call("requeue_lost", |call| {
            call.key(QUEUE).key(TOKENS).key(PROCESSING).key(DEAD).key(DEATHS);
            call.arg(0).arg(100).arg(1).arg(60_000).arg(10).arg(1000).arg(0);
        })
        .unwrap();
    assert_eq!(swept, (0, 0, 0, vec![], 1, vec![]), "expected it not to be buried");
    let state = bench.state();
    assert_eq!((state.dead.len(), state.processing.len()), (1, 1), "{state:#?}");
}

#[test]
fn a_hash_of_another_program_loses_no_field_and_does_not_expire() {
    let mut bench = Bench::new();
    for name in ["anna", "bert"] {
        let () = bench.redis.hset(DEATHS, name, "3 1000 children").unwrap();
    }
    let () = bench.redis.hset(PROCESSING, "q:aaaaaaaaaaaaaaaa:1", "lost").unwrap();
    for _ in 0..3 {
        let _: Value = bench
            .call("requeue_lost", |call| {
                call.key(QUEUE).key(TOKENS).key(PROCESSING).key(DEAD).key(DEATHS);
                call.arg(0).arg(100).arg(3).arg(60_000).arg(10).arg(1000).arg(0);
            })
            .unwrap();
    }
    let deaths = bench.state().deaths;
    assert!(deaths.contains_key("anna") && deaths.contains_key("bert"), "expected both to stay: {deaths:?}");
    assert_eq!(bench.redis.pttl::<_, i64>(DEATHS).unwrap(), -1, "expected it not to expire");
}
