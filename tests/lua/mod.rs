//! Each script of `lua/` alone: seed Redis, call it, compare the whole state and the reply.

mod acquire;
mod ancestors;
mod balance;
mod beat;
mod begin;
mod bury;
mod cancel;
mod claim;
mod close;
mod defer;
mod define;
mod denied;
mod fill;
mod finish;
mod foreign;
mod join;
mod kill;
mod marks;
mod note;
mod park;
mod pause;
mod pick_up;
mod promote;
mod purge;
mod put_back;
mod reconcile;
mod renew;
mod reopen;
mod requeue_lost;
mod resign;
mod resume;
mod retry;
mod retry_later;
mod revive;
mod run_now;
mod schedule;
mod split;
mod start;
mod submit;
mod tick;
mod unpark;
mod wake;

use std::collections::BTreeMap;

use self::denied::assert_same_without_each_right;
use delayed::__private::script_text;
use redis::{Commands, Connection, FromRedisValue, RedisResult, ScriptInvocation, Value};
use rmpv::ValueRef;

use crate::support::redis::{State, TestRedis, everything, snapshot};
use crate::support::root;

pub(crate) const QUEUE: &str = "q";
pub(crate) const TOKENS: &str = "q_noti";
pub(crate) const HAND: &str = "q_hand";
pub(crate) const PAUSED: &str = "q_paused";
pub(crate) const PROCESSING: &str = "q_processing";
pub(crate) const DEAD: &str = "q_dead";
pub(crate) const DEATHS: &str = "q_deaths";
pub(crate) const DUE: &str = "q_due";
pub(crate) const LATER: &str = "q_later";
pub(crate) const CANCELLED: &str = "q_cancelled";
pub(crate) const PERIODIC: &str = "q_periodic";
pub(crate) const TIMETABLE: &str = "q_timetable";
pub(crate) const WORKERS: &str = "q_workers";
/// The keys of a limit, in the order in which scripts take them.
pub(crate) const LIMIT: [&str; 5] = [
    "{delayed:l}:policy",
    "{delayed:l}:holders",
    "{delayed:l}:line",
    "{delayed:l}:state",
    "{delayed:l}:permits",
];
pub(crate) const WAITERS: &str = "q:l:l";
pub(crate) const PARKED: &str = "q_parked";
pub(crate) const OUTBOX: &str = "q_outbox";
pub(crate) const FLOWS: &str = "q_flows";
/// A flow, and its key.
pub(crate) const FLOW_ID: &[u8; 16] = &[9; 16];
pub(crate) const FLOW: &str = "q:f:09090909090909090909090909090909";
const WORKER_ID: &str = "abcdefghijklmn27";
const WORKER: &str = "q:abcdefghijklmn27";
const ORDERS: &str = "q:abcdefghijklmn27:kill";
/// Milliseconds.
pub(crate) const LEASE: u64 = 60_000;
/// What Redis says of a key of another type, of a call that needs memory, and of a write to a replica.
const WRONG_TYPE: &str = "WRONGTYPE";
const FULL: &str = "OOM";
const READ_ONLY: &str = "READONLY";
pub(crate) const STALE: &str = "STALE";

/// The messages of a claim: an array, or a string that is one in MessagePack.
fn messages_of(claimed: Value) -> Vec<Vec<u8>> {
    let Value::BulkString(packed) = claimed else { return redis::from_redis_value(claimed).unwrap() };
    let mut rest = packed.as_slice();
    let messages = rmpv::decode::read_value_ref(&mut rest).unwrap();
    assert_eq!(rest, b"", "expected nothing behind the array");
    let bytes = |message: &ValueRef<'_>| match message {
        ValueRef::String(bytes) => bytes.as_bytes().to_vec(),
        other => panic!("expected a string, not {other}"),
    };
    messages.as_array().expect("expected an array").iter().map(bytes).collect()
}

/// The reply to a claim, with its messages as an array.
pub(crate) fn unpacked(reply: Value) -> Value {
    let Value::Array(mut values) = reply else { return reply };
    let messages = messages_of(values.pop().expect("expected messages"));
    values.push(Value::Array(messages.into_iter().map(Value::BulkString).collect()));
    Value::Array(values)
}

