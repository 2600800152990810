//! Reads what the run of a batch returned: which of its items failed.

use std::fmt::Write;

use crate::excerpt::Excerpt;
use crate::task::error::{FailedItem, FailedItems, TaskError};
use crate::task::handler::{Answered, Failure, error_of};
use crate::task::return_value::ReturnValue;

/// What a task with `batch(…)` may return.
#[diagnostic::on_unimplemented(
    message = "a task that runs in batches cannot return `{Self}`",
    label = "expected `()`, `Vec<Result<(), E>>` with a result for each item, or a `Result` of one of them",
    note = "the error of an item is anything with `std::fmt::Display`, such as a `String` or a `delayed::TaskError`"
)]
pub trait BatchReturn {
    /// The errors of `count` items, by their places.
    ///
    /// # Errors
    /// The whole batch failed.
    fn failures(self, count: usize) -> Result<Vec<FailedItem>, TaskError>;
}

impl BatchReturn for () {
    fn failures(self, _: usize) -> Result<Vec<FailedItem>, TaskError> {
        Ok(Vec::new())
    }
}

impl<T, E: Failure> BatchReturn for Vec<Result<T, E>> {
    fn failures(self, count: usize) -> Result<Vec<FailedItem>, TaskError> {
        if self.len() != count {
            let text = format!(
                "it returned {} results for {count} items: return one for each, in their order",
                self.len()
            );
            return Err(TaskError::fatal(text));
        }
        let failed = (0..).zip(self).filter_map(|(place, result)| Some((place, error_of(&result.err()?))));
        Ok(failed.collect())
    }
}

impl<R: BatchReturn, E: Failure> BatchReturn for Result<R, E> {
    fn failures(self, count: usize) -> Result<Vec<FailedItem>, TaskError> {
        self.map_err(|error| error_of(&error))?.failures(count)
    }
}

/// What became of a batch of `count` items: a success, or an error that knows the items which failed.
pub fn settle_batch(returned: impl BatchReturn, count: usize, keeps: bool) -> Answered {
    let failed = returned.failures(count)?;
    match <[_; 1]>::try_from(failed) {
        // A batch of one is an ordinary call.
        Ok([(_, error)]) if count == 1 => Err(error),
        Ok(one) => Err(of_items(one.into(), count)),
        Err(failed) if failed.is_empty() => {
            Ok(if keeps { ReturnValue::of(&()) } else { ReturnValue::default() })
        }
        Err(failed) => Err(of_items(failed, count)),
    }
}

fn of_items(failed: Vec<FailedItem>, count: usize) -> TaskError {
    let mut text = Excerpt::default();
    let _ = write!(text, "{} of {count} items failed", failed.len());
    for (place, error) in &failed {
        let _ = write!(text, "; item {place}: {error}");
    }
    TaskError::of_items(
        text.into_text(),
        FailedItems { of: u32::try_from(count).unwrap_or(u32::MAX), items: failed },
    )
}
