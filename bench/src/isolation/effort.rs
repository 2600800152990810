//! How long may it take?

use std::time::Instant;

/// How much is measured.
pub struct Effort {
    /// How often each system has its turn.
    pub rounds: usize,
    /// About how long one drain goes on.
    pub seconds: f64,
    /// Calls for one set of latencies.
    pub samples: usize,
    /// Seconds of hanging for one set of times from the limit to the end.
    pub hanging: f64,
    /// Calls that hang, 16 at a time, of a system with a limit of 100 ms.
    pub hung: u64,
    /// Nothing is begun from then on.
    pub until: Option<Instant>,
}

impl Effort {
    /// Whether the time is over.
    pub fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// For figures that count.
    pub const FULL: Self =
        Self { rounds: 5, seconds: 2.0, samples: 300, hanging: 5.0, hung: 1000, until: None };
    /// To see that it works.
    pub const QUICK: Self =
        Self { rounds: 2, seconds: 0.5, samples: 50, hanging: 2.0, hung: 160, until: None };
}
