//! A whole fleet of workers dies at once: one sweep brings back all that they owned, and no script of it moves much.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::thread::{JoinHandle, spawn};

use redis::Commands;

use crate::support::redis::{TestRedis, snapshot};
use crate::support::trial::PATIENCE;

const WORKERS: usize = 100;
/// Of each worker.
const SLOTS: usize = 500;
/// The most that one script call may move: the sweeper asks for 200 slots, and Redis gives whole buckets of its hash.
const MOST_IN_A_CALL: usize = 600;

/// Sees how many messages each script call takes out of its slot, until somebody says `over`.
fn watch(server: &TestRedis) -> JoinHandle<Vec<usize>> {
    let mut stream = UnixStream::connect(server.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"MONITOR\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(|line| line.expect("expected Redis to tell"));
    assert_eq!(lines.next().as_deref(), Some("+OK"));
    spawn(move || {
        let mut moved = vec![0];
        for line in lines.take_while(|line| !line.ends_with(r#""ECHO" "over""#)) {
            if line.contains(r#"] "EVALSHA" "#) {
                moved.push(0);
            } else if line.contains(r#" lua] "HDEL" "q_processing" "q:"#) {
                *moved.last_mut().unwrap() += 1;
            }
        }
        moved
    })
}

/// Lets each of the workers have died with so many slots that owned something.
fn lose(connection: &mut redis::Connection, slots: usize, message: impl Fn(usize, usize) -> String) {
    let letter = |number: usize| char::from(b'a' + (number % 26) as u8);
    for worker in 0..WORKERS {
        let id: String = [letter(worker / 26), letter(worker)].into_iter().chain(['x'; 14]).collect();
        let owned: Vec<(String, String)> =
            (0..slots).map(|slot| (format!("q:{id}:{slot}"), message(worker, slot))).collect();
        let () = connection.hset_multiple("q_processing", &owned).unwrap();
    }
}

fn sweep(server: &TestRedis) -> delayed::SweepReport {
    tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(async { delayed::Sweeper::connect(&server.url()).await.unwrap().sweep().await.unwrap() })
}

#[test]
fn fifty_thousand_slots_of_the_dead_are_swept_at_once() {
    let server = TestRedis::start();
    let mut connection = server.connection();
    lose(&mut connection, SLOTS, |worker, slot| format!("{worker} {slot}"));

    let watcher = watch(&server);
    let report = sweep(&server);
    let _: String = redis::cmd("ECHO").arg("over").query(&mut connection).unwrap();
    let moved = watcher.join().unwrap();

    assert_eq!((report.requeued, report.buried), (50_000, 0), "expected one sweep to bring all of them back");
    let state = snapshot(&mut connection, "q");
    assert!(
        state.processing.is_empty() && state.dead.is_empty(),
        "expected them to wait and be nowhere else"
    );
    assert_eq!((state.waiting.len(), state.tokens), (50_000, 50_000), "expected a token for each");
    let waiting: BTreeSet<_> = state.waiting.into_iter().collect();
    assert_eq!(waiting.len(), 50_000, "expected each of them once");
    assert_eq!(moved.iter().sum::<usize>(), 50_000, "expected all moves to be seen");
    let most = moved.iter().max().unwrap();
    assert!(*most <= MOST_IN_A_CALL, "expected small steps, one script call moved {most}");
}

#[test]
fn a_fleet_that_ran_the_same_call_everywhere_died_once() {
    let server = TestRedis::start();
    let mut connection = server.connection();
    lose(&mut connection, 50, |_, _| "alike".to_owned());
    let report = sweep(&server);
    assert_eq!(
        (report.requeued, report.buried),
        (5_000, 0),
        "expected one death, found in many script calls"
    );
    let state = snapshot(&mut connection, "q");
    assert_eq!((state.waiting.len(), state.tokens), (5_000, 5_000), "expected all of them to wait again");
    let counts: Vec<&str> = state.deaths.values().filter_map(|deaths| deaths.split(' ').next()).collect();
    assert_eq!(counts, ["1"], "expected one event to be counted");
}
