mod model;

use super::*;

/// What a call asks for; the ids are slots 0, 1, …
#[derive(Debug, Clone)]
struct Ask {
    seq: u64,
    in_hand: usize,
    renew: bool,
    forgive: usize,
    released: usize,
    kept: usize,
    ids: Vec<String>,
}

impl Ask {
    /// Claims for so many free slots.
    fn free(count: usize) -> Self {
        Self { seq: 1, in_hand: 0, renew: false, forgive: 0, released: 0, kept: 0, ids: slots(count) }
    }

    /// Releases so many slots and claims for none.
    fn release(count: usize) -> Self {
        Self { released: count, kept: count, ..Self::free(count) }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Reply {
    lost: i64,
    waiting: i64,
    suspects: bool,
    /// Whether all messages came as one string.
    packed: bool,
    messages: Vec<Vec<u8>>,
}

fn call_claim<T: FromRedisValue>(bench: &mut Bench, ask: &Ask) -> RedisResult<T> {
    bench.call("claim", |call| {
        call.key(QUEUE)
            .key(TOKENS)
            .key(PROCESSING)
            .key(WORKER)
            .key(DEATHS)
            .key(HAND)
            .key(PAUSED)
            .key(CANCELLED);
        call.arg(ask.seq).arg(LEASE).arg(ask.in_hand).arg(u8::from(ask.renew));
        call.arg(ask.forgive).arg(ask.released).arg(ask.kept).arg(&ask.ids);
    })
}

fn claim(bench: &mut Bench, ask: &Ask) -> RedisResult<Reply> {
    let reply: Vec<redis::Value> = call_claim(bench, ask)?;
    let (Ok([lost, waiting, suspects]), Some(messages)) = (numbers(&reply), reply.get(3).cloned()) else {
        panic!("expected three numbers and messages: {reply:?}")
    };
    let packed = matches!(messages, redis::Value::BulkString(_));
    Ok(Reply { lost, waiting, suspects: suspects == 1, packed, messages: messages_of(messages) })
}

/// The first three values.
fn numbers(reply: &[redis::Value]) -> Result<[i64; 3], redis::ParsingError> {
    let number = |place: usize| redis::from_redis_value(reply[place].clone());
    Ok([number(0)?, number(1)?, number(2)?])
}

#[test]
fn moves_the_oldest_into_free_slots_and_keeps_them_alive() {
    let mut bench = Bench::new();
    bench.wait(&["a", "b", "c"]);
    let reply = claim(&mut bench, &Ask::free(2)).unwrap();
    let expected = Reply { waiting: 1, messages: bytes(&["a", "b"]), ..Reply::default() };
    assert_eq!(reply, expected, "expected the oldest two, oldest first");
    let state = bench.state();
    assert_eq!((state.waiting, state.tokens), (bytes(&["c"]), 1), "expected a token less for each");
    assert_eq!(
        state.processing,
        owned(&[(&slot(0), "a"), (&slot(1), "b")]),
        "expected both slots to own theirs"
    );
    for id in slots(2) {
        bench.assert_expires(&id, LEASE);
        assert_eq!(bench.redis.get::<_, String>(&id).unwrap(), "1", "expected the ancestors' value at {id}");
    }
    assert_eq!(bench.seq(), Some(1), "expected the number of the call to be stored");
}

#[test]
fn leaves_a_live_key_as_it_is_unless_told_to_renew() {
    for (renew, left) in [(false, 50_000), (true, LEASE)] {
        let mut bench = Bench::new();
        bench.wait(&["a"]);
        let () = bench.redis.pset_ex(slot(0), "1", 50_000).unwrap();
        claim(&mut bench, &Ask { renew, ..Ask::free(1) }).unwrap();
        bench.assert_expires(&slot(0), left);
        let now: u64 = bench.redis.pttl(slot(0)).unwrap();
        assert_eq!(now > 50_000, renew, "expected a new lease only when asked for, it has {now} ms");
    }
}

#[test]
fn an_empty_queue_is_no_error_and_loses_surplus_tokens() {
    let mut bench = Bench::new();
    let reply =
        changes_only_its_number(&mut bench, 1, |bench, seq| claim(bench, &Ask { seq, ..Ask::free(2) }));
    assert_eq!(reply, Reply::default(), "expected no messages");
    let () = bench.redis.rpush(TOKENS, vec!["1"; 10_000]).unwrap();
    let ask = Ask { seq: 3, in_hand: 1, ..Ask::free(2) };
    assert_eq!(claim(&mut bench, &ask).unwrap(), Reply::default(), "expected no messages");
    assert_eq!(bench.state().keys, [WORKER], "expected the tokens to be removed");
}

#[test]
fn what_many_slots_own_is_not_searched_from_its_beginning() {
    for (slots, is_table) in [(15, false), (16, true), (300, true)] {
        let mut bench = Bench::new();
        let messages: Vec<String> = (0..slots).map(|n| n.to_string()).collect();
        bench.wait(&messages.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(claim(&mut bench, &Ask::free(slots)).unwrap().messages.len(), slots);
        let encoding: String =
            redis::cmd("OBJECT").arg("ENCODING").arg(PROCESSING).query(&mut bench.redis).unwrap();
        assert_eq!(encoding == "hashtable", is_table, "{slots} slots: {encoding}");
        assert_eq!(bench.state().processing.len(), slots, "expected nothing else to be left there");
    }
}

#[test]
fn releases_without_claiming() {
    let mut bench = Bench::new();
    bench.wait(&["x"]);
    bench.own(&[(&slot(0), "a"), (&slot(1), "b"), (&slot(2), "c")]);
    let reply = claim(&mut bench, &Ask::release(2)).unwrap();
    assert_eq!(reply, Reply { waiting: 1, ..Reply::default() }, "expected nothing lost, nothing claimed");
    let state = bench.state();
    assert_eq!(state.processing, owned(&[(&slot(2), "c")]), "expected the released messages to be gone");
    assert_eq!((state.waiting.len(), state.tokens), (1, 1), "expected the queue as it was");
    assert_eq!(bench.seq(), Some(1), "expected the number of the call to be stored");
}

#[test]
fn says_how_many_released_messages_were_taken_away() {
    let mut bench = Bench::new();
    bench.own(&[(&slot(0), "a"), (&slot(1), "b")]);
    let () = bench.redis.hdel(PROCESSING, slot(0)).unwrap();
    assert_eq!(claim(&mut bench, &Ask::release(2)).unwrap().lost, 1, "expected one to be lost");
    let ask = |seq| Ask { seq, ..Ask::release(2) };
    let again = changes_only_its_number(&mut bench, 2, |bench, seq| claim(bench, &ask(seq)));
    assert_eq!(again.lost, 2, "expected both to be owned no more");
}

#[test]
fn forgets_the_deaths_of_what_succeeded() {
    let mut bench = Bench::new();
    bench.own(&[(&slot(0), "a"), (&slot(1), "b"), (&slot(2), "c")]);
    for message in ["a", "b", "elsewhere"] {
        let () = bench.redis.hset(DEATHS, digest(message), "1 1 q:w").unwrap();
    }
    let reply = claim(&mut bench, &Ask { forgive: 1, ..Ask::release(3) }).unwrap();
    assert!(reply.suspects, "expected it to say that there are suspects");
    let left =
        BTreeMap::from([(digest("b"), "1 1 q:w".to_owned()), (digest("elsewhere"), "1 1 q:w".to_owned())]);
    assert_eq!(bench.state().deaths, left, "expected only the forgiven message's deaths to be forgotten");

    // A slot that lost its message has nothing to be forgiven.
    let reply = claim(&mut bench, &Ask { seq: 2, forgive: 3, ..Ask::release(3) }).unwrap();
    assert_eq!((reply.lost, bench.state().deaths), (3, left), "expected no other deaths to be forgotten");
    assert!(
        !claim(&mut Bench::new(), &Ask::free(1)).unwrap().suspects,
        "expected no suspects where there are none"
    );
}

#[test]
fn takes_a_thousand_slots_and_leaves_the_rest_of_ten_thousand() {
    let mut bench = Bench::new();
    bench.wait_many(10_000);
    let reply = claim(&mut bench, &Ask::free(1000)).unwrap();
    assert_eq!((reply.messages.len(), reply.waiting), (1000, 9000), "expected a message for each slot");
    let ask = Ask { seq: 2, in_hand: 1, renew: true, released: 1000, ..Ask::free(1000) };
    let () = bench.redis.lpop(TOKENS, None).unwrap();
    let reply = claim(&mut bench, &ask).unwrap();
    assert_eq!(
        (reply.messages.len(), reply.waiting, reply.lost),
        (1000, 8000, 0),
        "expected the next thousand"
    );
    let state = bench.state();
    assert_eq!((state.tokens, state.waiting.len()), (8000, 8000), "expected one token for each that waits");
    assert_eq!(state.processing[&slot(999)], b"1999", "expected the messages in the order of the slots");
}

#[test]
fn many_short_messages_come_as_one_string() {
    let sizes = |count: usize, size: usize| vec![size; count];
    let cases = [
        (sizes(15, 1), false),
        (sizes(16, 0), true),
        (sizes(16, 64), true),
        (sizes(16, 65), false),
        // Heads of one, two and three bytes.
        ([vec![0, 31, 32, 255, 256], sizes(300, 1)].concat(), true),
        ([vec![60_000], sizes(999, 1)].concat(), true),
        ([vec![65_000], sizes(2000, 0)].concat(), false),
        // What is behind the first steps counts, too.
        ([sizes(64, 1), sizes(64, 128)].concat(), false),
        ([sizes(64, 128), sizes(65, 0)].concat(), true),
    ];
    for (sizes, packed) in cases {
        let mut bench = Bench::new();
        // Bytes that are no text.
        let messages: Vec<Vec<u8>> = (0..=255).cycle().zip(&sizes).map(|(n, size)| vec![n; *size]).collect();
        bench.wait(&messages);
        let case = format!("{} messages, the first of {:?} bytes", sizes.len(), &sizes[..9]);
        let count = sizes.len().min(1000);
        let reply = claim(&mut bench, &Ask::free(count)).unwrap();
        assert_eq!(reply.packed, packed, "{case}");
        assert!(reply.messages == messages[..count], "expected them as they were, oldest first: {case}");
        let owned = bench.state().processing;
        assert!((0..count).all(|n| owned[&slot(n)] == messages[n]), "expected the slots to own them: {case}");
    }
}

#[test]
fn short_messages_before_a_suspect_come_without_it() {
    for (suspect, expected) in [(19, 19), (1, 1), (0, 1)] {
        let mut bench = Bench::new();
        let messages: Vec<Vec<u8>> = (0..40).map(|n| vec![n]).collect();
        bench.wait(&messages);
        let hash = digest(std::str::from_utf8(&messages[suspect]).unwrap());
        let () = bench.redis.hset(DEATHS, hash, "2 1 q:w q:v").unwrap();
        let reply = claim(&mut bench, &Ask::free(40)).unwrap();
        assert!(reply.messages == messages[..expected], "suspect {suspect}: {:?}", reply.messages);
        let state = bench.state();
        assert!(state.waiting == messages[expected..], "expected the others to wait in their order");
        assert_eq!((state.tokens, state.processing.len()), (40 - expected as u64, expected));
    }
}

#[test]
fn suspect_comes_with_the_deaths_that_are_its_own() {
    let mine = "abcdefghijklmn27:0";
    for (before, after) in [
        ("2 1 =2,0,1 q:w q:v", format!("2 1 =0,1;{mine}=2 q:w q:v")),
        ("2 1 =0,1 q:w q:v", format!("2 1 =1;{mine}=0 q:w q:v")),
        ("2 1 =3;x:1!1 q:w q:v", format!("2 1 =;x:1!1;{mine}=3 q:w q:v")),
        // Of a call that a sweeper of another kind took away from this slot.
        (&format!("2 1 =;{mine}!2;x:1!1 q:w q:v"), "2 1 =;x:1!1 q:w q:v".into()),
        ("2 1 q:w q:v", "2 1 q:w q:v".into()),
        ("1 1 =2 q:w", "1 1 =2 q:w".into()),
    ] {
        for picks_up in [false, true] {
            let mut bench = Bench::new();
            bench.wait(&["m", "m"]);
            let () = bench.redis.hset(DEATHS, digest("m"), before).unwrap();
            let claimed = if picks_up {
                super::pick_up::pick_up(&mut bench, 1).map(|_| ())
            } else {
                claim(&mut bench, &Ask::free(1)).map(|_| ())
            };
            claimed.unwrap();
            let known: String = bench.redis.hget(DEATHS, digest("m")).unwrap();
            assert_eq!(known, after, "expected that of {before}, picked up: {picks_up}");
        }
    }
}

#[test]
fn ends_a_reply_with_the_message_with_which_it_gets_large() {
    const MIB: usize = 1 << 20;
    // The sizes of what waits, how many slots are free, and how many messages come.
    let cases = [
        (vec![MIB; 40], 40, 8),
        (vec![3 * MIB; 5], 5, 3),
        (vec![9 * MIB; 2], 2, 1),
        (vec![MIB; 8], 8, 8),
        ([vec![100; 63], vec![MIB; 30]].concat(), 93, 63 + 8),
        ([vec![100; 64], vec![MIB; 30]].concat(), 94, 64 + 8),
        ([vec![100; 70], vec![16 * MIB; 2]].concat(), 70, 70),
    ];
    for (sizes, free, expected) in cases {
        let mut bench = Bench::new();
        let messages: Vec<Vec<u8>> = (0..).zip(&sizes).map(|(n, size)| vec![n; *size]).collect();
        bench.wait(&messages);
        let case = format!("{} messages, the last of {:?} bytes", sizes.len(), sizes.last());
        let reply = claim(&mut bench, &Ask::free(free)).unwrap();
        assert_eq!(reply.messages.len(), expected, "{case}");
        assert!(reply.messages == messages[..expected], "expected the oldest, oldest first: {case}");
        let state = bench.state();
        assert!(state.waiting == messages[expected..], "expected the others to wait as before: {case}");
        let left = messages.len() - expected;
        assert_eq!((state.tokens, reply.waiting), (left as u64, left as i64), "{case}");
        assert_eq!(state.processing.len(), expected, "expected a slot for each that came: {case}");
    }
}

#[test]
fn releases_what_it_has_no_new_message_for_in_a_large_reply() {
    let mut bench = Bench::new();
    let messages: Vec<Vec<u8>> = (b'a'..=b'c').map(|letter| vec![letter; 5 << 20]).collect();
    bench.wait(&messages);
    let () = bench.redis.hset(DEATHS, digest("elsewhere"), "2 1 q:w q:v").unwrap();
    bench.own(&[(&slot(0), "x"), (&slot(1), "y"), (&slot(2), "z")]);
    bench.fill();
    let reply = claim(&mut bench, &Ask { released: 3, ..Ask::free(3) }).unwrap();
    assert_eq!((reply.messages.len(), reply.waiting, reply.lost), (2, 1, 0), "expected 10 MiB, and no more");
    assert!(reply.suspects, "expected it to say that there are suspects");
    let state = bench.state();
    assert_eq!(
        state.processing.keys().collect::<Vec<_>>(),
        [&slot(0), &slot(1)],
        "expected the third to be released"
    );
    assert!(state.waiting == messages[2..], "expected it to go back, also in a full Redis");
    assert_eq!(state.tokens, 1, "expected its token to stay");
}

#[test]
fn works_when_redis_is_full() {
    for in_hand in [0, 1] {
        let mut bench = Bench::new();
        bench.wait(&["x", "y"]);
        bench.own(&[(&slot(0), "a"), (&slot(1), "b")]);
        for _ in 0..in_hand {
            let () = bench.redis.lpop(TOKENS, None).unwrap();
        }
        bench.fill();
        let ask = Ask { in_hand, released: 2, kept: 1, ids: slots(2), ..Ask::free(0) };
        let reply = claim(&mut bench, &ask).unwrap_or_else(|error| panic!("expected no obstacle: {error}"));
        assert_eq!(reply.messages, bytes(&["x"]), "expected a full Redis to be drained");
        assert_eq!(bench.state().processing, owned(&[(&slot(1), "x")]), "expected both to be released");
        bench.assert_expires(&slot(1), LEASE);
        claim(&mut bench, &Ask { seq: 2, released: 2, kept: 2, ..ask }).expect("expected a release to work");
    }
    let mut bench = Bench::new();
    bench.fill();
    claim(&mut bench, &Ask::free(1)).expect("expected a queue without messages to be no obstacle");
}

fn seed(bench: &mut Bench) {
    bench.wait(&["x", "y"]);
    bench.own(&[(&slot(0), "a")]);
    let () = bench.redis.hset(DEATHS, digest("a"), "1 1 q:w").unwrap();
}

#[test]
fn does_not_overwrite_what_a_free_slot_owns() {
    let mut bench = Bench::new();
    seed(&mut bench);
    let call = |bench: &mut Bench| claim(bench, &Ask::free(2));
    bench.refuses(super::STALE, "a slot that should be free owns a message", call);
}

#[test]
fn changes_nothing_when_it_is_refused() {
    let ask = Ask { forgive: 1, released: 1, ..Ask::free(2) };
    let keys = [QUEUE, TOKENS, PROCESSING, WORKER, DEATHS];
    changes_nothing_it_may_not(&keys, seed, |bench| claim(bench, &ask));
    let moved = Ask { in_hand: 2, ..ask.clone() };
    changes_nothing_it_may_not(&[&keys[..], &[HAND]].concat(), seed, |bench| claim(bench, &moved));
    // Without anything to release or to forgive, and without anything to claim.
    let free = Ask { ids: slots(3).split_off(1), ..Ask::free(2) };
    changes_nothing_it_may_not(&keys, seed, |bench| claim(bench, &free));
    changes_nothing_it_may_not(&keys[..4], seed, |bench| claim(bench, &Ask::release(1)));
    // Into the slot that is released, and no other.
    let again = Ask { released: 1, ..Ask::free(1) };
    changes_nothing_it_may_not(&keys, seed, |bench| claim(bench, &again));
    refuses_stale_calls(seed, |bench, seq| claim(bench, &Ask { seq, ..ask.clone() }));
}

#[test]
fn paused_queue_releases_and_gives_nothing() {
    for (in_hand, packs) in [(0, 0), (1, 0), (2, 0), (0, 40)] {
        let mut bench = Bench::new();
        bench.wait(&["x", "y"]);
        bench.wait_many(packs);
        bench.own(&[(&slot(0), "a"), (&slot(1), "b")]);
        let () = bench.redis.set(PAUSED, "17 anna at home").unwrap();
        let () = bench.redis.rpush(HAND, "1").unwrap();
        let before = bench.state();
        let ask = Ask { in_hand, released: 2, kept: 1, ..Ask::free(20) };
        let reply: redis::Value = call_claim(&mut bench, &ask).unwrap();
        let redis::Value::Array(mut values) = reply else { panic!("{reply:?}") };
        assert_eq!(values.pop(), Some(redis::Value::BulkString(b"17 anna at home".to_vec())));
        assert_eq!(values.pop(), Some(redis::Value::Array(Vec::new())), "expected no messages");
        assert_eq!(values[..2], [redis::Value::Int(0), redis::Value::Int(2 + packs as i64)]);
        let state = bench.state();
        assert!(state.processing.is_empty(), "expected both to be released: {state:#?}");
        assert_eq!((state.waiting, state.tokens), (before.waiting, before.tokens));
        assert_eq!(bench.redis.llen::<_, u64>(HAND).unwrap(), 1, "expected the token in the hand to stay");
        assert_eq!(bench.seq(), Some(1));

        let ask = Ask { seq: 2, ..ask };
        let () = bench.redis.del(PAUSED).unwrap();
        let ask = Ask { released: 0, kept: 0, ..ask };
        assert_eq!(claim(&mut bench, &ask).unwrap().messages.len(), (2 + packs).min(20));
    }
}

#[test]
fn claim_asks_for_a_pause_once_and_a_release_never() {
    let mut bench = Bench::new();
    bench.wait(&["x"]);
    let exists = |bench: &mut Bench| {
        let text: String = redis::cmd("INFO").arg("commandstats").query(&mut bench.redis).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("cmdstat_exists:calls="));
        line.map_or(0, |line| line.split(',').next().unwrap().parse::<u64>().unwrap())
    };
    let renewed = Ask { renew: true, ..Ask::free(1) };
    claim(&mut bench, &renewed).unwrap();
    assert_eq!(exists(&mut bench), 1);
    claim(&mut bench, &Ask { seq: 2, ..Ask::release(1) }).unwrap();
    assert_eq!(exists(&mut bench), 1);
}

#[test]
fn key_of_another_program_is_no_pause() {
    let seeds: [fn(&mut Connection); 3] = [
        |redis| redis.rpush(PAUSED, "17 anna").unwrap(),
        |redis| redis.hset(PAUSED, "17", "anna").unwrap(),
        |redis| redis.set(PAUSED, "yes").unwrap(),
    ];
    for seed in seeds {
        let mut bench = Bench::new();
        bench.wait(&["x"]);
        seed(&mut bench.redis);
        assert_eq!(claim(&mut bench, &Ask::free(1)).unwrap().messages, bytes(&["x"]));
    }
}

#[test]
fn keeps_every_message_without_a_right() {
    denied::keeps_every_message_without_a_right(
        "claim",
        |bench| bench.wait(&["x", "y"]),
        |bench| call_claim::<Value>(bench, &Ask::free(2)),
    );
}
