use super::*;

fn retry(bench: &mut Bench, seq: u64, id: &str, message: &str) -> RedisResult<u64> {
    bench.call("retry", |call| {
        call.key(QUEUE).key(TOKENS).key(PROCESSING).key(WORKER).key(DEATHS);
        call.arg(seq).arg(id).arg(message).arg("");
    })
}

fn seed(bench: &mut Bench) {
    bench.wait(&["a"]);
    bench.own(&[(&slot(0), "b"), (&slot(1), "c")]);
}

#[test]
fn moves_the_message_to_the_tail() {
    let mut bench = Bench::new();
    seed(&mut bench);
    assert_eq!(retry(&mut bench, 1, &slot(0), "b again").unwrap(), 1, "expected it to be done");
    let state = bench.state();
    assert_eq!(state.waiting, bytes(&["a", "b again"]), "expected the new bytes at the tail");
    assert_eq!(state.tokens, 2, "expected a token for it");
    assert_eq!(state.processing, owned(&[(&slot(1), "c")]), "expected only this slot to be empty");
    assert_eq!(bench.seq(), Some(1), "expected the number of the call to be stored");
}

#[test]
fn forgets_the_deaths_of_the_bytes_that_it_moves() {
    let mut bench = Bench::new();
    seed(&mut bench);
    for message in ["b", "c"] {
        let () = bench.redis.hset(DEATHS, digest(message), "1 1 q:w").unwrap();
    }
    retry(&mut bench, 1, &slot(0), "b again").unwrap();
    retry(&mut bench, 2, &slot(7), "c again").unwrap();
    let left = BTreeMap::from([(digest("c"), "1 1 q:w".to_owned())]);
    assert_eq!(bench.state().deaths, left, "expected only those of what was moved to be forgotten");
}

#[test]
fn does_nothing_for_a_slot_that_lost_its_message() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let done = changes_only_its_number(&mut bench, 1, |bench, seq| retry(bench, seq, &slot(7), "b again"));
    assert_eq!(done, 0, "expected it to own nothing");
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    assert_eq!(
        retry(&mut bench, 1, &slot(0), "b again").unwrap(),
        1,
        "expected a full Redis to be no obstacle"
    );
    assert_eq!(bench.state().waiting, bytes(&["a", "b again"]), "expected it at the tail");
    assert_eq!(bench.seq(), Some(1), "expected the number of the call to be stored");
}

#[test]
fn changes_nothing_when_it_is_refused() {
    let keys = [QUEUE, TOKENS, PROCESSING, WORKER, DEATHS];
    changes_nothing_it_may_not(&keys, seed, |bench| retry(bench, 1, &slot(0), "b again"));
    refuses_stale_calls(seed, |bench, seq| retry(bench, seq, &slot(0), "b again"));
}

#[test]
fn keeps_every_message_without_a_right() {
    denied::keeps_every_message_without_a_right("retry", seed, |bench| retry(bench, 1, &slot(0), "b again"));
}
