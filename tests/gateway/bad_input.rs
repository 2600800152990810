use std::io::Read;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};

use super::Site;
use crate::support::http::Connection;
use crate::support::tree::Process;
use crate::support::trial::PATIENCE;
use crate::support::wait;

#[test]
fn descriptions_that_cannot_be_made_are_refused_with_advice() {
    let site = Site::new(&[]);
    let with = |extra: Value| {
        let mut body = json!({"task": "trial.mark", "args": ["x"], "queue": "q"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        body
    };
    for (body, status, code, told) in [
        (json!(7), 400, "malformed", "cannot be read"),
        (json!({}), 400, "malformed", "missing field `task`"),
        (json!({"task": "trial.mark", "argz": []}), 400, "malformed", "unknown field `argz`"),
        (json!({"task": "trial.nothing"}), 404, "unknown_task", "GET /v1/tasks"),
        (json!({"task": ""}), 422, "invalid", "empty"),
        (json!({"task": "a/b\nc"}), 422, "invalid", ""),
        (json!({"task": "trial.mark"}), 422, "arguments", "`n`"),
        (json!({"task": "trial.mark", "args": [7]}), 422, "arguments", "`n`"),
        (json!({"task": "trial.mark", "args": ["x", "y"]}), 422, "arguments", "trial.mark"),
        (json!({"task": "trial.mark", "kwargs": {"m": "x"}}), 422, "arguments", "`m`"),
        (json!({"task": "trial.mark", "args": [{"$hex": "0"}]}), 422, "arguments", "$hex"),
        (with(json!({"kwargs": {"n": "x"}})), 422, "invalid", "not in both"),
        (with(json!({"queue": "a b"})), 422, "invalid", "a b"),
        (with(json!({"after": "soon"})), 422, "invalid", "`after`"),
        (with(json!({"after": "10s", "at": "2030-01-01T00:00:00Z"})), 422, "invalid", "not both"),
        (with(json!({"at": "yesterday"})), 422, "invalid", "`at`"),
        (with(json!({"after": "200y"})), 422, "invalid", "hundred years"),
        (with(json!({"expires": "0s"})), 422, "invalid", "`expires`"),
        (with(json!({"unique": "sometimes"})), 422, "invalid", "`unique`"),
        (with(json!({"backoff": "slow"})), 422, "invalid", "`backoff`"),
        (with(json!({"overflow": "reject"})), 422, "invalid", "`max_len`"),
        (with(json!({"max_len": 0})), 422, "invalid", "use 1 or more"),
        (with(json!({"limits": ["a b"]})), 422, "invalid", "a b"),
        (with(json!({"headers": {"": "x"}})), 422, "invalid", "name"),
        (with(json!({"ordered": "k", "front": true})), 422, "invalid", "`ordered`"),
        (with(json!({"language": "go", "retry": 1})), 422, "invalid", "Go workers do not retry"),
        (with(json!({"language": "python", "keep": "1h"})), 422, "invalid", "`keep`"),
        (with(json!({"language": "cobol"})), 400, "malformed", "unknown variant"),
    ] {
        let answer = site.post(&body);
        let problem = answer.json();
        assert_eq!((answer.status, &problem["code"]), (status, &json!(code)), "{body}: {problem}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{body}");
        assert!(problem["detail"].as_str().unwrap().contains(told), "{body}: expected {told:?}: {problem}");
    }
    let mut redis = site.trial.server.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("q*").query(&mut redis).unwrap();
    assert!(keys.is_empty(), "expected nothing to be enqueued: {keys:?}");
}

#[test]
fn bodies_that_are_no_json_are_refused() {
    let site = Site::new(&[]);
    let deep = format!("{{\"task\": \"trial.mark\", \"args\": {}1{}}}", "[".repeat(1000), "]".repeat(1000));
    for (body, told) in [
        ("", "EOF"),
        ("{", "EOF"),
        ("{\"task\": \"trial.mark\", \"task\": \"trial.mark\"}", "comes twice"),
        ("{\"task\": \"trial.mark\", \"args\": [18446744073709551616]}", "does not fit into 64 bits"),
        ("{\"task\": \"trial.mark\", \"args\": [1e999]}", "out of range"),
        (deep.as_str(), "recursion limit"),
    ] {
        let problem = site.request("POST /v1/calls", &[], body.as_bytes()).expect(400).json();
        assert!(problem["detail"].as_str().unwrap().contains(told), "expected {told:?}: {problem}");
    }
    site.request("POST /v1/calls", &[], b"\"\xff\"").expect(400);
    for body in [&b""[..], b"\xc1", b"\x81", b"\x01\x02", &[0x91; 2000]] {
        site.request("POST /v1/calls", &[("content-type", "application/msgpack")], body).expect(400);
    }
    site.request("POST /v1/calls", &[("content-type", "text/xml")], b"{}").expect(415);
    site.request("PUT /v1/calls", &[], b"{}").expect(405);
    site.get("/v2").expect(404);
    site.get("/v1/calls/x?queue=a%20b").expect(422);
    site.get("/v1/calls/x?que=q").expect(400);
    site.get("/v1/calls/x/result?wait=soon").expect(400);
}

#[test]
fn body_of_the_limit_is_accepted_and_one_byte_more_is_not() {
    const LIMIT: usize = 2000;
    let site = Site::new(&["--max-body", "2000", "--max-batch", "3"]);
    let body = |size: usize| {
        let frame = json!({"task": "trial.mark", "args": [""], "queue": "q"}).to_string();
        let filled = frame.replace("[\"\"]", &format!("[\"{}\"]", "x".repeat(size - frame.len())));
        assert_eq!(filled.len(), size);
        filled.into_bytes()
    };
    site.request("POST /v1/calls", &[], &body(LIMIT)).expect(202);
    site.request("POST /v1/calls", &[], &body(LIMIT + 1)).expect(413);
    // Without a length that could be looked at before.
    let chunked = |size: usize| {
        let mut connection = Connection::open(site.address);
        let head = "POST /v1/calls HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
        let chunk = [format!("{size:x}\r\n").as_bytes(), &body(size), b"\r\n0\r\n\r\n"].concat();
        connection.write(&[head.as_bytes(), &chunk].concat()).unwrap();
        connection.read().unwrap()
    };
    chunked(LIMIT).expect(202);
    chunked(LIMIT + 1).expect(413);
    let call = json!({"task": "trial.mark", "args": ["x"], "queue": "q"});
    site.post(&json!([call, call, call])).expect(202);
    assert_eq!(site.post(&json!([call, call, call, call])).expect(413).json()["code"], "too_many");
}

#[test]
fn bodies_that_end_early_or_lie_make_no_call() {
    let site = Site::new(&[]);
    let body = json!({"task": "trial.mark", "args": ["x"], "queue": "q"}).to_string();
    let mut early = TcpStream::connect(site.address).unwrap();
    let head =
        format!("POST /v1/calls HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len() + 1);
    std::io::Write::write_all(&mut early, [head.as_bytes(), body.as_bytes()].concat().as_slice()).unwrap();
    early.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    early.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    // What is behind a body that is longer than it says is another request, and none.
    let mut late = Connection::open(site.address);
    let head =
        format!("POST /v1/calls HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len() - 1);
    late.write(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
    late.read().unwrap().expect(400);
    let mut lies = Connection::open(site.address);
    lies.write(b"POST /v1/calls HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\n").unwrap();
    lies.read().unwrap().expect(413);
    let mut redis = site.trial.server.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("q*").query(&mut redis).unwrap();
    assert!(keys.is_empty(), "expected nothing to be enqueued: {keys:?}");
}

/// Connections that say nothing, and those that stop in the middle of a request.
const SILENT: usize = 9_500;
const HALF: usize = 500;
/// How many are opened together: more than wait to be accepted would be tried again by the kernel, after seconds.
const TOGETHER: usize = 500;
/// The most memory that the gateway may take for each of them.
const EACH_KB: u64 = 32;

#[test]
fn silent_connections_keep_nobody_waiting() {
    allow_open_files(SILENT + HALF + 2_000);
    let site = Site::new(&["--max-connections", "11000"]);
    let gateway = Process::of(site.gateway.pid().as_raw()).unwrap();
    let before = gateway.kilobytes("VmRSS");
    let mut silent = Vec::new();
    while silent.len() < SILENT {
        silent.extend((0..TOGETHER).map(|_| TcpStream::connect(site.address).unwrap()));
        wait::until("the connections to be accepted", PATIENCE, || gateway.descriptors() > silent.len());
    }
    let half: Vec<_> = (0..HALF)
        .map(|_| {
            let mut connection = Connection::open(site.address);
            connection
                .write(b"POST /v1/calls HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
                .unwrap();
            connection
        })
        .collect();
    wait::until("all of them to be accepted", PATIENCE, || gateway.descriptors() > SILENT + HALF);
    let body = json!({"task": "trial.mark", "args": ["x"], "queue": "q"});
    let begun = Instant::now();
    site.post(&body).expect(202);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "expected an answer at once, not after {took:?}");
    let each = gateway.kilobytes("VmRSS").saturating_sub(before) / (SILENT + HALF) as u64;
    assert!(each < EACH_KB, "expected less than {EACH_KB} kB for each connection, not {each} kB");
    // The gateway ends first: our ports are free again at once.
    drop(site);
    drop((silent, half));
}

/// Lets this process, and those that it starts, open so many files.
#[track_caller]
fn allow_open_files(count: usize) {
    let count = count as u64;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    assert!(hard >= count, "this test opens {count} files, and {hard} are allowed: raise `ulimit -Hn`");
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(count), hard).unwrap();
}
