//! apalis-redis: batches as large as the concurrency, and a look each second, as in its own example of a workflow:
//! without that an idle worker looks when its heart beats, every 30 s.

use std::ops::Range;
use std::time::Duration;

use apalis::layers::WorkerBuilderExt;
use apalis::prelude::*;
use apalis_redis::{Config, RedisStorage};
use bench_peers::sending::{Sends, answer, queues};
use bench_peers::{Arguments, Role, role, run, stopped};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Call {
    task: String,
    arguments: Arguments,
}

#[tokio::main]
async fn main() {
    match role() {
        Role::Version => println!("apalis 1.0.0, apalis-redis 1.0.0"),
        Role::Send(url) => {
            let mut all = Vec::new();
            for name in queues() {
                all.push(storage(&url, &name, 10).await);
            }
            answer(Sender(all)).await;
        }
        Role::Work(url, concurrency) => {
            let names = queues();
            for name in &names {
                let each = concurrency.div_ceil(names.len());
                let worker = WorkerBuilder::new(name.as_str())
                    .backend(storage(&url, name, each).await.poll_with_interval(Duration::from_secs(1)))
                    .concurrency(each)
                    .build(work);
                tokio::spawn(worker.run());
            }
            stopped().await;
        }
    }
}

async fn work(call: Call) -> Result<(), BoxDynError> {
    run(&call.task, call.arguments.number).await;
    Ok(())
}

async fn storage(url: &str, queue: &str, batch: usize) -> RedisStorage<Call> {
    let connection = apalis_redis::connect(url).await.expect("connects");
    RedisStorage::new(connection).with_config(Config::default().queue(queue).batch_size(batch))
}

#[derive(Clone)]
struct Sender(Vec<RedisStorage<Call>>);

impl Sender {
    fn storage(&self, number: u64) -> RedisStorage<Call> {
        self.0[number as usize % self.0.len()].clone()
    }
}

fn call(task: &str, number: u64, bytes: usize) -> Call {
    Call { task: task.into(), arguments: Arguments::new(number, bytes) }
}

impl Sends for Sender {
    async fn bulk(&self, task: &str, numbers: Range<u64>, bytes: usize) {
        for at in 0..self.0.len() as u64 {
            let own = numbers.clone().filter(|number| number % self.0.len() as u64 == at);
            let calls: Vec<Call> = own.map(|number| call(task, number, bytes)).collect();
            // One command for each, which has to be answered in time.
            let most = (1_000_000 / bytes.max(1)).clamp(1, 1000);
            for chunk in calls.chunks(most) {
                self.storage(at).push_bulk(chunk.to_vec()).await.expect("enqueued");
            }
        }
    }

    async fn one(&self, task: &str, number: u64) {
        self.storage(number).push(call(task, number, 0)).await.expect("enqueued");
    }
}
