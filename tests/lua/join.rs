use super::*;

/// A policy, how three members end, what is to be done after each, and how the group ends.
type Case<'a> = (&'a str, [&'a str; 3], [&'a [&'a str]; 3], &'a str);

/// How a step ended: its number, its round, its state, and the name and the value of a field.
type Step<'a> = (u32, u32, &'a str, &'a str, &'a str);

const DONE: &str = "succeeded";

fn join(bench: &mut Bench, steps: &[Step<'_>]) -> RedisResult<Vec<String>> {
    let to_do: Vec<Vec<u8>> = bench.call("join", |call| {
        call.key(FLOW).key(OUTBOX).arg(&FLOW_ID[..]);
        for (number, round, state, name, value) in steps {
            call.arg(number).arg(round).arg(*state).arg(*name).arg(*value);
        }
    })?;
    Ok(to_do.iter().map(|what| read_to_do(what)).collect())
}

/// Joins one step of the first round. A result, and a reason why there is none, are its state.
#[track_caller]
fn ends(bench: &mut Bench, number: u32, state: &str) -> Vec<String> {
    let field = if state == DONE { "result" } else { "reason" };
    join(bench, &[(number, 0, state, field, state)]).unwrap()
}

/// A letter and a number, from an entry of the outbox.
pub(super) fn read_to_do(field: &[u8]) -> String {
    let (flow, rest) = field.split_at(16);
    assert_eq!(flow, FLOW_ID, "expected the flow first");
    let number: [u8; 4] = rest[1..].try_into().expect("expected a letter and four bytes");
    format!("{}{}", char::from(rest[0]), u32::from_be_bytes(number))
}

/// What the outbox has for the flow.
pub(super) fn to_do(bench: &mut Bench) -> Vec<String> {
    let fields: Vec<Vec<u8>> = bench.redis.hkeys(OUTBOX).unwrap();
    let mut to_do: Vec<String> = fields.iter().map(|field| read_to_do(field)).collect();
    to_do.sort();
    to_do
}

/// What is known of the flow, without what its nodes are.
fn known(bench: &mut Bench) -> BTreeMap<String, String> {
    let mut known: BTreeMap<String, String> = bench.redis.hgetall(FLOW).unwrap_or_else(|_| {
        let raw: BTreeMap<String, Vec<u8>> = bench.redis.hgetall(FLOW).unwrap();
        raw.into_iter().map(|(name, value)| (name, String::from_utf8_lossy(&value).into())).collect()
    });
    known.retain(|name, _| !name.starts_with('n'));
    known
}

fn known_as(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A part of a flow: a step, a chain, or a group with how many may run at a time, and its policy.
#[derive(Clone)]
enum Part {
    Step,
    Chain(Vec<Part>),
    Group(Vec<Part>, u32, &'static str),
}

use Part::{Chain, Group, Step as Leaf};

impl Part {
    /// Writes it as worker processes do: level by level.
    fn write(&self, bench: &mut Bench) {
        let (mut level, mut begin) = (vec![(self, -1, 0)], 0);
        while !level.is_empty() {
            let (mut next, first_of_next) = (Vec::new(), begin + level.len() as i64);
            for (number, (part, parent, place)) in (begin..).zip(level) {
                let (kind, parts, most, policy) = match part {
                    Self::Step => ("s", &[][..], 0, ""),
                    Self::Chain(parts) => ("c", &parts[..], 0, ""),
                    Self::Group(parts, most, policy) => ("g", &parts[..], *most, *policy),
                };
                let first = first_of_next + next.len() as i64;
                let numbers = [parent, place, first, parts.len() as i64, i64::from(most)];
                let mut node = vec![rmpv::Value::from(kind)];
                node.extend(numbers.map(rmpv::Value::from));
                node.push(policy.into());
                let mut bytes = Vec::new();
                rmpv::encode::write_value(&mut bytes, &rmpv::Value::Array(node)).unwrap();
                let () = bench.redis.hset(FLOW, format!("n{number}"), bytes).unwrap();
                next.extend((0..).zip(parts).map(|(place, part)| (part, number, place)));
            }
            (begin, level) = (first_of_next, next);
        }
    }

    /// A Redis that knows it.
    fn bench(&self) -> Bench {
        let mut bench = Bench::new();
        self.write(&mut bench);
        bench
    }
}

/// 0: a chain of the steps 1, 2 and 3.
fn chain() -> Part {
    Chain(vec![Leaf; 3])
}

#[test]
fn chain_goes_on_step_by_step_and_ends() {
    let mut bench = chain().bench();
    assert_eq!(join(&mut bench, &[(1, 0, DONE, "result", "\x05")]).unwrap(), ["o2"]);
    assert_eq!(to_do(&mut bench), ["o2"]);
    let since: Vec<u64> = bench.redis.hvals(OUTBOX).unwrap();
    assert!(bench.server_ms().abs_diff(since[0]) < 30_000, "expected the time it was noted: {since:?}");
    assert_eq!(known(&mut bench), known_as(&[("done", "1"), ("o1", DONE), ("v1", "\x05")]));
    assert_eq!(join(&mut bench, &[(2, 0, DONE, "", "")]).unwrap(), ["o3"]);
    assert_eq!(ends(&mut bench, 3, DONE), ["e0"]);
    assert_eq!(to_do(&mut bench), ["e0", "o2", "o3"], "expected all to stay until they are done");
    let ended =
        [("done", "3"), ("o0", DONE), ("o1", DONE), ("o2", DONE), ("o3", DONE), ("v1", "\x05"), ("v3", DONE)];
    assert_eq!(known(&mut bench), known_as(&ended));
}

#[test]
fn chain_ends_with_the_first_step_that_fails() {
    for state in ["dead", "cancelled", "expired"] {
        let mut bench = chain().bench();
        assert_eq!(ends(&mut bench, 1, DONE), ["o2"]);
        assert_eq!(ends(&mut bench, 2, state), ["e0"]);
        let ended = [
            ("done", "2"),
            ("failed", "2"),
            ("o0", "dead"),
            ("o1", DONE),
            ("o2", state),
            ("r2", state),
            ("v1", DONE),
        ];
        assert_eq!(known(&mut bench), known_as(&ended));
    }
}

#[test]
fn call_for_a_failed_flow_is_opened_once_and_is_no_step() {
    let mut bench = Chain(vec![Leaf, Leaf]).bench();
    let node: Vec<u8> = bench.redis.hget(FLOW, "n1").unwrap();
    let () = bench.redis.hset_multiple(FLOW, &[("n3", node)]).unwrap();
    let () = bench.redis.hset(FLOW, "on_error", 3).unwrap();
    assert_eq!(ends(&mut bench, 1, "dead"), ["o3", "e0"]);
    let before = known(&mut bench);
    assert_eq!(ends(&mut bench, 1, "dead"), [""; 0]);
    assert_eq!(known(&mut bench), before);
    assert_eq!(ends(&mut bench, 3, "dead"), [""; 0], "expected nothing to follow from its end");
    let after: BTreeMap<_, _> =
        before.into_iter().chain(known_as(&[("o3", "dead"), ("r3", "dead")])).collect();
    assert_eq!(known(&mut bench), after, "expected it not to count as a step, nor as what failed");
}

#[test]
fn outcome_counts_once_however_often_it_comes() {
    let mut bench = Group(vec![Leaf; 3], 0, "a").bench();
    for number in [1, 2] {
        assert_eq!(ends(&mut bench, number, DONE), [""; 0]);
        let before = everything(&mut bench.redis);
        let again: [Step<'_>; 2] =
            [(number, 0, DONE, "result", "other"), (number, 0, "dead", "reason", "no")];
        assert_eq!(join(&mut bench, &again).unwrap(), [""; 0]);
        bench.assert_unchanged(&before, "for an outcome that is known");
    }
    // The same step twice in one request.
    let twice: [Step<'_>; 2] = [(3, 0, DONE, "", ""), (3, 0, "dead", "", "")];
    assert_eq!(join(&mut bench, &twice).unwrap(), ["e0"]);
    let known = known(&mut bench);
    assert_eq!((&known["k0"][..], &known["b0"][..], &known["o0"][..]), ("3", "0", DONE));
}

#[test]
fn outcome_of_another_round_or_node_has_no_effect() {
    let mut bench = chain().bench();
    let () = bench.redis.hset(FLOW, "g1", 2).unwrap();
    let before = everything(&mut bench.redis);
    let others: [Step<'_>; 4] =
        [(1, 0, DONE, "", ""), (1, 1, DONE, "", ""), (1, 3, DONE, "", ""), (77, 0, DONE, "", "")];
    assert_eq!(join(&mut bench, &others).unwrap(), [""; 0]);
    bench.assert_unchanged(&before, "for other rounds");
    assert_eq!(join(&mut bench, &[(1, 2, DONE, "", "")]).unwrap(), ["o2"]);
    let () = bench.redis.del(FLOW).unwrap();
    let before = everything(&mut bench.redis);
    assert_eq!(join(&mut bench, &[(2, 0, DONE, "", "")]).unwrap(), [""; 0], "expected it to be forgotten");
    bench.assert_unchanged(&before, "for a flow that is forgotten");
}

#[test]
fn policy_says_when_a_group_ends_and_how() {
    // The policy, what becomes of each member, what is to be done after each, and how the group ends.
    let cases: [Case<'_>; 8] = [
        ("a", [DONE, DONE, DONE], [&[], &[], &["e0"]], DONE),
        ("a", ["dead", DONE, DONE], [&[], &[], &["e0"]], "dead"),
        ("a", [DONE, DONE, "expired"], [&[], &[], &["e0"]], "dead"),
        ("f", [DONE, DONE, DONE], [&[], &[], &["e0"]], DONE),
        ("f", [DONE, "dead", "cancelled"], [&[], &["x0", "e0"], &[]], "dead"),
        ("f", [DONE, DONE, "dead"], [&[], &[], &["e0"]], "dead"),
        ("s", ["dead", DONE, "cancelled"], [&[], &[], &["e0"]], DONE),
        ("s", ["dead", "dead", "dead"], [&[], &[], &["e0"]], DONE),
    ];
    for (policy, states, expected, ended) in cases {
        for order in [[0, 1, 2], [2, 1, 0]] {
            if order[0] != 0 && policy == "f" && states.iter().any(|state| *state != DONE) {
                continue; // what is to be done depends on the order
            }
            let mut bench = Group(vec![Leaf; 3], 0, policy).bench();
            for (nth, member) in order.into_iter().enumerate() {
                let found = ends(&mut bench, member + 1, states[member as usize]);
                assert_eq!(found, expected[nth], "{policy} {states:?} {order:?}");
            }
            assert_eq!(known(&mut bench)["o0"], ended, "{policy} {states:?}");
            assert_eq!(known(&mut bench)["done"], "3", "{policy} {states:?}");
        }
    }
}

#[test]
fn bounded_group_lets_the_next_member_begin() {
    let mut bench = Group(vec![Leaf; 5], 2, "a").bench();
    let found = [2, 1, 4, 3, 5].map(|number| ends(&mut bench, number, DONE));
    assert_eq!(found, [vec!["o3"], vec!["o4"], vec!["o5"], vec![], vec!["e0"]]);
    assert_eq!(to_do(&mut bench), ["e0", "o3", "o4", "o5"]);
    // As many as there are members, and more.
    for most in [3, 4, u32::MAX] {
        let mut bench = Group(vec![Leaf; 3], most, "a").bench();
        assert_eq!([1, 2, 3].map(|number| ends(&mut bench, number, DONE)), [vec![], vec![], vec!["e0"]]);
    }
}

#[test]
fn members_that_succeeded_before_are_passed_over() {
    let mut bench = Group(vec![Leaf; 6], 1, "a").bench();
    // Reopened: 3 and 4 succeeded before.
    let before = [("k0", "2"), ("w0", "1"), ("o3", DONE), ("o4", DONE), ("g1", "1")];
    let () = bench.redis.hset_multiple(FLOW, &before).unwrap();
    assert_eq!(join(&mut bench, &[(1, 1, DONE, "", "")]).unwrap(), ["o2"]);
    assert_eq!(ends(&mut bench, 2, DONE), ["o5"]);
    assert_eq!(ends(&mut bench, 5, DONE), ["o6"]);
    assert_eq!(ends(&mut bench, 6, DONE), ["e0"]);
}

#[test]
fn outcome_climbs_through_nested_chains_and_groups() {
    // 0: a chain of 1, a group of 3 and 4, chains of 5 and 6, and of 7 and 8; and 2, a step.
    let inner = || Chain(vec![Leaf, Leaf]);
    let flow = Chain(vec![Group(vec![inner(), inner()], 0, "a"), Leaf]);
    let mut bench = flow.bench();
    assert_eq!(ends(&mut bench, 5, DONE), ["o6"]);
    assert_eq!(ends(&mut bench, 7, DONE), ["o8"]);
    assert_eq!(ends(&mut bench, 8, DONE), [""; 0]);
    assert_eq!(ends(&mut bench, 6, DONE), ["o2"]);
    assert_eq!(ends(&mut bench, 2, DONE), ["e0"]);
    let ended: Vec<String> = known(&mut bench).into_keys().filter(|name| name.starts_with('o')).collect();
    assert_eq!(ended, ["o0", "o1", "o2", "o3", "o4", "o5", "o6", "o7", "o8"]);
    // The failure of one of them, in the middle.
    let mut bench = flow.bench();
    assert_eq!(ends(&mut bench, 5, "dead"), [""; 0]);
    assert_eq!(ends(&mut bench, 7, DONE), ["o8"]);
    assert_eq!(ends(&mut bench, 8, DONE), ["e0"]);
    let known = known(&mut bench);
    assert_eq!((&known["o1"][..], &known["o0"][..], &known["failed"][..]), ("dead", "dead", "5"));
    assert!(!known.contains_key("o2"));
    // The same outcomes in one request.
    let mut bench = flow.bench();
    let all = [5, 6, 7, 8, 2].map(|number| (number, 0, DONE, "", ""));
    assert_eq!(join(&mut bench, &all).unwrap(), ["o6", "o8", "o2", "e0"]);
}

#[test]
fn nothing_climbs_past_a_node_that_has_ended() {
    let inner = Group(vec![Leaf, Leaf, Leaf], 0, "f");
    let mut bench = Group(vec![inner, Leaf], 0, "a").bench();
    assert_eq!(ends(&mut bench, 3, "dead"), ["x1"]);
    let counted = |bench: &mut Bench| (known(bench)["k0"].clone(), known(bench)["k1"].clone());
    assert_eq!(counted(&mut bench), ("1".into(), "1".into()));
    assert_eq!(ends(&mut bench, 4, DONE), [""; 0]);
    assert_eq!(ends(&mut bench, 5, "cancelled"), [""; 0]);
    assert_eq!(counted(&mut bench), ("1".into(), "1".into()));
    assert_eq!(ends(&mut bench, 2, DONE), ["e0"]);
    // In a flow that was cancelled, each step is noted, and nothing follows.
    let mut bench = chain().bench();
    let () = bench.redis.hset(FLOW, "o0", "cancelled").unwrap();
    assert_eq!(ends(&mut bench, 1, DONE), [""; 0]);
    let expected = [("done", "1"), ("o0", "cancelled"), ("o1", DONE), ("v1", DONE)];
    assert_eq!(known(&mut bench), known_as(&expected));
}

#[test]
fn root_may_be_a_step() {
    let mut bench = Leaf.bench();
    assert_eq!(ends(&mut bench, 0, DONE), ["e0"]);
    assert_eq!(known(&mut bench), known_as(&[("done", "1"), ("o0", DONE), ("v0", DONE)]));
}

#[test]
fn hundred_steps_are_joined_in_one_request() {
    let mut bench = Group(vec![Leaf; 100], 0, "a").bench();
    let all: Vec<Step<'_>> = (1..=100).map(|number| (number, 0, DONE, "result", "x")).collect();
    assert_eq!(join(&mut bench, &all).unwrap(), ["e0"]);
    assert_eq!(known(&mut bench)["done"], "100");
}

#[test]
fn works_when_redis_is_full() {
    let mut bench = chain().bench();
    bench.fill();
    assert_eq!(ends(&mut bench, 1, DONE), ["o2"]);
    assert_eq!(to_do(&mut bench), ["o2"]);
}

#[test]
fn changes_nothing_when_it_is_refused() {
    let seed = |bench: &mut Bench| chain().write(bench);
    changes_nothing_it_may_not(&[FLOW, OUTBOX], seed, |bench| join(bench, &[(1, 0, DONE, "result", "x")]));
}

#[test]
fn refused_outcome_counts_when_it_comes_again() {
    let steps: [Step<'_>; 2] = [(1, 0, DONE, "result", "x"), (2, 0, "dead", "reason", "no")];
    let flow = Group(vec![Leaf; 4], 2, "f");
    let mut bench = flow.bench();
    let expected = (join(&mut bench, &steps).unwrap(), known(&mut bench));
    let seed = |bench: &mut Bench| flow.write(bench);
    assert_same_without_each_right("join", seed, |bench| Ok((join(bench, &steps)?, known(bench))), &expected);
    let mut bench = flow.bench();
    bench.without_right_to_write(OUTBOX);
    bench.refuses("NOPERM", "without the right to write the outbox", |bench| {
        bench.call::<Value>("join", |call| {
            call.key(FLOW).key(OUTBOX).arg(&FLOW_ID[..]).arg(1).arg(0).arg(DONE).arg("").arg("");
        })
    });
}
