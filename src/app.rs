//! Holds what a program gives its tasks: the values that they share, layers around them, and hooks.

use crate::client::{ClientLayers, Enqueued, NextEnqueue};
use crate::error::Error;
use crate::task::{Call, Context, Layers, Next, States, TaskError};
use crate::worker::{Hooks, RunReport, When};

/// A program that is worker, sweeper and command-line tool: [`main`](Self::main) runs the command in its arguments.
///
/// ```no_run
/// use delayed::State;
///
/// struct Greeting(String);
///
/// #[delayed::task]
/// fn greet(name: String, greeting: State<Greeting>) {
///     println!("{}, {name}!", greeting.0);
/// }
///
/// fn main() -> std::process::ExitCode {
///     delayed::App::new().state(Greeting("Hello".into())).main()
/// }
/// ```
#[derive(Debug, Default)]
#[must_use = "an App does nothing until `main` is called"]
pub struct App(Parts);

/// What a program is made of.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    pub(crate) states: States,
    pub(crate) layers: Layers,
    pub(crate) client_layers: ClientLayers,
    pub(crate) hooks: Hooks,
    pub(crate) version: Option<String>,
}

impl App {
    /// Creates a program that shares nothing with its tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the version of the program, usually `env!("CARGO_PKG_VERSION")`. `--version` prints it, with that of this library; so
    /// does `workers`.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.0.version = Some(version.into());
        self
    }

    /// Shares `value` with all tasks that have a parameter [`State<T>`](crate::State). It replaces a value of the same type.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.0.states.insert(value);
        self
    }

    /// Shares a value that each process creates when a task first needs it. It replaces a value of the same type. Use it for
    /// connection pools, clients and threads: an isolated task cannot use those of the worker.
    ///
    /// For an `async fn`, `make` runs inside the tokio runtime, on a thread that may block: it can call a function that needs a
    /// runtime, such as `sqlx::PgPool::connect_lazy`, or `tokio::runtime::Handle::current().block_on(…)`. If it panics, so does the
    /// run.
    pub fn state_with<T: Send + Sync + 'static>(
        mut self,
        make: impl Fn() -> T + Send + Sync + 'static,
    ) -> Self {
        self.0.states.insert_with(make);
        self
    }

    /// Adds a layer around each run, inside of those added before: an async function that is given the context of the run and the
    /// rest of it, in every isolation. It can time the run, put it into a span, or end it before it begins.
    ///
    /// ```no_run
    /// use delayed::{App, Context, Next, TaskError};
    ///
    /// /// Runs only calls of known tenants.
    /// async fn for_tenants(ctx: Context, next: Next) -> Result<(), TaskError> {
    ///     match ctx.header("tenant") {
    ///         Some("acme") => next.run().await,
    ///         other => Err(TaskError::fatal(format!("unknown tenant: {other:?}"))),
    ///     }
    /// }
    ///
    /// fn main() -> std::process::ExitCode {
    ///     App::new().layer(for_tenants).main()
    /// }
    /// ```
    ///
    /// [`WorkerBuilder::layer`](crate::worker::WorkerBuilder::layer) has the rules.
    pub fn layer<F>(mut self, layer: impl Fn(Context, Next) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), TaskError>> + Send + 'static,
    {
        self.0.layers.push(layer);
        self
    }

    /// Adds a layer around each enqueue of the client that tasks have from [`Context::client`]: see
    /// [`Client::layer`](crate::Client::layer).
    pub fn client_layer<F>(mut self, layer: impl Fn(Call, NextEnqueue) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Enqueued, Error>> + Send + 'static,
    {
        self.0.client_layers.push(layer);
        self
    }

    /// Adds a hook for runs that succeeded: see [`WorkerBuilder::on_success`](crate::worker::WorkerBuilder::on_success).
    pub fn on_success(mut self, hook: impl Fn(&RunReport<'_>) + Send + Sync + 'static) -> Self {
        self.0.hooks.push(When::Success, hook);
        self
    }

    /// Adds a hook for attempts that failed: see [`WorkerBuilder::on_failure`](crate::worker::WorkerBuilder::on_failure).
    pub fn on_failure(mut self, hook: impl Fn(&RunReport<'_>) + Send + Sync + 'static) -> Self {
        self.0.hooks.push(When::Failure, hook);
        self
    }

    /// Adds a hook for calls that become dead letters: see
    /// [`WorkerBuilder::on_burial`](crate::worker::WorkerBuilder::on_burial).
    ///
    /// ```no_run
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// static BURIED: AtomicU64 = AtomicU64::new(0);
    ///
    /// fn main() -> std::process::ExitCode {
    ///     let count = |_: &delayed::worker::RunReport<'_>| drop(BURIED.fetch_add(1, Ordering::Relaxed));
    ///     delayed::App::new().on_burial(count).main()
    /// }
    /// ```
    pub fn on_burial(mut self, hook: impl Fn(&RunReport<'_>) + Send + Sync + 'static) -> Self {
        self.0.hooks.push(When::Burial, hook);
        self
    }

    pub(crate) fn into_parts(self) -> Parts {
        self.0
    }
}
