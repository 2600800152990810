//! How is a typed function called with the arguments of a message? Types are erased here.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use serde::Serialize;

use crate::protocol::arguments::{ArgumentError, Arguments};
use crate::task::context::Scope;
use crate::task::error::TaskError;

/// A run of an asynchronous task: it owns its arguments.
pub type RunFuture = Pin<Box<dyn Future<Output = Result<(), TaskError>> + Send + 'static>>;

/// A function with its types erased: reads its arguments and runs.
#[derive(Clone, Copy)]
pub enum Handler {
    /// An `async fn`: the arguments are read at once, the future runs on the runtime.
    Async(for<'a> fn(Arguments<'a>, &Scope<'_>) -> Result<RunFuture, ArgumentError>),
    /// A `fn`: reads its arguments and runs to its end, on a blocking thread.
    Blocking(for<'a> fn(Arguments<'a>, &Scope<'_>) -> Result<Result<(), TaskError>, ArgumentError>),
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Async(_) => "Async",
            Self::Blocking(_) => "Blocking",
        })
    }
}

/// What a function returned. `Returned(value).settle()` picks the trait below that fits: a `Result` is
/// looked into, any other value is a success.
#[derive(Debug)]
pub struct Returned<T>(pub T);

/// For functions that return a `Result`.
pub trait FromResult {
    /// Success, or the error as a [`TaskError`].
    fn settle(self) -> Result<(), TaskError>;
}

impl<T: Serialize, E: fmt::Display + 'static> FromResult for Returned<Result<T, E>> {
    fn settle(self) -> Result<(), TaskError> {
        match self.0 {
            Ok(_) => Ok(()),
            Err(error) => Err(match (&error as &dyn Any).downcast_ref::<TaskError>() {
                Some(ours) => ours.clone(),
                None => TaskError::retry(format!("{error:#}")),
            }),
        }
    }
}

/// For functions that return anything else.
pub trait FromValue {
    /// Success.
    fn settle(self) -> Result<(), TaskError>;
}

impl<T: Serialize> FromValue for &Returned<T> {
    fn settle(self) -> Result<(), TaskError> {
        Ok(())
    }
}
