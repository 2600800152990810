//! Spans of calls, as a collector of OpenTelemetry gets them from real processes.

mod away;
mod collector;
mod retries;

use serde_json::json;

use self::collector::{Collector, Seen};
use crate::gateway::gateway;
use crate::support::http::Connection;
use crate::support::process::Program;
use crate::support::python;
use crate::support::trial::{PATIENCE, QUEUE, Trial, WORKER};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

/// The kinds of spans, as OTLP numbers them.
const INTERNAL: i32 = 1;
const PRODUCER: i32 = 4;
const CONSUMER: i32 = 5;

/// Runs all calls of the trial's queue, and sends their spans.
fn run_all(trial: &Trial, collector: &str, words: &[&str]) -> Program {
    let mut worker = trial.worker(&[&["--burst", "--otlp", collector][..], words].concat());
    trial.ended(&mut worker);
    worker
}

/// The only span of this name below this parent.
#[track_caller]
fn child<'a>(spans: &'a [Seen], name: &str, parent: &str) -> &'a Seen {
    let found: Vec<&Seen> = spans.iter().filter(|span| span.name == name && span.parent == parent).collect();
    assert_eq!(found.len(), 1, "expected one {name:?} below {parent:?}: {spans:#?}");
    found[0]
}

#[test]
fn one_trace_leads_from_the_enqueue_to_calls_of_the_run() {
    for isolation in ["inline", "fork", "prefork"] {
        let (trial, collector) = (Trial::new(), Collector::start());
        let mut command = trial.command(WORKER);
        command.env("PRODUCER", "makes spans").env("REDIS", trial.server.url());
        command.env("COLLECTOR", collector.url()).env("OTEL_SERVICE_NAME", "shop");
        let mut producer = Program::spawn(&mut command);
        assert!(producer.wait_exit(PATIENCE).success(), "{}", producer.printed());
        let sent = collector.seen();
        let names: Vec<_> = sent.iter().map(|span| (&*span.name, &*span.service, span.kind)).collect();
        assert_eq!(names, [("send layers.traced", "shop", PRODUCER); 3], "{sent:#?}");
        let (sent, refused): (Vec<_>, Vec<_>) = sent.into_iter().partition(|span| span.error.is_none());
        assert!(refused.len() == 1 && refused[0].error.as_ref().unwrap().contains("maximum"), "{refused:#?}");

        run_all(&trial, &collector.url(), &["--isolation", isolation]);
        let spans = collector.seen();
        let mut noted = Vec::new();
        for root in &sent {
            assert_eq!(root.parent, "", "{sent:#?}");
            let mut parent = root;
            for (n, task) in [(2, "traced"), (1, "traced_blocking"), (0, "traced")] {
                if n < 2 && isolation == "inline" {
                    parent = child(&spans, &format!("send layers.{task}"), &parent.id);
                }
                let run = child(&spans, &format!("run layers.{task}"), &parent.id);
                assert_eq!((run.kind, &run.error, &*run.service), (CONSUMER, &None, "delayed-test-worker"));
                assert_eq!((&run.trace, run.links.len()), (&root.trace, 0));
                for (name, expected) in [
                    ("messaging.system", "delayed"),
                    ("messaging.operation.type", "process"),
                    ("messaging.destination.name", QUEUE),
                    ("delayed.attempt", "1"),
                    ("delayed.outcome", "succeeded"),
                    ("delayed.isolation", isolation),
                ] {
                    assert_eq!(run.attribute(name), expected, "{name}: {run:#?}");
                }
                // The id of a call of a run tells when it was made.
                let wait = child(&spans, &format!("wait layers.{task}"), &parent.id);
                assert_eq!((wait.kind, &wait.trace), (INTERNAL, &root.trace));
                assert!(wait.times.0 <= wait.times.1 && wait.times.1 <= run.times.1, "{wait:#?} {run:#?}");
                noted.push(format!("{n} {:?} None", Some(run.traceparent())));
                parent = run;
            }
        }
        let mut lines = trial.ledger.lines();
        lines.sort();
        noted.sort();
        assert_eq!(lines, noted, "{isolation}");
    }
}