/// A Redis on which scripts are tried.
pub(crate) struct Bench {
    server: TestRedis,
    pub(crate) redis: Connection,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let server = TestRedis::start();
        let redis = server.connection();
        Self { server, redis }
    }

    /// Calls a script by its digest.
    pub(crate) fn call<T: FromRedisValue>(
        &mut self,
        name: &str,
        build: impl FnOnce(&mut ScriptInvocation<'_>),
    ) -> RedisResult<T> {
        let text = script_text(name).unwrap_or_else(|| panic!("expected the script lua/{name}.lua"));
        let script = redis::Script::new(text);
        let mut invocation = script.prepare_invoke();
        build(&mut invocation);
        invocation.invoke(&mut self.redis)
    }

    /// Appends messages with their tokens.
    fn wait(&mut self, messages: &[impl AsRef<[u8]>]) {
        let mut pipe = redis::pipe();
        for message in messages {
            pipe.rpush(QUEUE, message.as_ref()).rpush(TOKENS, "1");
        }
        let () = pipe.query(&mut self.redis).unwrap();
    }

    /// Lets slots own messages, with their live keys.
    fn own(&mut self, slots: &[(&str, &str)]) {
        for (id, message) in slots {
            let () = self.redis.hset(PROCESSING, id, message).unwrap();
            let () = self.redis.pset_ex(id, "1", LEASE).unwrap();
        }
    }

    /// Adds a dead letter.
    fn letter(&mut self, id: &str, message: &str) {
        let mut command = redis::cmd("XADD");
        command.arg(DEAD).arg(id).arg("message").arg(message);
        let () = command.query(&mut self.redis).unwrap();
    }

    /// Sets what the limit allows.
    fn limit(&mut self, policy: &[(&str, u64)]) {
        let () = self.redis.hset_multiple(LIMIT[0], policy).unwrap();
    }

    /// Lets messages wait for the limit, each with its entry in the line.
    fn park(&mut self, messages: &[&str]) {
        for message in messages {
            let () = self.redis.rpush(WAITERS, message).unwrap();
            let () = self.redis.rpush(LIMIT[2], entry(message)).unwrap();
        }
        let () = self.redis.sadd(PARKED, "l").unwrap();
    }

    fn server_ms(&mut self) -> u64 {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut self.redis).unwrap();
        seconds * 1000 + micros / 1000
    }

    /// Schedules a call.
    fn scheduled(&mut self, id: &str) {
        let () = self.redis.zadd(DUE, format!("c{id}"), 1).unwrap();
        let () = self.redis.hset(LATER, id, format!("message {id}")).unwrap();
    }

    /// Appends many messages, `0`, `1`, …, each with its token.
    fn wait_many(&mut self, count: usize) {
        let messages: Vec<String> = (0..count).map(|i| i.to_string()).collect();
        for part in messages.chunks(5_000) {
            let () = self.redis.rpush(QUEUE, part).unwrap();
            let () = self.redis.rpush(TOKENS, vec!["1"; part.len()]).unwrap();
        }
    }

    pub(crate) fn state(&mut self) -> State {
        snapshot(&mut self.redis, QUEUE)
    }

    /// The number of the last call that was applied.
    fn seq(&mut self) -> Option<u64> {
        self.redis.hget(WORKER, "seq").unwrap()
    }

    /// A key's time to live is what it should be, give or take what a slow machine loses.
    #[track_caller]
    fn assert_expires(&mut self, key: &str, milliseconds: u64) {
        let left: i64 = self.redis.pttl(key).unwrap();
        let full = i64::try_from(milliseconds).unwrap();
        assert!(
            left > full - 30_000 && left > 0 && left <= full,
            "expected {key} to live for about {full} ms, it has {left}"
        );
    }

    /// Lets Redis be full: from now on it refuses what needs memory.
    fn fill(&mut self) {
        let () = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(1).query(&mut self.redis).unwrap();
        let refused = self.redis.set::<_, _, ()>("more", "1").unwrap_err();
        assert!(refused.to_string().contains(FULL), "expected a full Redis, it says: {refused}");
    }

    /// Does something in a full Redis that is not full any more afterwards.
    fn when_full<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        self.fill();
        let done = act(self);
        let () = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(0).query(&mut self.redis).unwrap();
        done
    }

    /// Takes the right to write this key from the user.
    fn without_right_to_write(&mut self, key: &str) {
        let mut command = redis::cmd("ACL");
        command.arg("SETUSER").arg("default").arg("resetkeys").arg(format!("~{key}?*"));
        // Every other name: one that goes on differently somewhere, or ends before.
        for end in 0..key.len() {
            let (known, next) = (&key[..end], &key[end..=end]);
            command.arg(format!("~{known}[^{next}]*"));
            if end > 0 {
                command.arg(format!("~{known}"));
            }
        }
        command.exec(&mut self.redis).unwrap();
    }

    /// Gives or takes (`+`, `-`) the right to a command.
    fn allow(&mut self, sign: char, command: &str) {
        let rule = format!("{sign}{}", command.to_lowercase());
        redis::cmd("ACL").arg("SETUSER").arg("default").arg(rule).exec(&mut self.redis).unwrap();
    }

    /// Gives the user all rights.
    fn with_all_rights(&mut self) {
        redis::cmd("ACL")
            .arg("SETUSER")
            .arg("default")
            .arg("allkeys")
            .arg("+@all")
            .exec(&mut self.redis)
            .unwrap();
    }

    /// All keys are as they were.
    #[track_caller]
    fn assert_unchanged(&mut self, before: &BTreeMap<String, (Vec<u8>, bool)>, why: &str) {
        let after = everything(&mut self.redis);
        let keys: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let changed: Vec<_> = keys.into_iter().filter(|key| before.get(*key) != after.get(*key)).collect();
        assert!(changed.is_empty(), "{why}: expected nothing to be changed, but {changed:?} were");
    }

    /// The call fails with `word` and changes nothing at all.
    #[track_caller]
    fn refuses<T: std::fmt::Debug>(
        &mut self,
        word: &str,
        why: &str,
        call: impl FnOnce(&mut Self) -> RedisResult<T>,
    ) {
        let before = everything(&mut self.redis);
        match call(self) {
            Ok(reply) => panic!("{why}: expected {word}, it answered {reply:?}"),
            Err(error) => {
                let says = error.code() == Some(word) || error.to_string().contains(word);
                assert!(says, "{why}: expected {word}, it says: {error}");
            }
        }
        self.assert_unchanged(&before, why);
    }
}

