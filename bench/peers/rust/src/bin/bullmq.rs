//! bullmq-official: nothing is kept of jobs that have ended, as in the peer in JavaScript.

use std::ops::Range;

use bench_peers::sending::{Sends, answer, queues};
use bench_peers::{Arguments, Role, role, run, stopped};
use bullmq::options::RedisConnectionOptions;
use bullmq::types::RemoveOnFinish;
use bullmq::worker::CancellationToken;
use bullmq::{BulkJob, Job, Queue, QueueOptions, Worker, WorkerOptions};

const CHUNK: usize = 1000;

#[tokio::main]
async fn main() {
    match role() {
        Role::Version => println!("bullmq-official 1.4.4"),
        Role::Send(url) => {
            let mut all = Vec::new();
            for name in queues() {
                let options = QueueOptions::new().connection(RedisConnectionOptions::new().url(&url));
                all.push(std::sync::Arc::new(Queue::with_options(&name, options).await.expect("connects")));
            }
            answer(Sender(all)).await;
        }
        Role::Work(url, concurrency) => {
            let names = queues();
            let mut workers = Vec::new();
            for name in &names {
                let options = WorkerOptions::new()
                    .connection(RedisConnectionOptions::new().url(&url))
                    .concurrency(concurrency.div_ceil(names.len()))
                    .remove_on_complete(RemoveOnFinish::Bool(true))
                    .remove_on_fail(RemoveOnFinish::Bool(true));
                let worker = Worker::with_options(name, process, options).await.expect("connects");
                workers.push(worker);
            }
            stopped().await;
            for worker in workers {
                worker.close(1000).await.expect("ends");
            }
        }
    }
}

async fn process(job: Job, _: CancellationToken) -> bullmq::Result<serde_json::Value> {
    run(job.name(), job.data()["number"].as_u64().expect("a number")).await;
    Ok(serde_json::Value::Null)
}

#[derive(Clone)]
struct Sender(Vec<std::sync::Arc<Queue>>);

impl Sends for Sender {
    async fn bulk(&self, task: &str, numbers: Range<u64>, bytes: usize) {
        for (at, queue) in self.0.iter().enumerate() {
            let own: Vec<u64> =
                numbers.clone().filter(|number| *number as usize % self.0.len() == at).collect();
            for chunk in own.chunks(CHUNK) {
                let jobs =
                    chunk.iter().map(|number| BulkJob::new(task, Arguments::new(*number, bytes))).collect();
                queue.add_bulk(jobs).await.expect("enqueued");
            }
        }
    }

    async fn one(&self, task: &str, number: u64) {
        let queue = &self.0[number as usize % self.0.len()];
        queue.add(task, Arguments::new(number, 0)).await.expect("enqueued");
    }
}
