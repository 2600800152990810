//! How is one figure of one system measured? On an empty Redis, with a worker and a sender of its own, each a process
//! as it would be elsewhere, and each call known to have run once.

use std::time::{Duration, Instant};

use redis::Connection;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::effort::Effort;
use super::systems::System;
use crate::clock::{now, seconds};
use crate::processes;
use crate::programs::{self, Program};
use crate::sender::Sender;
use crate::server::{Server, used};
use crate::tally::{self, Tally};
use crate::worker::Worker;

const LOOK_EVERY: Duration = Duration::from_millis(1);
/// For the first call: a worker may need but a few milliseconds until it runs.
const LOOK_OFTEN: Duration = Duration::from_micros(100);
const LOOK_SELDOM: Duration = Duration::from_millis(20);
/// Among so many is the first that runs: a short look.
const OLDEST: u64 = 1000;
/// By which the processes of a worker are known.
const MARK: &str = "BENCH_WORKER";
/// So many calls does a sender make at a time.
const AT_ONCE: u64 = 1_000_000;
/// How long calls may take in all.
const LONGEST: Duration = Duration::from_secs(120);

/// Where and how much.
#[derive(Clone, Copy)]
pub struct Trial<'a> {
    pub system: &'a System,
    pub server: &'a Server,
    pub effort: &'a Effort,
}

/// What is drained.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    pub concurrency: usize,
    pub task: &'a str,
    /// What each call carries.
    pub bytes: u64,
    /// Names of queues, with commas between.
    pub queues: &'a str,
    /// Where workers find Redis, if elsewhere.
    pub url: Option<&'a str>,
    /// Other calls that were cancelled while they waited, and whose marks are still there.
    pub cancelled: u64,
    /// Calls that still wait when the measurement is over.
    pub left: u64,
    /// How many workers there are, each with that concurrency.
    pub workers: usize,
}

/// No-op calls of one queue.
pub const PLAIN: Work<'static> = Work {
    concurrency: 64,
    task: "count",
    bytes: 0,
    queues: "bench",
    url: None,
    cancelled: 0,
    left: 0,
    workers: 1,
};

/// What a drain came to.
pub struct Drained {
    pub calls: u64,
    /// Calls each second, without the first tenth of them.
    pub rate: f64,
    /// Seconds from the start of the worker until the first call ran.
    pub start_up: f64,
    /// How the queue was filled.
    pub filled: f64,
    /// Bytes of Redis for each call that waits.
    pub waiting: f64,
    /// Microseconds of processor time for each call, of Redis and of the worker.
    pub redis: f64,
    pub worker: f64,
    /// Bytes of the worker at its end.
    pub memory: u64,
    /// Commands for each call, those in scripts included.
    pub commands: f64,
    /// Calls and microseconds of each command, since the first of them.
    pub by_command: Value,
}

/// What idle workers take.
pub struct Idle {
    pub memory: u64,
    /// Percent of a core.
    pub worker: f64,
    pub redis: f64,
    /// Each second, those in scripts included.
    pub commands: f64,
}

/// What was used up to a moment.
struct Used {
    ran: u64,
    /// Seconds of processor time.
    redis: f64,
    worker: f64,
    commands: u64,
    by_command: Value,
}

/// What one measurement works with; ended in this order.
struct Scene {
    workers: Vec<Worker>,
    sender: Sender,
    connection: Connection,
    tally: Tally,
    directory: TempDir,
}

