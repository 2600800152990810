use super::*;

fn revive(bench: &mut Bench, pairs: &[(String, String)]) -> RedisResult<u64> {
    let (count, locked): (u64, Vec<Vec<u8>>) = bench.call("revive", |call| {
        call.key(QUEUE).key(TOKENS).key(DEAD);
        for (id, message) in pairs {
            call.arg(id).arg(message);
        }
    })?;
    assert!(locked.is_empty(), "expected no lock to be held: {locked:?}");
    Ok(count)
}

fn pair(number: usize) -> (String, String) {
    (format!("{number}-0"), format!("m{number} again"))
}

/// Dead letters `1-0` to `count-0`, and one message that waits.
fn seed(bench: &mut Bench, count: usize) {
    bench.wait(&["a"]);
    for i in 1..=count {
        bench.letter(&format!("{i}-0"), &format!("m{i}"));
    }
}

#[test]
fn moves_letters_to_the_tail() {
    let mut bench = Bench::new();
    seed(&mut bench, 3);
    assert_eq!(revive(&mut bench, &[pair(3), pair(1)]).unwrap(), 2, "expected both to be put back");
    let state = bench.state();
    assert_eq!(
        state.waiting,
        bytes(&["a", "m3 again", "m1 again"]),
        "expected the new bytes, in the order given"
    );
    assert_eq!(state.tokens, 3, "expected a token for each");
    assert_eq!(
        state.dead,
        [BTreeMap::from([("message".into(), b"m2".to_vec())])],
        "expected the other to stay"
    );
}

#[test]
fn leaves_out_letters_that_are_gone() {
    let mut bench = Bench::new();
    seed(&mut bench, 1);
    assert_eq!(revive(&mut bench, &[pair(9), pair(1), pair(1)]).unwrap(), 1, "expected one, and only once");
    let state = bench.state();
    assert_eq!((state.waiting, state.tokens), (bytes(&["a", "m1 again"]), 2), "expected it once");
    let before = everything(&mut bench.redis);
    assert_eq!(revive(&mut bench, &[pair(1)]).unwrap(), 0, "expected it to be gone");
    bench.assert_unchanged(&before, "with nothing to do");
}

#[test]
fn takes_five_hundred_also_from_a_full_redis() {
    let mut bench = Bench::new();
    seed(&mut bench, 500);
    bench.fill();
    let pairs: Vec<_> = (1..=500).map(pair).collect();
    assert_eq!(revive(&mut bench, &pairs).unwrap(), 500, "expected a full Redis to be no obstacle");
    let state = bench.state();
    assert_eq!((state.waiting.len(), state.tokens, state.dead.len()), (501, 501, 0), "expected all to wait");
}

#[test]
fn changes_nothing_when_it_is_refused() {
    changes_nothing_it_may_not(
        &[QUEUE, TOKENS, DEAD],
        |bench| seed(bench, 2),
        |bench| revive(bench, &[pair(1)]),
    );
    let mut bench = Bench::new();
    seed(&mut bench, 2);
    bench.refuses("ERR", "for something that is no id", |bench| revive(bench, &[("x".into(), "m".into())]));
}

#[test]
fn keeps_every_message_without_a_right() {
    denied::keeps_every_message_without_a_right(
        "revive",
        |bench| seed(bench, 3),
        |bench| revive(bench, &[pair(3), pair(1)]),
    );
}
