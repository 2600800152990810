//! Which rows are there, and what is measured for each?

use std::collections::HashMap;
use std::time::Duration;

use super::OURS;
use super::effort::{Amount, LEAST, Rates};
use super::proxy::Proxy;
use super::systems::SYSTEMS;
use super::trial::{Drained, PLAIN, Trial, Work};
use crate::figures::{Figures, quantile};
use crate::readme::PLAIN_FN;

/// Groups of rows that are measured together.
pub const PARTS: [&str; 13] = [
    "drain",
    "enqueue",
    "pickup",
    "load",
    "proxy",
    "payload",
    "mixed",
    "queues",
    "waiting",
    "later",
    "unique",
    "cancelled",
    "idle",
];

/// Systems whose programs schedule calls, and make them unique.
const ON_TIME: [&str; 2] = [OURS, "asynq"];
/// Calls that find out how fast a system is of which nothing is known.
const GUESS: u64 = 50;
const DRAIN: &str = "drain, 64 at a time";
const IN_BULK: &str = "enqueue, in bulk";
const FAR: Duration = Duration::from_millis(1);
const EIGHT: &str = "bench_0,bench_1,bench_2,bench_3,bench_4,bench_5,bench_6,bench_7";
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("max", 1.0)];

/// A row whose calls are counted out.
#[derive(Clone, Copy)]
struct Row<'a> {
    name: &'a str,
    /// One that is about as fast, or the same.
    like: &'a str,
    amount: Amount,
    /// Whether its calls are enqueued first.
    filled: bool,
}

