//! Says why a flow is refused.

use crate::protocol::names::NameError;

/// The longest chain of groups and chains inside each other.
pub(crate) const MAX_NESTING: usize = 32;

/// The most steps of a flow.
pub(crate) const MAX_STEPS: usize = 1_000_000;

/// Why a flow cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A part is none of a step, a chain and a group, or several of them.
    #[error("a part of a flow is one of a step, a chain and a group, and this one is not")]
    Part,
    /// A chain has no parts.
    #[error("a chain has at least one part")]
    EmptyChain,
    /// Chains and groups are nested too deeply.
    #[error(
        "chains and groups of a flow are nested more than {MAX_NESTING} deep: pass results on in fewer levels"
    )]
    TooDeep,
    /// A step is a call of a worker that does not say how it ended.
    #[error(
        "`{task}` cannot be a step of a flow: a worker of Python or Go does not say how a call ended; let a task in Rust enqueue it"
    )]
    Foreign {
        /// The path of its task.
        task: String,
    },
    /// A step is a flow itself.
    #[error("a flow cannot be a step of another one: use its chain or group as a part")]
    Flow,
    /// What runs if a flow fails is no single call.
    #[error("what runs if a flow fails is a single call or step: let it enqueue another flow")]
    OnError,
    /// A step is to make room in a full queue.
    #[error(
        "`{task}` is a step of a flow, which waits while its queue is full: leave out `Overflow::BuryOldest`"
    )]
    Overflow {
        /// The path of its task.
        task: String,
    },
    /// A step has the name of no queue.
    #[error(transparent)]
    Queue(Box<NameError>),
    /// It has too many steps.
    #[error("a flow has at most {MAX_STEPS} steps: make several flows")]
    TooLarge,
}
