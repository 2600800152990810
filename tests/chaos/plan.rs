//! What goes wrong, and when? A schedule that its seed decides, whole before the run begins.

use std::fmt;
use std::time::Duration;

use super::members::MEMBERS;
use super::strikes::Strike;
use crate::support::trial::Dice;

/// How long a worker is silent that is to lose its lease of [`super::fleet::LEASE`].
const SILENCE: [u64; 2] = [4_000, 5_000];
/// How long a master is away, at least until another one is elected.
const FAILOVER: [u64; 2] = [3_000, 5_000];
/// How long its victim is spared other faults, while one request is waited for and for its consequences.
const STRIKE: [u64; 2] = [2_000, 3_000];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    KillWorker,
    StopWorker,
    EndWorker,
    KillZygote,
    KillForeign,
    StopForeign,
    EndForeign,
    KillSweeper,
    KillRedis,
    Delay,
    Cut,
    Swallow,
    LoseReply,
    LoseRequest,
    Double,
    Drop,
    Half,
    KillProducer,
    StopProducer,
    KillMaster,
    StopMaster,
    MoveSlot,
    CutNode,
    /// Nobody's will: the machine is too busy.
    Stall,
}

/// Kinds, how often each stands in a deck, and the shortest and the longest time in milliseconds that it lasts.
pub(crate) type Deck = &'static [(Kind, usize, [u64; 2])];

impl Kind {
    /// What happens around a single server.
    const ON_A_SERVER: Deck = &[
        (Self::KillWorker, 3, [0, 0]),
        (Self::StopWorker, 2, SILENCE),
        (Self::EndWorker, 2, [0, 0]),
        (Self::KillZygote, 2, [0, 0]),
        (Self::KillForeign, 2, [0, 0]),
        (Self::StopForeign, 1, [1_000, 3_000]),
        (Self::EndForeign, 2, [0, 0]),
        (Self::KillSweeper, 2, [0, 0]),
        (Self::KillRedis, 2, [50, 800]),
        (Self::Delay, 2, [1_000, 3_000]),
        (Self::Cut, 3, [20, 800]),
        (Self::Swallow, 1, SILENCE),
        (Self::LoseReply, 2, STRIKE),
        (Self::LoseRequest, 2, STRIKE),
        (Self::Double, 2, STRIKE),
        (Self::Drop, 2, STRIKE),
        (Self::Half, 2, STRIKE),
    ];
    /// What happens around a Cluster.
    const IN_A_CLUSTER: Deck = &[
        (Self::KillWorker, 3, [0, 0]),
        (Self::StopWorker, 2, SILENCE),
        (Self::EndWorker, 2, [0, 0]),
        (Self::KillZygote, 2, [0, 0]),
        (Self::KillSweeper, 1, [0, 0]),
        (Self::KillProducer, 2, [0, 0]),
        (Self::StopProducer, 1, [1_000, 3_000]),
        (Self::KillMaster, 4, FAILOVER),
        (Self::StopMaster, 4, FAILOVER),
        (Self::MoveSlot, 4, [0, 0]),
        (Self::CutNode, 4, [0, 0]),
        (Self::Stall, 0, [0, 0]),
    ];

    pub(crate) fn deck(is_cluster: bool) -> Deck {
        if is_cluster { Self::IN_A_CLUSTER } else { Self::ON_A_SERVER }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::KillWorker => "Rust worker killed (SIGKILL)",
            Self::StopWorker => "Rust worker suspended beyond its lease",
            Self::EndWorker => "Rust worker stopped (SIGTERM)",
            Self::KillZygote => "zygote killed",
            Self::KillForeign => "Python or Go worker killed",
            Self::StopForeign => "Python or Go worker suspended",
            Self::EndForeign => "Python or Go worker stopped (SIGTERM)",
            Self::KillSweeper => "sweeper killed",
            Self::KillRedis => "Redis killed and restarted",
            Self::Delay => "network slow",
            Self::Cut => "network cut",
            Self::Swallow => "network silent beyond the lease",
            Self::LoseReply => "reply of a script lost",
            Self::LoseRequest => "request of a script lost",
            Self::Double => "request or reply duplicated",
            Self::Drop => "request or reply never delivered",
            Self::Half => "request or reply cut in half",
            Self::KillProducer => "producer killed",
            Self::StopProducer => "producer suspended",
            Self::KillMaster => "master killed, until its replica has replaced it",
            Self::StopMaster => "master suspended, until its replica has replaced it",
            Self::MoveSlot => "slot moved",
            Self::CutNode => "all connections to a master cut",
            Self::Stall => "machine stood still for half a lease",
        })
    }
}

/// One thing that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// When it begins, from the begin of the faults.
    pub(crate) at: Duration,
    pub(crate) lasts: Duration,
    /// Which member of the fleet it hits. A single Redis is none.
    pub(crate) victim: Option<usize>,
    /// A number for what else is to be decided.
    pub(crate) roll: u32,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some(victim) = self.victim {
            write!(f, ": {}", MEMBERS[victim].0)?;
        }
        if let Some(strike) = Strike::of(self) {
            return write!(f, ", {strike}");
        }
        if self.lasts.is_zero() { Ok(()) } else { write!(f, ", for {:?}", self.lasts) }
    }
}

/// The faults of a run, in the order in which they begin. `victims` says whom a kind may hit.
pub(crate) fn plan(
    seed: u64,
    length: Duration,
    kinds: Deck,
    victims: impl Fn(Kind) -> Vec<usize>,
) -> Vec<Fault> {
    // A state of 0 stays 0, and small seeds begin alike.
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..8 {
        dice.roll(2);
    }
    let mut faults: Vec<Fault> = Vec::new();
    let mut deck = Vec::new();
    let mut at = Duration::from_secs(1);
    while at < length {
        if deck.is_empty() {
            deck = shuffled(kinds, &mut dice);
        }
        let (kind, [shortest, longest]) = deck.pop().expect("it was filled");
        let lasts = Duration::from_millis(shortest + dice.roll((longest - shortest) as usize + 1) as u64);
        // Whoever is hit already is left alone until that is over and it has come back.
        let rests = |victim: &usize| {
            let mut hits = faults.iter().filter(|fault| fault.victim == Some(*victim));
            hits.all(|fault| fault.at + fault.lasts + Duration::from_secs(1) < at)
        };
        let candidates = victims(kind);
        let free: Vec<usize> = candidates.iter().copied().filter(rests).collect();
        if candidates.is_empty() || !free.is_empty() {
            let victim = (!free.is_empty()).then(|| free[dice.roll(free.len())]);
            faults.push(Fault { kind, at, lasts, victim, roll: dice.roll(1 << 16) as u32 });
        }
        at += Duration::from_millis(200 + dice.roll(900) as u64);
    }
    faults
}

fn shuffled(kinds: Deck, dice: &mut Dice) -> Vec<(Kind, [u64; 2])> {
    let mut deck: Vec<_> =
        kinds.iter().flat_map(|(kind, count, lasts)| vec![(*kind, *lasts); *count]).collect();
    for i in (1..deck.len()).rev() {
        deck.swap(i, dice.roll(i + 1));
    }
    deck
}
