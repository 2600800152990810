//! Counts what runs come to, by queue and task, for metrics. A worker without metrics has no meter.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// The largest number of label pairs of queue and task: clients may send any number of paths.
const PAIRS: usize = 1000;

/// The counters of a process, shared with its exporter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources(Arc<Counted>);

#[derive(Debug, Default)]
struct Counted {
    workers: Mutex<Vec<Arc<Source>>>,
    /// How many calls clients have enqueued, by queue and task.
    enqueued: Mutex<BTreeMap<(String, String), u64>>,
}

/// A worker.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) meter: Meter,
    /// By the indices of the meter.
    pub(crate) queues: Vec<String>,
    pub(crate) tasks: Vec<&'static str>,
    /// How many calls it runs at a time.
    pub(crate) concurrency: usize,
    last_beat: LastBeat,
    /// Whether its event loop has ended.
    has_ended: AtomicBool,
}

/// When the heartbeat of a worker last succeeded, in milliseconds since 1970; 0 before that.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastBeat(Arc<AtomicU64>);

impl LastBeat {
    /// It has succeeded now.
    pub(crate) fn set(&self) {
        self.0.store(now_ms(), Ordering::Relaxed);
    }
}

impl Sources {
    /// Adds a worker.
    pub(crate) fn add(
        &self,
        queues: Vec<String>,
        tasks: Vec<&'static str>,
        concurrency: usize,
        last_beat: LastBeat,
    ) -> Arc<Source> {
        let source = Arc::new(Source {
            meter: Meter::default(),
            queues,
            tasks,
            concurrency,
            last_beat,
            has_ended: AtomicBool::new(false),
        });
        lock(&self.0.workers).push(Arc::clone(&source));
        source
    }

    /// All workers.
    pub(crate) fn all(&self) -> Vec<Arc<Source>> {
        lock(&self.0.workers).clone()
    }

    /// Counts a call that was enqueued.
    pub(crate) fn enqueued(&self, queue: &str, task: &str) {
        let mut enqueued = lock(&self.0.enqueued);
        let mut pair = (queue.to_owned(), task.to_owned());
        if enqueued.len() >= PAIRS && !enqueued.contains_key(&pair) {
            pair.1.clear();
        }
        *enqueued.entry(pair).or_default() += 1;
    }

    /// How many calls were enqueued, by queue and task. The task is empty for those beyond the bound.
    pub(crate) fn all_enqueued(&self) -> Vec<((String, String), u64)> {
        lock(&self.0.enqueued).iter().map(|(pair, count)| (pair.clone(), *count)).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Source {
    /// How long ago its heartbeat last succeeded.
    pub(crate) fn since_beat(&self) -> Option<Duration> {
        let beat = self.last_beat.0.load(Ordering::Relaxed);
        (beat > 0).then(|| Duration::from_millis(now_ms().saturating_sub(beat)))
    }

    /// The worker claims nothing any more.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}

/// The time in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

/// The upper bounds of the classes of durations, in seconds.
pub(crate) const BOUNDS: [f64; 15] =
    [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 1800.0, 7200.0];

/// Durations, by class.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Durations {
    /// How many are in each class; the last one has no bound.
    counts: [u64; BOUNDS.len() + 1],
    sum: f64,
}

impl Durations {
    fn add(&mut self, seconds: f64) {
        let class = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.counts[class] += 1;
        self.sum += seconds;
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum in seconds.
    pub(crate) fn sum(&self) -> f64 {
        self.sum
    }

    /// The bound of each class and how many are in it. The last bound is infinite.
    pub(crate) fn classes(&self) -> Vec<(f64, u64)> {
        BOUNDS.iter().copied().chain([f64::INFINITY]).zip(self.counts).collect()
    }
}

/// What becomes of a message after its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Its call has ended.
    Ended,
    /// It runs again, because it failed.
    Retried,
    /// It runs again, because its task snoozed.
    Snoozed,
    /// It became a dead letter.
    Buried,
    /// It was put back, parked or deferred unchanged.
    PutBack,
    /// It is left to a sweeper.
    Lost,
}

/// What the runs of a task in a queue came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RunCounts {
    pub(crate) started: u64,
    /// By how they ended: `succeeded`, or the reason of a dead letter.
    pub(crate) ended: BTreeMap<&'static str, u64>,
    pub(crate) retried: u64,
    pub(crate) snoozed: u64,
    pub(crate) buried: u64,
    pub(crate) lost: u64,
    /// How long runs took.
    pub(crate) running: Durations,
    /// How long calls waited from the time in their id to their first run.
    pub(crate) waiting: Durations,
    /// How long it took from the time in their id until they succeeded.
    pub(crate) total: Durations,
    succeeded: u64,
}

/// The counts of a worker.
#[derive(Debug, Default)]
pub(crate) struct Meter(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// By the index of the queue, and that of the task; 0 is no task of the worker.
    runs: Vec<Vec<Option<Box<RunCounts>>>>,
    /// How long Redis took to answer requests, by the index of the queue and the script.
    scripts: BTreeMap<(usize, &'static str), Durations>,
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) queue: usize,
    pub(crate) task: Option<usize>,
    /// How it ended, in one word.
    pub(crate) outcome: &'static str,
    pub(crate) fate: Fate,
    /// `None` if it did not run.
    pub(crate) took: Option<Duration>,
    /// How long ago its call was made, if its id tells that, and whether this is its first attempt.
    pub(crate) age: Option<(Duration, bool)>,
}

impl Meter {
    /// Counts a run that has begun.
    pub(crate) fn began(&self, queue: usize, task: Option<usize>) {
        lock(&self.0).of(queue, task).started += 1;
    }

