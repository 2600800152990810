//! Do the scripts of a limit do what is said here? Random steps, one after another, on a Redis and in a plain model: every reply
//! and every state must be alike. Leases do not end, and there is no rate: `tests/lua/acquire.rs` has these.

use std::cell::RefCell;
use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use redis::{Commands, RedisResult, Value};

use crate::lua::{Bench, LIMIT};
use crate::support::{cases, is_quick};

/// Calls, each with a holder of its own.
const CALLS: usize = 5;
/// Milliseconds; no sequence takes so long.
const LONG: u64 = 3_600_000;

#[derive(Debug, Clone)]
enum Step {
    /// How many may run; none: there is no limit.
    Set(Option<usize>),
    Acquire(Vec<usize>),
    Wake {
        released: Vec<usize>,
        lost: Vec<usize>,
    },
    Renew(Vec<usize>),
}

/// What a limit knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Limit {
    most: Option<usize>,
    holders: BTreeSet<usize>,
    line: Vec<usize>,
    woken: usize,
}

impl Limit {
    fn free(&self) -> i64 {
        let most = self.most.map_or(i64::MAX / 2, |most| i64::try_from(most).unwrap());
        most - i64::try_from(self.holders.len()).unwrap()
    }

    fn leave_line(&mut self, call: usize, within: i64) -> bool {
        let within = usize::try_from(within).unwrap_or(0);
        let Some(place) = self.line.iter().take(within).position(|other| *other == call) else {
            return false;
        };
        self.line.remove(place);
        self.woken -= usize::from(place < self.woken);
        true
    }

    /// Gives whether the call may run.
    fn acquire(&mut self, call: usize) -> bool {
        if self.holders.contains(&call) {
            return true;
        }
        let free = self.free();
        if self.leave_line(call, free) || i64::try_from(self.line.len()).unwrap() < free {
            return self.holders.insert(call);
        }
        let woken = i64::try_from(self.woken).unwrap();
        // It was told to come, before the limit was lowered.
        let place = if free < woken && self.leave_line(call, woken) { self.woken } else { self.line.len() };
        self.line.insert(place, call);
        false
    }

    fn wake_next(&mut self) -> Vec<usize> {
        let upto = usize::try_from(self.free()).unwrap_or(0).min(self.line.len());
        let told = self.line.get(self.woken..upto).unwrap_or_default().to_vec();
        self.woken = self.woken.max(upto);
        told
    }