#[test]
fn every_script_is_tried_in_a_full_redis() {
    let scripts = std::fs::read_dir(root().join("lua")).unwrap().map(|entry| entry.unwrap().path());
    let scripts: Vec<_> = scripts.filter(|path| path.extension().is_some_and(|end| end == "lua")).collect();
    assert!(scripts.len() > 30, "expected to find the scripts, not {scripts:?}");
    for script in scripts {
        let name = script.file_stem().unwrap().to_str().unwrap();
        let tests = std::fs::read_to_string(root().join(format!("tests/lua/{name}.rs"))).unwrap();
        let is_tried = tests.contains(".fill()") || tests.contains(".when_full(");
        assert!(is_tried, "expected a test of {name} in a Redis that is full");
    }
}

/// What every script does: it changes nothing when one of `keys` has the wrong type, nor on a replica.
#[track_caller]
fn changes_nothing_it_may_not<T: std::fmt::Debug>(
    keys: &[&str],
    seed: impl Fn(&mut Bench),
    call: impl Fn(&mut Bench) -> RedisResult<T>,
) {
    let mut bench = Bench::new();
    for key in keys {
        let () = bench.redis.flushall().unwrap();
        seed(&mut bench);
        let () = bench.redis.set(key, "text").unwrap();
        bench.refuses(WRONG_TYPE, &format!("with a text at {key}"), &call);
    }
    let () = bench.redis.flushall().unwrap();
    seed(&mut bench);
    // Nobody listens on port 1: the replica keeps what it has.
    let () = redis::cmd("REPLICAOF").arg("127.0.0.1").arg(1).query(&mut bench.redis).unwrap();
    bench.refuses(READ_ONLY, "on a replica", &call);
}

/// A worker's call is refused unless its number is the next one; when Redis knows of none, any will do.
#[track_caller]
fn refuses_stale_calls<T: std::fmt::Debug>(
    seed: impl Fn(&mut Bench),
    call: impl Fn(&mut Bench, u64) -> RedisResult<T>,
) {
    let mut bench = Bench::new();
    seed(&mut bench);
    let () = bench.redis.hset(WORKER, "seq", 10).unwrap();
    for seq in [10, 9, 12] {
        bench.refuses(STALE, &format!("call {seq} after call 10"), |bench| call(bench, seq));
    }
    for seq in [11, 12] {
        let done = call(&mut bench, seq);
        done.unwrap_or_else(|error| panic!("expected call {seq} to be applied as the next: {error}"));
        assert_eq!(bench.seq(), Some(seq), "expected the number of the call to be stored");
    }
    let () = bench.redis.del(WORKER).unwrap();
    bench.refuses(STALE, "call 77 where none is known", |bench| call(bench, 77));
    call(&mut bench, 1).unwrap_or_else(|error| panic!("expected the first call to be applied: {error}"));
    assert_eq!(bench.seq(), Some(1), "expected the number of the call to be stored");
}

