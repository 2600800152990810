//! Decides how many messages a claim asks for. Pure.

use crate::broker::MAX_BATCH;

/// Maximum number of claims of one queue in flight.
pub(super) const CLAIMS: usize = 2;
/// Up to this many slots, one claim is cheaper for Redis than two overlapping ones.
const FEW: usize = 16;
/// Queues with weights take turns of this many messages, the concurrency, or a quarter of what the worker may own, whichever is
/// most.
const TURN: usize = 16;
/// Messages of this size in bytes take so long to transfer that two claims pay off with few slots, too.
const LARGE: usize = 8192;
/// How many bytes a claim should return: Redis can keep memory ready for one large reply after another, but not for many at
/// once.
const CLAIM_BYTES: usize = 1 << 20;
/// How many messages to request while their size is unknown.
const UNSEEN: usize = 16;

/// The inputs for the size of a claim.
#[derive(Debug, Clone, Copy)]
pub(super) struct Situation {
    /// How many messages of the recent size the worker may own.
    pub(super) limit: usize,
    pub(super) concurrency: usize,
    /// Mean size in bytes of recent messages; 0 if unknown.
    pub(super) size: usize,
    pub(super) has_weight: bool,
    pub(super) has_suspects: bool,
    /// Whether claims fetch one message each, because a message may break the connection.
    pub(super) by_one: bool,
    /// How many slots of this queue can be released.
    pub(super) finished: usize,
    /// How many slots of all queues are taken.
    pub(super) taken: usize,
    pub(super) free: usize,
    /// How many messages wait.
    pub(super) waiting: u64,
    /// How many claims are in flight.
    pub(super) claims: usize,
}

/// The size of the next claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimSize {
    /// Nothing: wait for a reply first.
    Wait,
    /// No room: only release finished slots.
    ReleaseOnly,
    /// Claim up to `batch` messages, and release up to `released` slots in the same request.
    Claim { batch: usize, released: usize },
}

/// How many slots must be finished before a second claim is made beside one in flight.
pub(super) fn chunk(limit: usize, size: usize) -> usize {
    let two = limit > FEW || size >= LARGE;
    limit.div_ceil(if two { CLAIMS } else { 1 })
}

impl Situation {
    fn chunk(&self) -> usize {
        chunk(self.limit, self.size)
    }

    /// How many messages there is room for once the finished ones are released.
    pub(super) fn room(&self) -> usize {
        // No prefetching while a call takes workers down: every message they own counts a death.
        let limit = if self.has_suspects { self.concurrency } else { self.limit };
        (limit + self.finished).saturating_sub(self.taken)
    }

    /// Maximum number of messages for one claim.
    pub(super) fn at_most(&self) -> usize {
        if self.by_one {
            return 1;
        }
        let turn = if self.has_weight { self.concurrency.max(TURN).max(self.limit / 4) } else { MAX_BATCH };
        let fit = CLAIM_BYTES.checked_div(self.size).unwrap_or(UNSEEN);
        fit.clamp(1, turn.min(MAX_BATCH))
    }

    /// The size of the next claim.
    pub(super) fn claim_size(&self) -> ClaimSize {
        let (chunk, at_most) = (self.chunk(), self.at_most());
        let ready = self.room().min(self.finished + self.free);
        // Slightly less than half is worth a second claim.
        let second = (chunk - chunk / 8).min(at_most);
        let enough = if self.claims == 0 { 1 } else { second };
        // Only one claim while suspects exist, because two claims could return two suspects.
        let most = if self.has_suspects || self.size == 0 || self.by_one { 1 } else { CLAIMS };
        if ready == 0 {
            return ClaimSize::ReleaseOnly;
        }
        if self.claims >= most || ready < enough {
            return ClaimSize::Wait;
        }
        let known = ready.min(usize::try_from(self.waiting).unwrap_or(usize::MAX));
        let half = known.div_ceil(CLAIMS);
        // Two claims at once if there is enough for both, so that the first batch runs while Redis works on the second.
        let both = self.claims + 1 < most && known > chunk && ready - half >= second;
        let batch = at_most.min(if both { half } else { ready });
        ClaimSize::Claim { batch, released: if both { batch } else { MAX_BATCH } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Situation = Situation {
        limit: 64,
        concurrency: 64,
        size: 100,
        has_weight: false,
        has_suspects: false,
        by_one: false,
        finished: 0,
        taken: 0,
        free: 64,
        waiting: 0,
        claims: 0,
    };

    fn size(situation: Situation) -> ClaimSize {
        situation.claim_size()
    }

    #[test]
    fn an_idle_worker_asks_for_all_slots_once() {
        let all = ClaimSize::Claim { batch: 64, released: MAX_BATCH };
        assert_eq!(size(IDLE), all);
        assert_eq!(size(Situation { taken: 64, free: 0, claims: 1, ..IDLE }), ClaimSize::ReleaseOnly);
        assert_eq!(size(Situation { taken: 60, free: 4, claims: 1, ..IDLE }), ClaimSize::Wait);
    }

    #[test]
    fn a_long_queue_is_claimed_in_two_halves() {
        let busy = Situation { waiting: 1000, ..IDLE };
        assert_eq!(size(busy), ClaimSize::Claim { batch: 32, released: 32 });
        let beside = Situation { taken: 32, free: 32, claims: 1, ..busy };
        assert_eq!(size(beside), ClaimSize::Claim { batch: 32, released: MAX_BATCH });
        let few = Situation { limit: 10, concurrency: 10, free: 10, ..busy };
        assert_eq!(size(few), ClaimSize::Claim { batch: 10, released: MAX_BATCH });
    }

    #[test]
    fn suspects_unseen_and_large_messages_limit_a_claim() {
        let ask = |situation: Situation| match size(situation) {
            ClaimSize::Claim { batch, .. } => batch,
            other => panic!("expected a claim, not {other:?}"),
        };
        let suspects = Situation { limit: 100, free: 100, has_suspects: true, ..IDLE };
        assert_eq!(ask(suspects), 64, "expected nothing to be claimed ahead");
        assert_eq!(size(Situation { claims: 1, ..suspects }), ClaimSize::Wait);
        assert_eq!(ask(Situation { size: 0, ..IDLE }), UNSEEN);
        assert_eq!(ask(Situation { size: CLAIM_BYTES / 4, ..IDLE }), 4);
        assert_eq!(ask(Situation { size: 9 * CLAIM_BYTES, ..IDLE }), 1);
        assert_eq!(ask(Situation { by_one: true, ..IDLE }), 1);
        let weighted = Situation { limit: 8, free: 300, concurrency: 8, has_weight: true, ..IDLE };
        assert_eq!(ask(weighted), 8);
        assert_eq!(ask(Situation { limit: 60, ..weighted }), TURN);
        assert_eq!(ask(Situation { limit: 300, ..weighted }), 75);
    }
}
