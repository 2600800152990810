//! What do 200 idle workers, each a process of its own, cost one Redis and the machine?

use std::time::Duration;

use tokio::runtime::Runtime;

use super::{Workers, at, start};
use crate::server::{Server, cpu_of_threads, private, resident};

const WORKERS: usize = 200;
/// For how long the processor time is measured.
const WATCHED: Duration = Duration::from_secs(30);

pub(super) fn run(runtime: &Runtime) {
    let server = Server::start();
    let workers = Workers((0..WORKERS).map(|_| start(&["idle-worker", &server.url()])).collect());
    workers.wait(runtime, &server.url());
    let used = |workers: &Workers| workers.0.iter().map(|worker| cpu_of_threads(worker.id())).sum::<f64>();
    let (redis, theirs) = (server.cpu(), used(&workers));
    std::thread::sleep(WATCHED);
    let share = |seconds: f64| seconds / WATCHED.as_secs_f64() * 100.0;
    println!(
        "{WORKERS} workers of concurrency 64: Redis uses {:.1} % of a core, all workers together {:.1} %",
        share(server.cpu() - redis),
        share(used(&workers) - theirs)
    );
    let sorted = |size: fn(u32) -> u64| {
        let mut sizes: Vec<u64> = workers.0.iter().map(|worker| size(worker.id())).collect();
        sizes.sort_unstable();
        sizes
    };
    let (resident, private) = (sorted(resident), sorted(private));
    let mb = |bytes: u64| bytes as f64 / 1e6;
    println!(
        "a worker: {:.1} MB resident (most {:.1}), of which {:.1} MB are its own (most {:.1})",
        mb(at(&resident, 0.5)),
        mb(at(&resident, 1.0)),
        mb(at(&private, 0.5)),
        mb(at(&private, 1.0))
    );
}
