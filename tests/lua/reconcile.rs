use super::*;

/// The number, which slots own what is to run alone, and what each slot owns.
fn ask(bench: &mut Bench, seq: u64, ids: &[String]) -> RedisResult<(i64, Vec<usize>, Vec<Option<String>>)> {
    let reply: Vec<redis::Value> = bench.call("reconcile", |call| {
        call.key(PROCESSING).key(WORKER).key(DEATHS).key(CANCELLED).arg(seq).arg(LEASE).arg(ids);
    })?;
    let mut values = reply.into_iter();
    let applied = redis::from_redis_value(values.next().expect("expected the number of a call")).unwrap();
    let alone = redis::from_redis_value(values.next().expect("expected slots")).unwrap();
    let cancelled: Vec<u64> = redis::from_redis_value(values.next().expect("expected slots")).unwrap();
    assert!(cancelled.is_empty(), "expected nothing to be cancelled: {cancelled:?}");
    Ok((applied, alone, values.map(|value| redis::from_redis_value(value).unwrap()).collect()))
}

/// The same where nothing is suspected.
fn reconcile(bench: &mut Bench, seq: u64, ids: &[String]) -> RedisResult<(i64, Vec<Option<String>>)> {
    let (applied, alone, owned) = ask(bench, seq, ids)?;
    assert!(alone.is_empty(), "expected no suspects: {alone:?}");
    Ok((applied, owned))
}

fn seed(bench: &mut Bench) {
    bench.own(&[(&slot(0), "a"), (&slot(2), "c")]);
    let () = bench.redis.hset(WORKER, "seq", 5).unwrap();
}

#[test]
fn tells_what_was_applied_and_what_each_slot_owns() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let owned_now = vec![Some("a".to_owned()), None, Some("c".to_owned()), None];
    let reply = reconcile(&mut bench, 9, &slots(4)).unwrap();
    assert_eq!(reply, (5, owned_now), "expected the stored number, and a message or nil for each slot");
    assert_eq!(bench.seq(), Some(9), "expected its own number to be stored");
    bench.assert_expires(WORKER, 4 * LEASE);
    assert_eq!(
        bench.state().processing,
        owned(&[(&slot(0), "a"), (&slot(2), "c")]),
        "expected no change there"
    );
    bench.refuses(STALE, "a call that was on its way", |bench| {
        bench.call::<u64>("retry", |call| {
            call.key(QUEUE).key(TOKENS).key(PROCESSING).key(WORKER).arg(6).arg(slot(0)).arg("a").arg("");
        })
    });
}

#[test]
fn gives_the_same_answer_when_its_own_reply_was_lost() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let answer = |bench: &mut Bench, seq| reconcile(bench, seq, &slots(1)).unwrap().0;
    assert_eq!(answer(&mut bench, 9), 5, "expected the last call that was applied");
    assert_eq!(answer(&mut bench, 10), 5, "expected the reconcile before it not to count as a call");
    assert_eq!(answer(&mut bench, 10), 5, "expected the same when it is sent again with its number");
    bench.refuses(STALE, "one that was on its way", |bench| reconcile(bench, 9, &slots(1)));
    let () = bench.redis.hset(WORKER, "seq", 11).unwrap();
    assert_eq!(answer(&mut bench, 12), 11, "expected a call that was applied since to count");
    let mut bench = Bench::new();
    assert_eq!((answer(&mut bench, 1), answer(&mut bench, 2)), (-1, -1), "expected Redis still not to know");
}

#[test]
fn says_that_redis_does_not_know() {
    let mut bench = Bench::new();
    assert_eq!(reconcile(&mut bench, 9, &slots(1)).unwrap(), (-1, vec![None]), "expected -1 and nil");
    assert_eq!(bench.seq(), Some(9), "expected its own number to be stored");
    bench.assert_expires(WORKER, 4 * LEASE);
}

#[test]
fn tells_which_slots_own_what_two_processes_died_of() {
    let mut bench = Bench::new();
    bench.own(&[(&slot(0), "once"), (&slot(1), "twice"), (&slot(3), "thrice"), (&slot(4), "never")]);
    for (message, deaths) in [("once", "1 a"), ("twice", "2 a b"), ("thrice", "12 a b"), ("else", "2 a b")] {
        let () = bench.redis.hset(DEATHS, digest(message), deaths).unwrap();
    }
    let (_, alone, owned) = ask(&mut bench, 9, &slots(5)).unwrap();
    assert_eq!(alone, [2, 4], "expected those of two deaths and more: {owned:?}");
    assert_eq!(owned.iter().flatten().count(), 4, "expected each message: {owned:?}");
}

#[test]
fn takes_a_thousand_slots() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let (_, slots) = reconcile(&mut bench, 9, &slots(1000)).unwrap();
    assert_eq!(slots.len(), 1000, "expected an answer for each slot");
    assert_eq!(slots.iter().flatten().count(), 2, "expected two of them to own something");
}

#[test]
fn answers_large_messages_in_several_replies() {
    let mut bench = Bench::new();
    let ids = slots(60);
    for (number, id) in ids.iter().enumerate().filter(|(number, _)| number % 3 > 0) {
        // The last one is larger than a reply may be.
        let length = if number == 59 { 9 << 20 } else { 1 << 20 };
        let message = format!("{number} {}", "x".repeat(length));
        let () = bench.redis.hset(PROCESSING, id, message).unwrap();
    }
    let () = bench.redis.hset(WORKER, "seq", 5).unwrap();
    let mut owned = Vec::new();
    let mut replies = 0;
    while owned.len() < ids.len() {
        let (applied, part) = reconcile(&mut bench, 9, &ids[owned.len()..]).unwrap();
        assert_eq!((applied, bench.seq()), (5, Some(9)), "expected the same answer each time");
        let large: usize = part.iter().flatten().map(String::len).sum();
        let last = part.last().unwrap().as_ref().map_or(0, String::len);
        assert!(
            large - last < 8 << 20,
            "expected the last message alone to be beyond 8 MiB, of {large} bytes"
        );
        owned.extend(part);
        replies += 1;
    }
    assert_eq!(
        replies, 5,
        "expected eight messages of 1 MiB in each, and seven and a larger one in the last"
    );
    for (number, message) in owned.into_iter().enumerate() {
        let begins = message.map(|message| message.split(' ').next().unwrap().to_owned());
        let expected = (number % 3 > 0).then(|| number.to_string());
        assert_eq!(begins, expected, "expected every slot to be answered, and in its place");
    }
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = Bench::new();
    bench.fill();
    assert_eq!(
        reconcile(&mut bench, 9, &slots(1)).unwrap(),
        (-1, vec![None]),
        "expected it to be no obstacle"
    );
    assert_eq!(bench.seq(), Some(9), "expected its own number to be stored");
}

#[test]
fn changes_nothing_when_it_is_refused() {
    changes_nothing_it_may_not(&[PROCESSING, WORKER, DEATHS], seed, |bench| reconcile(bench, 9, &slots(3)));
    let mut bench = Bench::new();
    seed(&mut bench);
    for seq in [5, 4] {
        bench.refuses(STALE, &format!("{seq} after call 5"), |bench| reconcile(bench, seq, &slots(3)));
    }
}