impl Trial<'_> {
    /// Enqueues first, then drains.
    pub fn drain(&self, work: Work, count: u64) -> Result<Drained, String> {
        let warm = count / 10;
        let calls = count + warm;
        let all = calls + work.left;
        let mut scene = self.scene(all, work.queues)?;
        let mut send = |first, count| match work.task {
            "carry" => scene.sender.carry(first, count, work.bytes),
            task => scene.sender.bulk(task, first, count),
        };
        // What Redis keeps for the statistics of each command, from its first use on, is no matter of the calls.
        send(0, 1)?;
        let one = used(&mut scene.connection);
        let began = now();
        for first in (1..all).step_by(AT_ONCE as usize) {
            send(first, AT_ONCE.min(all - first))?;
        }
        let more = (all - 1) as f64;
        let filled = more / seconds(began, now());
        let waiting = used(&mut scene.connection).saturating_sub(one);
        scene.cancel_others(work.cancelled)?;
        let started = now();
        scene.work(self, work)?;
        let mut known = 0;
        // Those far behind have not run yet, and looking at them takes time.
        let seen = calls + work.left.min(calls);
        let (first, _) = scene.wait(self, &mut known, seen.min(OLDEST), 1)?;
        let (begun, ran_before) = scene.wait(self, &mut known, seen, warm)?;
        let before = scene.used(self, &mut known, seen)?;
        let (ended, ran_after) = scene.wait(self, &mut known, seen, calls)?;
        let after = scene.used(self, &mut known, seen)?;
        let ran = (after.ran - before.ran).max(1) as f64;
        // Few calls may all have run before the first look.
        let rate = match ran_after - ran_before {
            0 => ran_after as f64 / seconds(started, ended),
            ran => ran as f64 / seconds(begun, ended),
        };
        let memory = processes::memory(&scene.processes());
        if work.left > 0 {
            scene.workers.clear();
        } else {
            scene.stop()?;
        }
        Ok(Drained {
            calls: count,
            rate,
            start_up: seconds(started, first),
            filled,
            waiting: waiting as f64 / more,
            redis: (after.redis - before.redis) * 1e6 / ran,
            worker: (after.worker - before.worker) * 1e6 / ran,
            memory,
            commands: (after.commands - before.commands) as f64 / ran,
            by_command: after.by_command,
        })
    }

    /// Calls each second that can be enqueued one by one.
    pub fn enqueue(&self, task: &str, tasks: u64, count: u64) -> Result<f64, String> {
        let warm = count / 10;
        let mut scene = self.scene(count + warm, "bench")?;
        scene.sender.each(task, 0, warm, tasks)?;
        Ok(scene.sender.each(task, warm, count, tasks)?.rate())
    }

    /// Calls each second that were scheduled 1 s ahead, of which each hundredth fails once and is run again 1 s later. The
    /// worker starts when all are due: enqueueing them takes some systems longer than a second, and others would wait.
    pub fn later(&self, count: u64) -> Result<f64, String> {
        let mut scene = self.scene(count, "bench")?;
        scene.sender.bulk("later", 0, count)?;
        std::thread::sleep(Duration::from_secs(1));
        let started = now();
        scene.work(self, Work { concurrency: 10, ..PLAIN })?;
        let (ended, _) = scene.wait(self, &mut 0, count, count)?;
        scene.stop()?;
        Ok(count as f64 / seconds(started, ended))
    }

    /// Milliseconds from an enqueue to the begin of the run, of a worker that has nothing else to do.
    pub fn pick_up(&self, count: u64) -> Result<Vec<f64>, String> {
        let warm = 2;
        let mut scene = self.scene(warm + count, "bench")?;
        scene.work(self, Work { concurrency: 10, ..PLAIN })?;
        let mut known = 0;
        for number in 0..warm {
            scene.sender.bulk("mark", number, 1)?;
            scene.wait(self, &mut known, warm, number + 1)?;
        }
        let mut due = Instant::now();
        for number in warm..warm + count {
            due += Duration::from_millis(20 + number * 13 % 31);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let sent = scene.sender.bulk("mark", number, 1)?;
            scene.tally.sent(number, sent.began);
        }
        scene.wait(self, &mut known, warm + count, warm + count)?;
        scene.stop()?;
        Ok((warm..warm + count).map(|number| scene.tally.waited(number)).collect())
    }

    /// Calls each second that are sent and run at the same time.
    pub fn both(&self, count: u64) -> Result<f64, String> {
        let warm = count / 10;
        let all = count + warm;
        let mut scene = self.scene(all, "bench")?;
        scene.work(self, PLAIN)?;
        let mut known = 0;
        scene.sender.bulk("count", 0, warm)?;
        scene.wait(self, &mut known, warm, warm)?;
        let sent = scene.sender.bulk("count", warm, count)?;
        let (ended, _) = scene.wait(self, &mut known, all, all)?;
        scene.stop()?;
        Ok(count as f64 / seconds(sent.began, ended))
    }

    /// Milliseconds from an enqueue to the begin of the run, at so many calls each second.
    pub fn at_rate(&self, rate: u64, count: u64) -> Result<Vec<f64>, String> {
        let warm = count / 5;
        let all = count + warm;
        let mut scene = self.scene(all, "bench")?;
        scene.work(self, PLAIN)?;
        let mut known = 0;
        scene.sender.bulk("mark", 0, 1)?;
        scene.wait(self, &mut known, 1, 1)?;
        scene.sender.paced(1, all - 1, rate)?;
        scene.wait(self, &mut known, all, all)?;
        scene.stop()?;
        Ok((warm..all).map(|number| scene.tally.waited(number)).collect())
    }

    /// What workers take that have nothing to do.
    pub fn idle(&self, work: Work) -> Result<Idle, String> {
        let mut scene = self.scene(1, work.queues)?;
        scene.work(self, work)?;
        scene.sender.bulk("count", 0, 1)?;
        scene.wait(self, &mut 0, 1, 1)?;
        if self.system.program == Program::This {
            scene.all_wait(work.workers)?;
        }
        std::thread::sleep(Duration::from_secs(1));
        let pids = scene.processes();
        let used = || pids.iter().map(|pid| crate::server::cpu_of_threads(*pid)).sum::<f64>();
        let commands = scene.commands()?.0;
        let (redis, worker) = (self.server.cpu(), used());
        std::thread::sleep(Duration::from_secs_f64(self.effort.idle));
        let share = |seconds: f64| seconds / self.effort.idle * 100.0;
        let idle = Idle {
            memory: processes::memory(&pids),
            worker: share(used() - worker),
            redis: share(self.server.cpu() - redis),
            commands: (scene.commands()?.0 - commands) as f64 / self.effort.idle,
        };
        scene.stop()?;
        Ok(idle)
    }

    /// An empty Redis, and a sender that is connected.
    fn scene(&self, calls: u64, queues: &str) -> Result<Scene, String> {
        let failed = |error: std::io::Error| error.to_string();
        let mut connection = self.server.connect();
        empty(&mut connection)?;
        let directory = tempfile::tempdir_in(programs::memory()).map_err(failed)?;
        let path = directory.path().join("tally");
        let tally = Tally::create(&path, calls).map_err(failed)?;
        let mut command = self.system.sender(&self.server.url(), queues);
        command.env(tally::VARIABLE, &path);
        let mut sender = Sender::start(command)?;
        // Whatever a sender does before its first call is done with this one, which nobody runs.
        sender.bulk("count", 0, 1)?;
        empty(&mut connection)?;
        Ok(Scene { workers: Vec::new(), sender, connection, tally, directory })
    }
}

