//! Trace contexts reach the run, its span, and the calls that it enqueues.

use delayed::{Client, EncodeError, Error, TraceError};

use super::{ISOLATIONS, burst, layered, tasks};
use crate::support::trial::Trial;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OTHER: &str = "00-11111111111111111111111111111111-2222222222222222-00";
const STATE: &str = "congo=t61rcWkgMzE";

fn line(n: u32, parent: Option<&str>, state: Option<&str>) -> String {
    format!("{n} {parent:?} {state:?}")
}

#[test]
fn calls_of_a_run_are_in_its_trace() {
    for isolation in ISOLATIONS {
        let mut trial = Trial::new();
        let client = Client::lazy(&trial.server.url());
        let call = tasks::traced::call(3, None).traceparent(PARENT).tracestate(STATE);
        client.enqueue_blocking(call).unwrap();
        let mut worker = trial.worker(&burst(isolation));
        trial.ended(&mut worker);
        let all: Vec<String> = (0..=3).rev().map(|n| line(n, Some(PARENT), Some(STATE))).collect();
        assert_eq!(trial.ledger.lines(), all, "{isolation}");
        trial.assert_only(&[]);
    }
}

#[test]
fn trace_of_one_run_is_not_that_of_the_next() {
    for isolation in ISOLATIONS {
        let trial = Trial::new();
        let client = Client::lazy(&trial.server.url());
        let words = [&burst(isolation)[..], &["--concurrency", "1"]].concat();
        for own in [Some(OTHER.to_owned()), None] {
            for call in [tasks::traced::call(2, own.clone()), tasks::traced_blocking::call(2, own)] {
                client.enqueue_blocking(call.clone().traceparent(PARENT)).unwrap();
                client.enqueue_blocking(call.traceparent("")).unwrap();
            }
        }
        let mut worker = trial.worker(&words);
        trial.ended(&mut worker);
        let counts = [(PARENT, 8), (OTHER, 8)];
        let lines = trial.ledger.lines();
        for (parent, expected) in counts {
            assert_eq!(lines.iter().filter(|line| line.contains(parent)).count(), expected, "{lines:?}");
        }
        assert_eq!(lines.iter().filter(|line| line.ends_with(" None None")).count(), 8, "{lines:?}");
    }
}

#[test]
fn layers_are_in_the_trace_of_their_run() {
    let trial = Trial::new();
    let client = Client::lazy(&trial.server.url());
    client.enqueue_blocking(tasks::traced::call(2, None).traceparent(PARENT)).unwrap();
    let mut worker = layered(&trial, &burst("inline"));
    trial.ended(&mut worker);
    let lines = trial.ledger.lines();
    assert_eq!(lines.iter().filter(|line| line.contains(PARENT)).count(), 3, "{lines:?}");
}

#[test]
fn span_of_a_run_has_its_traceparent() {
    for isolation in ISOLATIONS {
        let trial = Trial::new();
        let client = Client::lazy(&trial.server.url());
        client.enqueue_blocking(tasks::traced::call(0, None).traceparent(PARENT)).unwrap();
        let words = [&burst(isolation)[..], &["--log-level", "info,delayed::run=debug"]].concat();
        let mut worker = trial.worker(&words);
        let line: serde_json::Value =
            serde_json::from_str(&worker.wait_for_line("inside of a trace")).unwrap();
        assert_eq!(line["span"]["traceparent"], PARENT, "{isolation}: {line}");
        assert_eq!(line["span"]["trace_id"], PARENT.split('-').nth(1).unwrap(), "{isolation}: {line}");
        trial.ended(&mut worker);
    }
}

#[test]
fn invalid_traces_are_not_sent_and_those_of_others_ignored() {
    let mut trial = Trial::new();
    let client = Client::lazy(&trial.server.url());
    let call = || tasks::traced::call(0, None);
    for (call, expected) in [
        (call().traceparent("00-x"), TraceError::Parent),
        (call().traceparent(PARENT).tracestate("é"), TraceError::State),
    ] {
        let error = client.enqueue_blocking(call).unwrap_err();
        let Error::Encode { source: EncodeError::Trace(found), .. } = &error else { panic!("{error}") };
        assert_eq!(*found, expected);
    }
    let begin = b"\x93\xadlayers.traced\xc4\x03\x92\x00\xc0\x81\xa1w";
    let odd = [&b"\xc0"[..], b"\x05", b"\x91\xa4-0-1", b"\x91\xc4\x01a"];
    trial.push(&odd.map(|value| [begin, value].concat()));
    let mut worker = trial.worker(&burst("inline"));
    trial.ended(&mut worker);
    assert_eq!(trial.ledger.lines(), vec![line(0, None, None); 4]);
}