/// Measures rows, and knows how fast each system is.
pub struct Rows<'a> {
    figures: &'a mut Figures,
    /// That of a system in a row, when it was measured last.
    rates: HashMap<(String, &'static str), Rates>,
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
            // It makes no difference what kind of task is enqueued.
            "enqueue" if trial.system.name == PLAIN_FN => {}
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
                    let other = trial.effort.other;
                    let amount = Amount { calls: other.calls.min(200_000_000 / bytes), ..other };
                    let work = Work { concurrency: 10, task: "carry", bytes, ..PLAIN };
                    let name = format!("drain with payload, {name}");
                    let row = Row { name: &name, like: "drain, 10 at a time", amount, filled: true };
                    self.drained(trial, row, work);
                }
            }
            "mixed" => {
                let name = "drain of mixed tasks, 64 at a time";
                let row = Row { name, like: name, amount: trial.effort.mixed, filled: true };
                self.drained(trial, row, Work { task: "mixed", ..PLAIN });
            }
            "queues" => {
                let name = "drain of 8 queues, 64 at a time";
                let row = Row { name, like: DRAIN, amount: trial.effort.other, filled: true };
                self.drained(trial, row, Work { queues: EIGHT, ..PLAIN });
            }
            "waiting" => self.waiting(trial),
            "later" if ON_TIME.contains(&trial.system.name) => self.later(trial),
            "unique" if ON_TIME.contains(&trial.system.name) => self.unique(trial),
            "cancelled" if trial.system.name == OURS => {
                for cancelled in [0, 10_000] {
                    let name = format!("drain beside cancelled calls, {cancelled} marks");
                    let row = Row { name: &name, like: DRAIN, amount: trial.effort.drain, filled: true };
                    self.drained(trial, row, Work { cancelled, ..PLAIN });
                }
            }
            "later" | "unique" | "cancelled" => {}
            "idle" if trial.system.name == PLAIN_FN => {}
            _ => self.idle(trial),
        }
    }

    /// The benchmark of asynq, and what it costs.
    fn drain(&mut self, trial: Trial, concurrency: usize) {
        let row = format!("drain, {concurrency} at a time");
        let work = Work { concurrency, ..PLAIN };
        let amount = trial.effort.drain;
        let Some(drained) = self.drained(trial, Row { name: &row, like: &row, amount, filled: true }, work)
        else {
            return;
        };
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
            add(IN_BULK, "/s", drained.filled);
            add("per task, Redis", "µs", drained.redis);
            add("per task, commands in Redis", "", drained.commands);
            add("per task, worker", "µs", drained.worker);
            add("memory, of a busy worker", "MB", drained.memory as f64 / 1e6);
            self.figures.raw(&row, name, drained.by_command);
        }
    }

    fn drained(&mut self, trial: Trial, row: Row, work: Work) -> Option<Drained> {
        let row = Row { amount: held(trial, row.amount, work.queues), ..row };
        let sized = self.sized(trial, row, |count| {
            let drained = trial.drain(work, count)?;
            Ok((Rates { rate: drained.rate, filled: drained.filled }, drained))
        });
        match sized? {
            Ok(drained) => {
                self.figures.add_of(row.name, trial.system.name, "/s", drained.rate, drained.calls);
                Some(drained)
            }
            Err(problem) => {
                self.figures.add(row.name, trial.system.name, "/s", Err(problem));
                None
            }
        }
    }

    fn enqueue(&mut self, trial: Trial, tasks: u64) {
        let name = format!("enqueue, one by one from {tasks}");
        let row = Row { name: &name, like: &name, amount: trial.effort.other, filled: false };
        if let Some(rate) = self.sized(trial, row, |count| Ok(plain(trial.enqueue("count", tasks, count)?))) {
            self.figures.add(&name, trial.system.name, "/s", rate);
        }
    }

    /// The second benchmark of asynq.
    fn later(&mut self, trial: Trial) {
        let row = "scheduled calls of which 1 % fail once, 10 at a time";
        let (calls, name) = (trial.effort.later, trial.system.name);
        match trial.later(calls) {
            Ok(rate) => self.figures.add_of(row, name, "/s", rate, calls),
            Err(problem) => self.figures.add(row, name, "/s", Err(problem)),
        }
    }

    /// Unique calls, each with other arguments.
    fn unique(&mut self, trial: Trial) {
        let (calls, name) = (trial.effort.other.calls, trial.system.name);
        let one_by_one = trial.enqueue("unique", 64, calls);
        self.figures.add("unique calls, enqueued one by one from 64", name, "/s", one_by_one);
        let drained = trial.drain(Work { task: "unique", ..PLAIN }, calls);
        let pick = |of: fn(&Drained) -> f64| drained.as_ref().map(of).map_err(Clone::clone);
        self.figures.add("unique calls, enqueued in bulk", name, "/s", pick(|drained| drained.filled));
        self.figures.add("unique calls, drained 64 at a time", name, "/s", pick(|drained| drained.rate));
    }

    fn pick_up(&mut self, trial: Trial) {
        let table = "pick-up by an idle worker";
        if self.skips(trial, &format!("{table}, p50")) {
            return;
        }
        self.latencies(table, trial.system.name, trial.pick_up(trial.effort.picked_up), &QUANTILES);
    }

    /// As much as can be sent and run at the same time, and latencies at half of that, ours beside them.
    fn load(&mut self, trial: Trial) {
        let row = "sent and run at once, 64 at a time";
        let amount = held(trial, trial.effort.other, PLAIN.queues);
        let both = Row { name: row, like: DRAIN, amount, filled: false };
        if !self.skips(trial, row) && self.rates(both, trial.system.name).is_none() {
            // As many calls as a drain would have: a worker that looks only now and then seems slow with few.
            let drain = Row { name: DRAIN, like: DRAIN, amount, filled: true };
            // What fails here fails there, too.
            let _ = self.sized(trial, drain, |count| {
                let drained = trial.drain(PLAIN, count)?;
                Ok((Rates { rate: drained.rate, filled: drained.filled }, ()))
            });
        }
        let Some(most) = self.sized(trial, both, |count| Ok(plain(trial.both(count)?))) else { return };
        self.figures.add(row, trial.system.name, "/s", most.clone());
        let Ok(most) = most else { return };
        let rate = (most / 2.0).max(1.0) as u64;
        let count = (rate as f64 * trial.effort.paced) as u64;
        let waited = trial.at_rate(rate, count.max(LEAST));
        let (table, name) = ("latency at half of that", trial.system.name);
        self.latencies(table, name, waited, &QUANTILES[..2]);
        if ![OURS, PLAIN_FN].contains(&name)
            && let Some(system) = SYSTEMS.iter().find(|system| system.name == OURS)
        {
            // Its maximum is another, so that at half of it there is something else to do.
            let waited = Trial { system, ..trial }.at_rate(rate, count.max(LEAST));
            self.latencies(&format!("{table}, ours at the same load"), name, waited, &QUANTILES[..2]);
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
                let far = Row { name: row, like: row, amount: trial.effort.other, filled: true };
                self.drained(trial, far, Work { url: Some(&url), ..PLAIN });
            }
            Err(error) => self.figures.add(row, trial.system.name, "/s", Err(error.to_string())),
        }
    }

    /// Whether many that wait make a difference.
    fn waiting(&mut self, trial: Trial) {
        let (name, effort) = (trial.system.name, trial.effort);
        let [few, many] = effort.waiting;
        let mut fill = self.figures.known(IN_BULK, name);
        let mut like = DRAIN.to_owned();
        for wait in [few, many] {
            let row = format!("drain while others wait, {wait} waiting");
            // What is filled slowly has fewer.
            let left = match fill {
                Some(fill) if wait as f64 / fill > effort.fill => {
                    wait.min((fill * effort.fill_slowly) as u64)
                }
                _ => wait,
            };
            let left = left.max(few);
            let amount = Amount { calls: few, ..effort.other };
            let counted = Row { name: &row, like: &like, amount, filled: false };
            let sized = self.sized(trial, counted, |count| {
                let work = Work { left, ..PLAIN };
                let mut drained = trial.drain(work, count)?;
                // By the rate of the first, all take about as long.
                let (mut seconds, each) = (0.0, count as f64 / drained.rate);
                let times = (effort.waiting_for / each).ceil().max(1.0);
                for time in 0..times as u64 {
                    let rate = if time == 0 { drained.rate } else { trial.drain(work, count)?.rate };
                    seconds += count as f64 / rate;
                }
                drained.rate = times * count as f64 / seconds;
                Ok((Rates { rate: drained.rate, filled: f64::INFINITY }, drained))
            });
            match sized {
                Some(Ok(drained)) => {
                    fill = Some(drained.filled);
                    self.figures.add_of(&row, name, "/s", drained.rate, left);
                    let row = "memory, of Redis for a waiting call";
                    if wait == few && trial.system.has(row) {
                        self.figures.add(row, name, "B", Ok(drained.waiting));
                    }
                }
                Some(Err(problem)) => {
                    self.figures.add(&row, name, "/s", Err(problem.clone()));
                    if wait == few {
                        // No more comes of more of them.
                        let row = format!("drain while others wait, {many} waiting");
                        self.figures.add(&row, name, "/s", Err(problem));
                        return;
                    }
                }
                None => {}
            }
            like = row;
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

    /// Measures with as many calls as the amount of the row gives.
    fn sized<T>(
        &mut self,
        trial: Trial,
        row: Row,
        mut measure: impl FnMut(u64) -> Result<(Rates, T), String>,
    ) -> Option<Result<T, String>> {
        if self.skips(trial, row.name) {
            return None;
        }
        if let Some(why) = trial.system.lacks(row.name) {
            return Some(Err(why.into()));
        }
        let (amount, name) = (row.amount, trial.system.name);
        loop {
            let known = self.rates(row, name);
            let count = known.map_or(GUESS.min(amount.calls), |rates| amount.at(rates));
            let (rates, measured) = match measure(count) {
                Ok(done) => done,
                Err(problem) => return Some(Err(problem)),
            };
            self.rates.insert((row.name.to_owned(), name), rates);
            // A guess that was far too low is not counted, and has warmed up what can be warm.
            let wanted = amount.at(rates);
            let near = known.is_some() && wanted < amount.calls && wanted < 4 * count;
            let costly = count as f64 / rates.rate > 0.1 && !trial.effort.refine;
            if near || count == amount.calls || costly {
                return Some(Ok(measured));
            }
        }
    }

    /// How fast a system is in a row, if that is known from this run or from the one that is published.
    fn rates(&self, row: Row, name: &'static str) -> Option<Rates> {
        let measured = |like: &str| self.rates.get(&(like.to_owned(), name)).copied();
        let known = |like: &str| {
            let rate = self.figures.known(like, name)?;
            let filled = self.figures.known(IN_BULK, name).filter(|_| row.filled);
            Some(Rates { rate, filled: filled.unwrap_or(f64::INFINITY) })
        };
        [row.name, row.like].into_iter().find_map(|like| measured(like).or_else(|| known(like)))
    }

    /// Whether it has no such row, or has failed in it before.
    fn skips(&self, trial: Trial, row: &str) -> bool {
        !trial.system.has(row) || self.figures.fails(row, trial.system.name)
    }
}

/// That amount with no more calls than these queues of the system can hold.
fn held(trial: Trial, amount: Amount, queues: &str) -> Amount {
    let most = trial.system.holds.map(|each| each * queues.split(',').count() as u64);
    Amount { calls: most.map_or(amount.calls, |most| amount.calls.min(most)), ..amount }
}

/// A rate that is all there is to tell.
fn plain(rate: f64) -> (Rates, f64) {
    (Rates { rate, filled: f64::INFINITY }, rate)
}
