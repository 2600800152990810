//! How is one figure of one system measured? On an empty Redis, with a worker of its own, and each call known to have
//! run once.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::effort::Effort;
use super::ledger::{self, Ledger};
use super::systems::{Load, System, Way};
use super::watch::Watch;
use crate::clock::{now, seconds};
use crate::processes::{self, Size};
use crate::sender::Sender;
use crate::server::Server;
use crate::worker::Worker;

/// One call after another.
const ALONE: Load = Load { label: "", concurrency: 1, children: None };
/// Calls that are hung at a time.
const HUNG_AT_A_TIME: u64 = 16;
/// Calls that find out how many are drained in a second.
const FEW: u64 = 100;
/// Calls that are enough for any system.
const MANY: u64 = 300_000;
/// How long a worker may take to come up, or to settle a call.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Between two calls, so that each finds the machine idle.
pub fn pause(number: u64) -> Duration {
    Duration::from_millis(2 + number % 5)
}

/// Where and how much.
pub struct Trial<'a> {
    pub system: &'a System,
    pub server: &'a Server,
    pub effort: &'a Effort,
}

/// Times in milliseconds after the limit.
#[derive(Default)]
pub struct Killed {
    /// Until it was settled; the limit is counted from the first line of the task.
    pub settled: Vec<f64>,
    /// Until it was settled, and its process was waited for.
    pub done: Vec<f64>,
    /// The same, and the limit is counted from before the enqueue.
    pub from_enqueue: Vec<f64>,
}

/// What many calls that hang came to.
pub struct Hung {
    pub calls: u64,
    /// How many of them were killed only after their first line.
    pub begun: u64,
    pub seconds: f64,
    /// When the limit is all that it takes.
    pub least: f64,
    pub processes_left: usize,
    pub descriptors_left: usize,
}

/// What one measurement works with; ended in this order.
struct Scene {
    worker: Option<Worker>,
    sender: Sender,
    connection: redis::Connection,
    ledger: Ledger,
    directory: TempDir,
}

