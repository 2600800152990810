//! Collectors that are away or silent, and settings that are wrong: calls run all the same.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::Collector;
use crate::support::process::Program;
use crate::support::trial::{PATIENCE, Trial, WORKER, marks};

/// How long the end of a worker may take in addition: two seconds for its spans, and the rest on a machine that is busy.
const STOP: Duration = Duration::from_secs(8);

#[test]
fn calls_run_and_workers_stop_without_their_collector() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (address, is_silent) in [(refused, false), (silent.local_addr().unwrap(), true)] {
        let mut trial = Trial::new();
        let mut command = trial.command(WORKER);
        command.args(["worker", "--queue", "q", "--redis", &trial.server.url()]);
        command.args(["--otlp", &format!("http://{address}")]).env("OTEL_BSP_SCHEDULE_DELAY", "20");
        let mut worker = Program::spawn(&mut command);
        worker.wait_for_line("\"serving\"");
        trial.push(&marks(50));
        trial.wait_runs(50);
        trial.wait_settled();
        if !is_silent {
            worker.wait_for_line("spans not exported; dropping them");
        }
        trial.push(&marks(50));
        trial.wait_runs(100);
        let began = Instant::now();
        trial.stop(&mut worker);
        assert!(began.elapsed() < STOP, "it took {:?}: {}", began.elapsed(), worker.printed());
        let warnings = worker.last_words().matches("spans not exported").count();
        assert_eq!(warnings, usize::from(!is_silent), "{}", worker.printed());
        trial.assert_only(&[]);
    }
}

#[test]
fn wrong_address_of_a_collector_is_an_error_at_start() {
    let trial = Trial::new();
    for (words, variable, expected) in [
        (&["--otlp", "collector:4318"][..], None, "--otlp"),
        (&["--otlp", "https://collector"], None, "TLS"),
        (&[], Some("grpc://collector"), "OTEL_EXPORTER_OTLP_ENDPOINT"),
    ] {
        let mut command = trial.command(WORKER);
        command.args(["worker", "--redis", &trial.server.url()]).args(words);
        if let Some(variable) = variable {
            command.env("OTEL_EXPORTER_OTLP_ENDPOINT", variable);
        }
        let mut worker = Program::spawn(&mut command);
        assert_eq!(worker.wait_exit(PATIENCE).code(), Some(5), "{}", worker.printed());
        let printed = worker.last_words();
        assert!(printed.contains("the address of the collector") && printed.contains(expected), "{printed}");
    }
}

#[test]
fn standard_variables_name_the_collector_and_turn_it_off() {
    for (name, value, is_on) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", true),
        ("OTEL_SDK_DISABLED", "true", false),
        ("OTEL_TRACES_EXPORTER", "none", false),
    ] {
        let (mut trial, collector) = (Trial::new(), Collector::start());
        trial.push(&marks(3));
        let mut command = trial.command(WORKER);
        command.args(["worker", "--burst", "--queue", "q", "--redis", &trial.server.url()]);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()).env(name, value);
        let mut worker = Program::spawn(&mut command);
        trial.ended(&mut worker);
        assert_eq!(collector.seen().len(), if is_on { 3 } else { 0 }, "{name}: {}", worker.printed());
    }
}
