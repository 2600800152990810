use super::*;

/// A call: its id, when it is due, where it goes, its record, its lock.
#[derive(Clone, Copy)]
struct Call {
    id: u8,
    due: &'static str,
    head: u8,
    keep: &'static str,
    lock: Option<(u8, u8)>,
}

const CALL: Call = Call { id: b'a', due: "", head: 0, keep: "60000", lock: None };

fn id(letter: u8) -> Vec<u8> {
    vec![letter; 16]
}

fn lock((mode, digest): (u8, u8)) -> Vec<u8> {
    [vec![mode], vec![digest; 16]].concat()
}

/// The message has its id from the second byte on.
fn message(letter: u8) -> Vec<u8> {
    [b"<", &id(letter)[..], b">"].concat()
}

fn submit(bench: &mut Bench, most: u64, calls: &[Call]) -> RedisResult<Vec<Vec<Value>>> {
    bench.call("submit", |call| {
        call.key(QUEUE).key(TOKENS).key(DUE).key(LATER).key(TIMETABLE).arg("q:due").arg(most);
        for Call { id: letter, due, head, keep, lock: own } in calls {
            call.arg(id(*letter)).arg(*due).arg(*head).arg(*keep);
            call.arg(own.map(lock).unwrap_or_default()).arg(5_000).arg(1).arg("f").arg(message(*letter));
        }
    })
}

fn code(reply: &[Value]) -> i64 {
    let Some(Value::Int(code)) = reply.first() else { panic!("expected a number: {reply:?}") };
    *code
}

fn record(letter: u8) -> String {
    format!("q:c:{}", format!("{letter:02x}").repeat(16))
}

fn lock_key(digest: u8) -> String {
    format!("q:u:{}", format!("{digest:02x}").repeat(16))
}

fn state_of(bench: &mut Bench, letter: u8) -> Option<String> {
    bench.redis.hget(record(letter), "state").unwrap()
}

#[test]
fn enqueues_or_schedules_and_writes_the_record() {
    let mut bench = Bench::new();
    let calls = [CALL, Call { id: b'b', due: "+5000", ..CALL }, Call { id: b'c', head: 1, keep: "", ..CALL }];
    let replies = submit(&mut bench, 0, &calls).unwrap();
    assert_eq!(replies.iter().map(|reply| code(reply)).collect::<Vec<_>>(), [0, 0, 0]);
    let state = bench.state();
    assert_eq!((state.waiting, state.tokens), (vec![message(b'c'), message(b'a')], 2));
    assert_eq!(state.later, BTreeMap::from([(id(b'b'), message(b'b'))]));
    let states = [b'a', b'b', b'c'].map(|letter| state_of(&mut bench, letter));
    assert_eq!(states, [Some("waiting".into()), Some("scheduled".into()), None]);
    bench.assert_expires(&record(b'a'), 30 * 86_400_000);
}

#[test]
fn refuses_an_id_that_exists_and_a_full_queue() {
    let mut bench = Bench::new();
    submit(&mut bench, 0, &[CALL]).unwrap();
    let replies =
        submit(&mut bench, 2, &[CALL, Call { id: b'b', ..CALL }, Call { id: b'c', ..CALL }]).unwrap();
    assert_eq!(replies.iter().map(|reply| code(reply)).collect::<Vec<_>>(), [1, 0, 4]);
    assert_eq!(replies[0][1], Value::BulkString(b"waiting".to_vec()));
    assert_eq!((bench.state().waiting.len(), state_of(&mut bench, b'c')), (2, None));
}

#[test]
fn lock_has_one_holder_until_that_has_ended() {
    let mut bench = Bench::new();
    let first = Call { lock: Some((b'd', 1)), ..CALL };
    let second = Call { id: b'b', ..first };
    submit(&mut bench, 0, &[first]).unwrap();
    let replies = submit(&mut bench, 0, &[second]).unwrap();
    let expected = [Value::Int(2), Value::BulkString(id(b'a')), Value::BulkString(b"waiting".to_vec())];
    assert_eq!(replies[0], expected);
    assert_eq!((bench.state().waiting.len(), state_of(&mut bench, b'b')), (1, None));
    bench.assert_expires(&lock_key(1), 86_400_000);
    let () = bench.redis.hset(record(b'a'), "state", "dead").unwrap();
    assert_eq!(code(&submit(&mut bench, 0, &[second]).unwrap()[0]), 0, "expected it to be taken over");
    assert_eq!(bench.redis.get::<_, Vec<u8>>(lock_key(1)).unwrap(), id(b'b'));
}

#[test]
fn newer_call_takes_the_place_of_a_scheduled_one() {
    let mut bench = Bench::new();
    let first = Call { due: "+60000", lock: Some((b'r', 1)), ..CALL };
    submit(&mut bench, 0, &[first]).unwrap();
    let replies = submit(&mut bench, 0, &[Call { id: b'b', due: "+5000", ..first }]).unwrap();
    assert_eq!((code(&replies[0]), replies[0][1].clone()), (3, Value::BulkString(id(b'a'))));
    assert_eq!(bench.state().later, BTreeMap::from([(id(b'a'), message(b'a'))]));
    assert_eq!(state_of(&mut bench, b'b'), None);
}

#[test]
fn changes_nothing_in_a_full_redis_or_with_a_wrong_type() {
    let mut bench = Bench::new();
    let call = Call { lock: Some((b'd', 1)), ..CALL };
    bench.fill();
    bench.refuses(FULL, "when full", |bench| submit(bench, 0, &[call]));
    for key in [QUEUE, TOKENS, DUE, LATER] {
        let mut bench = Bench::new();
        let () = bench.redis.set(key, "text").unwrap();
        bench.refuses(WRONG_TYPE, key, |bench| submit(bench, 0, &[call]));
    }
    for key in [record(b'b'), lock_key(2)] {
        let mut bench = Bench::new();
        let () = bench.redis.lpush(&key, "x").unwrap();
        let calls = [call, Call { id: b'b', lock: Some((b'd', 2)), ..CALL }];
        bench.refuses(WRONG_TYPE, &key, |bench| submit(bench, 0, &calls));
    }
}
