//! Which rows are there, and what is measured for each?

use std::collections::HashMap;
use std::time::Duration;

use super::proxy::Proxy;
use super::trial::{Drained, PLAIN, Trial, Work};
use crate::figures::{Figures, quantile};

/// Groups of rows that are measured together.
pub const PARTS: [&str; 10] =
    ["drain", "enqueue", "pickup", "load", "proxy", "payload", "mixed", "queues", "waiting", "idle"];

/// The least calls that tell something, and those of the first guess.
const LEAST: u64 = 20;
const GUESS: u64 = 50;
const FAR: Duration = Duration::from_millis(1);
const EIGHT: &str = "bench_0,bench_1,bench_2,bench_3,bench_4,bench_5,bench_6,bench_7";
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("max", 1.0)];

/// Measures rows, and knows how fast each system is.
pub struct Rows<'a> {
    figures: &'a mut Figures,
    /// Calls each second of a system in a row.
    rates: HashMap<(String, &'static str), f64>,
}

impl<'a> Rows<'a> {
    pub fn new(figures: &'a mut Figures) -> Self {
        Self { figures, rates: HashMap::new() }
    }

    /// Writes what was measured into its file.
    pub fn keep(&self) -> Result<(), String> {
        self.figures.keep()
    }

    /// One round of one system.
    pub fn measure(&mut self, part: &str, trial: Trial) {
        match part {
            "drain" => {
                for concurrency in [1, 10, 64, 256] {
                    self.drain(trial, concurrency);
                }
            }
            "enqueue" => {
                for tasks in [1, 64] {
                    self.enqueue(trial, tasks);
                }
            }
            "pickup" => self.pick_up(trial),
            "load" => self.load(trial),
            "proxy" => self.proxy(trial),
            "payload" => {
                for (bytes, name) in [(100, "100 B"), (10_000, "10 kB"), (1_000_000, "1 MB")] {
                    let most = (200_000_000 / bytes).min(trial.effort.calls);
                    let work = Work { concurrency: 10, task: "carry", bytes, ..PLAIN };
                    self.variant(trial, &format!("drain with payload, {name}"), work, most);
                }
            }
            "mixed" => {
                let work = Work { task: "mixed", ..PLAIN };
                self.variant(trial, "drain of mixed tasks, 64 at a time", work, trial.effort.calls);
            }
            "queues" => {
                let work = Work { queues: EIGHT, ..PLAIN };
                self.variant(trial, "drain of 8 queues, 64 at a time", work, trial.effort.calls);
            }
            "waiting" => self.waiting(trial),
            _ => self.idle(trial),
        }
    }

    /// The benchmark of asynq, and what it costs.
    fn drain(&mut self, trial: Trial, concurrency: usize) {
        let row = format!("drain, {concurrency} at a time");
        let work = Work { concurrency, ..PLAIN };
        let Some(drained) = self.drained(trial, &row, work, trial.effort.calls) else { return };
        let name = trial.system.name;
        let mut add = |row: &str, unit, value| {
            if trial.system.has(row) {
                self.figures.add(row, name, unit, Ok(value));
            }
        };
        if concurrency == 10 {
            add("start-up, until the first call runs", "s", drained.start_up);
        }
        if concurrency == 64 {
            add("enqueue, in bulk", "/s", drained.filled);
            add("per task, Redis", "µs", drained.redis);
            add("per task, commands in Redis", "", drained.commands);
            add("per task, worker", "µs", drained.worker);
            add("memory, of a busy worker", "MB", drained.memory as f64 / 1e6);
            self.figures.raw(&row, name, drained.by_command);
        }
    }

    /// The rate of another drain.
    fn variant(&mut self, trial: Trial, row: &str, work: Work, most: u64) {
        self.drained(trial, row, work, most);
    }

    fn drained(&mut self, trial: Trial, row: &str, work: Work, most: u64) -> Option<Drained> {
        let sized = self.sized(trial, row, most, |count| {
            let drained = trial.drain(work, count)?;
            Ok((drained.rate, drained))
        });
        match sized? {
            Ok(drained) => {
                self.figures.add_of(row, trial.system.name, "/s", drained.rate, drained.calls);
                Some(drained)
            }
            Err(problem) => {
                self.figures.add(row, trial.system.name, "/s", Err(problem));
                None
            }
        }
    }

    fn enqueue(&mut self, trial: Trial, tasks: u64) {
        let row = format!("enqueue, one by one from {tasks}");
        let sized = self.sized(trial, &row, trial.effort.calls, |count| {
            let rate = trial.enqueue(tasks, count)?;
            Ok((rate, rate))
        });
        if let Some(rate) = sized {
            self.figures.add(&row, trial.system.name, "/s", rate);
        }
    }

    fn pick_up(&mut self, trial: Trial) {
        let table = "pick-up by an idle worker";
        if self.skips(trial, &format!("{table}, p50")) {
            return;
        }
        self.latencies(table, trial.system.name, trial.pick_up(trial.effort.picked_up), &QUANTILES);
    }

    /// As much as can be sent and run at the same time, and latencies at half of that.
    fn load(&mut self, trial: Trial) {
        let row = "sent and run at once, 64 at a time";
        self.guess_from_drain(trial, row);
        let sized = self.sized(trial, row, trial.effort.calls, |count| {
            let rate = trial.both(count)?;
            Ok((rate, rate))
        });
        let Some(most) = sized else { return };
        self.figures.add(row, trial.system.name, "/s", most.clone());
        let Ok(most) = most else { return };
        let rate = (most / 2.0).max(1.0) as u64;
        let count = (rate as f64 * trial.effort.seconds) as u64;
        let waited = trial.at_rate(rate, count.max(LEAST));
        self.latencies("latency at half of that", trial.system.name, waited, &QUANTILES[..2]);
    }

