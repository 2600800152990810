//! A user lacks a right: a script that moves messages loses none and makes none twice, whichever command is refused.

use std::collections::BTreeSet;

use super::*;

/// How many messages there are, wherever they are.
fn count(bench: &mut Bench) -> usize {
    let state = bench.state();
    state.waiting.len() + state.processing.len() + state.later.len() + state.dead.len()
}

/// The commands that a script calls, whether or not it minds a refusal.
fn commands(script: &str) -> BTreeSet<&str> {
    let text = script_text(script).unwrap();
    text.split("call('").skip(1).filter_map(|rest| rest.split('\'').next()).collect()
}

/// Lets a script run without the right to each of its commands, and again with it: it comes to the same as without a refusal.
#[track_caller]
pub(super) fn assert_same_without_each_right<T: PartialEq + std::fmt::Debug>(
    script: &str,
    seed: impl Fn(&mut Bench),
    call: impl Fn(&mut Bench) -> RedisResult<T>,
    expected: &T,
) {
    let (mut bench, mut refused) = (Bench::new(), 0);
    for command in commands(script) {
        let () = bench.redis.flushall().unwrap();
        seed(&mut bench);
        bench.allow('-', command);
        let first: RedisResult<Value> = call(&mut bench).map(|_| Value::Nil);
        bench.allow('+', command);
        if first.is_err() {
            refused += 1;
            let second = call(&mut bench).unwrap_or_else(|error| panic!("{script} after {command}: {error}"));
            assert_eq!(second, *expected, "{script} after it was refused {command}");
        }
    }
    assert!(refused > 2, "expected {script} to be refused without some rights");
}

/// Lets a script run without the right to each of its commands, and again with it.
#[track_caller]
pub(super) fn keeps_every_message_without_a_right<T>(
    script: &str,
    seed: impl Fn(&mut Bench),
    call: impl Fn(&mut Bench) -> RedisResult<T>,
) {
    let mut bench = Bench::new();
    let (commands, mut refused) = (commands(script), 0);
    assert!(commands.len() > 3, "expected the commands of {script}: {commands:?}");
    for command in commands {
        let () = bench.redis.flushall().unwrap();
        seed(&mut bench);
        let before = count(&mut bench);
        bench.allow('-', command);
        let is_refused = call(&mut bench).is_err();
        bench.allow('+', command);
        assert_eq!(count(&mut bench), before, "{script} without {command}, refused: {is_refused}");
        refused += u32::from(is_refused);
    }
    assert!(refused > 0, "expected {script} to be refused without some right");
}
