use delayed::__private::protocol::encode::{Meta, native};
use delayed::__private::protocol::tracking::{Lock, LockMode};
use delayed::CallId;

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
    submit_burying(bench, most, 0, calls)
}

/// Submits calls; the oldest becomes one of `letters` dead letters where the queue is full.
fn submit_burying(
    bench: &mut Bench,
    most: u64,
    letters: u64,
    calls: &[Call],
) -> RedisResult<Vec<Vec<Value>>> {
    bench.call("submit", |call| {
        call.key(QUEUE).key(TOKENS).key(DUE).key(LATER).key(TIMETABLE).key(DEAD).key(DEATHS);
        call.arg("q:due").arg(most).arg(letters).arg(1_000_000);
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

/// A message of ours with an id, a record and a lock.
fn tracked(letter: u8) -> Vec<u8> {
    let id = CallId::from_bytes([letter; 16]);
    let lock = Some(Lock::of_key(LockMode::UntilDone, "f", &letter.to_string()));
    native("f", b"\xc0", &Meta { id: Some(id), keep_ms: Some(60_000), lock, ..Meta::default() })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What waits, and the messages of the dead letters.
fn places(bench: &mut Bench) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let state = bench.state();
    assert_eq!(state.tokens, state.waiting.len() as u64, "expected a token for each waiting message");
    (state.waiting, state.dead.iter().map(|letter| letter["message"].clone()).collect())
}

#[test]
fn oldest_call_makes_room_as_a_dead_letter() {
    let mut bench = Bench::new();
    let foreign = b"\x91\xa3m:f".to_vec();
    bench.wait(&[foreign.clone(), tracked(b'x'), b"last".to_vec()]);
    let lock = format!("q:u:{}", hex(Lock::of_key(LockMode::UntilDone, "f", &b'x'.to_string()).digest()));
    let () = bench.redis.hset(record(b'x'), "state", "waiting").unwrap();
    let () = bench.redis.set(&lock, id(b'x')).unwrap();
    assert_eq!(code(&submit_burying(&mut bench, 3, 10, &[CALL]).unwrap()[0]), 0);
    let expected = (vec![tracked(b'x'), b"last".to_vec(), message(b'a')], vec![foreign.clone()]);
    assert_eq!(places(&mut bench), expected, "expected the message of Python to go first");
    let front = Call { id: b'b', head: 1, ..CALL };
    assert_eq!(code(&submit_burying(&mut bench, 3, 10, &[front]).unwrap()[0]), 0);
    let expected =
        (vec![message(b'b'), b"last".to_vec(), message(b'a')], vec![foreign.clone(), tracked(b'x')]);
    assert_eq!(places(&mut bench), expected);
    let letter = &bench.state().dead[1];
    assert_eq!(letter["reason"], b"overflow");
    assert_eq!(letter["detail"], b"3 calls waited in its queue: a newer one took its place");
    assert_eq!(state_of(&mut bench, b'x').as_deref(), Some("dead"));
    bench.assert_expires(&record(b'x'), 60_000);
    assert!(!bench.redis.exists::<_, bool>(&lock).unwrap(), "expected the lock to be free");
    assert_eq!(code(&submit(&mut bench, 3, &[Call { id: b'c', ..CALL }]).unwrap()[0]), 4);
}

#[test]
fn queue_above_its_bound_gets_shorter_and_letters_are_bounded() {
    let mut bench = Bench::new();
    bench.wait_many(250);
    let calls: Vec<Call> = [b'a', b'b', b'c', b'd'].map(|id| Call { id, ..CALL }).into();
    let expected = [(150, 101), (50, 150), (10, 150), (10, 150)];
    for (call, (waiting, dead)) in calls.iter().zip(expected) {
        assert_eq!(code(&submit_burying(&mut bench, 10, 150, &[*call]).unwrap()[0]), 0);
        let (now_waiting, letters) = places(&mut bench);
        assert_eq!((now_waiting.len(), letters.len()), (waiting, dead));
    }
    let (waiting, letters) = places(&mut bench);
    assert_eq!(waiting[9], message(b'd'));
    assert_eq!(*letters.last().unwrap(), b"243", "expected the newest letters to stay");
}

#[test]
fn oldest_call_that_is_marked_is_dropped_as_cancelled() {
    let mut bench = Bench::new();
    bench.wait(&[tracked(b'x')]);
    let () = bench.redis.hset_multiple(record(b'x'), &[("state", "waiting"), ("by", "ann")]).unwrap();
    let () = bench.redis.zadd("q_cancelled", id(b'x'), 1).unwrap();
    assert_eq!(code(&submit_burying(&mut bench, 1, 10, &[CALL]).unwrap()[0]), 0);
    assert_eq!(places(&mut bench), (vec![message(b'a')], Vec::new()));
    assert_eq!(state_of(&mut bench, b'x').as_deref(), Some("cancelled"));
    assert_eq!(bench.redis.zcard::<_, u64>("q_cancelled").unwrap(), 0);
}

#[test]
fn call_is_refused_where_the_oldest_cannot_be_buried() {
    for foreign in [false, true] {
        let mut bench = Bench::new();
        bench.wait(&["old"]);
        match foreign {
            true => drop(
                redis::cmd("XADD").arg(DEAD).arg("1-0").arg("a").arg("b").query::<String>(&mut bench.redis),
            ),
            false => drop(bench.redis.set::<_, _, ()>(DEAD, "text")),
        }
        let before = everything(&mut bench.redis);
        assert_eq!(code(&submit_burying(&mut bench, 1, 10, &[CALL]).unwrap()[0]), 4);
        bench.assert_unchanged(&before, "with dead letters of another program");
    }
    let mut bench = Bench::new();
    bench.wait(&["old"]);
    let () = bench.redis.hset(DEATHS, digest("old"), "1 1 q:w").unwrap();
    bench.fill();
    bench.refuses(FULL, "when full", |bench| submit_burying(bench, 1, 10, &[Call { keep: "", ..CALL }]));
    let () = redis::cmd("CONFIG").arg(&["SET", "maxmemory", "0"]).query(&mut bench.redis).unwrap();
    submit_burying(&mut bench, 1, 10, &[CALL]).unwrap();
    assert!(bench.state().deaths.is_empty(), "expected its deaths to be forgotten");
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

#[test]
fn outcome_of_the_oldest_step_is_left_in_the_outbox() {
    let mut bench = Bench::new();
    bench.wait(&[step_message(7)]);
    assert_eq!(code(&submit_burying(&mut bench, 1, 10, &[CALL]).unwrap()[0]), 0);
    assert_eq!(places(&mut bench), (vec![message(b'a')], vec![step_message(7)]));
    assert_outcome(&mut bench, 7, &["dead", "reason", "overflow", "error"]);
    // One that was cancelled.
    let mut bench = Bench::new();
    bench.wait(&[step_message(7)]);
    let () = bench.redis.zadd(CANCELLED, &[7; 16], 1).unwrap();
    assert_eq!(code(&submit_burying(&mut bench, 1, 10, &[CALL]).unwrap()[0]), 0);
    assert_outcome(&mut bench, 7, &["cancelled", "by"]);
}

#[test]
fn oldest_step_makes_no_room_without_its_outcome() {
    ends_no_step_without_the_outbox(
        |bench| bench.wait(&[step_message(7)]),
        |bench| submit_burying(bench, 1, 10, &[CALL]),
    );
}
