use super::*;

const LIST: &str = "q:g:f";

/// Adds items to the batch `f`, which may have four, for a minute. Gives how many messages were made.
fn fill(bench: &mut Bench, grace: u64, full: &[&str], items: &[&str]) -> RedisResult<u64> {
    bench.call("fill", |call| {
        call.key(QUEUE).key(TOKENS).key(DUE).key(TIMETABLE);
        call.arg("q:due").arg("f").arg(4).arg(60_000).arg(grace).arg(full.len()).arg(items.len());
        for item in full.iter().chain(items) {
            call.arg(*item);
        }
    })
}

fn list(bench: &mut Bench) -> Vec<String> {
    bench.redis.lrange(LIST, 0, -1).unwrap()
}

fn promote(bench: &mut Bench) -> (u64, i64) {
    bench
        .call("promote", |call| {
            call.key(QUEUE).key(TOKENS).key(DUE).key(LATER).key(TIMETABLE).key(PERIODIC);
            call.arg("us").arg(1_000).arg(500).arg(0);
        })
        .unwrap()
}

/// A call of `f` with these items, which have one byte each.
fn message(items: &str) -> Vec<u8> {
    let mut payload = vec![0x90 + items.len() as u8];
    payload.extend_from_slice(items.as_bytes());
    crate::support::trial::message("f", &payload)
}

#[test]
fn items_wait_for_others_until_there_are_enough() {
    let mut bench = Bench::new();
    let before = bench.server_ms();
    assert_eq!(fill(&mut bench, 0, &[], &["a", "b"]).unwrap(), 0);
    let after = bench.server_ms();
    let due: u64 = bench.redis.zscore(DUE, "gf").unwrap();
    assert!((before + 60_000..=after + 60_000).contains(&due), "expected it a minute from now: {due}");
    assert_eq!(fill(&mut bench, 0, &[], &["c"]).unwrap(), 0);
    let header = list(&mut bench).remove(0);
    let (since, bytes) = header.split_once(' ').unwrap();
    assert_eq!(
        (since.parse().unwrap(), bytes),
        (due - 60_000, "3"),
        "expected the time of the first, and all bytes"
    );
    assert_eq!(list(&mut bench)[1..], ["a", "b", "c"]);
    assert_eq!(bench.redis.zscore::<_, _, u64>(DUE, "gf").unwrap(), due, "expected the time to stay");
    assert_eq!(fill(&mut bench, 0, &[], &["d", "e"]).unwrap(), 1);
    let state = bench.state();
    assert_eq!((state.waiting, state.tokens), (vec![message("abcd")], 1));
    assert_eq!(list(&mut bench)[1..], ["e"]);
    assert_eq!(fill(&mut bench, 0, &[], &["f", "g", "h"]).unwrap(), 1);
    assert_eq!(bench.state().waiting, [message("abcd"), message("efgh")]);
    assert!(!bench.redis.exists::<_, bool>(LIST).unwrap() && !bench.redis.exists::<_, bool>(DUE).unwrap());
}

#[test]
fn new_item_puts_off_the_end_as_long_as_the_first_may_wait() {
    let mut bench = Bench::new();
    for grace in [5_000, 20_000] {
        let before = bench.server_ms();
        fill(&mut bench, grace, &[], &["a"]).unwrap();
        let due: u64 = bench.redis.zscore(DUE, "gf").unwrap();
        let after = bench.server_ms();
        assert!((before + grace..=after + grace).contains(&due), "{grace}: {due}");
    }
    let since = bench.server_ms() - 59_000;
    let () = bench.redis.lset(LIST, 0, format!("{since} 2")).unwrap();
    fill(&mut bench, 20_000, &[], &["a"]).unwrap();
    let left = bench.redis.zscore::<_, _, u64>(DUE, "gf").unwrap().saturating_sub(bench.server_ms());
    assert!(left <= 1_000, "expected what the first item has left: {left}");
}

#[test]
fn full_batches_become_messages_by_themselves() {
    let mut bench = Bench::new();
    fill(&mut bench, 0, &[], &["a"]).unwrap();
    assert_eq!(fill(&mut bench, 0, &["bcde", "fghi"], &["j"]).unwrap(), 2);
    assert_eq!(bench.state().waiting, [message("bcde"), message("fghi")]);
    assert_eq!(list(&mut bench)[1..], ["a", "j"]);
    let due: u64 = bench.redis.zscore(DUE, "gf").unwrap();
    assert_eq!(fill(&mut bench, 0, &["bcde"], &[]).unwrap(), 1);
    assert_eq!(list(&mut bench)[1..], ["a", "j"], "expected the filling one as it was");
    assert_eq!(bench.redis.zscore::<_, _, u64>(DUE, "gf").unwrap(), due);
}

