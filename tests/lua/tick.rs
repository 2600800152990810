use super::*;

const DEFINITION: &str = "definition";
const ID: &[u8; 16] = b"0123456789abcdef";
const OTHER: &[u8; 16] = b"fedcba9876543210";
const LOCK: &[u8; 17] = b"dLLLLLLLLLLLLLLLL";

/// One task that is due at 1000, and next at 2000.
struct Task<'a> {
    name: &'a str,
    due: &'a str,
    definition: &'a str,
    missed: (u64, u64),
    /// Tick, id and lock of each call.
    calls: &'a [(u64, &'a [u8], &'a [u8])],
}

const USUAL: Task<'_> =
    Task { name: "a", due: "1000", definition: DEFINITION, missed: (0, 0), calls: &[(1000, ID, b"")] };

fn tick(bench: &mut Bench, tasks: &[Task<'_>]) -> RedisResult<Vec<Value>> {
    bench.call("tick", |call| {
        call.key(QUEUE).key(TOKENS).key(DUE).key(PERIODIC);
        for task in tasks {
            call.arg(task.name).arg(task.due).arg(digest(task.definition)).arg("2000");
            call.arg(task.missed.0).arg(task.missed.1).arg(task.calls.len());
            for (moment, id, lock) in task.calls {
                let keep = if id.is_empty() { "" } else { "60000" };
                call.arg(*moment)
                    .arg(*id)
                    .arg(keep)
                    .arg(*lock)
                    .arg(1)
                    .arg("f")
                    .arg(format!("message {moment}"));
            }
        }
    })
}

/// A task that is due at 1000.
fn define(bench: &mut Bench, name: &str) {
    let () = bench.redis.zadd(DUE, format!("p{name}"), 1000).unwrap();
    let () = bench.redis.hset(PERIODIC, format!("d:{name}"), DEFINITION).unwrap();
}

fn due(bench: &mut Bench, name: &str) -> u64 {
    bench.redis.zscore(DUE, format!("p{name}")).unwrap()
}

fn record(id: &[u8]) -> String {
    format!("q:c:{}", id.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// The words of the history, newest first.
fn history(bench: &mut Bench, name: &str) -> Vec<String> {
    let entries: Vec<Vec<u8>> = bench.redis.lrange(format!("q:p:{name}"), 0, -1).unwrap();
    let word = |entry: &Vec<u8>| {
        let value = rmpv::decode::read_value(&mut entry.as_slice()).unwrap();
        value.as_array().unwrap()[2].as_str().unwrap().to_owned()
    };
    entries.iter().map(word).collect()
}

#[test]
fn makes_the_call_once_and_moves_the_time_on() {
    let mut bench = Bench::new();
    define(&mut bench, "a");
    assert_eq!(tick(&mut bench, &[USUAL]).unwrap(), [Value::Int(1)]);
    let state = bench.state();
    assert_eq!((state.waiting, state.tokens), (bytes(&["message 1000"]), 1));
    assert_eq!(due(&mut bench, "a"), 2000);
    assert_eq!(bench.redis.hget::<_, _, String>(record(ID), "state").unwrap(), "waiting");
    assert_eq!(bench.redis.hget::<_, _, String>(record(ID), "task").unwrap(), "f");
    assert_eq!(history(&mut bench, "a"), ["enqueued"]);
    let before = everything(&mut bench.redis);
    assert_eq!(tick(&mut bench, &[USUAL]).unwrap(), [Value::Int(-1)]);
    bench.assert_unchanged(&before, "a tick that was made");
}

#[test]
fn leaves_alone_what_was_changed_paused_or_removed() {
    let mut bench = Bench::new();
    define(&mut bench, "a");
    let before = everything(&mut bench.redis);
    let changed = Task { definition: "another", ..USUAL };
    let unknown = Task { name: "b", ..USUAL };
    let earlier = Task { due: "999", ..USUAL };
    let done = tick(&mut bench, &[changed, unknown, earlier]).unwrap();
    assert_eq!(done, [Value::Int(-1), Value::Int(-1), Value::Int(-1)]);
    bench.assert_unchanged(&before, "tasks that are others by now");
    let () = bench.redis.zrem(DUE, "pa").unwrap();
    assert_eq!(
        tick(&mut bench, &[USUAL]).unwrap(),
        [Value::Int(-1)],
        "expected a paused one to be left alone"
    );
}

#[test]
fn call_whose_id_is_known_is_not_made_again() {
    let mut bench = Bench::new();
    define(&mut bench, "a");
    let () = bench.redis.hset(record(ID), "state", "running").unwrap();
    assert_eq!(tick(&mut bench, &[USUAL]).unwrap(), [Value::Int(0)]);
    assert_eq!((bench.state().waiting, due(&mut bench, "a")), (bytes(&[]), 2000));
}

#[test]
fn lock_of_a_call_that_has_not_ended_skips_the_tick() {
    let mut bench = Bench::new();
    let key = format!("q:u:{}", "4c".repeat(16));
    let locked = || Task { calls: &[(1000, ID, LOCK)], ..USUAL };
    for (state, made) in [("waiting", 0), ("retrying", 0), ("succeeded", 1), ("dead", 1)] {
        let () = bench.redis.flushall().unwrap();
        define(&mut bench, "a");
        let () = bench.redis.set(&key, OTHER).unwrap();
        let () = bench.redis.hset(record(OTHER), "state", state).unwrap();
        assert_eq!(tick(&mut bench, &[locked()]).unwrap(), [Value::Int(made)], "{state}");
        assert_eq!(due(&mut bench, "a"), 2000, "{state}: expected the next tick to come whatever happened");
        let word = if made == 1 { "enqueued" } else { "skipped" };
        assert_eq!(history(&mut bench, "a"), [word], "{state}");
    }
    let holder: Vec<u8> = bench.redis.get(&key).unwrap();
    assert_eq!(holder, ID, "expected the lock of a call that has ended to be taken over");
    assert!(bench.redis.pttl::<_, i64>(&key).unwrap() > 0);
}

#[test]
fn several_calls_and_missed_ticks_are_made_in_one_step() {
    let mut bench = Bench::new();
    define(&mut bench, "a");
    define(&mut bench, "b");
    let calls: &[(u64, &[u8], &[u8])] = &[(1000, b"", b""), (1500, b"", b"")];
    let many = Task { missed: (700, 3), calls, ..USUAL };
    let none = Task { name: "b", missed: (1000, 1), calls: &[], ..USUAL };
    assert_eq!(tick(&mut bench, &[many, none]).unwrap(), [Value::Int(2), Value::Int(0)]);
    assert_eq!(bench.state().waiting, bytes(&["message 1000", "message 1500"]));
    assert_eq!(history(&mut bench, "a"), ["enqueued", "enqueued", "missed"]);
    assert_eq!(history(&mut bench, "b"), ["missed"]);
}

#[test]
fn call_by_hand_changes_no_time() {
    let mut bench = Bench::new();
    define(&mut bench, "a");
    let by_hand = || Task { due: "", calls: &[(0, ID, b"")], ..USUAL };
    assert_eq!(tick(&mut bench, &[by_hand()]).unwrap(), [Value::Int(1)]);
    assert_eq!(due(&mut bench, "a"), 1000);
    let () = bench.redis.zrem(DUE, "pa").unwrap();
    let paused = Task { calls: &[(0, OTHER, b"")], ..by_hand() };
    assert_eq!(tick(&mut bench, &[paused]).unwrap(), [Value::Int(1)], "expected a paused one to be called");
    assert_eq!(bench.redis.zcard::<_, u64>(DUE).unwrap(), 0);
}

#[test]
fn history_keeps_the_last_fifty() {
    let mut bench = Bench::new();
    for _ in 0..60 {
        define(&mut bench, "a");
        tick(&mut bench, &[Task { calls: &[(1000, b"", b"")], ..USUAL }]).unwrap();
    }
    assert_eq!(history(&mut bench, "a").len(), 50);
    assert_eq!(bench.state().waiting.len(), 60);
}

/// A record whose key holds something else: the task stays due, and the others are made.
#[test]
fn call_that_cannot_be_made_stays_due_and_stops_no_other() {
    let mut bench = Bench::new();
    define(&mut bench, "a");
    define(&mut bench, "b");
    let () = bench.redis.set(record(ID), "text").unwrap();
    let other = Task { name: "b", calls: &[(1000, OTHER, b"")], ..USUAL };
    let done = tick(&mut bench, &[USUAL, other]).unwrap();
    assert!(matches!(&done[0], Value::BulkString(error) if error.starts_with(b"WRONGTYPE")), "{done:?}");
    assert_eq!(done[1], Value::Int(1));
    assert_eq!((due(&mut bench, "a"), due(&mut bench, "b")), (1000, 2000));
    assert_eq!(bench.state().waiting, bytes(&["message 1000"]));
}

#[test]
fn changes_nothing_when_it_is_refused() {
    let seed = |bench: &mut Bench| define(bench, "a");
    let call = |bench: &mut Bench| tick(bench, &[USUAL]);
    changes_nothing_it_may_not(&[QUEUE, TOKENS, DUE, PERIODIC], seed, call);
    let mut bench = Bench::new();
    seed(&mut bench);
    bench.fill();
    bench.refuses(FULL, "in a full Redis", call);
}

/// Without the right to one of its commands, a tick is made and its time moved on, or neither.
#[test]
fn tick_is_never_lost_nor_made_twice_without_a_right() {
    let mut bench = Bench::new();
    let text = script_text("tick").unwrap();
    let commands: std::collections::BTreeSet<&str> = text
        .split("call('")
        .skip(1)
        .chain(text.split("try('").skip(1))
        .filter_map(|rest| rest.split('\'').next())
        .collect();
    assert!(commands.contains("RPUSH") && commands.contains("ZADD"), "{commands:?}");
    for command in commands {
        let () = bench.redis.flushall().unwrap();
        define(&mut bench, "a");
        let rule = |bench: &mut Bench, sign: char| {
            let rule = format!("{sign}{}", command.to_lowercase());
            redis::cmd("ACL").arg("SETUSER").arg("default").arg(rule).exec(&mut bench.redis).unwrap();
        };
        rule(&mut bench, '-');
        let locked = Task { calls: &[(1000, ID, LOCK)], ..USUAL };
        let done = tick(&mut bench, &[locked]);
        rule(&mut bench, '+');
        let (waiting, due) = (bench.state().waiting.len(), due(&mut bench, "a"));
        let expected = if waiting == 1 { 2000 } else { 1000 };
        assert_eq!(due, expected, "without {command}: {waiting} calls, {done:?}");
    }
}
