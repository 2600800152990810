//! Erases the types of a function, so that a worker can call it with the arguments of a message.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use serde::Serialize;

use crate::protocol::arguments::{ArgumentError, Arguments};
use crate::task::context::Scope;
use crate::task::error::{TaskError, chain};
use crate::task::return_value::ReturnValue;

/// What a run came to: what the function returned, or why it failed.
pub type Answered = Result<ReturnValue, TaskError>;

/// A run of an asynchronous task: it owns its arguments.
pub type RunFuture = Pin<Box<dyn Future<Output = Answered> + Send + 'static>>;

/// A function with its types erased: reads its arguments and runs.
#[derive(Clone, Copy)]
pub enum Handler {
    /// An `async fn`: the arguments are read at once, the future runs on the runtime.
    Async(for<'a> fn(Arguments<'a>, &Scope<'_>) -> Result<RunFuture, ArgumentError>),
    /// A `fn`: reads its arguments and runs to its end, on a blocking thread.
    Blocking(for<'a> fn(Arguments<'a>, &Scope<'_>) -> Result<Answered, ArgumentError>),
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Async(_) => "Async",
            Self::Blocking(_) => "Blocking",
        })
    }
}

/// The future of a run, with its type erased.
pub fn boxed(future: impl Future<Output = Answered> + Send + 'static) -> RunFuture {
    Box::pin(future)
}

/// What a task may answer.
#[diagnostic::on_unimplemented(
    message = "a task cannot return `{Self}`: it does not implement `serde::Serialize`",
    label = "this cannot be encoded as a result",
    note = "add `#[derive(serde::Serialize)]` to the type, or to the types inside of it; a task returns `()`, such a value, \
            or a `Result` of one"
)]
pub trait Answer {
    /// The value, encoded if somebody keeps it.
    fn keep(&self, keeps: bool) -> ReturnValue;
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + ?Sized> Answer for T {
    #[inline]
    fn keep(&self, keeps: bool) -> ReturnValue {
        if keeps { ReturnValue::of(self) } else { ReturnValue::default() }
    }
}

/// What a task may fail with.
#[diagnostic::on_unimplemented(
    message = "a task cannot fail with `{Self}`: it does not implement `std::fmt::Display`",
    label = "this error has no text",
    note = "implement `std::fmt::Display` for the error, derive it with `thiserror`, or return `delayed::TaskError`"
)]
pub trait Failure: fmt::Display + 'static {}

#[diagnostic::do_not_recommend]
impl<E: fmt::Display + 'static> Failure for E {}

/// What a function returned. `(&&&Returned(value)).settle(keeps)` picks the first of the traits below that fits: a
/// `Result` is looked into, any other value is a success. What is asked of the types stands at the method, not
/// at the impl: so a type that does not fit is an error that names it, and never falls through to the next trait.
#[derive(Debug)]
pub struct Returned<T>(pub T);

/// For a `Result` with a [`std::error::Error`]: the sources are told too.
pub trait SettleError<T> {
    /// Success, with the value encoded if somebody keeps it, or the error as a [`TaskError`].
    fn settle(self, keeps: bool) -> Answered
    where
        T: Answer;
}

impl<T, E: Error> SettleError<T> for &&&Returned<Result<T, E>> {
    fn settle(self, keeps: bool) -> Answered
    where
        T: Answer,
    {
        self.0.as_ref().map(|value| value.keep(keeps)).map_err(|error| TaskError::retry(chain(error)))
    }
}

/// For any other `Result`.
pub trait SettleResult<T, E> {
    /// Success, with the value encoded if somebody keeps it, or the error as a [`TaskError`].
    fn settle(self, keeps: bool) -> Answered
    where
        T: Answer,
        E: Failure;
}

impl<T, E> SettleResult<T, E> for &&Returned<Result<T, E>> {
    fn settle(self, keeps: bool) -> Answered
    where
        T: Answer,
        E: Failure,
    {
        self.0.as_ref().map(|value| value.keep(keeps)).map_err(error_of)
    }
}

/// The error of a task as ours.
pub(crate) fn error_of<E: Failure>(error: &E) -> TaskError {
    let any: &dyn Any = error;
    if let Some(ours) = any.downcast_ref::<TaskError>() {
        ours.clone()
    } else if let Some(error) = any.downcast_ref::<Box<dyn Error + Send + Sync>>() {
        TaskError::retry(chain(&**error))
    } else if let Some(error) = any.downcast_ref::<Box<dyn Error>>() {
        TaskError::retry(chain(&**error))
    } else {
        // `anyhow` and its like print their sources when asked in this way.
        TaskError::retry(format_args!("{error:#}"))
    }
}

/// For anything else.
pub trait SettleValue<T> {
    /// Success, with the value encoded if somebody keeps it.
    fn settle(self, keeps: bool) -> Answered
    where
        T: Answer;
}

impl<T> SettleValue<T> for &Returned<T> {
    fn settle(self, keeps: bool) -> Answered
    where
        T: Answer,
    {
        Ok(self.0.keep(keeps))
    }
}
