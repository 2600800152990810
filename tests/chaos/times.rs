//! When were scheduled calls due, by the clock that their runs are noted with?

use std::collections::HashMap;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use redis::Commands;

use super::fleet::Fleet;
use super::producers::Sent;
use super::spans::Dues;

/// When calls were due, as their records say by the clock of Redis.
pub(crate) fn dues(fleet: &Fleet, sent: &[(&'static str, Sent)]) -> Dues {
    let mut connections: HashMap<&str, redis::Connection> = HashMap::new();
    let mut dues = Dues::new();
    let ahead = ahead(&mut fleet.place.connection(fleet.queues().small));
    for (number, id, queue) in sent.iter().flat_map(|(_, sent)| sent.records()) {
        let redis = connections.entry(queue).or_insert_with(|| fleet.place.connection(queue));
        let queue = queue.parse().expect("a name");
        let record = delayed::__private::protocol::keys::record(&queue, id);
        let due: Option<u64> = redis.hget(record, "due").expect("Redis is there");
        dues.extend(due.map(|due| (number, due.saturating_sub(ahead))));
    }
    dues
}

/// Milliseconds of the machine's clock.
pub(crate) fn now() -> u64 {
    Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock")).as_millis() as u64
}

/// By how much the clock of Redis is ahead of the machine's.
fn ahead(redis: &mut redis::Connection) -> u64 {
    let look = |redis: &mut redis::Connection| {
        let before = now();
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(redis).expect("Redis is there");
        (now() - before, seconds * 1000 + micros / 1000 - before)
    };
    let looks = (0..100).map(|_| look(redis));
    looks.min().expect("there are some").1
}