/// A call that finds nothing to do stores its number and changes nothing else, also in a full Redis.
#[track_caller]
fn changes_only_its_number<T>(
    bench: &mut Bench,
    seq: u64,
    call: impl Fn(&mut Bench, u64) -> RedisResult<T>,
) -> T {
    call(bench, seq).unwrap_or_else(|error| panic!("expected call {seq} to be answered: {error}"));
    let before = everything(&mut bench.redis);
    let reply = bench.when_full(|bench| call(bench, seq + 1));
    assert_eq!(bench.seq(), Some(seq + 1), "expected the number of the call to be stored");
    let () = bench.redis.hset(WORKER, "seq", seq).unwrap();
    bench.assert_unchanged(&before, "for a call that found nothing to do");
    let () = bench.redis.hset(WORKER, "seq", seq + 1).unwrap();
    reply.unwrap_or_else(|error| panic!("expected a full Redis to be no obstacle: {error}"))
}

/// Of which flow a call is a step: the first step, which is the second node.
fn member() -> Vec<u8> {
    [&FLOW_ID[..], &[0, 0, 0, 1], &[0; 4], QUEUE.as_bytes()].concat()
}

/// The message of a step of a flow, with this byte as its id.
fn step_message(id: u8) -> Vec<u8> {
    let member = member();
    let flow = [&[0xa1, b'm', 0xc4, member.len() as u8][..], &member].concat();
    [&[0x93, 0xa1, b'f', 0x90, 0x82, 0xa1, b'i', 0xc4, 16][..], &[id; 16], &flow].concat()
}

/// What is in the outbox for the step with this byte as its id: its flow, its state, and names and values.
#[track_caller]
fn outcome(bench: &mut Bench, id: u8) -> Vec<Vec<u8>> {
    let packed: Option<Vec<u8>> = bench.redis.hget(OUTBOX, &[id; 16]).unwrap();
    let packed = packed.expect("expected the outcome in the outbox");
    let values = rmpv::decode::read_value_ref(&mut &packed[..]).unwrap();
    let values = values.as_array().expect("expected an array").to_owned();
    let noted = values[0].to_string().parse::<f64>().expect("expected when it was noted");
    assert!(
        (bench.server_ms() as f64 - noted).abs() < 30_000.0,
        "expected it to be noted now, not at {noted}"
    );
    let bytes = |value: &ValueRef<'_>| match value {
        ValueRef::String(text) => text.as_bytes().to_vec(),
        other => other.to_string().into_bytes(),
    };
    values[1..].iter().map(bytes).collect()
}

/// The outcome of the step with this byte as its id begins so: the state, and names and values.
#[track_caller]
fn assert_outcome(bench: &mut Bench, id: u8, expected: &[&str]) {
    let found = outcome(bench, id);
    assert_eq!(found[0], member(), "expected it to name its flow");
    let found: Vec<String> = found[1..].iter().map(|value| String::from_utf8_lossy(value).into()).collect();
    assert_eq!(found[..expected.len().min(found.len())], *expected, "of {found:?}");
}

/// A step does not end if its outcome cannot be left in the outbox: a text there, or without the right to write it.
#[track_caller]
fn ends_no_step_without_the_outbox<T: std::fmt::Debug>(
    seed: impl Fn(&mut Bench),
    call: impl Fn(&mut Bench) -> RedisResult<T>,
) {
    let mut bench = Bench::new();
    seed(&mut bench);
    let () = bench.redis.set(OUTBOX, "text").unwrap();
    bench.refuses(WRONG_TYPE, "with a text as the outbox", &call);
    let () = bench.redis.del(OUTBOX).unwrap();
    bench.without_right_to_write(OUTBOX);
    // The text of Redis 7.0 for a key that a script makes up itself; later versions have another one.
    bench.refuses("access", "without the right to write the outbox", &call);
    bench.with_all_rights();
    call(&mut bench).unwrap_or_else(|error| panic!("expected the step to end now: {error}"));
    let left: u64 = bench.redis.hlen(OUTBOX).unwrap();
    assert!(left > 0, "expected its outcome in the outbox");
}

/// The wire id of one of our slots.
fn slot(number: usize) -> String {
    format!("{WORKER}:{number}")
}

fn slots(count: usize) -> Vec<String> {
    (0..count).map(slot).collect()
}

/// What `processing` should be.
fn owned(slots: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    slots.iter().map(|(id, message)| ((*id).to_owned(), message.as_bytes().to_vec())).collect()
}

fn bytes(messages: &[&str]) -> Vec<Vec<u8>> {
    messages.iter().map(|message| message.as_bytes().to_vec()).collect()
}

/// The field of a message in `deaths`.
pub(crate) fn digest(message: &str) -> String {
    redis::Script::new(message).get_hash().to_owned()
}

/// The entry of a message in the line of a limit.
pub(crate) fn entry(message: &str) -> String {
    format!("{} {QUEUE}", digest(message))
}
