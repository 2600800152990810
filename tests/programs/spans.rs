//! A program with a tracer provider of its own, which prints spans.

use std::process::ExitCode;

use delayed::{Client, Registry, Worker};
use opentelemetry::trace::{TraceContextExt, Tracer};
use opentelemetry::{Context, global};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};

/// Prints the name, the trace, the id and the parent of each span.
#[derive(Debug)]
struct Printer;

impl SpanExporter for Printer {
    async fn export(&self, spans: Vec<SpanData>) -> OTelSdkResult {
        for span in spans {
            let context = &span.span_context;
            println!(
                "span {}|{}|{}|{}",
                span.name,
                context.trace_id(),
                context.span_id(),
                span.parent_span_id
            );
        }
        Ok(())
    }
}

/// Enqueues a call within a span of its own, without and with spans of calls, and runs both.
pub(crate) fn main(url: &str) -> ExitCode {
    let provider = SdkTracerProvider::builder().with_simple_exporter(Printer).build();
    global::set_tracer_provider(provider.clone());
    let client = Client::connect_blocking(url).expect("it connects");
    let call = super::layers::traced::call(0, None).queue("q");
    {
        let span = global::tracer("shop").start("order");
        let _current = Context::current_with_span(span).attach();
        client.enqueue_blocking(call.clone()).expect("it is enqueued");
        delayed::otel::enable();
        client.enqueue_blocking(call).expect("it is enqueued");
    }
    let registry = Registry::new().with::<super::layers::traced>().expect("a task");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let run = async {
        let worker = Worker::builder(url).registry(registry).queue("q").burst(true).connect().await?;
        worker.run().await
    };
    runtime.block_on(run).expect("it runs both");
    delayed::otel::disable();
    provider.shutdown().expect("it shuts down");
    ExitCode::SUCCESS
}
