//! The crate asynq: its defaults but for the concurrency.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use asynq::backend::RedisConnectionType;
use asynq::client::Client;
use asynq::config::ServerConfig;
use asynq::server::{Handler, Server};
use asynq::task::Task;
use bench_peers::sending::{Sends, answer, queues};
use bench_peers::{Arguments, Role, role, run, stopped};

struct Tasks;

#[async_trait]
impl Handler for Tasks {
    async fn process_task(&self, task: Task) -> asynq::error::Result<()> {
        let arguments: Arguments = task.get_payload_with_json()?;
        run(task.get_type(), arguments.number).await;
        Ok(())
    }
}

#[tokio::main]
async fn main() {
    let connection = |url: String| RedisConnectionType::single(url).expect("an address");
    match role() {
        Role::Version => println!("asynq (crate) 0.1.8"),
        Role::Send(url) => {
            let client = Client::new(connection(url)).await.expect("connects");
            answer(Sender { client: Arc::new(client), queues: queues() }).await;
        }
        Role::Work(url, concurrency) => {
            let weights: HashMap<String, i32> = queues().into_iter().map(|name| (name, 1)).collect();
            let config = ServerConfig::new().concurrency(concurrency).queues(weights);
            let mut server = Server::new(connection(url), config).await.expect("connects");
            tokio::select! {
                ended = server.run(Tasks) => ended.expect("ends well"),
                () = stopped() => {}
            }
        }
    }
}

#[derive(Clone)]
struct Sender {
    client: Arc<Client>,
    queues: Vec<String>,
}

impl Sender {
    async fn send(&self, task: &str, number: u64, bytes: usize) {
        let task = Task::new_with_json(task, &Arguments::new(number, bytes)).expect("encodes");
        let queue = &self.queues[number as usize % self.queues.len()];
        self.client.enqueue(task.with_queue(queue)).await.expect("enqueued");
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
