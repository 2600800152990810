use super::*;

fn begin(bench: &mut Bench, seq: u64) -> RedisResult<u64> {
    bench.call("begin", |call| {
        call.key(PROCESSING).key(WORKER).key(DEATHS).arg(seq).arg(slot(0));
    })
}

/// Notes what is known of the deaths of `m`.
fn know(bench: &mut Bench, known: &str) {
    let () = bench.redis.hset(DEATHS, digest("m"), known).unwrap();
}

fn known(bench: &mut Bench) -> String {
    bench.redis.hget(DEATHS, digest("m")).unwrap()
}

/// A worker owns a suspect of which two have died, and another one of the same bytes waits.
fn seed(bench: &mut Bench) {
    bench.own(&[(&slot(0), "m")]);
    know(bench, "3 1 =1;abcdefghijklmn27:1=5;abcdefghijklmn27:0=2 q:a q:b");
}

#[test]
fn run_that_begins_is_noted_with_the_deaths_of_its_call() {
    let mut bench = Bench::new();
    seed(&mut bench);
    for seq in [1, 2] {
        assert_eq!(begin(&mut bench, seq).unwrap(), 1, "expected the slot to own it");
        assert_eq!(known(&mut bench), "3 1 =1;abcdefghijklmn27:1=5;abcdefghijklmn27:0!2 q:a q:b");
    }
    know(&mut bench, "2 1 q:a q:b");
    begin(&mut bench, 3).unwrap();
    assert_eq!(known(&mut bench), "2 1 =;abcdefghijklmn27:0!0 q:a q:b", "expected none to be known");
    assert_eq!(bench.state().processing, owned(&[(&slot(0), "m")]), "expected the slot to keep it");
}

#[test]
fn deaths_are_dropped_while_a_foreign_worker_owns_equal_bytes() {
    for (other, message, died) in [("4711", "m", 0), ("4711", "n", 2), ("q:bbbbbbbbbbbbbbbb:0", "m", 2)] {
        let mut bench = Bench::new();
        seed(&mut bench);
        bench.own(&[(other, message)]);
        begin(&mut bench, 1).unwrap();
        let expected = format!("3 1 =1;abcdefghijklmn27:1=5;abcdefghijklmn27:0!{died} q:a q:b");
        assert_eq!(known(&mut bench), expected, "{other} owns {message}");
    }
}

#[test]
fn nothing_is_noted_where_nothing_is_owned_or_suspected() {
    let mut bench = Bench::new();
    know(&mut bench, "2 1 q:a q:b");
    assert_eq!(changes_only_its_number(&mut bench, 1, begin), 0, "expected the slot to own nothing");
    bench.own(&[(&slot(0), "m")]);
    let () = bench.redis.del(DEATHS).unwrap();
    assert_eq!(changes_only_its_number(&mut bench, 3, begin), 1, "expected it to run all the same");
    know(&mut bench, "not to be read");
    assert_eq!(changes_only_its_number(&mut bench, 5, begin), 1, "expected it to run all the same");
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    assert_eq!(begin(&mut bench, 1).unwrap(), 1, "expected a full Redis to be no obstacle");
    assert!(known(&mut bench).contains("!2"), "expected it to be noted");
}

#[test]
fn changes_nothing_when_it_is_refused() {
    changes_nothing_it_may_not(&[PROCESSING, WORKER, DEATHS], seed, |bench| begin(bench, 1));
    refuses_stale_calls(seed, begin);
}
