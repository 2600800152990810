//! Surrounds enqueues and runs with layers, and counts outcomes with hooks. Headers and a trace context travel with the
//! calls. Needs a Redis, whose address is the only argument, and runs the worker in this process. A program with
//! `delayed::main()` adds the same layers and hooks to its `App`.

#![expect(clippy::print_stdout, reason = "it shows what the layers see")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use delayed::{Call, Client, Context, Enqueued, Error, Next, NextEnqueue, TaskError, Worker};

/// The trace of the program that enqueues. `examples/opentelemetry.rs` takes it from the current span.
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A layer of a client: each call has a header with its tenant, and some are refused.
async fn for_acme(call: Call, next: NextEnqueue) -> Result<Enqueued, Error> {
    if call.task() == "middleware::close_shop" {
        return Err(Error::refused("acme may not close the shop"));
    }
    next.enqueue(call.header("tenant", "acme")).await
}

/// A layer around runs.
async fn logged(ctx: Context, next: Next) -> Result<(), TaskError> {
    let result = next.run().await;
    let outcome = if result.is_ok() { "succeeded" } else { "failed" };
    println!("{} {outcome} in attempt {}", ctx.task(), ctx.attempt());
    result
}

#[delayed::task]
async fn invoice(month: String, ctx: Context) -> Result<(), TaskError> {
    let tenant = ctx.header("tenant").ok_or_else(|| TaskError::fatal("the call has no tenant"))?;
    println!("invoice of {tenant} for {month}");
    ctx.client().enqueue(mail::call(month).header("tenant", tenant)).await?;
    Ok(())
}

/// Its call has the trace of the one that enqueued it.
#[delayed::task]
async fn mail(month: String, ctx: Context) {
    let trace = ctx.traceparent().and_then(|parent| parent.split('-').nth(1)).unwrap_or("none");
    println!("mail to {} for {month}, trace {trace}", ctx.header("tenant").unwrap_or("nobody"));
}

#[delayed::task]
async fn close_shop() {}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("give the address of a Redis")?;
    let client = Client::connect(&url).await?;
    let acme = client.clone().layer(for_acme);

    acme.enqueue(invoice::call("May".into()).traceparent(TRACE)).await?;
    if let Err(error) = acme.enqueue(close_shop::call()).await {
        println!("{error}");
    }

    client.enqueue(invoice::call("June".into()).header("tenant", "zeta")).await?;

    client.enqueue(invoice::call("July".into())).await?;
    let succeeded = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&succeeded);

    let worker = Worker::builder(&url)
        .concurrency(1)
        .burst(true)
        .layer(logged)
        .on_success(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        })
        .on_failure(|run| println!("alert: {}: {}", run.task(), run.error().unwrap_or_default()))
        .on_burial(|run| println!("buried: {} ({})", run.task(), run.reason()))
        .connect()
        .await?;

    worker.run().await?;
    println!("{} runs succeeded", succeeded.load(Ordering::Relaxed));
    Ok(())
}
