//! apalis-redis: without locks and with larger batches, as its documentation says of short tasks and of throughput, and
//! without events, which nobody hears. It looks every 100 ms, as it did by default until 1.0.0-rc.8: without that an idle
//! worker looks when its heart beats, every 30 s.

use std::ops::Range;
use std::time::Duration;

use apalis::layers::WorkerBuilderExt;
use apalis::prelude::*;
use apalis_redis::{Client, Config, RedisStorage};
use bench_peers::sending::{Sends, answer, queues};
use bench_peers::{Arguments, Role, role, run, stopped};
use redis::aio::ConnectionManagerConfig;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

/// As in the example of that setting; a larger concurrency has as much.
const BATCH: usize = 50;
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// By default half a second, in which a batch of 1 MB each may not come.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

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
                all.push(storage(&url, &name, BATCH).await);
            }
            answer(Sender(all)).await;
        }
        Role::Work(url, concurrency) => {
            let names = queues();
            let each = concurrency.div_ceil(names.len());
            let mut workers = JoinSet::new();
            for name in &names {
                let storage = storage(&url, name, BATCH.max(each)).await;
                let worker = WorkerBuilder::new(name.as_str())
                    .backend(storage.poll_with_interval(LOOK_EVERY))
                    .concurrency(each)
                    .build(work);
                workers.spawn(worker.run());
            }
            // A worker ends at the first error of its queue.
            tokio::select! {
                ended = workers.join_next() => panic!("{ended:?}"),
                () = stopped() => {}
            }
        }
    }
}

async fn work(call: Call) -> Result<(), BoxDynError> {
    run(&call.task, call.arguments.number).await;
    Ok(())
}

async fn storage(url: &str, queue: &str, batch: usize) -> RedisStorage<Call> {
    let client = Client::open(url).expect("a URL of Redis");
    let patient = ConnectionManagerConfig::new().set_response_timeout(Some(ANSWER_WITHIN));
    let connection = client.get_connection_manager_with_config(patient).await.expect("connects");
    let config = Config::default().queue(queue).batch_size(batch).lock_tasks(false).emit_events(false);
    RedisStorage::new(connection).with_config(config)
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
