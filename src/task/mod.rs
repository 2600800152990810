//! What is a task? Its handler, its registry, what it may ask for and what it may answer.
//! Knows neither Redis nor processes.

pub mod argument;
pub mod call;
pub mod cancellation;
pub mod context;
pub mod error;
pub mod foreign;
pub mod handler;
pub mod registration;
pub mod registry;
pub mod state;

pub use self::call::Call;
pub use self::cancellation::Cancellation;
pub use self::context::{Context, Scope};
pub use self::error::TaskError;
pub use self::foreign::{GoTask, PyTask};
pub use self::handler::Handler;
pub use self::registration::{Registration, Task, TaskOptions};
pub use self::registry::{MissingState, Registry, RegistryError};
pub use self::state::{State, StateType, States};
