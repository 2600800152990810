//! How much is measured?

use std::time::Instant;

/// What a run takes.
pub struct Effort {
    /// How often each system has its turn.
    pub rounds: usize,
    /// About how long one measurement goes on; what is slower has fewer calls.
    pub seconds: f64,
    /// How long it may go on to have all calls of a drain.
    pub longest: f64,
    /// Whether it is measured again when the first guess of how many calls that are was wrong, even if that takes long.
    pub refine: bool,
    /// Calls of a drain, as in the benchmark of asynq.
    pub calls: u64,
    /// Calls that find an idle worker.
    pub picked_up: u64,
    /// Calls that wait, and few of them.
    pub waiting: [u64; 2],
    /// How long filling a queue may take.
    pub fill: f64,
    /// For how long an idle worker is watched.
    pub idle: f64,
    /// Seconds without any run after which a system has failed.
    pub patience: u64,
    /// Nothing is begun from then on.
    pub until: Option<Instant>,
}

impl Effort {
    /// Whether the time is over.
    pub fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// The same with at most so many calls, if that is said.
    pub fn with_calls(self, calls: Option<u64>) -> Self {
        Self { calls: calls.unwrap_or(self.calls), ..self }
    }

    /// For figures that count.
    pub const FULL: Self = Self {
        rounds: 3,
        seconds: 1.5,
        longest: 10.0,
        refine: true,
        calls: 100_000,
        picked_up: 100,
        waiting: [10_000, 1_000_000],
        fill: 10.0,
        idle: 5.0,
        patience: 20,
        until: None,
    };
    /// To see that it works.
    pub const QUICK: Self = Self {
        rounds: 1,
        seconds: 0.3,
        longest: 0.3,
        refine: false,
        calls: 10_000,
        picked_up: 20,
        waiting: [1_000, 20_000],
        fill: 0.5,
        idle: 1.0,
        patience: 15,
        until: None,
    };
}