    fn wake(&mut self, released: &[usize], lost: &[usize]) -> Vec<usize> {
        self.holders.retain(|call| !released.contains(call));
        for call in lost {
            let woken = i64::try_from(self.woken).unwrap();
            self.leave_line(*call, woken);
        }
        self.wake_next()
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    let some = |least| {
        (Just((0..CALLS).collect::<Vec<_>>()).prop_shuffle(), least..=3usize).prop_map(
            |(mut calls, count)| {
                calls.truncate(count);
                calls
            },
        )
    };
    prop_oneof![
        1 => proptest::option::weighted(0.9, 1..4usize).prop_map(Step::Set),
        6 => some(1).prop_map(Step::Acquire),
        5 => (some(0), some(0)).prop_map(|(released, lost)| Step::Wake { released, lost }),
        1 => some(1).prop_map(Step::Renew),
    ]
}

fn holder(call: usize) -> String {
    format!("q:abcdefghijklmn27:{call}#1")
}

fn entry(call: usize) -> String {
    format!("{:040} q", call)
}

fn int(number: usize) -> Value {
    Value::Int(i64::try_from(number).unwrap())
}

fn entries(calls: Vec<usize>) -> impl Iterator<Item = Value> {
    calls.into_iter().map(|call| Value::BulkString(entry(call).into_bytes()))
}

fn make(bench: &mut Bench, limit: &mut Limit, step: &Step) -> (RedisResult<Value>, Value) {
    match step {
        Step::Set(most) => {
            let () = bench.redis.del(LIMIT[0]).unwrap();
            if let Some(most) = most {
                let () = bench.redis.hset(LIMIT[0], "concurrency", *most).unwrap();
            }
            limit.most = *most;
            (Ok(Value::Nil), Value::Nil)
        }
        Step::Acquire(calls) => {
            let reply = bench.call("acquire", |script| {
                LIMIT.iter().for_each(|key| {
                    script.key(*key);
                });
                script.arg(LONG);
                for call in calls {
                    script.arg(holder(*call)).arg(entry(*call));
                }
            });
            if limit.most.is_none() {
                return (reply, Value::Array(vec![Value::Array(vec![Value::Int(-2); calls.len()])]));
            }
            let answers = calls.iter().map(|call| Value::Int(if limit.acquire(*call) { 0 } else { -1 }));
            let answers = Value::Array(answers.collect());
            (reply, Value::Array(std::iter::once(answers).chain(entries(limit.wake_next())).collect()))
        }
        Step::Wake { released, lost } => {
            let reply = bench.call("wake", |script| {
                LIMIT.iter().for_each(|key| {
                    script.key(*key);
                });
                script.arg(0).arg(released.len());
                for call in released {
                    script.arg(holder(*call)).arg("");
                }
                for call in lost {
                    script.arg(entry(*call));
                }
            });
            let told = limit.wake(released, lost);
            (reply, Value::Array(std::iter::once(int(limit.line.len())).chain(entries(told)).collect()))
        }
        Step::Renew(calls) => {
            let reply = bench.call("renew", |script| {
                script.key(LIMIT[1]).arg(LONG);
                for call in calls {
                    script.arg(holder(*call));
                }
            });
            (reply, int(calls.iter().filter(|call| limit.holders.contains(call)).count()))
        }
    }
}

/// What stands in Redis.
fn read(bench: &mut Bench, most: Option<usize>) -> Limit {
    let holders: Vec<String> = bench.redis.zrange(LIMIT[1], 0, -1).unwrap();
    let line: Vec<String> = bench.redis.lrange(LIMIT[2], 0, -1).unwrap();
    let woken: Option<usize> = bench.redis.hget(LIMIT[3], "woken").unwrap();
    let call = |names: fn(usize) -> String, name: &String| {
        (0..CALLS).find(|call| names(*call) == *name).unwrap_or_else(|| panic!("expected a call: {name}"))
    };
    Limit {
        most,
        holders: holders.iter().map(|name| call(holder, name)).collect(),
        line: line.iter().map(|name| call(entry, name)).collect(),
        woken: woken.unwrap_or_default(),
    }
}

#[test]
fn any_sequence_of_steps_of_a_limit_is_as_in_the_model() {
    let bench = RefCell::new(Bench::new());
    let config = Config { cases: cases(150), failure_persistence: None, ..Config::default() };
    let most_waiting = std::cell::Cell::new(0);
    let result = TestRunner::new(config).run(&proptest::collection::vec(any_step(), 1..80), |sequence| {
        let mut bench = bench.borrow_mut();
        let () = bench.redis.flushall().unwrap();
        let mut limit = Limit::default();
        for (at, step) in std::iter::once(&Step::Set(Some(1))).chain(&sequence).enumerate() {
            let (reply, expected) = make(&mut bench, &mut limit, step);
            let reply =
                reply.map_err(|error| TestCaseError::fail(format!("step {at}, {step:?}: {error}")))?;
            let found = read(&mut bench, limit.most);
            prop_assert_eq!((reply, &found), (expected, &limit), "step {}, {:?}", at, step);
            most_waiting.set(most_waiting.get().max(limit.line.len()));
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("expected the scripts to do as the model does: {error}"));
    assert!(most_waiting.get() > 3 || is_quick(), "expected some calls to wait: {}", most_waiting.get());
}
