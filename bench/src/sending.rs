//! How does a program in Rust send what the lines of its input ask for?

use std::future::Future;
use std::io::{Write, stdin, stdout};
use std::ops::Range;
use std::time::Duration;

use crate::clock::now;
use crate::tally::Tally;

/// The variable that names the queues, in turn, with commas between.
pub const QUEUES: &str = "BENCH_QUEUES";
const TICK: Duration = Duration::from_millis(1);

/// What can send.
pub trait Sends: Clone + Send + Sync + 'static {
    /// All of them, as fast as it knows; `bytes` is how much a call of `carry` carries.
    fn bulk(&self, task: &str, numbers: Range<u64>, bytes: usize) -> impl Future<Output = ()> + Send;
    /// A single one.
    fn one(&self, task: &str, number: u64) -> impl Future<Output = ()> + Send;
}

/// The queues that calls go to, by turns.
pub fn queues() -> Vec<String> {
    let names = std::env::var(QUEUES).unwrap_or_else(|_| "bench".into());
    names.split(',').map(str::to_owned).collect()
}

/// Answers lines `HOW TASK FIRST COUNT AMOUNT` until there are no more; each in a task, as programs send that serve.
pub async fn answer<S: Sends>(sender: S) {
    for line in stdin().lines() {
        let sender = sender.clone();
        let answered = tokio::spawn(async move { answer_one(&sender, &line.expect("reads")).await });
        answered.await.expect("sends");
    }
}

async fn answer_one<S: Sends>(sender: &S, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let [how, task, first, count, amount] = words[..] else { panic!("five words: {line}") };
    let number = |word: &str| word.parse::<u64>().expect("a number");
    let (first, count, amount) = (number(first), number(count), number(amount));
    let began = now();
    match how {
        "bulk" if count == 1 && task != "carry" => sender.one(task, first).await,
        "bulk" => sender.bulk(task, first..first + count, amount as usize).await,
        "each" => each(sender, task, first, count, amount).await,
        "paced" => paced(sender, task, first, count, amount).await,
        _ => panic!("bulk, each or paced: {line}"),
    }
    println!("{began} {}", now());
    stdout().flush().expect("is read");
}

/// One by one, from so many tasks at a time.
async fn each<S: Sends>(sender: &S, task: &str, first: u64, count: u64, tasks: u64) {
    let running: Vec<_> = (0..tasks)
        .map(|at| {
            let (sender, task) = (sender.clone(), task.to_owned());
            tokio::spawn(async move {
                for number in (first + at..first + count).step_by(tasks as usize) {
                    sender.one(&task, number).await;
                }
            })
        })
        .collect();
    for task in running {
        task.await.expect("sends");
    }
}

/// So many each second, whatever becomes of them. A call counts as sent when its turn had come, if that was missed.
async fn paced<S: Sends>(sender: &S, task: &str, first: u64, count: u64, rate: u64) {
    let (began, mut done) = (now(), 0);
    let tick = TICK.as_nanos() as u64;
    for turn in 1.. {
        let due = began + turn * tick;
        if let Some(wait) = due.checked_sub(now()) {
            // Of the thread: timers of the runtime know whole milliseconds only.
            std::thread::sleep(Duration::from_nanos(wait));
        }
        let end = count.min(turn * tick * rate / 1_000_000_000);
        if end > done {
            let sent = if now() > due + 2 * tick { due } else { now() };
            for number in done..end {
                Tally::of_environment().sent(first + number, sent);
            }
            sender.bulk(task, first + done..first + end, 0).await;
            done = end;
        }
        if done == count {
            return;
        }
    }
}
