//! We and the ancestors' workers and sweepers on one queue. Their scripts are fixed by `docs/protocol.md`; these do
//! the same in other words.

use super::*;

/// Takes the oldest message into the worker's field; fails on an empty queue.
const THEIR_CLAIM: &str = "
    local message = redis.call('LPOP', KEYS[1])
    redis.call('HSET', KEYS[2], ARGV[1], message)
    return message";

/// Requeues the field of everyone without a live key, then tops up the tokens.
const THEIR_SWEEP: &str = "
    local requeued = 0
    for _, id in ipairs(redis.call('HKEYS', KEYS[3])) do
      if not redis.call('GET', id) then
        redis.call('RPUSH', KEYS[1], redis.call('HGET', KEYS[3], id))
        redis.call('HDEL', KEYS[3], id)
        redis.call('RPUSH', KEYS[2], '1')
        requeued = requeued + 1
      end
    end
    for _ = redis.call('LLEN', KEYS[2]) + 1, redis.call('LLEN', KEYS[1]) do
      redis.call('RPUSH', KEYS[2], '1')
    end
    return requeued";

/// A bare 16-bit integer, as Python has it.
const THEIR_ID: &str = "4711";

impl Bench {
    fn they_claim(&mut self) -> RedisResult<String> {
        let _: Option<String> = self.redis.lpop(TOKENS, None).unwrap();
        redis::Script::new(THEIR_CLAIM).key(QUEUE).key(PROCESSING).arg(THEIR_ID).invoke(&mut self.redis)
    }

    fn they_sweep(&mut self) -> u64 {
        let script = redis::Script::new(THEIR_SWEEP);
        script.key(QUEUE).key(TOKENS).key(PROCESSING).invoke(&mut self.redis).unwrap()
    }

    fn we_claim(&mut self, seq: u64, released: usize, ids: &[String]) -> (i64, Vec<String>) {
        let (lost, _, _, claimed): (i64, i64, i64, redis::Value) = self
            .call("claim", |call| {
                call.key(QUEUE)
                    .key(TOKENS)
                    .key(PROCESSING)
                    .key(WORKER)
                    .key(DEATHS)
                    .key(HAND)
                    .key(PAUSED)
                    .key(CANCELLED);
                call.arg(seq).arg(LEASE).arg(0).arg(0).arg(0).arg(released).arg(0).arg(ids);
            })
            .unwrap();
        let messages = messages_of(claimed).into_iter();
        (lost, messages.map(|message| String::from_utf8(message).unwrap()).collect())
    }

    fn we_sweep(&mut self) -> (u64, u64) {
        let (_, requeued, buried, _): (u64, u64, u64, Vec<String>) =
            super::requeue_lost::sweep(self, 0, &super::requeue_lost::ASK).unwrap();
        (requeued, buried)
    }
}

#[test]
fn their_sweep_leaves_what_we_own_as_long_as_we_live() {
    let mut bench = Bench::new();
    bench.wait(&["a", "b", "c"]);
    let ids = slots(3);
    assert_eq!(bench.we_claim(1, 0, &ids).1, ["a", "b", "c"], "expected all three");
    assert_eq!(bench.they_sweep(), 0, "expected a live key for each of our fields");
    assert_eq!(bench.state().processing.len(), 3, "expected our fields to stay");

    let () = bench.redis.del(&ids[1]).unwrap();
    assert_eq!(bench.they_sweep(), 1, "expected what a dead slot owned to be requeued");
    let state = bench.state();
    assert_eq!((state.waiting, state.tokens), (bytes(&["b"]), 1), "expected it to wait again, with a token");
    let (lost, claimed) = bench.we_claim(2, 3, &ids);
    assert_eq!(
        (lost, claimed),
        (1, vec!["b".to_owned()]),
        "expected us to learn of the loss, and to run it again"
    );
}

#[test]
fn their_sweep_never_sees_a_field_of_ours_without_its_live_key() {
    // Also for a slot that is claimed again although its key has expired in the meantime.
    let mut bench = Bench::new();
    bench.wait(&["a", "b"]);
    let ids = slots(1);
    bench.we_claim(1, 0, &ids);
    let () = bench.redis.del(&ids[0]).unwrap();
    assert_eq!(bench.we_claim(2, 1, &ids).1, ["b"], "expected the next message");
    assert_eq!(bench.they_sweep(), 0, "expected the live key to be made with the field");
}

#[test]
fn our_sweep_treats_their_workers_as_theirs_does() {
    let mut bench = Bench::new();
    bench.wait(&["a"]);
    let () = bench.redis.set_ex(THEIR_ID, "1", 60).unwrap();
    assert_eq!(bench.they_claim().unwrap(), "a", "expected what we enqueued");
    assert_eq!(bench.we_sweep(), (0, 0), "expected their living worker to keep its message");
    let () = bench.redis.del(THEIR_ID).unwrap();
    assert_eq!(bench.we_sweep(), (1, 0), "expected their dead worker's message to be requeued");
    let () = bench.redis.set_ex(THEIR_ID, "1", 60).unwrap();
    assert_eq!(bench.they_claim().unwrap(), "a", "expected the same bytes, which they can read");
}

#[test]
fn nobody_is_woken_for_nothing() {
    let mut bench = Bench::new();
    bench.wait(&["a", "b"]);
    bench.we_claim(1, 0, &slots(2));
    assert_eq!(bench.state().tokens, 0, "expected our claim to take the tokens with the messages");
    let before = everything(&mut bench.redis);
    bench.they_claim().expect_err("expected their claim to fail on an empty queue, as it does");
    bench.assert_unchanged(&before, "when theirs failed");
}

#[test]
fn token_of_a_foreign_sweep_between_wait_and_claim_is_dropped() {
    let mut bench = Bench::new();
    bench.wait(&["a"]);
    let () = bench.redis.lmove(TOKENS, HAND, redis::Direction::Left, redis::Direction::Right).unwrap();
    bench.they_sweep();
    assert_eq!(bench.state().tokens, 1, "expected one too many, as the hand is nothing to them");
    let mut pick_up = |seq: u64| -> Vec<Vec<u8>> {
        let reply: (i64, i64, i64, Vec<Vec<u8>>) = bench
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
        reply.3
    };
    assert_eq!(pick_up(1), bytes(&["a"]));
    assert_eq!(pick_up(2), bytes(&[]), "expected the next wait to end for nothing");
    let state = bench.state();
    assert_eq!((state.tokens, state.processing.len()), (0, 1), "expected it to be dropped: {state:#?}");
}

#[test]
fn their_producers_two_commands_are_mended_by_either_sweep() {
    // The list without its token: what a producer leaves that dies between the two.
    let mut bench = Bench::new();
    let () = bench.redis.rpush(QUEUE, "a").unwrap();
    assert_eq!(bench.we_claim(1, 0, &slots(1)).1, [""; 0], "expected nothing to be taken without a token");
    let added: i64 = bench
        .call("balance", |call| {
            call.key(QUEUE).key(TOKENS).key(HAND).arg(1);
        })
        .unwrap();
    assert_eq!(added, 1, "expected our balance to add what is missing");
    bench.they_sweep();
    assert_eq!(bench.state().tokens, 1, "expected theirs to find nothing more to add");
    assert_eq!(bench.we_claim(2, 0, &slots(1)).1, ["a"], "expected it to be claimed now");
}
