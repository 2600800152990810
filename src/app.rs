//! What does a program bring along? The values that it shares with its tasks.

use crate::task::States;

/// A program that is a worker, a sweeper and a tool: [`main`](Self::main) runs what its command line says.
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
}

impl App {
    /// A program that shares nothing with its tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shares `value` with all tasks that have a parameter [`State<T>`](crate::State); it replaces one of the same
    /// type.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// Shares a value that each process makes for itself when a task first asks for it; it replaces one of the same
    /// type. The way for whatever has connections or threads: a task with a process of its own cannot use those of the
    /// worker. When `make` panics, so does the run that asked.
    pub fn state_with<T: Send + Sync + 'static>(
        mut self,
        make: impl Fn() -> T + Send + Sync + 'static,
    ) -> Self {
        self.states.insert_with(make);
        self
    }

    /// What it shares.
    pub(crate) fn into_states(self) -> States {
        self.states
    }
}
