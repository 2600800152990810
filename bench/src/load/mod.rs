//! What becomes of a Redis and its workers under load? `scripts/load` builds and runs it.

mod awaited;
mod batches;
mod idle;
mod lateness;
mod limits;
mod periodic;
mod recovery;
mod scripts;
mod soak;
mod sweep;
mod waiting;

use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::server::until;
use crate::tally;

type Part = fn(&Runtime);
const PARTS: [(&str, Part); 9] = [
    ("waiting", waiting::run),
    ("sweep", sweep::run),
    ("idle", idle::run),
    ("recovery", recovery::run),
    ("lateness", lateness::run),
    ("awaited", awaited::run),
    ("periodic", periodic::run),
    ("batches", batches::run),
    ("limits", limits::run),
];

/// Runs the parts that are named, or all of them; a soak only when it is asked for.
pub fn run(words: &[String]) -> ExitCode {
    let (mut parts, mut minutes) = (Vec::new(), None);
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--soak" => {
                match words.next().and_then(|value| value.parse::<u64>().ok()).filter(|value| *value > 0) {
                    Some(value) => minutes = Some(value),
                    None => return refuse("--soak takes a number of minutes"),
                }
            }
            _ => match PARTS.iter().find(|(name, _)| *name == word) {
                Some(part) => parts.push(part),
                None => {
                    return refuse(&format!(
                        "no such part: {word}; there are waiting, sweep, idle, recovery, lateness, awaited, periodic, batches, limits, --soak MINUTES"
                    ));
                }
            },
        }
    }
    if parts.is_empty() && minutes.is_none() {
        parts.extend(&PARTS);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    conditions();
    for (name, run) in parts {
        println!("\n## {name}");
        run(&runtime);
    }
    match minutes {
        Some(minutes) => {
            println!("\n## soak of {minutes} minutes");
            soak::run(&runtime, Duration::from_secs(60 * minutes))
        }
        None => ExitCode::SUCCESS,
    }
}

fn refuse(problem: &str) -> ExitCode {
    eprintln!("error: {problem}");
    ExitCode::from(2)
}

/// Without these no figure can be compared.
fn conditions() {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let busy = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let version = crate::server::Server::start().version();
    println!("{cores} cores, load before {}, Redis {version}", busy.split(' ').next().unwrap_or_default());
}

/// This program in another role.
fn start(role: &[&str]) -> Child {
    command(role).spawn().expect("starts")
}

fn command(role: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(role)
        .env("RUST_LOG", "off")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Workers of their own, which count what they run in one tally. Killed when they go.
struct Workers(Vec<Child>);

impl Workers {
    /// Starts so many, each with that concurrency, that serve the queue `bench`.
    fn start(url: &str, workers: usize, concurrency: usize, tally: &Path) -> Self {
        let concurrency = concurrency.to_string();
        let words = ["worker", "--redis", url, "--log-level", "error", "--queue", "bench", "--concurrency"];
        let worker =
            || command(&words).arg(&concurrency).env(tally::VARIABLE, tally).spawn().expect("starts");
        Self((0..workers).map(|_| worker()).collect())
    }

    /// Comes back when all of them live.
    fn wait(&self, runtime: &Runtime, url: &str) {
        runtime.block_on(async {
            let inspector = delayed::Inspector::connect(url).await.expect("connects");
            until("all workers live", async || {
                let queues = inspector.queues().await.expect("tells");
                queues.iter().any(|queue| queue.workers == self.0.len() as u64)
            })
            .await;
        });
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.0 {
            let _ = worker.kill();
            let _ = worker.wait();
        }
    }
}

/// The value at a share of a sorted list.
fn at<T: Copy>(sorted: &[T], share: f64) -> T {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

/// A worker that serves a queue in which nothing comes.
pub fn idle_worker(words: &[String]) -> ExitCode {
    let url = words.first().expect("an address");
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let worker =
            delayed::Worker::builder(url).queue("bench").concurrency(64).connect().await.expect("connects");
        worker.run().await.expect("ends well");
    });
    ExitCode::SUCCESS
}
