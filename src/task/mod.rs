//! What is a task? Its handler, its registry, what it may ask for and what it may answer.
//! Knows neither Redis nor processes.

pub mod call;
pub mod context;
pub mod error;
pub mod handler;
pub mod registry;

pub use self::call::Call;
pub use self::context::{Context, Scope, State, StateType, States};
pub use self::error::TaskError;
pub use self::registry::{Registration, Registry, RegistryError, Task, TaskOptions};