fn empty(connection: &mut Connection) -> Result<(), String> {
    let emptied = redis::cmd("FLUSHALL").exec(connection);
    emptied
        .and_then(|()| redis::cmd("CONFIG").arg("RESETSTAT").exec(connection))
        .map_err(|error| error.to_string())
}

impl Scene {
    fn work(&mut self, trial: &Trial, work: Work) -> Result<(), String> {
        let url = work.url.map_or_else(|| trial.server.url(), str::to_owned);
        let directory = self.directory.path();
        for number in 0..work.workers {
            let mut command = trial.system.worker(&url, work.concurrency, work.queues);
            command.env(tally::VARIABLE, directory.join("tally"));
            let mark = (MARK, directory.join(format!("worker-{number}")));
            self.workers.push(Worker::start(command, mark, &directory.join(format!("log-{number}")))?);
        }
        Ok(())
    }

    /// Leaves the marks of so many waiting calls that were cancelled, and taken away before a worker came to them.
    fn cancel_others(&mut self, count: u64) -> Result<(), String> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let mut marks = redis::cmd("ZADD");
        marks.arg("bench_cancelled");
        for number in 0..count {
            marks.arg(now.as_millis() as u64).arg(&u128::from(number).to_be_bytes());
        }
        if count == 0 { Ok(()) } else { marks.exec(&mut self.connection).map_err(|error| error.to_string()) }
    }

    /// Waits until so many of the calls below `end` have run. Gives the time, and how many had by then.
    fn wait(&mut self, trial: &Trial, known: &mut u64, end: u64, wanted: u64) -> Result<(u64, u64), String> {
        let began = Instant::now();
        let (mut most, mut progress) = (0, began);
        loop {
            let at = now();
            let ran = self.tally.ran(known, end);
            if ran >= wanted {
                return Ok((at, ran));
            }
            if ran > most {
                (most, progress) = (ran, Instant::now());
            }
            for worker in &mut self.workers {
                worker.check()?;
            }
            if progress.elapsed() > Duration::from_secs(trial.effort.patience) || began.elapsed() > LONGEST {
                return Err(format!("{ran} of {wanted} calls had run in time"));
            }
            std::thread::sleep(if wanted == 1 { LOOK_OFTEN } else { LOOK_EVERY });
        }
    }

    fn used(&mut self, trial: &Trial, known: &mut u64, end: u64) -> Result<Used, String> {
        let (commands, by_command) = self.commands()?;
        let worker = processes::cpu(&self.processes());
        Ok(Used { ran: self.tally.ran(known, end), redis: trial.server.cpu(), worker, commands, by_command })
    }

    /// Waits until all of our workers wait in Redis.
    fn all_wait(&mut self, workers: usize) -> Result<(), String> {
        let began = Instant::now();
        while self.info("clients")?.lines().all(|line| line != format!("blocked_clients:{workers}")) {
            if began.elapsed() > LONGEST {
                return Err("its workers do not come to rest".into());
            }
            std::thread::sleep(LOOK_SELDOM);
        }
        Ok(())
    }

    fn commands(&mut self) -> Result<(u64, Value), String> {
        self.info("commandstats").map(|info| commands(&info))
    }

    fn info(&mut self, section: &str) -> Result<String, String> {
        let info = redis::cmd("INFO").arg(section).query(&mut self.connection);
        info.map_err(|error: redis::RedisError| error.to_string())
    }

    fn processes(&self) -> Vec<u32> {
        self.workers.iter().flat_map(Worker::processes).collect()
    }

    /// Ends the workers, and checks that each call ran once.
    fn stop(&mut self) -> Result<(), String> {
        for worker in self.workers.drain(..) {
            worker.stop()?;
        }
        self.tally.exactly_once()
    }
}

/// How many commands Redis has run, and each with its calls and microseconds.
fn commands(info: &str) -> (u64, Value) {
    let (mut total, mut each) = (0, Map::new());
    for line in info.lines() {
        let Some((name, fields)) = line.strip_prefix("cmdstat_").and_then(|line| line.split_once(':')) else {
            continue;
        };
        let field = |wanted: &str| {
            let found = fields.split(',').find_map(|field| field.strip_prefix(wanted));
            found.and_then(|value| value.parse::<u64>().ok()).unwrap_or_default()
        };
        total += field("calls=");
        each.insert(name.into(), json!([field("calls="), field("usec=")]));
    }
    (total, Value::Object(each))
}
