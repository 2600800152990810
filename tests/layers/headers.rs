//! Headers reach the run wherever it takes place, and stay with the call.

use delayed::{Client, EncodeError, Error, GoTask, HeaderError, PyTask};

use super::{ISOLATIONS, QUEUE, burst, tasks};
use crate::support::process::{DELAYED, Program};
use crate::support::trial::{PATIENCE, Trial};

#[test]
fn headers_reach_the_run_in_every_isolation() {
    for isolation in ISOLATIONS {
        let mut trial = Trial::new();
        let client = Client::lazy(&trial.server.url());
        let call = tasks::headers_blocking::call("a".into()).header("tenant", "x").header("é", "日本\n");
        client.enqueue_blocking(call.header("tenant", "acme").header("empty", "")).unwrap();
        client.enqueue_blocking(tasks::headers_blocking::call("b".into())).unwrap();
        let mut worker = trial.worker(&burst(isolation));
        trial.ended(&mut worker);
        let all = "a empty=\"\" tenant=\"acme\" é=\"日本\\n\" None".to_owned();
        trial.ledger.assert_each_once([all, "b  None".to_owned()]);
        trial.assert_only(&[]);
    }
}

#[test]
fn headers_survive_retries_burial_and_revival() {
    for isolation in ISOLATIONS {
        let mut trial = Trial::new();
        let client = Client::lazy(&trial.server.url());
        client.enqueue_blocking(tasks::headers::call("a".into()).header("tenant", "acme")).unwrap();
        let worker = trial.worker(&["--isolation", isolation]);
        trial.wait_runs(3);
        trial.wait_settled();
        let mut requeue = trial.command(DELAYED);
        requeue.args(["dead", "requeue", "--all", "--redis", &trial.server.url()]);
        let status = Program::spawn(&mut requeue).wait_exit(PATIENCE);
        assert_eq!(status.code(), Some(0));
        trial.wait_runs(6);
        let runs = ["a 1 tenant=\"acme\"", "a 2 tenant=\"acme\"", "a 3 tenant=\"acme\""];
        assert_eq!(trial.ledger.lines(), [runs, runs].concat(), "{isolation}");
        drop(worker);
    }
}

#[test]
fn headers_beyond_the_limits_are_not_sent() {
    let mut trial = Trial::new();
    let client = Client::lazy(&trial.server.url());
    let call = || tasks::headers::call("a".into());
    let many = (0..33).fold(call(), |call, n| call.header(n.to_string(), ""));
    let cases = [
        (
            many,
            HeaderError::TooMany { count: 33 },
            "at most 32 headers, but this one has 33: send them as arguments",
        ),
        (
            call().header("x", "y".repeat(4096)),
            HeaderError::TooLarge { bytes: 4097 },
            "send large values as arguments",
        ),
        (call().header("", "x"), HeaderError::EmptyName, "give it one, such as `tenant`"),
    ];
    for (call, expected, advice) in cases {
        let error = client.enqueue_blocking(call).unwrap_err();
        let Error::Encode { source: EncodeError::Headers(found), .. } = &error else { panic!("{error}") };
        assert_eq!(*found, expected);
        assert!(format!("{error:?}").contains(advice), "{error:?}");
    }
    assert_eq!(trial.left(), (0, 0));
    client.enqueue_blocking(call().header("x", "y".repeat(4095))).unwrap();
    assert_eq!(trial.left(), (1, 0));
}

#[test]
fn calls_of_other_languages_have_no_headers() {
    let python = PyTask::new("mails:send").arg(1);
    let go = GoTask::new("mails.Send").arg(1);
    let plain = (python.clone().queue(QUEUE).encode().unwrap(), go.clone().queue(QUEUE).encode().unwrap());
    let (python, go) = (python.queue(QUEUE).header("a", "b"), go.queue(QUEUE).header("a", "b"));
    assert_eq!((python.headers().count(), go.headers().count()), (0, 0));
    assert_eq!((python.encode().unwrap(), go.encode().unwrap()), plain);
}

#[test]
fn headers_that_are_no_texts_are_a_clear_dead_letter() {
    let mut trial = Trial::new();
    let odd = [&b"\xc0"[..], b"\x90", b"\x81\xa1x\x05", b"\x81\xa1x\xc4\x01y"];
    let messages: Vec<Vec<u8>> = (odd.iter())
        .map(|value| [b"\x93\xb7layers.headers_blocking\xc4\x02\xa1a\x81\xa1h", *value].concat())
        .collect();
    trial.push(&messages);
    let mut worker = trial.worker(&["--burst"]);
    trial.ended(&mut worker);
    assert_eq!(trial.reasons(), ["malformed"; 4]);
    let letters = trial.state().dead;
    let details: Vec<_> =
        letters.iter().map(|it| String::from_utf8_lossy(&it["detail"]).into_owned()).collect();
    let of_headers =
        details.iter().filter(|it| it.contains("expected headers (a map of texts) as `h` of its meta"));
    assert_eq!(of_headers.count(), 4, "{details:?}");
}

#[test]
fn headers_are_shown_by_the_command_line() {
    let trial = Trial::new();
    let client = Client::lazy(&trial.server.url());
    client.enqueue_blocking(tasks::headers::call("a".into()).header("tenant", "acme")).unwrap();
    let mut peek = trial.command(DELAYED);
    peek.args(["peek", QUEUE, "--json", "--redis", &trial.server.url()]);
    let mut peek = Program::spawn(&mut peek);
    peek.wait_exit(PATIENCE);
    peek.wait_for_line("\"tenant\": \"acme\"");
}
