//! What does a task answer?

use std::error::Error;
use std::fmt;

use delayed::TaskError;

use crate::run::payload;

/// As `anyhow::Error`: no `std::error::Error`, and `{:#}` prints the sources.
#[derive(serde::Serialize)]
pub(crate) struct Report(&'static str);

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)?;
        if f.alternate() { f.write_str(": the source") } else { Ok(()) }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot send")]
pub(crate) struct SendError(#[from] std::num::ParseIntError);

type Alias<T> = Result<T, Report>;

mod tasks {
    use super::*;

    #[delayed::task]
    pub(super) fn unit() {}

    #[delayed::task]
    pub(super) fn value() -> Vec<Option<i64>> {
        vec![None]
    }

    #[delayed::task]
    pub(super) fn good() -> Result<i64, SendError> {
        Ok(1)
    }

    #[delayed::task]
    pub(super) fn sources() -> Result<(), SendError> {
        "x".parse::<i64>().map(drop).map_err(SendError::from)
    }

    // Its error is `Serialize`, so the `Result` is: it is an error none the less.
    #[delayed::task]
    pub(super) fn display_alone() -> Alias<()> {
        Err(Report("report"))
    }

    #[delayed::task]
    pub(super) async fn display_alone_async() -> Alias<i64> {
        Err(Report("report"))
    }

    #[delayed::task]
    pub(super) async fn text() -> Result<(), &'static str> {
        Err("text")
    }

    #[delayed::task]
    pub(super) async fn boxed() -> Result<(), Box<dyn Error + Send + Sync>> {
        Err(Box::new(SendError("x".parse::<i64>().unwrap_err())))
    }

    #[delayed::task]
    pub(super) async fn fatal(cents: i64) -> Result<(), TaskError> {
        if cents < 0 { Err(TaskError::fatal("never")) } else { Err(TaskError::retry("later")) }
    }

    #[delayed::task]
    pub(super) fn question_mark(number: String) -> Result<(), TaskError> {
        let parse = || Ok::<i64, SendError>(number.parse()?);
        parse()?;
        Ok(())
    }
}

fn failed(message: &str) -> Result<Result<(), TaskError>, String> {
    Ok(Err(TaskError::retry(message)))
}

#[test]
fn any_value_is_a_success() {
    assert_eq!(payload::<tasks::unit>(&[]), Ok(Ok(())));
    assert_eq!(payload::<tasks::value>(&[]), Ok(Ok(())));
    assert_eq!(payload::<tasks::good>(&[]), Ok(Ok(())));
}

#[test]
fn any_error_with_a_text_is_one_to_retry() {
    assert_eq!(payload::<tasks::sources>(&[]), failed("cannot send: invalid digit found in string"));
    assert_eq!(payload::<tasks::boxed>(&[]), failed("cannot send: invalid digit found in string"));
    assert_eq!(payload::<tasks::display_alone>(&[]), failed("report: the source"));
    assert_eq!(payload::<tasks::display_alone_async>(&[]), failed("report: the source"));
    assert_eq!(payload::<tasks::text>(&[]), failed("text"));
}

#[test]
fn a_task_error_says_whether_to_retry() {
    assert_eq!(payload::<tasks::fatal>(&[0xff]), Ok(Err(TaskError::fatal("never"))));
    assert_eq!(payload::<tasks::fatal>(&[0x01]), failed("later"));
}

#[test]
fn the_question_mark_keeps_the_sources() {
    assert_eq!(payload::<tasks::question_mark>(&[0xa1, b'5']), Ok(Ok(())));
    let expected = failed("cannot send: invalid digit found in string");
    assert_eq!(payload::<tasks::question_mark>(&[0xa1, b'x']), expected);
}

#[test]
fn a_source_that_is_in_the_text_is_not_said_twice() {
    #[derive(Debug, thiserror::Error)]
    #[error("cannot send: {0}")]
    struct Wordy(#[source] std::num::ParseIntError);

    let error = TaskError::from(Wordy("x".parse::<i64>().unwrap_err()));
    assert_eq!(error.to_string(), "cannot send: invalid digit found in string");
    assert!(error.is_retryable());
}
