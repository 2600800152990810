//! Tasks that show what surrounds a run: its headers and layers.

use std::time::Duration;

use delayed::worker::RunReport;
use delayed::{App, Context, Next, State, TaskError};
use tracing::Instrument;

use super::trials::note;

tokio::task_local! {
    /// Set by a layer.
    static TENANT: String;
}

/// The program with what its variables ask for.
pub(super) fn surround(app: App) -> App {
    let app = app.state_with(|| Late("late"));
    match std::env::var("LAYERS").as_deref() {
        Ok("quiet") => app.layer(quiet),
        Ok("client") => app.client_layer(|call, next| next.enqueue(call.header("from", "client layer"))),
        Ok("hooks") => hooked(app),
        Ok(_) => app.layer(outer).layer(inner),
        Err(_) => app,
    }
}

/// Notes what its hooks are told, and the process in which they are called.
fn hooked(app: App) -> App {
    let main = std::process::id();
    let told = move |hook: &'static str| {
        move |run: &RunReport<'_>| {
            let is_here = std::process::id() == main;
            note(&format!(
                "{hook} {} {} {} {} {:?} {:?} {:?} {is_here} {}",
                run.task(),
                run.queue(),
                run.attempt(),
                run.reason(),
                run.error(),
                run.header("tenant"),
                run.retries_after().map(|delay| delay.is_zero()),
                run.duration().is_some(),
            ));
        }
    };
    let panics = |run: &RunReport<'_>| assert!(run.header("tenant").is_none(), "a hook panics");
    let app = app.on_success(panics).on_failure(panics).on_burial(panics);
    app.on_success(told("success")).on_failure(told("failure")).on_burial(told("burial"))
}

/// Waits, and leaves nothing behind.
async fn quiet(_: Context, next: Next) -> Result<(), TaskError> {
    tokio::time::sleep(Duration::from_millis(1)).await;
    next.run().await
}

async fn outer(ctx: Context, next: Next) -> Result<(), TaskError> {
    note(&format!("> outer {} {} {} {}", ctx.task(), ctx.queue(), ctx.attempt(), headers(&ctx)));
    let result = next.run().await;
    note(&format!("< outer {result:?}"));
    result
}

async fn inner(ctx: Context, next: Next) -> Result<(), TaskError> {
    note("> inner");
    // Timers work around every task.
    tokio::time::sleep(Duration::from_millis(1)).await;
    match ctx.header("inner") {
        Some("refuses") => return Err(TaskError::fatal("refused by a layer")),
        Some("skips") => return Ok(()),
        Some("panics") => panic!("a layer panics"),
        Some("waits") => std::future::pending().await,
        _ => {}
    }
    let tenant = ctx.header("tenant").unwrap_or("nobody").to_owned();
    let span = tracing::info_span!("for_tenant", tenant);
    let result = TENANT.scope(tenant, next.run()).instrument(span).await;
    note("< inner");
    result
}

/// Sees what its layers have set up.
#[delayed::task(name = "layers.inside", retry = 1, backoff = none)]
async fn inside(n: String) -> Result<(), String> {
    tracing::info!("inside of layers");
    note(&format!("{n} for {}", TENANT.with(Clone::clone)));
    if n == "fails" { Err("it fails".into()) } else { Ok(()) }
}

/// The same of a function that blocks, and that waits in a runtime of its own accord.
#[delayed::task(name = "layers.inside_blocking", retry = 1, backoff = none)]
fn inside_blocking(n: String, ctx: Context) -> Result<(), String> {
    tracing::info!("inside of layers");
    note(&format!("{n} for {}", TENANT.with(Clone::clone)));
    let call = delayed::GoTask::new("nobody").queue("elsewhere");
    ctx.client().enqueue_blocking(call).map_err(|error| error.to_string())?;
    if n == "fails" { Err("it fails".into()) } else { Ok(()) }
}

/// Its headers, in one line.
fn headers(ctx: &Context) -> String {
    ctx.headers().map(|(name, value)| format!("{name}={value:?}")).collect::<Vec<_>>().join(" ")
}

/// Notes its headers, and is tried again in every way.
#[delayed::task(name = "layers.headers", retry = 2, backoff = none)]
async fn with_headers(n: String, ctx: Context) -> Result<(), TaskError> {
    note(&format!("{n} {} {}", ctx.attempt(), headers(&ctx)));
    match ctx.attempt() {
        1 => Err(TaskError::retry("once more, at once")),
        2 => Err(TaskError::retry_after(Duration::from_millis(50), "once more, later")),
        _ => Err(TaskError::fatal("no more")),
    }
}

#[delayed::task(name = "layers.headers_blocking")]
fn with_headers_blocking(n: String, ctx: Context) {
    note(&format!("{n} {} {:?}", headers(&ctx), ctx.header("absent")));
}

#[delayed::task(name = "layers.sends")]
async fn sends(n: String, ctx: Context) -> Result<(), delayed::Error> {
    ctx.client().enqueue(with_headers_blocking::call(n).queue("q")).await.map(drop)
}

#[delayed::task(name = "layers.sends_blocking")]
fn sends_blocking(n: String, ctx: Context) -> Result<(), delayed::Error> {
    ctx.client().enqueue_blocking(with_headers_blocking::call(n).queue("q")).map(drop)
}

#[delayed::task(name = "layers.quiet")]
async fn quietly() {}

#[delayed::task(name = "layers.quiet_blocking")]
fn quietly_blocking() {}

/// Made when a task first needs it.
pub(super) struct Late(pub(super) &'static str);

#[delayed::task(name = "layers.late_state")]
async fn late_state(n: String, late: State<Late>) {
    note(&format!("{n} of {}", late.0));
}

#[delayed::task(name = "layers.fails", retry = 1, backoff = none)]
async fn fails() -> Result<(), String> {
    Err("it fails".into())
}

/// Its trace context, in one line.
fn trace(ctx: &Context) -> String {
    format!("{:?} {:?}", ctx.traceparent(), ctx.tracestate())
}

/// Enqueues the rest of a chain, with a trace context of its own if it is given one.
#[delayed::task(name = "layers.traced")]
pub(crate) async fn traced(n: u32, own: Option<String>, ctx: Context) -> Result<(), TaskError> {
    tracing::info!("inside of a trace");
    note(&format!("{n} {}", trace(&ctx)));
    tokio::task::yield_now().await;
    let client = ctx.client();
    match n {
        0 => Ok(()),
        1 => Ok(client.enqueue(traced_blocking::call(0, None).queue("q")).await.map(drop)?),
        _ => {
            let call = traced_blocking::call(n - 1, None).queue("q");
            client.enqueue_many([call.traceparent(own.unwrap_or_default())]).await?;
            Ok(())
        }
    }
}

#[delayed::task(name = "layers.traced_blocking")]
fn traced_blocking(n: u32, own: Option<String>, ctx: Context) -> Result<(), delayed::Error> {
    tracing::info!("inside of a trace");
    note(&format!("{n} {}", trace(&ctx)));
    match n {
        0 => Ok(()),
        n => ctx
            .client()
            .enqueue_blocking(traced::call(n - 1, None).queue("q").traceparent(own.unwrap_or_default()))
            .map(drop),
    }
}
