//! Which tasks are there? (stub)
use crate::protocol::arguments::Param;
use crate::task::context::StateType;
use crate::task::handler::Handler;

/// A function that was marked with `#[delayed::task]`; implemented by the macro.
pub trait Task {
    /// All that is known of it.
    fn registration() -> &'static Registration;
}

/// The options of a task, as its attribute gives them.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct TaskOptions {
    /// The queue of its calls; none is `default`.
    pub queue: Option<&'static str>,
    /// How often a call that failed is tried again; negative is for ever.
    pub retry: i64,
}

impl TaskOptions {
    /// No options: the queue `default`, no retry.
    pub const DEFAULT: Self = Self { queue: None, retry: 0 };
}

/// All that is known of a task.
#[derive(Debug, Clone, Copy)]
pub struct Registration {
    /// Its path on the wire.
    pub name: &'static str,
    /// Where it stands: `file:line`.
    pub location: &'static str,
    /// Its doc comment.
    pub doc: &'static str,
    /// The parameters that travel.
    pub params: &'static [Param],
    /// What it returns, as written.
    pub returns: &'static str,
    /// Its options.
    pub options: TaskOptions,
    /// The states that it asks for.
    pub states: &'static [StateType],
    /// How it is called.
    pub handler: Handler,
}

inventory::collect!(&'static Registration);

/// The tasks that a worker can run, by name.
#[derive(Debug, Clone, Default)]
pub struct Registry {}

/// Why a registry could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("registry")]
pub struct RegistryError;