#[test]
fn calls_of_python_run_in_the_trace_that_they_name() {
    let (trial, collector) = (Trial::new(), Collector::start());
    let line = json!({"kind": "rust", "path": "layers.traced", "args": [0, null], "traceparent": PARENT});
    python::follow(&trial, &[], &[line]);
    run_all(&trial, &collector.url(), &[]);
    let spans = collector.seen();
    let run = child(&spans, "run layers.traced", SPAN);
    let wait = child(&spans, "wait layers.traced", SPAN);
    assert_eq!((&*run.trace, &*wait.trace, spans.len()), (TRACE, TRACE, 2), "{spans:#?}");
    assert_eq!(trial.ledger.lines(), [format!("0 {:?} None", Some(run.traceparent()))]);
}

#[test]
fn gateway_sends_spans_below_those_of_its_requests() {
    let (trial, collector) = (Trial::new(), Collector::start());
    let (mut gateway, address) = gateway(&trial, &["--otlp", &collector.url()]);
    let body = json!({"task": "layers.traced", "args": [0, null], "queue": QUEUE}).to_string();
    for headers in [&[("traceparent", PARENT), ("tracestate", "a=b")][..], &[]] {
        let headers = [headers, &[("content-type", "application/json")]].concat();
        Connection::open(address).request("POST /v1/calls", &headers, body.as_bytes()).unwrap().expect(202);
    }
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(gateway.wait_exit(PATIENCE).success(), "{}", gateway.printed());
    run_all(&trial, &collector.url(), &[]);
    let spans = collector.seen();
    for (parent, state) in [(SPAN, Some("a=b")), ("", None)] {
        let send = child(&spans, "send layers.traced", parent);
        assert_eq!((send.kind, send.trace == TRACE), (PRODUCER, parent == SPAN));
        let run = child(&spans, "run layers.traced", &send.id);
        let wait = child(&spans, "wait layers.traced", &send.id);
        assert_eq!((&run.trace, &wait.trace), (&send.trace, &send.trace));
        assert!(!run.attribute("messaging.message.id").is_empty(), "{run:#?}");
        let line = format!("0 {:?} {state:?}", Some(run.traceparent()));
        assert!(trial.ledger.lines().contains(&line), "{line}: {:?}", trial.ledger.lines());
    }
    assert_eq!(spans.len(), 6, "{spans:#?}");
}

#[test]
fn program_with_a_provider_gets_the_spans_of_its_calls() {
    let trial = Trial::new();
    let mut command = trial.command(WORKER);
    let mut program =
        Program::spawn(command.env("PRODUCER", "has a provider").env("REDIS", trial.server.url()));
    assert!(program.wait_exit(PATIENCE).success(), "{}", program.printed());
    let printed = program.last_words();
    let spans: Vec<Vec<&str>> =
        printed.lines().filter_map(|line| Some(line.split_once("span ")?.1.split('|').collect())).collect();
    let named = |name: &str| spans.iter().filter(|span| span[0] == name).collect::<Vec<_>>();
    let (order, send, runs) = (named("order"), named("send layers.traced"), named("run layers.traced"));
    assert_eq!((order.len(), send.len(), runs.len()), (1, 1, 2), "{printed}");
    // The call before was enqueued without spans, and so has no trace.
    assert_eq!((send[0][1], send[0][3]), (order[0][1], order[0][2]), "{printed}");
    let parents: Vec<_> = runs.iter().map(|run| run[3]).collect();
    assert!(parents.contains(&send[0][2]) && parents.contains(&"0000000000000000"), "{printed}");
    let wait = named("wait layers.traced");
    assert!(wait.len() == 1 && wait[0][3] == send[0][2], "{printed}");
}
