//! Calls whose options change what becomes of them or of others: the head of a queue, a bound, a replacement, attempts that
//! fail. And calls that nobody sends: those of ticks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use delayed::__private::protocol::periodic::{TickEntry, tick_id};
use delayed::{Call, CallId, Client, Conflict, Error, Overflow, Periodic, Unique};
use nix::time::{ClockId, clock_gettime};
use redis::Commands;

use super::fleet::Fleet;
use super::place::Queues;
use super::producers::{KEEP, REST, SOON, Sent, connect, length, span};
use crate::support::wait;

/// How many messages may wait in the small queue.
const BOUND: u64 = 3;
/// How many calls are sent while calls that replace each other share one key.
const RIVALS: u64 = 64;
/// Tasks with a tick each second.
const PERIODIC: [&str; 3] = ["tick-1", "tick-2", "tick-3"];
const SECOND: u64 = 1000;

/// Stands for the task of the workers that fails once, snoozes until that moment, and then runs.
#[delayed::task(name = "trial.tried")]
async fn tried(_n: String, _until: u64) {}

/// Stands for the task of the workers that always fails.
#[delayed::task(name = "trial.dies")]
async fn dies(_n: String) {}

/// Stands for the task of the workers whose number is that of its tick.
#[delayed::task(name = "trial.tick")]
async fn tick(_ms: u64) {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Front,
    /// Refused if the small queue is full.
    Bounded,
    /// Buries the oldest message then.
    Buries,
    /// Replaces the one before it while that is scheduled.
    Replaces,
    /// Fails and snoozes before it runs.
    Tried,
    /// Fails for good.
    Dies,
}

impl Kind {
    fn of(n: u64) -> Self {
        match n % 8 {
            0 => Self::Front,
            1 => Self::Bounded,
            2 | 7 => Self::Buries,
            3 | 6 => Self::Replaces,
            4 => Self::Tried,
            _ => Self::Dies,
        }
    }
}

fn key(n: u64) -> String {
    format!("replaced {}", n / RIVALS)
}

fn call(n: u64, queue: &'static str) -> Call {
    let plain = || span::call(n.to_string(), length(n)).retry(3);
    // Short, so that the fleet keeps up with all producers.
    let short = || span::call(n.to_string(), length(n) / 4).retry(3);
    let backoff = "fixed:100ms".parse().expect("a back-off");
    match Kind::of(n) {
        Kind::Front => short().queue(queue).front(),
        Kind::Bounded => plain().queue(queue).max_len(BOUND),
        Kind::Buries => plain().queue(queue).max_len(BOUND).overflow(Overflow::BuryOldest),
        Kind::Replaces => {
            short().queue(queue).keep(KEEP).after(2 * SOON).unique(Unique::Replace).unique_key(key(n))
        }
        Kind::Tried => {
            let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock"));
            let until = u64::try_from((now + 2 * SOON).as_millis()).expect("it is small");
            tried::call(n.to_string(), until).queue(queue).retry(3).backoff(backoff)
        }
        Kind::Dies => dies::call(n.to_string()).queue(queue).retry(1).backoff(backoff),
    }
}

/// Where one goes.
fn queue(n: u64, queues: Queues) -> &'static str {
    match Kind::of(n) {
        Kind::Bounded | Kind::Buries | Kind::Dies => queues.small,
        Kind::Front | Kind::Replaces | Kind::Tried => queues.of(n, RIVALS),
    }
}

/// Sends them in turns.
pub(crate) fn varied(client: &Client, queues: Queues, first: u64, stop: &AtomicBool) -> Sent {
    let mut sent = Sent::default();
    for n in (first..).take_while(|_| !stop.load(Ordering::Relaxed)) {
        let (kind, queue) = (Kind::of(n), queue(n, queues));
        sent.queues.insert(n, queue);
        match kind {
            Kind::Front => sent.front += 1,
            Kind::Tried => sent.tried += 1,
            Kind::Bounded | Kind::Buries => drop(sent.small.insert(n)),
            Kind::Dies => drop(sent.dying.insert(n)),
            Kind::Replaces => {}
        }
        let fate = match client.enqueue_blocking(call(n, queue)) {
            Ok(handle) => match handle.conflict() {
                Some(Conflict::Replaced) => {
                    sent.replaced += 1;
                    if let Some(place) = sent.kept.iter().rposition(|(_, id)| Some(*id) == handle.id()) {
                        // It may not run any more.
                        let (earlier, _) = sent.kept.remove(place);
                        sent.acknowledged.remove(&earlier);
                        sent.uncertain.remove(&earlier);
                        sent.refused.insert(earlier);
                    }
                    sent.kept.extend(handle.id().map(|id| (n, id)));
                    &mut sent.acknowledged
                }
                Some(_) => {
                    sent.held += 1;
                    &mut sent.refused
                }
                None => {
                    sent.kept.extend(handle.id().filter(|_| kind == Kind::Replaces).map(|id| (n, id)));
                    &mut sent.acknowledged
                }
            },
            Err(Error::QueueFull { .. }) => {
                sent.full += 1;
                &mut sent.refused
            }
            Err(error) if error.may_have_been_applied() => {
                if kind == Kind::Replaces {
                    let rivals = (n / RIVALS * RIVALS..n).filter(|rival| Kind::of(*rival) == Kind::Replaces);
                    let taken: Vec<u64> = rivals.filter(|rival| sent.acknowledged.remove(rival)).collect();
                    sent.uncertain.extend(taken);
                }
                &mut sent.uncertain
            }
            Err(_) => &mut sent.refused,
        };
        fate.insert(n);
        wait::pause(4 * REST);
    }
    sent
}

