//! The bytes of flows, which Python makes too.

use std::time::{Duration, SystemTime};

use delayed::{Call, FlowFailure, IntoCall, IntoFlow, Unique, chain, group, group_of};
use serde_json::Value as Json;

use super::vectors::string;

const VECTORS: &str = include_str!("flows.json");

#[delayed::task(name = "flows.number", queue = "q")]
async fn number(n: u64) -> u64 {
    n
}

#[delayed::task(name = "flows.add", queue = "q")]
async fn add(sum: u64, n: u64) -> u64 {
    sum + n
}

#[delayed::task(name = "flows.double", queue = "other")]
async fn double(n: u64) -> u64 {
    2 * n
}

#[delayed::task(name = "flows.sum", queue = "q")]
async fn sum(numbers: Vec<u64>) -> u64 {
    numbers.iter().sum()
}

#[delayed::task(name = "flows.begin", queue = "q")]
async fn begin() -> String {
    String::new()
}

#[delayed::task(name = "flows.mixed", queue = "q")]
async fn mixed(
    text: String,
    page: Option<u64>,
    less: i64,
    part: f64,
    raw: serde_bytes::ByteBuf,
    on: bool,
) -> u64 {
    let _ = (text, page, less, part, raw, on);
    0
}

#[delayed::task(name = "flows.alert", queue = "q")]
async fn alert(failure: FlowFailure) {
    drop(failure);
}

#[delayed::task(name = "flows.close", queue = "q")]
async fn close(shop: String) {
    drop(shop);
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The flow of that name. `flows.json` describes it.
fn flow(name: &str) -> Call {
    match name {
        "one step" => chain(number::call(1)).into_flow().into_call().untyped(),
        "a chain of calls and steps" => {
            let results = chain(number::call(1)).then(add::step(300)).then(double::step());
            results.then(number::call(7)).into_flow().into_call().untyped()
        }
        "no arguments, and arguments of several types" => {
            let raw = serde_bytes::ByteBuf::from([0, 255]);
            let all = mixed::call("Ärger".into(), None, -70_000, 0.5, raw, true);
            let list = sum::call(vec![70_000, 5_000_000_000]);
            group_of((chain(begin::call()), all, list)).into_flow().into_call().untyped()
        }
        "a group that waits for all" => {
            group([1, 2, 3].map(number::call)).then(sum::step()).into_flow().into_call().untyped()
        }
        "a group that fails fast, with a bound" => {
            let members = group((1..=20).map(number::call)).at_most(2).fail_fast();
            members.then(sum::step()).into_flow().into_call().untyped()
        }
        "a group that goes on with its successes" => {
            group([number::call(1)]).successes().then(sum::step()).into_flow().into_call().untyped()
        }
        "a group without members" => {
            group(Vec::<Call<u64>>::new()).then(sum::step()).into_flow().into_call().untyped()
        }
        "parts inside each other" => {
            let members = [1, 2].map(|n| chain(add::step(n)).then(double::step()));
            let inner = chain(number::call(10)).then(group(members)).then(sum::step());
            group([inner, chain(number::call(1))]).at_most(1).into_flow().into_call().untyped()
        }
        "a step that takes the failure" => {
            chain(number::call(1)).on_error(alert::step()).into_call().untyped()
        }
        "a call if it fails" => {
            group([number::call(1)]).on_error(close::call("shop".into())).into_call().untyped()
        }
        "options of steps" => {
            let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_500);
            let first = number::call(1).at(at).expires_at(at + seconds(60)).max_len(10).keep(seconds(60));
            let second = add::step(2).with(|call| {
                let call = call.queue("slow").after(Duration::from_millis(300)).expires(seconds(60)).front();
                let call = call.retry(3).timeout(seconds(5)).limit("github").header("tenant", "acme");
                call.backoff("exponential:1s..10m".parse().unwrap())
            });
            let third = double::step().with(|call| call.unique(Unique::For(seconds(3600))));
            let fourth = add::call(1, 2).unique_key("once").retry(0);
            let fifth = sum::call(vec![1, 2]).unique(Unique::UntilStarted).retry(-1);
            chain(first).then(second).then(third).then(fourth).then(fifth).into_flow().into_call().untyped()
        }
        "options of the flow" => {
            let flow = chain(number::call(1)).then(add::step(2)).into_flow().into_call();
            flow.keep(seconds(3600)).unique_key("once").after(seconds(60)).untyped()
        }
        "a flow that is unique by its steps" => {
            let flow = chain(number::call(1)).into_flow().into_call();
            flow.unique(Unique::UntilDone).untyped()
        }
        other => panic!("expected a flow that is known, not {other:?}"),
    }
}

#[test]
fn flow_becomes_the_same_bytes_as_in_python() {
    let file: Json = serde_json::from_str(VECTORS).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() >= 13, "{} cases", cases.len());
    let (mut made, mut expected) = (Vec::new(), Vec::new());
    for case in cases {
        let name = string(&case["name"]);
        let call = flow(&name).id(string(&case["flow"]["id"]));
        assert_eq!(call.queue_name().unwrap().as_str(), case["queue"], "{name}");
        let hex: String = call.encode().unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        made.push((name.clone(), hex));
        expected.push((name, string(&case["hex"])));
    }
    assert_eq!(made, expected);
}
