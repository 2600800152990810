use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{Site, gateway};
use crate::support::http::Connection;
use crate::support::trial::PATIENCE;
use crate::support::wait;

fn mark(n: impl ToString) -> Vec<u8> {
    json!({"task": "trial.mark", "args": [n.to_string()], "queue": "q"}).to_string().into_bytes()
}

/// The arguments of the calls that wait.
fn waiting(site: &Site) -> BTreeSet<String> {
    let mut redis = site.trial.server.connection();
    let messages: Vec<Vec<u8>> = redis::cmd("LRANGE").arg("q").arg(0).arg(-1).query(&mut redis).unwrap();
    let names = messages.iter().map(|message| {
        let message: rmpv::Value = rmpv::decode::read_value(&mut &message[..]).unwrap();
        let payload: rmpv::Value = rmpv::decode::read_value(&mut message[1].as_slice().unwrap()).unwrap();
        payload.as_str().unwrap().to_owned()
    });
    let names: Vec<String> = names.collect();
    let distinct: BTreeSet<String> = names.iter().cloned().collect();
    assert_eq!(distinct.len(), names.len(), "expected each call once");
    distinct
}

#[test]
fn calls_beyond_what_is_held_are_refused_and_the_others_arrive() {
    let site = Site::new(&["--max-calls", "10"]);
    site.request("POST /v1/calls", &[], &mark("first")).expect(202);
    site.trial.server.pause();
    let send = |n: usize| {
        let (mut connection, body) = (Connection::open(site.address), mark(n));
        let head =
            format!("POST /v1/calls HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", body.len());
        connection.write(&[head.as_bytes(), &body].concat()).unwrap();
        connection
    };
    let mut held: Vec<Connection> = (0..30).map(send).collect();
    // As soon as one of them is refused, ten are held.
    wait::until("the gateway to be full", PATIENCE, || {
        let probe = site.request("POST /v1/calls", &[], b"[]");
        probe.status == 202 && held.iter().any(Connection::has_answer)
    });
    site.trial.server.resume();
    let answers: Vec<_> = held.iter_mut().map(|connection| connection.read().expect("an answer")).collect();
    let accepted: Vec<usize> = (0..30).filter(|n| answers[*n].status == 202).collect();
    for answer in answers.iter().filter(|answer| answer.status != 202) {
        assert_eq!((answer.status, answer.header("retry-after")), (429, Some("1")), "{answer:?}");
        assert_eq!(answer.json()["code"], "too_many_calls");
    }
    assert!((10..30).contains(&accepted.len()), "expected about ten of thirty: {accepted:?}");
    let expected: BTreeSet<String> =
        accepted.iter().map(usize::to_string).chain(["first".to_owned()]).collect();
    assert_eq!(waiting(&site), expected);
}

#[test]
fn full_queue_is_told_apart_from_a_full_gateway() {
    let site = Site::new(&[]);
    let body = json!({"task": "trial.mark", "args": ["x"], "queue": "q", "max_len": 1});
    site.post(&body).expect(202);
    let refused = site.post(&body).expect(429);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.json()["code"], "queue_full");
}

#[test]
fn redis_that_is_away_is_told_and_comes_back() {
    let mut site = Site::new(&[]);
    site.request("POST /v1/calls", &[], &mark("before")).expect(202);
    site.trial.server.kill();
    let refused = site.request("POST /v1/calls", &[], &mark("lost"));
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")), "{refused:?}");
    site.get("/v1/calls/7").expect(503);
    site.trial.server.restart();
    wait::until("calls to be accepted again", PATIENCE, || {
        site.request("POST /v1/calls", &[], &mark("after")).status == 202
    });
    assert!(waiting(&site).contains("after"));
}

