//! Flows of this library, for `bench/flows`: a worker, and a sender that waits for the ends of its flows.

use std::time::{Duration, Instant};

use delayed::{Client, Flow, IntoFlow, chain, group};

const PATIENCE: Duration = Duration::from_secs(60);

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

fn main() -> std::process::ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [command, url, kind, flows, size] = &words[..] else { return delayed::main() };
    if command != "send" {
        return delayed::main();
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    let sent =
        runtime.block_on(send(url, kind, flows.parse().expect("a number"), size.parse().expect("a number")));
    println!("{}", sent.expect("the flows end"));
    std::process::ExitCode::SUCCESS
}
