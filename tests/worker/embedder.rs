//! A program that has a worker and is more than that: EMBEDDER says how it goes about it, REDIS where Redis is.

use std::error::Error;
use std::process::ExitCode;

use delayed::{Worker, Zygote};

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
    let zygote = match kind {
        "first" => Some(Zygote::builder().state(super::Greeting("Hello")).start()?),
        "after threads" => {
            std::thread::spawn(|| {
                loop {
                    std::thread::park()
                }
            });
            Some(Zygote::builder().state(super::Greeting("Hello")).start()?)
        }
        "never" => None,
        _ => return Err(format!("no kind {kind:?}").into()),
    };
    let url = std::env::var("REDIS")?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let mut builder = Worker::builder(&url).queue("q").burst(true).state(super::Greeting("Hello"));
        if let Some(zygote) = zygote {
            builder = builder.zygote(zygote);
        }
        builder.connect().await?.run().await?;
        Ok(())
    })
}