    /// As many calls as a drain would have: a worker that looks only now and then seems slow with few.
    fn guess_from_drain(&mut self, trial: Trial, row: &str) {
        let name = trial.system.name;
        let drain = "drain, 64 at a time";
        if !self.rates.contains_key(&(drain.to_owned(), name)) && !self.skips(trial, row) {
            // What fails here fails there, too.
            let _ = self.sized(trial, drain, trial.effort.calls, |count| {
                let rate = trial.drain(PLAIN, count)?.rate;
                Ok((rate, rate))
            });
        }
        if let Some(rate) = self.rates.get(&(drain.to_owned(), name)).copied() {
            self.rates.entry((row.to_owned(), name)).or_insert(rate);
        }
    }

    fn latencies(
        &mut self,
        table: &str,
        name: &str,
        measured: Result<Vec<f64>, String>,
        quantiles: &[(&str, f64)],
    ) {
        for (label, share) in quantiles {
            let value = measured.as_ref().map(|times| quantile(times, *share)).map_err(Clone::clone);
            self.figures.add(&format!("{table}, {label}"), name, "ms", value);
        }
        if let Ok(times) = measured
            && times.len() <= 1000
        {
            self.figures.raw(table, name, times);
        }
    }

    fn proxy(&mut self, trial: Trial) {
        let row = "drain through a proxy, 1 ms each way";
        if !trial.system.has(row) {
            return;
        }
        match Proxy::start(trial.server.address(), FAR) {
            Ok(proxy) => {
                let url = proxy.url();
                self.variant(trial, row, Work { url: Some(&url), ..PLAIN }, trial.effort.calls);
            }
            Err(error) => self.figures.add(row, trial.system.name, "/s", Err(error.to_string())),
        }
    }

    /// Whether many that wait make a difference.
    fn waiting(&mut self, trial: Trial) {
        let name = trial.system.name;
        let [few, many] = trial.effort.waiting;
        let mut fill = f64::INFINITY;
        for wait in [few, many] {
            let row = format!("drain while others wait, {wait} waiting");
            // What is filled slowly has fewer.
            let left = wait.min((fill * trial.effort.fill) as u64);
            let work = Work { left, ..PLAIN };
            let sized = self.sized(trial, &row, few, |count| {
                let drained = trial.drain(Work { left: left.saturating_sub(count), ..work }, count)?;
                Ok((drained.rate, drained))
            });
            match sized {
                Some(Ok(drained)) => {
                    fill = drained.filled;
                    self.figures.add_of(&row, name, "/s", drained.rate, left);
                    let row = "memory, of Redis for a waiting call";
                    if wait == few && trial.system.has(row) {
                        self.figures.add(row, name, "B", Ok(drained.waiting));
                    }
                }
                Some(Err(problem)) => self.figures.add(&row, name, "/s", Err(problem)),
                None => {}
            }
        }
    }

    fn idle(&mut self, trial: Trial) {
        let name = trial.system.name;
        if self.skips(trial, "memory, of an idle worker") {
            return;
        }
        let idle = trial.idle(Work { concurrency: 10, ..PLAIN });
        let pick = |of: fn(&super::trial::Idle) -> f64| idle.as_ref().map(of).map_err(Clone::clone);
        self.figures.add("memory, of an idle worker", name, "MB", pick(|idle| idle.memory as f64 / 1e6));
        self.figures.add("idle worker, its own", name, "% of a core", pick(|idle| idle.worker));
        self.figures.add("idle worker, of Redis", name, "% of a core", pick(|idle| idle.redis));
    }

    /// Measures with as many calls as take about as long as a measurement is to go on, and at most so many.
    fn sized<T>(
        &mut self,
        trial: Trial,
        row: &str,
        most: u64,
        mut measure: impl FnMut(u64) -> Result<(f64, T), String>,
    ) -> Option<Result<T, String>> {
        if self.skips(trial, row) {
            return None;
        }
        if let Some(why) = trial.system.lacks(row) {
            return Some(Err(why.into()));
        }
        let key = (row.to_owned(), trial.system.name);
        loop {
            let known = self.rates.get(&key).copied().or_else(|| self.figures.known(row, key.1));
            let wanted = |rate: f64| match rate * trial.effort.longest {
                enough if enough >= most as f64 => most,
                _ => ((rate * trial.effort.seconds) as u64).clamp(LEAST.min(most), most),
            };
            let count = known.map_or(GUESS.min(most), wanted);
            match measure(count) {
                Ok((rate, measured)) => {
                    self.rates.insert(key.clone(), rate);
                    // A guess that was far too low is not counted, and has warmed up what can be warm.
                    let near = known.is_some_and(|known| wanted(rate) < 4 * wanted(known));
                    let costly = count as f64 / rate > 0.1 && !trial.effort.refine;
                    if near || count == most || costly {
                        return Some(Ok(measured));
                    }
                }
                Err(problem) => return Some(Err(problem)),
            }
        }
    }

    /// Whether it has no such row, or has failed in it before.
    fn skips(&self, trial: Trial, row: &str) -> bool {
        !trial.system.has(row) || self.figures.fails(row, trial.system.name)
    }
}
