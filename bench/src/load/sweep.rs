//! How long does one script hold Redis when 50,000 slots of dead workers are swept at once?

use std::time::{Duration, Instant};

use redis::Connection;
use tokio::runtime::Runtime;

use super::scripts;
use crate::server::Server;
use crate::tasks;

const LOST: usize = 50_000;
/// Of each dead worker.
const SLOTS: usize = 500;
const ROUNDS: usize = 3;

/// Who owned what.
#[derive(Clone, Copy)]
enum Owned {
    Different,
    Alike,
}

/// Lets each slot run its message alone, after two of which have died so.
const RUN_ALONE: &str = "
    local slots, count = redis.call('HGETALL', KEYS[1]), 0
    for i = 1, #slots, 2 do
      local digest = redis.sha1hex(slots[i + 1])
      local head, tail = string.match(redis.call('HGET', KEYS[2], digest), '^(%d+ %d+ )(.*)$')
      local slot = string.match(slots[i], '^bench:(.*)$')
      redis.call('HSET', KEYS[2], digest, head .. '=;' .. slot .. '!2 ' .. tail)
      count = count + 1
    end
    return count";

pub(super) fn run(runtime: &Runtime) {
    for (owned, what) in
        [(Owned::Different, "different messages"), (Owned::Alike, "the same bytes in each slot")]
    {
        let server = Server::start();
        let mut connection = server.connect();
        scripts::watch(&mut connection);
        let (mut took, mut busy, mut dead) = (Vec::new(), 0.0, 0);
        for round in 0..ROUNDS {
            redis::cmd("FLUSHALL").exec(&mut connection).expect("empties");
            die(&mut connection, owned, round);
            let (before, began) = (server.cpu(), Instant::now());
            dead += sweep(runtime, &server);
            took.push(began.elapsed().as_secs_f64());
            busy += server.cpu() - before;
        }
        println!("{LOST} lost, {what}: swept in {took:.1?} s, {dead} buried");
        // The times of scripts are by the clock: on a machine that is busy Redis waits in the middle of them.
        println!(
            "  processor time of Redis: {:.2} ms for each 200 slots",
            busy * 1e3 / (ROUNDS * LOST / 200) as f64
        );
        scripts::report(&mut connection);
    }
    let server = Server::start();
    let mut connection = server.connect();
    scripts::watch(&mut connection);
    for round in 0..3 {
        redis::cmd("DEL").arg(&["bench", "bench_noti"]).exec(&mut connection).expect("takes all away");
        die(&mut connection, Owned::Different, round);
        if round == 2 {
            let marked = redis::Script::new(RUN_ALONE)
                .key("bench_processing")
                .key("bench_deaths")
                .invoke::<usize>(&mut connection);
            assert_eq!(marked.expect("marks"), LOST, "all of them ran alone");
        }
        // As long as the shortest lease: what falls in one moment dies once.
        std::thread::sleep(Duration::from_secs(1));
        let buried = sweep(runtime, &server);
        assert_eq!(
            buried,
            if round < 2 { 0 } else { LOST },
            "the third death of a run alone buries a message"
        );
    }
    println!("{LOST} lost three times, and buried the third time:");
    scripts::report(&mut connection);
}

/// Leaves slots that own something and have no live key, of other workers in each round.
fn die(connection: &mut Connection, owned: Owned, round: usize) {
    let letter = |number: usize| char::from(b'a' + u8::try_from(number % 26).expect("a letter"));
    for worker in 0..LOST / SLOTS {
        let id: String =
            [letter(round), letter(worker / 26), letter(worker)].into_iter().chain(['x'; 13]).collect();
        let mut command = redis::cmd("HSET");
        command.arg("bench_processing");
        for slot in 0..SLOTS {
            let number = if matches!(owned, Owned::Alike) { 0 } else { worker * SLOTS + slot };
            let call = tasks::noop::call(number as i64, "x".into(), true);
            command.arg(format!("bench:{id}:{slot}")).arg(call.encode().expect("encodes"));
        }
        command.exec(connection).expect("writes");
    }
}

/// Sweeps once and gives how many were buried.
fn sweep(runtime: &Runtime, server: &Server) -> usize {
    let report = runtime.block_on(async {
        delayed::Sweeper::connect(&server.url()).await.expect("connects").sweep().await.expect("sweeps")
    });
    assert_eq!(report.requeued + report.buried, LOST as u64, "one sweep finds all of them");
    usize::try_from(report.buried).expect("no more than there were")
}
