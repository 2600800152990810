//! What a task may return.
#![deny(warnings)]

use std::fmt;

type Answer<T> = Result<T, Report>;

/// As `anyhow::Error`: it has a text, and is no `std::error::Error`.
struct Report;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("report")
    }
}

#[delayed::task]
fn nothing() {}

#[delayed::task]
#[allow(clippy::unused_unit)]
fn unit() -> () {}

#[delayed::task]
fn alias() -> Answer<i64> {
    Err(Report)
}

#[delayed::task]
async fn alias_async() -> Answer<()> {
    Err(Report)
}

#[delayed::task]
async fn any_error() -> Result<Vec<String>, Box<dyn std::error::Error + Send + Sync>> {
    Ok(vec!["1".parse::<i64>()?.to_string()])
}

#[delayed::task]
async fn error_that_is_not_send() -> Result<(), Box<dyn std::error::Error>> {
    Ok(())
}

#[delayed::task]
fn ours() -> Result<(), delayed::TaskError> {
    let _: i64 = "1".parse()?;
    Ok(())
}

#[delayed::task]
fn text() -> &'static str {
    "text"
}

#[delayed::task]
fn optional() -> Option<i64> {
    None
}

#[test]
fn all_returns_of_tasks_are_registered() {
    assert_eq!(delayed::Registry::collect().map(|tasks| tasks.len()), Ok(9));
}
