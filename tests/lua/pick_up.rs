use super::*;
use crate::model::deaths::Deaths;
use crate::model::pair::{Pair, SLOTS, WORKER_COUNT};
use crate::model::world::World;

type Reply = (i64, i64, i64, Option<Vec<u8>>);

fn call_pick_up<T: FromRedisValue>(bench: &mut Bench, seq: u64) -> RedisResult<T> {
    bench.call("pick_up", |call| {
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
}

pub(super) fn pick_up(bench: &mut Bench, seq: u64) -> RedisResult<Reply> {
    let (lost, waiting, suspects, messages): (i64, i64, i64, Vec<Vec<u8>>) = call_pick_up(bench, seq)?;
    assert!(messages.len() <= 1, "expected one message at the most: {messages:?}");
    Ok((lost, waiting, suspects, messages.into_iter().next()))
}

/// As a wait leaves it: a token has moved.
fn seed(bench: &mut Bench) {
    bench.wait(&["x", "y"]);
    let () = bench.redis.lmove(TOKENS, HAND, redis::Direction::Left, redis::Direction::Right).unwrap();
}

#[test]
fn moves_the_oldest_into_the_slot_and_keeps_it_alive() {
    let mut bench = Bench::new();
    seed(&mut bench);
    // Of a lease that has almost ended.
    let () = bench.redis.pset_ex(slot(0), "1", 5_000).unwrap();
    assert_eq!(pick_up(&mut bench, 1).unwrap(), (0, 1, 0, Some(b"x".to_vec())));
    let state = bench.state();
    assert_eq!((state.waiting, state.tokens), (bytes(&["y"]), 1));
    assert_eq!(state.processing, owned(&[(&slot(0), "x")]));
    assert_eq!(bench.redis.llen::<_, u64>(HAND).unwrap(), 0, "expected its token to be used up");
    bench.assert_expires(&slot(0), LEASE);
    bench.assert_expires(WORKER, 4 * LEASE);
    assert_eq!(bench.seq(), Some(1));
}

#[test]
fn every_small_case_is_as_a_claim_of_one_slot_in_the_model() {
    let mut pair = Pair::new();
    let mut cases = 0;
    for (waiting, tokens) in (0..=3).flat_map(|waiting| (0..=3).map(move |tokens| (waiting, tokens))) {
        for (hand, deaths) in (0..=2).flat_map(|hand| (0..=2_u8).map(move |deaths| (hand, deaths))) {
            for (owns, lives) in [(false, false), (false, true), (true, true)] {
                let mut world = World::new(usize::from(WORKER_COUNT), usize::from(SLOTS));
                (world.tokens, world.hand, world.waiting) = (tokens, hand, (0..waiting).collect());
                // Of the oldest.
                world.deaths =
                    (deaths > 0).then(|| (0, Deaths::of((1..=deaths).collect()))).into_iter().collect();
                // Another worker's, which must stay as it is.
                world.processing.push((SLOTS, 99));
                if owns {
                    world.processing.push((0, 98));
                }
                world.live[0] = lives;
                pair.set(world);
                let case = (waiting, tokens, hand, deaths, owns, lives);
                pair.pick_up(0, 1, 0).unwrap_or_else(|wrong| panic!("{case:?}: {wrong}"));
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 432, "expected every combination to be tried");
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    assert_eq!(pick_up(&mut bench, 1).unwrap().3, Some(b"x".to_vec()));
    let () = bench.redis.del(slot(0)).unwrap();
    let () = bench.redis.hdel(PROCESSING, slot(0)).unwrap();
    assert_eq!(
        pick_up(&mut bench, 2).unwrap().3,
        Some(b"y".to_vec()),
        "expected a token to do that did not move"
    );
    assert_eq!(pick_up(&mut bench, 3).unwrap(), (0, 0, 0, None), "expected an empty queue to be no obstacle");
}

#[test]
fn finds_nothing_where_no_token_or_no_message_is() {
    let mut bench = Bench::new();
    let empty = changes_only_its_number(&mut bench, 1, pick_up);
    assert_eq!(empty, (0, 0, 0, None));
    let () = bench.redis.rpush(QUEUE, "x").unwrap();
    let without_token = changes_only_its_number(&mut bench, 3, pick_up);
    assert_eq!(without_token, (0, 1, 0, None));
}

#[test]
fn does_not_overwrite_what_the_slot_owns() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.own(&[(&slot(0), "a")]);
    let call = |bench: &mut Bench| pick_up(bench, 1);
    bench.refuses(super::STALE, "a slot that should be free owns a message", call);
}

#[test]
fn changes_nothing_when_it_is_refused() {
    let keys = [QUEUE, PROCESSING, WORKER, DEATHS, HAND];
    changes_nothing_it_may_not(&keys, seed, |bench| pick_up(bench, 1));
    // A token that did not move.
    let there = |bench: &mut Bench| bench.wait(&["x"]);
    changes_nothing_it_may_not(&[&keys[..], &[TOKENS]].concat(), there, |bench| pick_up(bench, 1));
    // An empty queue.
    changes_nothing_it_may_not(&[TOKENS, WORKER, DEATHS, HAND], |_| {}, |bench| pick_up(bench, 1));
    refuses_stale_calls(seed, |bench, seq| {
        if seq == 12 {
            let () = bench.redis.hdel(PROCESSING, slot(0)).unwrap(); // what the call before has claimed
        }
        pick_up(bench, seq)
    });
}

#[test]
fn token_of_a_paused_queue_stays_where_it_is() {
    for in_hand in [true, false] {
        let mut bench = Bench::new();
        if in_hand {
            seed(&mut bench)
        } else {
            bench.wait(&["x", "y"])
        }
        let () = bench.redis.set(PAUSED, "17 anna").unwrap();
        let before = bench.state();
        let reply: (i64, i64, i64, Vec<Vec<u8>>, String) = call_pick_up(&mut bench, 1).unwrap();
        assert_eq!(reply, (0, 2, 0, vec![], "17 anna".into()));
        let state = bench.state();
        assert_eq!((state.waiting, state.tokens), (before.waiting, before.tokens));
        assert_eq!(bench.redis.llen::<_, u64>(HAND).unwrap(), u64::from(in_hand));
        let () = bench.redis.del(PAUSED).unwrap();
        assert_eq!(pick_up(&mut bench, 2).unwrap().3, Some(b"x".to_vec()));
    }
}

#[test]
fn keeps_every_message_without_a_right() {
    denied::keeps_every_message_without_a_right("pick_up", seed, |bench| call_pick_up::<Value>(bench, 1));
}
