//! Adds what surrounds the runs of a worker: layers, and hooks for their outcomes.

use super::WorkerBuilder;
#[cfg(feature = "cli")]
use crate::task::Layers;
use crate::task::{Context, Next, TaskError};
#[cfg(feature = "cli")]
use crate::worker::hooks::Hooks;
use crate::worker::hooks::{RunReport, When};

impl WorkerBuilder {
    /// Adds a layer around each run, inside those added before: an async function that gets the context of the run and the
    /// rest of the run.
    ///
    /// ```no_run
    /// use delayed::{Context, Next, TaskError};
    ///
    /// /// Prints how long each run takes.
    /// async fn timed(ctx: Context, next: Next) -> Result<(), TaskError> {
    ///     let began = std::time::Instant::now();
    ///     let result = next.run().await;
    ///     println!("{} took {:?}", ctx.task(), began.elapsed());
    ///     result
    /// }
    ///
    /// # async fn example() -> Result<(), delayed::Error> {
    /// let worker = delayed::Worker::builder("redis://127.0.0.1:6379").layer(timed).connect().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// The first layer added is the outermost. The result of the outermost layer is the result of the run: if a layer
    /// returns an error, the run fails; if it returns `Ok(())`, the run succeeds, whether or not it called [`Next::run`]. A
    /// panic in a layer is a panic of the run. Layers count toward the timeout of the run, and are dropped with it.
    ///
    /// Layers see only calls whose arguments fit their task. [`Context::is_cancelled`] and [`Context::deadline`] are what the task
    /// sees: if it has no parameter [`Context`], the run is never cancelled and has no deadline there. Around a plain `fn`, layers
    /// run on the thread of the function; they may wait, but occupy the thread meanwhile and cannot be dropped. Around an isolated
    /// run, they run in its process: give the [`Zygote`](crate::Zygote) the same layers, with
    /// [`ZygoteBuilder::layer`](crate::ZygoteBuilder::layer).
    #[must_use]
    pub fn layer<F>(mut self, layer: impl Fn(Context, Next) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), TaskError>> + Send + 'static,
    {
        self.layers.push(layer);
        self
    }

    /// Surrounds each run with these layers, in place of those given before.
    #[cfg(feature = "cli")]
    pub(crate) fn layers(mut self, layers: Layers) -> Self {
        self.layers = layers;
        self
    }

    /// Adds a hook for runs that succeeded. See [`on_failure`](Self::on_failure).
    #[must_use]
    pub fn on_success(mut self, hook: impl Fn(&RunReport<'_>) + Send + Sync + 'static) -> Self {
        self.hooks.push(When::Success, hook);
        self
    }

    /// Adds a hook for attempts that failed: the task returned an error or panicked, its time was up, or its process
    /// crashed, exceeded a limit or was killed. Runs that snoozed, or were put back because the worker stops, do not call
    /// it.
    ///
    /// The worker calls its hooks in its own process, after it has decided what happens to the message and before it tells
    /// Redis. If the worker dies in between, the call runs again, and the hooks are called again. Hooks run on the thread
    /// that claims and settles all calls, so they must not block: count, or send to a channel. A hook that panics is logged
    /// and changes nothing.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), delayed::Error> {
    /// let (failures, received) = std::sync::mpsc::channel();
    /// let worker = delayed::Worker::builder("redis://127.0.0.1:6379")
    ///     .on_failure(move |run| {
    ///         let error = run.error().unwrap_or_default();
    ///         let _ = failures.send(format!("{} failed in attempt {}: {error}", run.task(), run.attempt()));
    ///     })
    ///     .connect()
    ///     .await?;
    /// # drop((worker, received));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn on_failure(mut self, hook: impl Fn(&RunReport<'_>) + Send + Sync + 'static) -> Self {
        self.hooks.push(When::Failure, hook);
        self
    }

    /// Adds a hook for calls that become dead letters. If the call has run, this hook follows the one for the failure. It
    /// is also called for calls that did not run: unknown tasks, arguments that do not fit, expired calls, and malformed
    /// messages. And it is called for calls that a sweep of this worker buries because they took their workers down; then
    /// it runs after the burial, on another thread of the runtime. Burials by other sweepers do not call it. See
    /// [`on_failure`](Self::on_failure).
    #[must_use]
    pub fn on_burial(mut self, hook: impl Fn(&RunReport<'_>) + Send + Sync + 'static) -> Self {
        self.hooks.push(When::Burial, hook);
        self
    }

    /// Calls these hooks, in place of those given before.
    #[cfg(feature = "cli")]
    pub(crate) fn hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = hooks;
        self
    }
}
