//! How long does a call of a worker that was killed wait until it runs again?

use std::collections::HashMap;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use tokio::runtime::Runtime;

use super::{at, command};
use crate::clock;
use crate::isolation::ledger::{self, Ledger, Record};
use crate::server::{Server, until};
use crate::tasks;

/// Queues, each with two workers of its own, of which one is killed.
const PAIRS: u64 = 20;

/// What workers are told, how often one of each pair is killed, and what the slowest of a hundred may take.
const CASES: [(&str, &[&str], u64, f64); 2] =
    [("default settings", &[], 5, 10.0), ("--lease 1s", &["--lease", "1s"], 25, 1.5)];

pub(super) fn run(runtime: &Runtime) {
    for (name, words, rounds, most) in CASES {
        let mut times = measure(runtime, words, rounds);
        times.sort_by(f64::total_cmp);
        println!(
            "{name}: {} workers killed; running again after p50 {:.2} s, p99 {:.2} s, at most {:.2} s (to be reached: p99 {most} s)",
            times.len(),
            at(&times, 0.5),
            at(&times, 0.99),
            at(&times, 1.0),
        );
    }
}

/// Seconds from each kill until the call ran again.
fn measure(runtime: &Runtime, words: &[&str], rounds: u64) -> Vec<f64> {
    let server = Server::start();
    let directory = tempfile::tempdir().expect("a directory");
    let ledger = Ledger::create(directory.path()).expect("a ledger");
    let url = server.url();
    let mut workers: Vec<[Worker; 2]> =
        (0..PAIRS).map(|pair| [(); 2].map(|()| Worker::start(&url, pair, words, ledger.path()))).collect();
    let mut times = Vec::new();
    runtime.block_on(async {
        let client = delayed::Client::connect(&url).await.expect("connects");
        let marks = directory.path().to_string_lossy().into_owned();
        for round in 0..rounds {
            let numbers = round * PAIRS..(round + 1) * PAIRS;
            for (pair, number) in numbers.clone().enumerate() {
                let call = tasks::hangs_once::call(number, marks.clone()).queue(queue(pair as u64));
                client.enqueue(call).await.expect("enqueued");
            }
            until("all of them hang", async || runs(&ledger, 1, &numbers).is_some()).await;
            // Not in step with the beats.
            tokio::time::sleep(Duration::from_millis(round * 370 % 2000)).await;
            let first = runs(&ledger, 1, &numbers).expect("they hang");
            let mut killed = HashMap::new();
            for (pair, number) in numbers.clone().enumerate() {
                let victim = workers[pair].iter_mut().find(|worker| worker.0.id() == first[&number].pid);
                let victim = victim.expect("one of the two");
                killed.insert(number, clock::now());
                *victim = Worker::start(&url, pair as u64, words, ledger.path());
            }
            until("all of them ran again", async || runs(&ledger, 2, &numbers).is_some()).await;
            let second = runs(&ledger, 2, &numbers).expect("they ran");
            times.extend(numbers.map(|number| (second[&number].began - killed[&number]) as f64 / 1e9));
        }
    });
    times
}

/// The `nth` run of each of these calls; none while one is missing.
fn runs(ledger: &Ledger, nth: usize, numbers: &std::ops::Range<u64>) -> Option<HashMap<u64, Record>> {
    let mut runs: HashMap<u64, Vec<Record>> = HashMap::new();
    for record in ledger.read().expect("the ledger is read") {
        runs.entry(record.number).or_default().push(record);
    }
    numbers.clone().map(|number| Some((number, *runs.get(&number)?.get(nth - 1)?))).collect()
}

fn queue(pair: u64) -> String {
    format!("pair{pair}")
}

/// Killed when it goes.
struct Worker(Child);

impl Worker {
    fn start(url: &str, pair: u64, words: &[&str], ledger: &Path) -> Self {
        let queue = queue(pair);
        let role = ["worker", "--redis", url, "--queue", &queue, "--concurrency", "4"];
        let mut command = command(&[&role[..], words].concat());
        Self(command.env(ledger::VARIABLE, ledger).spawn().expect("starts"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