    /// Counts a run that has ended.
    pub(crate) fn ended(&self, run: &Measured) {
        let mut counts = lock(&self.0);
        let counts = counts.of(run.queue, run.task);
        if run.outcome == "succeeded" {
            counts.succeeded += 1;
        } else {
            *counts.ended.entry(run.outcome).or_default() += 1;
        }
        match run.fate {
            Fate::Ended | Fate::PutBack => {}
            Fate::Retried => counts.retried += 1,
            Fate::Snoozed => counts.snoozed += 1,
            Fate::Buried => counts.buried += 1,
            Fate::Lost => counts.lost += 1,
        }
        let Some(took) = run.took else { return };
        counts.running.add(took.as_secs_f64());
        let Some((age, is_first)) = run.age else { return };
        if is_first {
            counts.waiting.add(age.saturating_sub(took).as_secs_f64());
        }
        if run.outcome == "succeeded" {
            counts.total.add(age.as_secs_f64());
        }
    }

    /// Counts a reply of Redis to a request.
    pub(crate) fn answered(&self, queue: usize, script: &'static str, took: Duration) {
        lock(&self.0).scripts.entry((queue, script)).or_default().add(took.as_secs_f64());
    }

    /// How long Redis took so far, by the index of the queue and the script.
    pub(crate) fn scripts(&self) -> Vec<((usize, &'static str), Durations)> {
        lock(&self.0).scripts.iter().map(|(place, took)| (*place, took.clone())).collect()
    }

    /// All counts so far, with the indices of queue and task.
    pub(crate) fn read(&self) -> Vec<(usize, Option<usize>, RunCounts)> {
        let counts = lock(&self.0);
        let tasks = counts.runs.iter().enumerate().flat_map(|(queue, tasks)| {
            let places = tasks.iter().enumerate();
            places.filter_map(move |(place, counts)| Some((queue, place.checked_sub(1), counts.as_ref()?)))
        });
        let read = tasks.map(|(queue, task, counts)| {
            let mut counts = (**counts).clone();
            if counts.succeeded > 0 {
                counts.ended.insert("succeeded", counts.succeeded);
            }
            (queue, task, counts)
        });
        read.collect()
    }
}

impl Counts {
    fn of(&mut self, queue: usize, task: Option<usize>) -> &mut RunCounts {
        let place = task.map_or(0, |task| task + 1);
        if self.runs.len() <= queue {
            self.runs.resize_with(queue + 1, Vec::new);
        }
        let tasks = &mut self.runs[queue];
        if tasks.len() <= place {
            tasks.resize_with(place + 1, || None);
        }
        tasks[place].get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_by_queue_and_task() {
        let meter = Meter::default();
        let run = |task, outcome, fate, age| Measured {
            queue: 1,
            task,
            outcome,
            fate,
            took: Some(Duration::from_millis(20)),
            age,
        };
        meter.began(1, Some(0));
        meter.ended(&run(Some(0), "succeeded", Fate::Ended, Some((Duration::from_secs(3), true))));
        meter.ended(&run(Some(0), "failed", Fate::Retried, None));
        meter.ended(&run(None, "unknown", Fate::Buried, None));
        let read = meter.read();
        assert_eq!(
            read.iter().map(|(queue, task, _)| (*queue, *task)).collect::<Vec<_>>(),
            [(1, None), (1, Some(0))]
        );
        let (_, _, counts) = &read[1];
        assert_eq!(counts.ended, BTreeMap::from([("failed", 1), ("succeeded", 1)]));
        assert_eq!((counts.started, counts.retried, counts.running.count()), (1, 1, 2));
        let classes = counts.waiting.classes();
        assert_eq!(classes.iter().find(|(_, count)| *count > 0), Some(&(5.0, 1)), "{classes:?}");
        assert!((counts.total.sum() - 3.0).abs() < 1e-9);
        assert_eq!(read[0].2.buried, 1);
    }
}
