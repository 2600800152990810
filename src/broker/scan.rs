//! Scans all keys of the database for unregistered queues, which have typical keys beside them.
//!
//! The cost depends on the keys of other programs. A sweeper pauses after each step, so that Redis spends one percent of its
//! time on a scan; a tool stops after a while and says so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::key_kind::KeyKind;
use crate::protocol::names::{NameError, QueueName};

/// How many keys one step reads.
const KEYS: u32 = 1000;
/// A gentle scan pauses after each step for this multiple of the step's time, up to a maximum.
const RESTS: u32 = 99;
const LONGEST_REST: Duration = Duration::from_secs(10);
/// How many keys are inspected at a time.
const LOOKS: usize = 100;

/// The pace of a scan.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// With pauses between its steps.
    Gentle,
    /// Without pauses, for at most that time.
    Within(Duration),
}

/// Where a scan is: the node of a Cluster, and the cursor there. It begins and ends with the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ScanCursor {
    node: usize,
    at: u64,
}

/// What a scan has found.
#[derive(Debug, Default)]
pub(crate) struct ScannedQueues {
    pub(crate) queues: BTreeSet<QueueName>,
    /// Names of foreign queues with a key suffix of this library, and why they are rejected.
    pub(crate) refused: BTreeMap<String, NameError>,
    /// Keys with the name of a key beside a queue that hold something else.
    pub(crate) foreign: BTreeSet<String>,
    /// How many steps were made, and whether the scan is complete.
    pub(crate) steps: u32,
    pub(crate) is_complete: bool,
}

/// How long the last steps took. The shortest is the best estimate of what Redis spent on one, without delays of the network
/// and of this process.
#[derive(Debug, Default)]
struct StepTimes {
    last: [Option<Duration>; 16],
    steps: usize,
}

impl StepTimes {
    fn add(&mut self, took: Duration) -> Duration {
        self.last[self.steps % self.last.len()] = Some(took);
        self.steps += 1;
        self.last.iter().flatten().min().copied().unwrap_or(took)
    }
}

/// A pattern that the keys of all these match, and few others.
fn pattern(beside: &[KeyKind]) -> String {
    let class = |at: &dyn Fn(&str) -> Option<char>| -> String {
        let found: BTreeSet<char> = beside.iter().filter_map(|kind| at(kind.suffix())).collect();
        found.into_iter().collect()
    };
    let (first, second) = (class(&|text| text.chars().nth(1)), class(&|text| text.chars().nth(2)));
    format!("*_[{first}][{second}]*[{}]", class(&|text| text.chars().last()))
}

impl Broker {
    /// Scans for queues that have a key of these kinds beside them.
    ///
    /// Cancel-safe: it only reads.
    pub(crate) async fn scan_queues(
        &self,
        beside: &[KeyKind],
        pace: Pace,
    ) -> Result<ScannedQueues, BrokerError> {
        let (mut found, mut cursor, began) =
            (ScannedQueues::default(), ScanCursor::default(), Instant::now());
        let (pattern, mut times) = (pattern(beside), StepTimes::default());
        loop {
            let step = Instant::now();
            let (next, keys) = self.scan_step(cursor, &pattern, None).await?;
            let took = times.add(step.elapsed());
            self.look_into(&keys, beside, &mut found).await?;
            found.steps += 1;
            cursor = next;
            found.is_complete = cursor == ScanCursor::default();
            match pace {
                _ if found.is_complete => return Ok(found),
                Pace::Gentle => tokio::time::sleep((took * RESTS).min(LONGEST_REST)).await,
                Pace::Within(time) if began.elapsed() >= time => return Ok(found),
                Pace::Within(_) => {}
            }
        }
    }

    /// Adds the queues that have one of these keys beside them.
    async fn look_into(
        &self,
        keys: &[Vec<u8>],
        beside: &[KeyKind],
        found: &mut ScannedQueues,
    ) -> Result<(), BrokerError> {
        let texts = keys.iter().filter_map(|key| std::str::from_utf8(key).ok());
        let candidates: Vec<_> = texts.filter_map(|key| Some((key, KeyKind::of_key(key, beside)?))).collect();
        for part in candidates.chunks(LOOKS) {
            let looks: Vec<(&str, KeyKind)> = part.iter().map(|(key, (kind, _))| (*key, *kind)).collect();
            for ((key, (_, name)), fits) in part.iter().zip(self.look(&looks).await?) {
                let Some(fits) = fits else { continue };
                match QueueName::parse(name) {
                    Ok(_) if !fits => drop(found.foreign.insert((*key).to_owned())),
                    Ok(queue) => drop(found.queues.insert(queue)),
                    Err(error @ NameError::Suffix { .. }) if fits => {
                        found.refused.insert((*name).to_owned(), error);
                    }
                    Err(_) => {}
                }
            }
        }
        Ok(())
    }

    /// Runs one step of a scan. Returns the next cursor and the matching keys, restricted to a type if one is given.
    pub(crate) async fn scan_step(
        &self,
        cursor: ScanCursor,
        pattern: &str,
        kind: Option<&str>,
    ) -> Result<(ScanCursor, Vec<Vec<u8>>), BrokerError> {
        let mut command = redis::cmd("SCAN");
        command.arg(cursor.at).arg("MATCH").arg(pattern).arg("COUNT").arg(KEYS);
        if let Some(kind) = kind {
            command.arg("TYPE").arg(kind);
        }
        let masters = self.masters().await?;
        // There may be fewer than a moment ago.
        let Some(master) = masters.get(cursor.node) else { return Ok((ScanCursor::default(), Vec::new())) };
        let (at, keys): (u64, _) = match master.read("scan_keys", &command).await {
            // The others are scanned all the same. Its own queues stop anyway.
            Err(error) if error.is_silence() && masters.len() > 1 => (0, Vec::new()),
            scanned => scanned?,
        };
        let next = match at {
            0 if cursor.node + 1 < masters.len() => ScanCursor { node: cursor.node + 1, at },
            0 => ScanCursor::default(),
            _ => ScanCursor { node: cursor.node, at },
        };
        Ok((next, keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_of_the_last_steps_counts() {
        let (mut times, ms) = (StepTimes::default(), Duration::from_millis);
        assert_eq!([3, 2, 5].map(|took| times.add(ms(took))), [3, 2, 2].map(ms));
        for _ in 0..14 {
            assert_eq!(times.add(ms(9)), ms(2));
        }
        assert_eq!(times.add(ms(9)), ms(5), "expected an old one to be forgotten");
    }

    #[test]
    fn the_pattern_has_the_beginnings_and_ends_of_all_suffixes() {
        use KeyKind::{Dead, Notifications, Processing};
        assert_eq!(pattern(&[Notifications, Processing]), "*_[np][or]*[gi]");
        assert_eq!(pattern(&[Notifications, Processing, Dead]), "*_[dnp][eor]*[dgi]");
    }
}
