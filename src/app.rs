//! Holds the values that a program shares with its tasks.

use crate::task::States;

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
pub struct App {
    states: States,
    version: Option<String>,
}

impl App {
    /// Creates a program that shares nothing with its tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the version of the program, usually `env!("CARGO_PKG_VERSION")`. `--version` prints it, with that of this library; so
    /// does `workers`.
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Shares `value` with all tasks that have a parameter [`State<T>`](crate::State). It replaces a value of the same type.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
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
        self.states.insert_with(make);
        self
    }

    /// The shared values, and the version of the program.
    pub(crate) fn into_parts(self) -> (States, Option<String>) {
        (self.states, self.version)
    }
}
