//! Keeps messages that cannot be settled in their slots, so that all other messages continue.
//!
//! Dead letters cannot be written while their key holds another type. A request may also break the connection each time,
//! for example one that is larger than the server accepts: it would be sent again and again, and block all others.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use crate::protocol::message::Message;
use crate::worker::queue::cooldown::Cooldown;
use crate::worker::settlement::{BuriedCall, Settlement};

/// How often in a row a request may break the connection before it is reduced, and then set aside.
pub(super) const BREAKS: u32 = 3;
/// The size in bytes from which a message may be too large for the connection. Neither `proto-max-bulk-len` nor
/// `client-query-buffer-limit` can be lower than twice this, and smaller messages are sent in time.
pub(super) const LARGE: usize = 512 << 10;

/// The messages that one queue could not settle.
#[derive(Debug, Default)]
pub(super) struct SetAside {
    /// Burials that failed. One of them is retried from time to time.
    burials: VecDeque<(usize, Settlement)>,
    /// The pause between these retries.
    cooldown: Cooldown,
    /// Slots whose messages could not be read.
    unread: Vec<usize>,
    /// By slot: how often in a row the connection broke while its settlement was sent.
    breaks: HashMap<usize, u32>,
    /// A claim returned more than the connection accepts, so claims fetch one message each until the message in question is
    /// found.
    by_one: bool,
}

/// What to do with a settlement that was not applied because the connection broke.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// Send it again.
    Again(Settlement),
    /// Its message of this many bytes is too large to be sent. Bury it; a burial does not send the message.
    TooLarge { bytes: usize, burial: Settlement },
    /// A dead letter breaks the connection: keep it in its slot.
    Keep(Settlement),
}

impl SetAside {
    /// Notes that the connection broke when this settlement was sent.
    pub(super) fn broke(&mut self, slot: usize, settlement: Settlement) -> Broken {
        let breaks = self.breaks.entry(slot).or_insert(0);
        *breaks += 1;
        if *breaks < BREAKS {
            return Broken::Again(settlement);
        }
        match settlement {
            Settlement::Retry { message } | Settlement::RetryLater { message, .. }
                if message.len() >= LARGE =>
            {
                *breaks = 0;
                let (bytes, decoded) = (message.len(), Message::decode(&message).ok());
                let attempt = decoded.map_or(1, |message| message.attempts());
                let call = BuriedCall {
                    task: decoded.map_or("", |message| message.task()).to_owned(),
                    id: decoded.and_then(|message| message.id()),
                    is_step: decoded.is_some_and(|message| message.member().is_some()),
                    duration: None,
                };
                let detail = format!(
                    "it failed and could not be tried again: the connection to Redis broke each time when its message of {bytes} \
                     bytes was sent (see proto-max-bulk-len in the configuration of Redis)"
                );
                let burial =
                    Settlement::Bury { reason: "failed", detail, attempt, output: String::new(), call };
                Broken::TooLarge { bytes, burial }
            }
            Settlement::Bury { .. } => Broken::Keep(settlement),
            _ => Broken::Again(settlement),
        }
    }

    /// Forgets the state of a slot that owns nothing any more.
    pub(super) fn forget(&mut self, slot: usize) {
        if !self.breaks.is_empty() {
            self.breaks.remove(&slot);
        }
    }

    /// Keeps a burial in its slot.
    pub(super) fn keep(&mut self, slot: usize, burial: Settlement) {
        self.burials.push_back((slot, burial));
    }

    /// Notes that a burial failed.
    pub(super) fn burial_failed(&mut self) {
        self.cooldown.fail_once();
    }

    /// Whether burials failed lately.
    pub(super) fn is_failing(&self) -> bool {
        self.cooldown.is_failing()
    }

    /// How many burials are kept in their slots.
    pub(super) fn burials(&self) -> usize {
        self.burials.len()
    }

    /// The next burial to retry, if it is due.
    pub(super) fn next_burial(&mut self) -> Option<(usize, Settlement)> {
        if self.cooldown.until().is_some() {
            return None;
        }
        let next = self.burials.pop_front()?;
        if self.cooldown.is_failing() {
            // The others wait for its result.
            self.cooldown.fail();
        }
        Some(next)
    }

    /// Notes that a burial succeeded. Returns how many others wait, if burials had failed before.
    pub(super) fn buried(&mut self) -> Option<usize> {
        if !self.cooldown.is_failing() {
            return None;
        }
        self.cooldown.succeed();
        Some(self.burials.len())
    }

    /// Keeps a slot whose message cannot be read, which ends the search for it.
    pub(super) fn keep_unread(&mut self, slot: usize) {
        self.by_one = false;
        self.unread.push(slot);
    }

    /// Makes claims fetch one message each, until the one that cannot be read is found.
    pub(super) fn search(&mut self) {
        self.by_one = true;
    }

    /// Whether claims should fetch one message each.
    pub(super) fn is_searching(&self) -> bool {
        self.by_one
    }

    /// Gives up all kept slots.
    pub(super) fn give_up(&mut self) -> Vec<usize> {
        let burials = std::mem::take(&mut self.burials).into_iter().map(|(slot, _)| slot);
        burials.chain(std::mem::take(&mut self.unread)).collect()
    }

    pub(super) fn until(&self) -> Option<Instant> {
        self.cooldown.until()
    }

    pub(super) fn expire(&mut self, now: Instant) {
        self.cooldown.expire(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(bytes: usize) -> Settlement {
        Settlement::Retry { message: vec![0; bytes] }
    }

    fn burial() -> Settlement {
        let call = BuriedCall::default();
        Settlement::Bury { reason: "failed", detail: String::new(), attempt: 1, output: String::new(), call }
    }

    #[test]
    fn settlement_that_breaks_connections_is_reduced_then_kept() {
        let mut aside = SetAside::default();
        for _ in 1..BREAKS {
            assert_eq!(aside.broke(0, retry(LARGE)), Broken::Again(retry(LARGE)));
        }
        let Broken::TooLarge { bytes, burial } = aside.broke(0, retry(LARGE)) else {
            panic!("expected it to become a dead letter");
        };
        assert_eq!(bytes, LARGE);
        for _ in 1..BREAKS {
            assert_eq!(aside.broke(0, burial.clone()), Broken::Again(burial.clone()));
        }
        assert_eq!(aside.broke(0, burial.clone()), Broken::Keep(burial));
        aside.forget(0);
        assert_eq!(aside.broke(0, retry(LARGE)), Broken::Again(retry(LARGE)));
    }

    #[test]
    fn small_retry_is_sent_again_however_often_it_breaks() {
        let mut aside = SetAside::default();
        for _ in 0..=BREAKS {
            assert_eq!(aside.broke(0, retry(LARGE - 1)), Broken::Again(retry(LARGE - 1)));
        }
    }

    #[test]
    fn one_kept_burial_is_tried_after_each_pause() {
        let mut aside = SetAside::default();
        (0..3).for_each(|slot| aside.keep(slot, burial()));
        aside.burial_failed();
        assert!(aside.next_burial().is_none());
        aside.expire(aside.until().unwrap());
        assert_eq!(aside.next_burial().map(|(slot, _)| slot), Some(0));
        assert!(aside.next_burial().is_none(), "expected the others to wait for its outcome");
        assert_eq!((aside.buried(), aside.buried()), (Some(2), None));
        assert_eq!(aside.next_burial().map(|(slot, _)| slot), Some(1));
        aside.keep_unread(7);
        assert_eq!(aside.give_up(), [2, 7]);
    }
}
