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

    /// What it shares.
    pub(crate) fn into_states(self) -> States {
        self.states
    }
}