impl Trial<'_> {
    /// How many calls take about as long as a drain is to go on, at that rate.
    pub fn calls(&self, rate: f64) -> u64 {
        ((rate * self.effort.seconds) as u64).clamp(FEW, MANY)
    }

    /// The same, when the rate is not known.
    pub fn calibrate(&self, load: Load) -> Result<u64, String> {
        let mut count = FEW;
        loop {
            let wanted = self.calls(self.rate(load, count)?);
            // A few of many tell little.
            if wanted <= 20 * count || 20 * count > MANY {
                return Ok(wanted);
            }
            count *= 20;
        }
    }

    /// Calls each second of a full queue, without the first tenth of them.
    pub fn rate(&self, load: Load, count: u64) -> Result<f64, String> {
        let mut scene = self.scene(self.system.way, None)?;
        scene.sender.bulk("note", 0, count)?;
        self.work(&mut scene, self.system.way, load, None)?;
        let end = self.wait_settled(&mut scene, count, PATIENCE + Duration::from_secs(60))?;
        scene.stop()?;
        let records = scene.ledger.exactly(count)?;
        let warm = (count / 10) as usize;
        Ok((count as usize - warm) as f64 / seconds(records[warm].began, end))
    }

    /// Milliseconds from enqueue to release of one call at a time, and the size of the process that forks.
    pub fn latency(&self, way: Way) -> Result<(Vec<f64>, Option<Size>), String> {
        let mut scene = self.scene(way, None)?;
        self.work(&mut scene, way, ALONE, None)?;
        self.warm_up(&mut scene, 20)?;
        let watch = self.watch()?;
        let mut times = Vec::new();
        for number in 0..self.effort.samples as u64 {
            std::thread::sleep(pause(number));
            watch.clear();
            let sent = scene.sender.bulk("note", number, 1)?.began;
            times.push(seconds(sent, watch.next(PATIENCE)?) * 1e3);
        }
        let size = scene.worker.as_ref().and_then(|worker| processes::zygote(&worker.processes()));
        scene.stop()?;
        scene.ledger.exactly(self.effort.samples as u64)?;
        Ok((times, size))
    }

    /// How long after its limit a task that hangs is settled and its process gone.
    pub fn kill(&self, task: &str) -> Result<Killed, String> {
        let limit = self.system.limit;
        let way = self.system.way;
        let mut scene = self.scene(way, Some(limit))?;
        self.work(&mut scene, way, ALONE, Some(limit))?;
        self.warm_up(&mut scene, 5)?;
        let watch = self.watch()?;
        let mut killed = Killed::default();
        let samples = (self.effort.hanging / limit).ceil() as u64;
        for number in 0..samples {
            watch.clear();
            let sent = scene.sender.bulk(task, number, 1)?.began;
            let settled = watch.next(PATIENCE)?;
            let records =
                scene.ledger.read().map_err(|error| format!("the ledger cannot be read: {error}"))?;
            let record = *records.last().ok_or("settled, and never run")?;
            let end = Instant::now() + PATIENCE;
            let mut gone = settled;
            while processes::exists(record.pid) {
                if Instant::now() > end {
                    return Err(format!("a process is still there {PATIENCE:?} after it was settled"));
                }
                std::thread::sleep(Duration::from_micros(100));
                gone = now();
            }
            killed.settled.push((seconds(record.began, settled) - limit) * 1e3);
            killed.done.push((seconds(record.began, gone) - limit) * 1e3);
            killed.from_enqueue.push((seconds(sent, gone) - limit) * 1e3);
        }
        scene.stop()?;
        scene.ledger.exactly(samples)?;
        Ok(killed)
    }

    /// Many calls that hang: how long they take in all, and what they leave behind.
    pub fn hang(&self) -> Result<Hung, String> {
        let limit = self.system.limit;
        let way = self.system.way;
        let calls = (self.effort.hung as f64 * 0.1 / limit) as u64;
        let mut scene = self.scene(way, Some(limit))?;
        let slots = HUNG_AT_A_TIME as usize;
        self.work(&mut scene, way, Load { label: "", concurrency: slots, children: None }, Some(limit))?;
        self.warm_up(&mut scene, 4 * HUNG_AT_A_TIME)?;
        let before = scene.descriptors();
        scene.sender.bulk("sleep", 0, calls)?;
        let least = calls.div_ceil(HUNG_AT_A_TIME) as f64 * limit;
        let end = self.wait_failed(&mut scene, calls, PATIENCE + Duration::from_secs_f64(10.0 * least))?;
        // What is put in order behind the last may take a moment.
        std::thread::sleep(Duration::from_secs(1));
        let after = scene.descriptors();
        let lasting = before.iter().filter_map(|(pid, was)| {
            let is = after.iter().find(|(other, _)| other == pid).map(|(_, is)| is)?;
            Some(is.saturating_sub(*was))
        });
        let descriptors_left = lasting.sum();
        let pids: Vec<u32> = after.iter().map(|(pid, _)| *pid).collect();
        let more = after.len().saturating_sub(before.len());
        let zombies = processes::zombies_of(&pids);
        let orphans = scene.stop()?;
        let records = scene.ledger.read().map_err(|error| format!("the ledger cannot be read: {error}"))?;
        let numbers: HashSet<u64> = records.iter().map(|record| record.number).collect();
        if numbers.len() != records.len() {
            return Err(format!("{} calls ran twice", records.len() - numbers.len()));
        }
        let first = records.first().ok_or("none has run")?.began;
        Ok(Hung {
            calls,
            begun: records.len() as u64,
            seconds: seconds(first, end),
            least,
            processes_left: more + zombies + orphans,
            descriptors_left,
        })
    }

    /// An empty Redis, and a sender.
    fn scene(&self, way: Way, limit: Option<f64>) -> Result<Scene, String> {
        let mut connection = self.server.connect();
        redis::cmd("FLUSHALL").exec(&mut connection).map_err(|error| error.to_string())?;
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let ledger = Ledger::create(directory.path()).map_err(|error| error.to_string())?;
        let sender = Sender::start(self.system.sender(&self.server.url(), way, limit))?;
        Ok(Scene { worker: None, sender, connection, ledger, directory })
    }

    fn work(&self, scene: &mut Scene, way: Way, load: Load, limit: Option<f64>) -> Result<(), String> {
        let command = self.system.worker(&self.server.url(), way, load, limit);
        let log = scene.directory.path().join("log");
        let mark = (ledger::VARIABLE, scene.ledger.path().to_owned());
        scene.worker = Some(Worker::start(command, mark, &log)?);
        Ok(())
    }

    /// Calls that do not count.
    fn warm_up(&self, scene: &mut Scene, calls: u64) -> Result<(), String> {
        scene.sender.bulk("note", 0, calls)?;
        self.wait_settled(scene, calls, PATIENCE)?;
        scene.ledger.clear().map_err(|error| error.to_string())
    }

    fn watch(&self) -> Result<Watch, String> {
        let (key, event) = self.system.settled;
        Watch::start(self.server, key, event).map_err(|error| error.to_string())
    }

    /// How many calls are not settled.
    fn unsettled(&self, scene: &mut Scene) -> Result<u64, String> {
        let mut unsettled = 0;
        for key in self.system.unsettled {
            unsettled += key.len(&mut scene.connection).map_err(|error| error.to_string())?;
        }
        Ok(unsettled)
    }

    /// Waits until so many calls have failed for good and nothing is unsettled; where failures are not kept, until so
    /// many have run. One may be killed before its first line, when its limit is short and the machine is busy.
    fn wait_failed(&self, scene: &mut Scene, calls: u64, patience: Duration) -> Result<u64, String> {
        let Some(key) = self.system.failed else { return self.wait_settled(scene, calls, patience) };
        let end = Instant::now() + patience;
        loop {
            let failed = key.len(&mut scene.connection).map_err(|error| error.to_string())?;
            let unsettled = self.unsettled(scene)?;
            if failed == calls && unsettled == 0 {
                return Ok(now());
            }
            if let Some(worker) = &mut scene.worker {
                worker.check()?;
            }
            if Instant::now() > end {
                return Err(format!(
                    "{failed} of {calls} calls had failed in time, {unsettled} are unsettled"
                ));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until so many calls have run and nothing is unsettled. Gives the time.
    fn wait_settled(&self, scene: &mut Scene, calls: u64, patience: Duration) -> Result<u64, String> {
        let end = Instant::now() + patience;
        loop {
            let ran = scene.ledger.len();
            // A call on its way from one place to another is in none, so they have to have run, too.
            if ran >= calls && self.unsettled(scene)? == 0 {
                return Ok(now());
            }
            if let Some(worker) = &mut scene.worker {
                worker.check()?;
            }
            if Instant::now() > end {
                let unsettled = self.unsettled(scene)?;
                return Err(format!("{ran} of {calls} calls had run in time, {unsettled} are unsettled"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Scene {
    /// Stops the worker. Gives how many processes it left behind.
    fn stop(&mut self) -> Result<usize, String> {
        self.worker.take().map_or(Ok(0), Worker::stop)
    }

    /// The processes of the worker, and how many descriptors each has open.
    fn descriptors(&self) -> Vec<(u32, usize)> {
        let pids = self.worker.as_ref().map(Worker::processes).unwrap_or_default();
        pids.into_iter().map(|pid| (pid, processes::descriptors(pid))).collect()
    }
}
