//! rusty-sidekiq: as many of its workers as the concurrency, and a connection for each.

use std::ops::Range;

use async_trait::async_trait;
use bench_peers::sending::{Sends, answer, queues};
use bench_peers::{Arguments, Role, role, run, stopped};
use serde::{Deserialize, Serialize};
use sidekiq::{Processor, ProcessorConfig, RedisConnectionManager, RedisPool, Worker};

#[derive(Debug, Serialize, Deserialize)]
struct Call {
    task: String,
    arguments: Arguments,
}

#[derive(Clone)]
struct Tasks;

#[async_trait]
impl Worker<Call> for Tasks {
    async fn perform(&self, call: Call) -> sidekiq::Result<()> {
        run(&call.task, call.arguments.number).await;
        Ok(())
    }
}

#[tokio::main]
async fn main() {
    match role() {
        Role::Version => println!("rusty-sidekiq 0.15.2"),
        Role::Send(url) => answer(Sender { pool: pool(&url, 64).await, queues: queues() }).await,
        Role::Work(url, concurrency) => {
            // Each of its workers waits on a connection of its own.
            let pool = pool(&url, concurrency as u32 + 4).await;
            let config = ProcessorConfig::default().num_workers(concurrency);
            let mut processor = Processor::new(pool, queues()).with_config(config);
            processor.register(Tasks);
            let ends = processor.get_cancellation_token();
            let running = tokio::spawn(processor.run());
            stopped().await;
            ends.cancel();
            running.await.expect("ends");
        }
    }
}

async fn pool(url: &str, size: u32) -> RedisPool {
    let manager = RedisConnectionManager::new(url).expect("an address");
    bb8::Pool::builder().max_size(size).build(manager).await.expect("connects")
}

#[derive(Clone)]
struct Sender {
    pool: RedisPool,
    queues: Vec<String>,
}

impl Sender {
    async fn send(&self, task: &str, number: u64, bytes: usize) {
        let call = Call { task: task.into(), arguments: Arguments::new(number, bytes) };
        let queue = self.queues[number as usize % self.queues.len()].clone();
        let sent = Tasks::opts().queue(queue).perform_async(&self.pool, call).await;
        sent.expect("enqueued");
    }
}

impl Sends for Sender {
    async fn bulk(&self, task: &str, numbers: Range<u64>, bytes: usize) {
        for number in numbers {
            self.send(task, number, bytes).await;
        }
    }

    async fn one(&self, task: &str, number: u64) {
        self.send(task, number, 0).await;
    }
}
