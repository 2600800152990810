//! A program that has a worker and is more than that: EMBEDDER says how it goes about it, REDIS where Redis is.

use std::error::Error;
use std::process::ExitCode;

use delayed::States;
use delayed::{Client, Worker, Zygote};

use crate::Greeting;
use crate::trials::OwnClient;

pub(crate) fn main(kind: &str) -> ExitCode {
    match run(kind) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut text = error.to_string();
            let mut source = error.source();
            while let Some(error) = source {
                text = format!("{text}: {error}");
                source = error.source();
            }
            eprintln!("refused: {text}");
            ExitCode::FAILURE
        }
    }
}

fn run(kind: &str) -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDIS")?;
    let mut states = States::new();
    states.insert(Greeting("Hello"));
    states.insert(crate::isolation::Files::default());
    states.insert_with(OwnClient::connect);
    states.insert_with(|| crate::layers::Late("late"));
    let zygote = match kind {
        "first" | "exits" | "is exited" | "with a subscriber" => {
            Some(Zygote::builder().states(states.clone()).start()?)
        }
        "with a client" => Some(Zygote::builder().states(states.clone()).state(Client::lazy(&url)).start()?),
        "after threads" => {
            std::thread::spawn(|| {
                loop {
                    std::thread::park()
                }
            });
            Some(Zygote::builder().states(states.clone()).start()?)
        }
        "never" => None,
        _ => return Err(format!("no kind {kind:?}").into()),
    };
    if kind == "with a subscriber" {
        tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    }
    tokio::runtime::Runtime::new()?.block_on(async {
        let mut builder = Worker::builder(&url).queue("q").burst(true).states(states);
        if let Some(zygote) = zygote {
            builder = builder.zygote(zygote);
        }
        let worker = builder.connect().await?;
        if kind == "exits" {
            // As soon as a task runs.
            std::thread::spawn(|| {
                let ledger = std::env::var_os("LEDGER").expect("LEDGER names the file for the runs");
                while std::fs::read(&ledger).unwrap_or_default().is_empty() {
                    std::thread::park_timeout(std::time::Duration::from_millis(2));
                }
                std::process::exit(3)
            });
        }
        worker.run().await?;
        Ok(())
    })
}
