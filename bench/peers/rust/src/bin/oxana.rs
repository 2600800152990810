//! oxana: queues with a fixed concurrency.

use std::convert::Infallible;
use std::ops::Range;

use bench_peers::sending::{Sends, answer, queues};
use bench_peers::{Arguments, Role, role, run};
use oxana::{QueueConfig, Storage};
use serde::{Deserialize, Serialize};

const CHUNK: usize = 1000;

#[derive(Debug, Clone)]
struct State;

#[derive(Debug, Serialize, Deserialize)]
struct Call {
    task: String,
    arguments: Arguments,
}

impl oxana::Job for Call {}

#[derive(oxana::Worker)]
#[oxana(context = State, error = Infallible, job = Call, registry = None)]
struct Tasks;

impl Tasks {
    async fn process(&self, call: Call, _: &oxana::JobContext) -> Result<(), Infallible> {
        run(&call.task, call.arguments.number).await;
        Ok(())
    }
}

#[derive(Debug, Clone, Serialize)]
struct Queue(String);

impl oxana::Queue for Queue {
    fn key(&self) -> String {
        self.0.clone()
    }

    fn to_config() -> QueueConfig {
        QueueConfig::as_static("bench")
    }
}

#[tokio::main]
async fn main() {
    match role() {
        Role::Version => println!("oxana 2.5.0"),
        Role::Send(url) => {
            let storage = Storage::from_url(url).expect("an address");
            answer(Sender { storage, queues: queues().into_iter().map(Queue).collect() }).await;
        }
        Role::Work(url, concurrency) => {
            let names = queues();
            let storage = Storage::from_url(url).expect("an address");
            let mut runtime = storage.runtime(State).worker::<Tasks, Call>();
            for name in &names {
                let each = concurrency.div_ceil(names.len());
                runtime = runtime.queue_with(QueueConfig::as_static(name).concurrency(each));
            }
            // It hears SIGTERM by itself.
            runtime.run().await.expect("ends well");
        }
    }
}

#[derive(Clone)]
struct Sender {
    storage: Storage,
    queues: Vec<Queue>,
}

impl Sends for Sender {
    async fn bulk(&self, task: &str, numbers: Range<u64>, bytes: usize) {
        for (at, queue) in self.queues.iter().enumerate() {
            let own: Vec<u64> =
                numbers.clone().filter(|number| *number as usize % self.queues.len() == at).collect();
            for chunk in own.chunks(CHUNK) {
                let calls = chunk
                    .iter()
                    .map(|number| Call { task: task.into(), arguments: Arguments::new(*number, bytes) });
                self.storage.enqueue_list(queue.clone(), calls).await.expect("enqueued");
            }
        }
    }

    async fn one(&self, task: &str, number: u64) {
        let queue = self.queues[number as usize % self.queues.len()].clone();
        let call = Call { task: task.into(), arguments: Arguments::new(number, 0) };
        self.storage.enqueue(queue, call).await.expect("enqueued");
    }
}