#[test]
fn only_the_earliest_batch_revokes_the_timetable() {
    for (other, kept) in [(1_000, true), (90_000, false)] {
        let mut bench = Bench::new();
        let due = bench.server_ms() + other;
        let () = bench.redis.zadd(DUE, "cother", due).unwrap();
        let () = bench.redis.set(TIMETABLE, "somebody").unwrap();
        fill(&mut bench, 0, &[], &["a"]).unwrap();
        assert_eq!(bench.redis.exists::<_, bool>(TIMETABLE).unwrap(), kept, "with one in {other} ms");
    }
}

#[test]
fn changes_nothing_when_it_may_not() {
    let seed = |bench: &mut Bench| assert_eq!(fill(bench, 0, &[], &["a"]).unwrap(), 0);
    changes_nothing_it_may_not(&[QUEUE, TOKENS, DUE, LIST], seed, |bench| {
        fill(bench, 0, &[], &["b", "c", "d"])
    });
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    bench.refuses(FULL, "in a full Redis", |bench| fill(bench, 0, &[], &["b", "c", "d"]));
}

#[test]
fn timetable_moves_a_batch_that_is_due() {
    let mut bench = Bench::new();
    fill(&mut bench, 0, &[], &["a", "b"]).unwrap();
    let (moved, next) = promote(&mut bench);
    assert!(moved == 0 && (30_000..=60_000).contains(&next), "expected it to be too early: {moved}, {next}");
    let () = bench.redis.zadd(DUE, "gf", 1).unwrap();
    let () = bench.redis.zadd(DUE, "gnobody", 1).unwrap();
    assert_eq!(promote(&mut bench), (1, -1));
    let state = bench.state();
    assert_eq!((state.waiting, state.tokens), (vec![message("ab")], 1));
    assert!(!bench.redis.exists::<_, bool>(LIST).unwrap(), "expected nothing to be left of it");
    // What is another program's stays where it is, and holds up nothing.
    let () = bench.redis.set(LIST, "text").unwrap();
    let () = bench.redis.zadd(DUE, "gf", 1).unwrap();
    let () = bench.redis.zadd(DUE, "cother", 2).unwrap();
    let () = bench.redis.hset(LATER, "other", "message").unwrap();
    let (moved, next) = promote(&mut bench);
    assert!(moved == 1 && (30_000..=60_000).contains(&next), "expected it to be put off: {moved}, {next}");
    assert_eq!(bench.redis.get::<_, String>(LIST).unwrap(), "text");
}

#[test]
fn comes_to_the_same_without_each_right() {
    let call = |bench: &mut Bench| {
        let made = fill(bench, 0, &["bcde"], &["b", "c", "d", "e"])?;
        let list = list(bench)[1..].to_vec();
        Ok((made, list, bench.state().waiting))
    };
    let expected = (2, vec!["e".to_owned()], vec![message("bcde"), message("abcd")]);
    let seed = |bench: &mut Bench| assert_eq!(fill(bench, 0, &[], &["a"]).unwrap(), 0);
    assert_same_without_each_right("fill", seed, call, &expected);
}

#[test]
fn list_of_another_program_stays_as_it_is() {
    let mut bench = Bench::new();
    let () = bench.redis.rpush(LIST, &["a message", "another"]).unwrap();
    bench.refuses(WRONG_TYPE, "with another's list", |bench| fill(bench, 0, &[], &["a", "b", "c", "d"]));
    let () = bench.redis.zadd(DUE, "gf", 1).unwrap();
    let () = bench.redis.zadd(DUE, "g", 2).unwrap();
    bench.scheduled("other");
    assert_eq!(promote(&mut bench).0, 1, "expected the call beside it to be moved");
    assert_eq!(list(&mut bench), ["a message", "another"]);
    assert_eq!(bench.state().waiting, bytes(&["message other"]));
}

#[test]
fn numbers_are_checked_before_anything_is_written() {
    for (most, within) in [("x", "1"), ("4", ""), ("4", "1e300"), ("-1", "5")] {
        let mut bench = Bench::new();
        bench.refuses("ERR", &format!("{most} items within {within}"), |bench| {
            bench.call::<Value>("fill", |call| {
                call.key(QUEUE).key(TOKENS).key(DUE).key(TIMETABLE).arg("q:due");
                call.arg("e").arg(1).arg(1).arg(0).arg(0).arg(1).arg("a");
                call.arg("f").arg(most).arg(within).arg(0).arg(0).arg(1).arg("a");
            })
        });
    }
}

#[test]
fn timetable_moves_a_bounded_number_of_items_at_once() {
    let mut bench = Bench::new();
    for n in 0..8 {
        let mut items = vec!["1 20000".to_owned()];
        items.resize(20_001, "a".into());
        let () = bench.redis.rpush(format!("q:g:f{n}"), items).unwrap();
        let () = bench.redis.zadd(DUE, format!("gf{n}"), n).unwrap();
    }
    let moved: Vec<(u64, i64)> = (0..3).map(|_| promote(&mut bench)).collect();
    assert_eq!(moved, [(3, 0), (3, 0), (2, -1)]);
}
