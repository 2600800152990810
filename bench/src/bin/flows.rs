//! A worker of this library, and what sends to it: flows, whose ends it waits for (`bench/flows`), and calls
//! (`bench/cluster`).

use std::time::{Duration, Instant};

use delayed::config::Config;
use delayed::{Client, Flow, IntoFlow, chain, group};

const PATIENCE: Duration = Duration::from_secs(60);
/// Between calls that are to find an idle worker.
const PACE: Duration = Duration::from_millis(1);
/// How long results are kept, and how far ahead calls are scheduled.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);

#[delayed::task]
async fn number(n: u64) -> u64 {
    n
}

#[delayed::task]
async fn add(sum: u64, n: u64) -> u64 {
    sum + n
}

#[delayed::task]
async fn sum(numbers: Vec<u64>) -> u64 {
    numbers.iter().sum()
}

fn chain_of(steps: u64) -> Flow<u64> {
    (1..steps).fold(chain(number::call(1)), |flow, _| flow.then(add::step(1))).into_flow()
}

fn group_of(members: u64) -> Flow<u64> {
    group((0..members).map(|_| number::call(1))).then(sum::step()).into_flow()
}

async fn send(url: &str, kind: &str, flows: usize, size: u64) -> Result<f64, Box<dyn std::error::Error>> {
    let client = Client::connect(url).await?;
    let begun = Instant::now();
    let mut handles = Vec::new();
    for _ in 0..flows {
        let flow = if kind == "chain" { chain_of(size) } else { group_of(size) };
        handles.push(client.enqueue_flow(flow).await?);
    }
    for handle in handles {
        let result = handle.wait(PATIENCE).await?;
        assert_eq!(result, size, "expected the flow to add up");
    }
    Ok(begun.elapsed().as_secs_f64())
}

/// Enqueues calls in a way: the seconds that it takes.
async fn enqueue(url: &str, queue: &str, calls: usize, way: &str) -> Result<f64, Box<dyn std::error::Error>> {
    let mut config = Config::default();
    config.redis.url = url.into();
    if way == "confirmed" {
        config.client.durability = "replicas(1)".parse()?;
    }
    let client = Client::with_config(&config).await?;
    let begun = Instant::now();
    let call = || number::call(1).queue(queue);
    match way {
        "in bulk" => drop(client.enqueue_many((0..calls).map(|_| call())).await?),
        "kept" => drop(client.enqueue_many((0..calls).map(|_| call().keep(LONG))).await?),
        "later" => drop(client.enqueue_many((0..calls).map(|_| call().after(LONG))).await?),
        _ => {
            for _ in 0..calls {
                client.enqueue(call()).await?;
                if way == "paced" {
                    std::thread::sleep(PACE);
                }
            }
        }
    }
    Ok(begun.elapsed().as_secs_f64())
}

fn main() -> std::process::ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [command, url, what, count, how] = &words[..] else { return delayed::main() };
    if !["send", "enqueue"].contains(&command.as_str()) {
        return delayed::main();
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let count = count.parse().expect("a number");
    let took = runtime.block_on(async {
        if command == "send" {
            send(url, what, count, how.parse()?).await
        } else {
            enqueue(url, what, count, how).await
        }
    });
    println!("{}", took.expect("all are sent, and the flows end"));
    std::process::ExitCode::SUCCESS
}
