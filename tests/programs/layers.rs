//! Tasks that show what surrounds a run: its headers.

use std::time::Duration;

use delayed::{Context, TaskError};

use super::trials::note;

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
