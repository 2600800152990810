//! Failed runs, and the links from their retries.

use delayed::__private::protocol::annotations::Annotations;
use delayed::__private::protocol::encode::{Meta, annotated};
use delayed::__private::protocol::message::Message;
use delayed::Client;

use super::{Collector, PARENT, Seen, TRACE, run_all};
use crate::support::trial::{Trial, call, open};

#[delayed::task(name = "otel.plain", queue = "q")]
fn plain(_n: u32) {}

fn runs(spans: &[Seen]) -> Vec<&Seen> {
    spans.iter().filter(|span| span.name.starts_with("run ")).collect()
}

#[test]
fn retry_links_to_the_run_that_failed() {
    for (task, isolation) in [
        ("trial.mark_or_retry", "inline"),
        ("trial.flaky", "inline"),
        ("trial.flaky", "fork"),
        ("trial.waits", "prefork"),
    ] {
        let (mut trial, collector) = (Trial::new(), Collector::start());
        trial.push(&[call(task, &["x".into(), 2.into()])]);
        let words = ["--isolation", isolation, "--otlp", &collector.url()];
        let mut worker = trial.worker(&words);
        trial.wait_runs(3);
        trial.wait_settled();
        trial.stop(&mut worker);
        let spans = collector.seen();
        let runs = runs(&spans);
        assert_eq!(runs.len(), 3, "{task}: {spans:#?}");
        // It had no trace, and so belongs to that of its first attempt.
        assert_eq!(runs[0].parent, "", "{task}: {spans:#?}");
        for (n, run) in runs.iter().enumerate() {
            let is_last = n == 2;
            assert_eq!(run.attribute("delayed.attempt"), (n + 1).to_string(), "{spans:#?}");
            assert_eq!(run.attribute("delayed.outcome"), if is_last { "succeeded" } else { "failed" });
            assert_eq!(
                run.error.as_ref().is_some_and(|error| error.contains("not yet")),
                !is_last,
                "{run:#?}"
            );
            assert_eq!(run.trace, runs[0].trace, "{task}: {spans:#?}");
            let links: Vec<_> =
                (0..n).rev().take(1).map(|last| (runs[last].trace.clone(), runs[last].id.clone())).collect();
            assert_eq!(run.links, links, "{task}: {spans:#?}");
            if n > 0 {
                assert_eq!(run.parent, runs[0].id, "{task}: {spans:#?}");
            }
        }
        let waits = spans.iter().filter(|span| span.name == format!("wait {task}")).count();
        assert_eq!(waits, 2, "{task}: {spans:#?}");
    }
}

#[test]
fn snoozed_call_stays_in_its_trace() {
    let (mut trial, collector) = (Trial::new(), Collector::start());
    let gate = trial.gate("snoozed");
    let mut annotations = Annotations::default();
    annotations.trace.parent = PARENT.to_owned();
    let payload = rmp_serde::to_vec(&("x", &gate)).unwrap();
    trial.push(&[annotated("trial.snoozes", &payload, &Meta::default(), &annotations)]);
    let mut worker = trial.worker(&["--otlp", &collector.url()]);
    trial.wait_runs(2);
    open(&gate);
    worker.signal(nix::sys::signal::Signal::SIGHUP);
    trial.ended(&mut worker);
    let spans = collector.seen();
    let runs = runs(&spans);
    let outcomes: Vec<_> = runs.iter().map(|run| run.attribute("delayed.outcome")).collect();
    assert_eq!(outcomes.first(), Some(&"snoozed"), "{spans:#?}");
    assert!(runs.iter().all(|run| run.trace == TRACE && run.error.is_none()), "{spans:#?}");
    assert_eq!(runs[1].links, [(runs[0].trace.clone(), runs[0].id.clone())], "{spans:#?}");
}

#[test]
fn without_spans_messages_stay_as_they_are() {
    let mut trial = Trial::new();
    let client = Client::lazy(&trial.server.url());
    let call_of_ours = plain::call(7);
    client.enqueue_blocking(call_of_ours.clone()).unwrap();
    assert_eq!(trial.state().waiting, [call_of_ours.encode().unwrap()]);

    let mut trial = Trial::new();
    trial.push(&[call("trial.stamp_and_fail", &[])]);
    let mut worker = trial.worker(&["--backoff", "fixed:1h"]);
    trial.wait_runs(1);
    trial.wait_settled();
    trial.stop(&mut worker);
    let state = trial.state();
    let later = state.later.values().next().expect("a call that is retried later");
    let message = Message::decode(later).unwrap();
    assert_eq!((message.attempts(), message.traceparent()), (1, None), "{state:#?}");
}

#[test]
fn panics_crashes_and_timeouts_are_errors_of_their_spans() {
    for (task, isolation, outcome) in [
        ("trial.panic", "inline", "panicked"),
        ("trial.panic_blocking", "inline", "panicked"),
        ("trial.never", "inline", "timed_out"),
        ("trial.never", "fork", "timed_out"),
        ("isolation.abort", "fork", "crashed"),
        ("trial.mark", "inline", "arguments"),
    ] {
        let (mut trial, collector) = (Trial::new(), Collector::start());
        let arguments = match task {
            "trial.mark" => vec![7.into()],
            _ => vec!["x".into()],
        };
        trial.push(&[call(task, &arguments)]);
        // A process that crashes may take long to end.
        let timeout = if outcome == "timed_out" { "800ms" } else { "60s" };
        let words = ["--isolation", isolation, "--timeout", timeout, "--grace", "100ms", "--retry", "0"];
        run_all(&trial, &collector.url(), &words);
        let spans = collector.seen();
        let [run] = &spans[..] else { panic!("expected one span: {task}: {spans:#?}") };
        assert_eq!(
            (run.attribute("delayed.outcome"), run.attribute("error.type")),
            (outcome, outcome),
            "{run:#?}"
        );
        assert!(run.error.as_ref().is_some_and(|error| !error.is_empty()), "{run:#?}");
        assert_eq!(trial.reasons(), [outcome], "{task}");
    }
}
