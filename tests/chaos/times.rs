//! When were scheduled calls due, by the clock that their runs are noted with?

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use redis::Commands;

use super::fleet::{Fleet, OURS};
use super::producers::Sent;
use super::spans::Dues;

/// When calls were due, as their records say by the clock of Redis.
pub(crate) fn dues(fleet: &Fleet, sent: &[(&'static str, Sent)]) -> Dues {
    let mut redis = fleet.server.connection();
    let ahead = ahead(&mut redis);
    let queue = OURS.parse().expect("a name");
    let mut dues = Dues::new();
    for (number, id) in sent.iter().flat_map(|(_, sent)| &sent.kept) {
        let record = delayed::__private::protocol::keys::record(&queue, *id);
        let due: Option<u64> = redis.hget(record, "due").expect("Redis is there");
        dues.extend(due.map(|due| (*number, due.saturating_sub(ahead))));
    }
    dues
}

/// By how much the clock of Redis is ahead of the machine's.
fn ahead(redis: &mut redis::Connection) -> u64 {
    let machine =
        || Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock")).as_millis() as u64;
    let look = |redis: &mut redis::Connection| {
        let before = machine();
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(redis).expect("Redis is there");
        (machine() - before, seconds * 1000 + micros / 1000 - before)
    };
    let looks = (0..100).map(|_| look(redis));
    looks.min().expect("there are some").1
}
