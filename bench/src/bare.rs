//! The ceiling: one connection, one call of our own claim script in flight, which releases a batch and claims the next.
//! Nothing around it: messages are counted, not read.

use std::time::{Duration, Instant};

use redis::Value;

/// Drains the queue `bench` with `slots` slots. Gives the time and the number of messages.
pub fn drain(connection: &mut redis::Connection, slots: usize) -> (Duration, usize) {
    let script = redis::Script::new(include_str!("../../lua/claim.lua"));
    let loaded: String = redis::cmd("SCRIPT")
        .arg("LOAD")
        .arg(include_str!("../../lua/claim.lua"))
        .query(connection)
        .expect("loads");
    assert_eq!(loaded, script.get_hash());
    let ids: Vec<String> = (0..slots).map(|slot| format!("bench:aaaaaaaaaaaaaaaa:{slot}")).collect();
    let (mut seq, mut released, mut total) = (0, 0, 0);
    let began = Instant::now();
    loop {
        seq += 1;
        let mut call = redis::cmd("EVALSHA");
        call.arg(script.get_hash()).arg(6).arg("bench").arg("bench_noti").arg("bench_processing");
        call.arg("bench:aaaaaaaaaaaaaaaa").arg("bench_deaths").arg("bench_hand");
        call.arg(seq).arg(60_000).arg(0).arg(0).arg(0).arg(released).arg(0);
        for id in &ids {
            call.arg(id);
        }
        let Value::Array(reply) = call.query(connection).expect("claims") else {
            panic!("claim answers an array")
        };
        released = reply.len() - 3;
        total += released;
        if released == 0 {
            let took = began.elapsed();
            redis::cmd("DEL").arg("bench:aaaaaaaaaaaaaaaa").exec(connection).expect("deletes");
            return (took, total);
        }
    }
}

/// The median of bare round trips (`PING`), one after the other.
pub fn round_trip(connection: &mut redis::Connection) -> Duration {
    let mut times: Vec<Duration> = (0..2000)
        .map(|_| {
            let began = Instant::now();
            redis::cmd("PING").exec(connection).expect("answers");
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// The list that [`hand_overs`] waits for.
pub const HANDED: &str = "bare_noti";

/// Waits in `BLPOP`, again and again, and tells when each wait has ended, until nobody hears it.
pub async fn hand_overs(redis: &redis::Client) -> tokio::sync::mpsc::UnboundedReceiver<Instant> {
    let settings = redis::aio::ConnectionManagerConfig::new().set_response_timeout(None);
    let connected = redis::aio::ConnectionManager::new_with_config(redis.clone(), settings).await;
    let mut connection = connected.expect("connects");
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut wait = redis::cmd("BLPOP");
        wait.arg(HANDED).arg(0);
        while wait.exec_async(&mut connection).await.is_ok() && sender.send(Instant::now()).is_ok() {}
    });
    receiver
}
