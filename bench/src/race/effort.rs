//! How much is measured?

use std::time::Instant;

/// The least calls that tell something.
pub const LEAST: u64 = 10;

/// How fast calls run, and how fast they are enqueued before that; both each second.
#[derive(Clone, Copy)]
pub struct Rates {
    pub rate: f64,
    pub filled: f64,
}

/// How many calls a measurement has.
#[derive(Clone, Copy)]
pub struct Amount {
    pub calls: u64,
    /// Who would take more seconds for all of them, filling included, has fewer.
    pub longest: f64,
    /// About so many seconds are measured of whoever has fewer.
    pub seconds: f64,
}

impl Amount {
    /// How many they are at these rates.
    pub fn at(self, rates: Rates) -> u64 {
        // A tenth more warms up.
        let all = 1.1 * self.calls as f64 * (1.0 / rates.rate + 1.0 / rates.filled);
        if all <= self.longest {
            return self.calls;
        }
        ((rates.rate * self.seconds) as u64).clamp(LEAST.min(self.calls), self.calls)
    }
}

/// What a run takes.
pub struct Effort {
    /// How often each system has its turn.
    pub rounds: usize,
    /// Calls of a drain, as in the benchmark of asynq.
    pub drain: Amount,
    /// Calls of the rows that are no drain of empty calls from one queue.
    pub other: Amount,
    /// Calls of which each tenth takes long. The last of them have a part in the rate, so all that are not slow have
    /// the same number.
    pub mixed: Amount,
    /// Whether it is measured again when the first guess of how many calls that are was wrong, even if that takes long.
    pub refine: bool,
    /// Calls that find an idle worker.
    pub picked_up: u64,
    /// Calls that are scheduled a second ahead.
    pub later: u64,
    /// For how many seconds calls are sent at a steady rate.
    pub paced: f64,
    /// Calls that wait, and few of them.
    pub waiting: [u64; 2],
    /// How many seconds drains take together, of few calls while others wait: a single one may be over at once.
    pub waiting_for: f64,
    /// How many seconds filling a queue with those may take.
    pub fill: f64,
    /// For how many seconds it is filled by whoever would take longer.
    pub fill_slowly: f64,
    /// For how many seconds an idle worker is watched: two of the longest pause that any of them makes, so that what it does
    /// after that counts.
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
    pub fn with_calls(mut self, calls: Option<u64>) -> Self {
        if let Some(calls) = calls {
            (self.drain.calls, self.other.calls) = (calls, calls);
            self.mixed.calls = calls.min(self.mixed.calls);
        }
        self
    }

    /// For figures that count.
    pub const FULL: Self = Self {
        rounds: 3,
        drain: Amount { calls: 100_000, longest: 17.0, seconds: 1.5 },
        other: Amount { calls: 100_000, longest: 5.0, seconds: 1.5 },
        mixed: Amount { calls: 20_000, longest: 17.0, seconds: 4.0 },
        refine: true,
        picked_up: 100,
        later: 100_000,
        paced: 1.5,
        waiting: [10_000, 1_000_000],
        waiting_for: 0.25,
        fill: 10.0,
        fill_slowly: 4.0,
        idle: 12.0,
        // One of them looks every 10 seconds.
        patience: 12,
        until: None,
    };
    /// To see that it works.
    pub const QUICK: Self = Self {
        rounds: 1,
        drain: Amount { calls: 10_000, longest: 0.3, seconds: 0.3 },
        other: Amount { calls: 10_000, longest: 0.3, seconds: 0.3 },
        mixed: Amount { calls: 1_000, longest: 0.3, seconds: 0.3 },
        refine: false,
        picked_up: 20,
        later: 20_000,
        paced: 0.3,
        waiting: [1_000, 20_000],
        waiting_for: 0.0,
        fill: 0.5,
        fill_slowly: 0.5,
        idle: 1.0,
        patience: 12,
        until: None,
    };
}
