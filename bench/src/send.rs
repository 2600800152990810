//! What sends for `delayed`, and for the bare loops?

use std::ops::Range;
use std::process::ExitCode;
use std::time::Duration;

use delayed::Call;

use crate::bare;
use crate::isolation::tasks as isolated;
use crate::sending::{Sends, answer, queues};
use crate::tasks;

/// Sends what `words` name: an address, then `call` for tasks that are an `async fn`, `plain` for plain functions, `exec` for
/// tasks that start a program, and `hand-over` or `ping` for the bare loops.
pub fn serve(words: &[String]) -> ExitCode {
    let [url, way] = words else { return ExitCode::from(2) };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        match way.as_str() {
            "hand-over" => answer(bare::Hand::connect(url).await).await,
            "ping" => answer(bare::Ping::connect(url).await).await,
            _ => {
                let client = delayed::Client::connect(url).await.expect("connects");
                answer(Ours { client, exec: way == "exec", plain: way == "plain", queues: queues() }).await;
            }
        }
    });
    ExitCode::SUCCESS
}

#[derive(Clone)]
struct Ours {
    client: delayed::Client,
    exec: bool,
    /// Whether the tasks are plain functions.
    plain: bool,
    queues: Vec<String>,
}

impl Ours {
    fn call(&self, task: &str, number: u64, data: &[u8]) -> Call {
        let call = match task {
            task if self.exec => isolated::exec::call(task.into(), number),
            "count" if self.plain => tasks::count_plain::call(number),
            "mark" if self.plain => tasks::mark_plain::call(number),
            "mixed" if self.plain => tasks::mixed_plain::call(number),
            "carry" if self.plain => tasks::carry_plain::call(number, data.to_owned()),
            "count" => tasks::count::call(number),
            "mark" => tasks::mark::call(number),
            "mixed" => tasks::mixed::call(number),
            "later" => tasks::later::call(number).after(Duration::from_secs(1)),
            "unique" => tasks::unique::call(number),
            "carry" => tasks::carry::call(number, data.to_owned()),
            "note" => isolated::note::call(number),
            "sleep" => isolated::sleep::call(number),
            "spin" => isolated::spin::call(number),
            _ => panic!("no such task: {task}"),
        };
        call.queue(self.queues[number as usize % self.queues.len()].as_str())
    }
}

impl Sends for Ours {
    async fn bulk(&self, task: &str, numbers: Range<u64>, bytes: usize) {
        let data = vec![b'x'; bytes];
        let calls = numbers.map(|number| self.call(task, number, &data));
        self.client.enqueue_many(calls).await.expect("enqueued");
    }

    async fn one(&self, task: &str, number: u64) {
        self.client.enqueue(self.call(task, number, &[])).await.expect("enqueued");
    }
}
