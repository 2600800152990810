//! Traces of OpenTelemetry go through the queue: the span of a run is a child of the span that enqueued its call. Needs a
//! Redis, whose address is the only argument, and runs the worker in this process.

#![expect(clippy::print_stdout, reason = "it shows that both spans are in one trace")]

use std::collections::HashMap;
use std::time::Duration;

use delayed::{Call, Client, Context, Enqueued, Error, Next, NextEnqueue, TaskError, Worker};
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::{Instrument, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// A layer of the client: the call belongs to the trace of the current span.
async fn inject(call: Call, next: NextEnqueue) -> Result<Enqueued, Error> {
    let mut carrier = HashMap::new();
    TraceContextPropagator::new().inject_context(&Span::current().context(), &mut carrier);
    let mut take = |name| carrier.remove(name).unwrap_or_default();
    next.enqueue(call.traceparent(take("traceparent")).tracestate(take("tracestate"))).await
}

/// A layer around runs: its span is a child of the span that enqueued the call.
async fn extract(ctx: Context, next: Next) -> Result<(), TaskError> {
    let pairs = [("traceparent", ctx.traceparent()), ("tracestate", ctx.tracestate())];
    let carrier = pairs.map(|(name, text)| (name.to_owned(), text.unwrap_or_default().to_owned()));
    let parent = TraceContextPropagator::new().extract(&HashMap::from(carrier));
    let span = tracing::info_span!("task", otel.name = ctx.task());
    let _ = span.set_parent(parent);
    next.run().instrument(span).await
}

/// The trace of the current span.
fn trace() -> String {
    Span::current().context().span().span_context().trace_id().to_string()
}

#[delayed::task(keep = "1m")]
async fn pay(order: u64) -> String {
    println!("order {order} is paid");
    trace()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("give the address of a Redis")?;
    // With an exporter, the spans are sent to a collector.
    let provider = SdkTracerProvider::builder().build();
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("shop"));
    tracing_subscriber::registry().with(spans).init();

    let client = Client::connect(&url).await?.layer(inject);
    let worker = Worker::builder(&url).layer(extract).connect().await?;

    let (handle, running) = (worker.handle(), tokio::spawn(worker.run()));
    let request = async {
        let paid = client.enqueue(pay::call(7)).await?;
        let run = paid.wait(Duration::from_secs(60)).await?;
        println!("the request and the run are in one trace: {}", run == trace());
        Ok::<_, Box<dyn std::error::Error>>(())
    };
    request.instrument(tracing::info_span!("request")).await?;
    handle.stop();
    running.await??;
    Ok(())
}
