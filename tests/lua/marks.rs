//! The marks of calls that were cancelled while they waited, as those scripts see them that give messages to a worker.

use delayed::__private::protocol::encode::{Meta, native};
use delayed::CallId;

use super::*;

type Asks = fn(&mut Bench) -> RedisResult<Vec<Value>>;

/// Each asks for two messages, but for `pick_up`, which asks for one.
const GIVERS: [(&str, Asks); 3] = [("claim", claim), ("pick_up", pick_up), ("reconcile", reconcile)];

fn claim(bench: &mut Bench) -> RedisResult<Vec<Value>> {
    bench.call("claim", |call| {
        keys(call).arg(1).arg(LEASE).arg(0).arg(1).arg(0).arg(0).arg(0).arg(slots(2));
    })
}

fn pick_up(bench: &mut Bench) -> RedisResult<Vec<Value>> {
    bench.call("pick_up", |call| {
        keys(call).arg(1).arg(LEASE).arg(slot(0));
    })
}

fn keys<'a, 'b>(call: &'a mut ScriptInvocation<'b>) -> &'a mut ScriptInvocation<'b> {
    call.key(QUEUE).key(TOKENS).key(PROCESSING).key(WORKER).key(DEATHS).key(HAND).key(PAUSED).key(CANCELLED)
}

/// What a claim left in the slots, and nobody heard of.
fn reconcile(bench: &mut Bench) -> RedisResult<Vec<Value>> {
    bench.call("reconcile", |call| {
        call.key(PROCESSING).key(WORKER).key(DEATHS).key(CANCELLED).arg(9).arg(LEASE).arg(slots(2));
    })
}

fn message(id: u8) -> Vec<u8> {
    native("f", &[0xc0], &Meta { id: Some(CallId::from_bytes([id; 16])), ..Meta::default() })
}

/// Messages 1 and 2 wait, or are in the slots of the worker.
fn seed(giver: &str) -> Bench {
    let mut bench = Bench::new();
    if giver == "reconcile" {
        for place in [0, 1] {
            let () = bench.redis.hset(PROCESSING, slot(place), message(1 + place as u8)).unwrap();
        }
    } else {
        bench.wait(&[message(1), message(2)]);
    }
    bench
}

fn places(giver: &str, reply: &[Value]) -> Vec<u64> {
    let value = if giver == "reconcile" { reply.get(2) } else { reply.get(4) };
    value.map_or_else(Vec::new, |value| redis::from_redis_value(value.clone()).unwrap())
}

#[test]
fn message_comes_with_the_mark_of_its_call() {
    for (giver, asks) in GIVERS {
        for (marked, expected) in [(1, vec![1]), (2, vec![2]), (3, vec![])] {
            let mut bench = seed(giver);
            let () = bench.redis.zadd(CANCELLED, &[marked; 16], 17).unwrap();
            let reply = asks(&mut bench).unwrap();
            let expected = if giver == "pick_up" && marked == 2 { vec![] } else { expected };
            assert_eq!(places(giver, &reply), expected, "{giver}, call {marked} is cancelled");
            assert_eq!(bench.redis.zcard::<_, u64>(CANCELLED).unwrap(), 1, "expected the mark to stay");
        }
    }
}

#[test]
fn key_of_another_program_holds_no_marks() {
    for (giver, asks) in GIVERS {
        let mut bench = seed(giver);
        let () = bench.redis.rpush(CANCELLED, &[1_u8; 16]).unwrap();
        let reply = asks(&mut bench).unwrap();
        assert!(places(giver, &reply).is_empty(), "{giver}");
    }
}

#[test]
fn worker_that_may_not_read_marks_gets_nothing() {
    for (giver, asks) in GIVERS {
        let mut bench = seed(giver);
        let () = bench.redis.zadd(CANCELLED, &[1; 16], 17).unwrap();
        let rights = |bench: &mut Bench, rule: &str| {
            redis::cmd("ACL").arg("SETUSER").arg("default").arg(rule).exec(&mut bench.redis).unwrap();
        };
        rights(&mut bench, "-zscore");
        bench.refuses("command", giver, asks);
        rights(&mut bench, "+zscore");
        assert_eq!(places(giver, &asks(&mut bench).unwrap()), [1], "{giver}");
    }
}