/// Periodic tasks, and their first ticks.
pub(crate) struct Ticks(Vec<(&'static str, u64)>);

impl Ticks {
    pub(crate) fn begin(fleet: &Fleet) -> Self {
        let client = connect(&fleet.place.url(), fleet.place.durability());
        let queue = queue_of(fleet);
        for name in PERIODIC {
            let task = Periodic::new(name, "* * * * * *", tick::call(50).queue(queue));
            client.define_periodic_blocking(task).expect("Redis is there at first");
        }
        let mut redis = fleet.place.connection(queue);
        let mut first = |name: &'static str| {
            // A tick may have been made meanwhile.
            let mut pipe = redis::pipe();
            pipe.atomic().zscore(format!("{queue}_due"), member(name)).lindex(history(queue, name), -1);
            let (due, oldest): (u64, Option<Vec<u8>>) =
                pipe.query(&mut redis).expect("Redis is there at first");
            let made = oldest.and_then(|entry| TickEntry::decode(&entry)?.tick_ms);
            (name, made.unwrap_or(due))
        };
        Self(PERIODIC.map(&mut first).to_vec())
    }

    /// Ends them. Each tick until then is a call that was sent.
    pub(crate) fn end(self, fleet: &Fleet) -> Sent {
        let queue = queue_of(fleet);
        let (mut redis, mut sent) = (fleet.place.connection(queue), Sent::default());
        let key = |suffix: &str| format!("{queue}{suffix}");
        for (name, first) in self.0 {
            let mut pipe = redis::pipe();
            pipe.atomic().zscore(key("_due"), member(name)).zrem(key("_due"), member(name)).ignore();
            let (next,): (u64,) = pipe.query(&mut redis).expect("Redis is there");
            let ticks = (first..next).step_by(SECOND as usize);
            sent.acknowledged.extend(ticks.map(|tick| number(tick_id(name, tick))));
            let fields = [format!("d:{name}"), format!("p:{name}")];
            let () = redis.hdel(key("_periodic"), &fields).expect("Redis is there");
            let () = redis.del(history(queue, name)).expect("Redis is there");
        }
        sent.queues = sent.acknowledged.iter().map(|n| (*n, queue)).collect();
        sent.ticks = sent.acknowledged.len();
        sent
    }
}

/// The queue of the periodic tasks.
fn queue_of(fleet: &Fleet) -> &'static str {
    fleet.queues().ours()[0]
}

fn history(queue: &str, name: &str) -> String {
    format!("{queue}:p:{name}")
}

fn member(name: &str) -> String {
    format!("p{name}")
}

/// The number of the call of a tick.
pub(crate) fn number(id: CallId) -> u64 {
    let (first, _) = id.as_bytes().split_first_chunk().expect("it has 16 bytes");
    u64::from_be_bytes(*first)
}

/// Why calls of the small queue were buried.
pub(crate) fn letters(fleet: &Fleet) -> HashMap<u64, Vec<String>> {
    let small = fleet.queues().small;
    let mut redis = fleet.place.connection(small);
    let mut range = redis::cmd("XRANGE");
    let entries: Vec<(String, BTreeMap<String, Vec<u8>>)> =
        range.arg(format!("{small}_dead")).arg("-").arg("+").query(&mut redis).expect("Redis is there");
    let mut letters: HashMap<u64, Vec<String>> = HashMap::new();
    for (_, fields) in entries {
        let reason = String::from_utf8_lossy(&fields["reason"]).into_owned();
        for n in super::faults::numbers(&fields["message"]) {
            letters.entry(n).or_default().push(reason.clone());
        }
    }
    letters
}

/// Letters that should not be there: of a call that was not to be buried, or that ran as well, or several of one call, though no
/// fault hit it.
pub(crate) fn wrong_letters(
    letters: &HashMap<u64, Vec<String>>,
    sent: &[(&'static str, Sent)],
    ended: &HashSet<u64>,
    was_hit: impl Fn(u64) -> bool,
) -> Vec<String> {
    let has = |pick: fn(&Sent) -> &HashSet<u64>, n: &u64| sent.iter().any(|(_, sent)| pick(sent).contains(n));
    let is_wrong = |n: &u64, reasons: &[String]| {
        let is_meant = reasons.iter().all(|reason| match reason.as_str() {
            "overflow" => has(|sent| &sent.small, n) || has(|sent| &sent.dying, n),
            "failed" => has(|sent| &sent.dying, n),
            _ => false,
        });
        let is_once = reasons.len() == 1 && !ended.contains(n);
        !is_meant || has(|sent| &sent.refused, n) || !(is_once || was_hit(*n))
    };
    let wrong = letters.iter().filter(|(n, reasons)| is_wrong(n, reasons));
    wrong.map(|(n, reasons)| format!("buried as it should not be: {n}, {reasons:?}")).collect()
}