#[test]
fn redis_that_is_full_or_a_replica_is_told() {
    let site = Site::new(&[]);
    let mut redis = site.trial.server.connection();
    site.request("POST /v1/calls", &[], &mark("before")).expect(202);
    for (set, unset) in
        [("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"), ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE")]
    {
        let apply = |redis: &mut redis::Connection, words: &str| {
            let mut words = words.split(' ');
            let mut command = redis::cmd(words.next().unwrap());
            for word in words {
                command.arg(word);
            }
            let () = command.query(redis).unwrap();
        };
        apply(&mut redis, set);
        let refused = site.request("POST /v1/calls", &[], &mark("refused")).expect(503).json();
        assert_eq!(refused["code"], "redis_refused", "{set}: {refused}");
        apply(&mut redis, unset);
    }
    assert_eq!(waiting(&site), BTreeSet::from(["before".to_owned()]));
}

#[test]
fn gateway_that_stops_answers_what_it_has_accepted() {
    let mut site = Site::new(&[]);
    let stops = Arc::new(AtomicBool::new(false));
    let accepted = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (stops, accepted, address) = (Arc::clone(&stops), &accepted, site.address);
            scope.spawn(move || {
                for n in 0.. {
                    let name = format!("{thread}-{n}");
                    let Ok(stream) = std::net::TcpStream::connect(address) else { return };
                    drop(stream);
                    let mut connection = Connection::open(address);
                    for k in 0..20 {
                        let name = format!("{name}-{k}");
                        match connection.request("POST /v1/calls", &[], &mark(&name)) {
                            Some(answer) => {
                                assert_eq!(answer.status, 202, "{answer:?}");
                                accepted.lock().unwrap().insert(name);
                            }
                            // It was not accepted: the connection is closed between two requests.
                            None => {
                                return assert!(stops.load(Ordering::SeqCst), "expected an answer to {name}");
                            }
                        }
                    }
                }
            });
        }
        wait::until("many requests", PATIENCE, || accepted.lock().unwrap().len() > 500);
        stops.store(true, Ordering::SeqCst);
        site.gateway.signal(Signal::SIGTERM);
        assert!(site.gateway.wait_exit(PATIENCE).success(), "{}", site.gateway.printed());
    });
    let (accepted, waiting) = (accepted.into_inner().unwrap(), waiting(&site));
    let lost: Vec<_> = accepted.difference(&waiting).collect();
    assert!(
        lost.is_empty(),
        "expected all {} accepted calls to be in Redis, not without {lost:?}",
        accepted.len()
    );
}

#[test]
fn waiters_are_answered_when_the_gateway_stops() {
    let mut site = Site::new(&[]);
    let accepted = site.post(&json!({"task": "followed.charge", "args": [7]})).expect(202).json();
    let id = accepted["id"].as_str().unwrap();
    let mut waiter = Connection::open(site.address);
    let request = format!("GET /v1/calls/{id}/result?wait=50s HTTP/1.1\r\nhost: localhost\r\n\r\n");
    waiter.write(request.as_bytes()).unwrap();
    let mut redis = site.trial.server.connection();
    wait::until("it to wait", PATIENCE, || {
        let channels: Vec<String> =
            redis::cmd("PUBSUB").arg("CHANNELS").arg("q:c:*").query(&mut redis).unwrap();
        !channels.is_empty()
    });
    site.gateway.signal(Signal::SIGTERM);
    let answer: Value = waiter.read().expect("an answer").expect(202).json();
    assert_eq!(answer["state"], "waiting", "{answer}");
    assert!(site.gateway.wait_exit(PATIENCE).success());
}

#[test]
fn other_gateway_knows_the_same_calls() {
    let site = Site::new(&[]);
    let (_other, address) = gateway(&site.trial, &[]);
    let accepted = site.post(&json!({"task": "followed.charge", "args": [7]})).expect(202).json();
    let path = format!("GET /v1/calls/{}", accepted["id"].as_str().unwrap());
    let shown = Connection::open(address).request(&path, &[], b"").unwrap().expect(200).json();
    assert_eq!(shown["state"], "waiting", "{shown}");
}
