//! A ledger of executions: a file to which each run of a task appends one line, so that no run can hide.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::wait;

/// Counts how often each name was written.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    path: PathBuf,
}

impl Ledger {
    /// An empty ledger in `directory`.
    pub(crate) fn new(directory: &Path) -> Self {
        let path = directory.join("ledger");
        File::create(&path).unwrap_or_else(|error| panic!("expected to make {}: {error}", path.display()));
        Self { path }
    }

    /// A ledger that others write, perhaps later.
    pub(crate) fn at(path: &Path) -> Self {
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .expect("expected a ledger that can be written");
        Self { path: path.to_owned() }
    }

    /// Where it is, for the process that writes it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes one line in one write, which a kill cannot cut in two.
    pub(crate) fn append(path: &Path, name: &str) -> io::Result<()> {
        OpenOptions::new().append(true).create(true).open(path)?.write_all(format!("{name}\n").as_bytes())
    }

    /// What was written, in order.
    pub(crate) fn lines(&self) -> Vec<String> {
        // A line that goes over the end of a page may be seen before it is whole.
        let text = wait::until_ok(Duration::from_secs(5), || {
            let text = std::fs::read_to_string(&self.path)
                .unwrap_or_else(|error| panic!("expected to read {}: {error}", self.path.display()));
            let is_whole = text.is_empty() || text.ends_with('\n');
            if is_whole { Ok(text) } else { Err(format!("whole lines in the ledger: {text:?}")) }
        });
        text.lines().map(str::to_owned).collect()
    }

    /// How often each name was written.
    pub(crate) fn executions(&self) -> HashMap<String, u32> {
        let mut counts = HashMap::new();
        for line in self.lines() {
            *counts.entry(line).or_insert(0) += 1;
        }
        counts
    }

    /// How many runs there were in all.
    pub(crate) fn total(&self) -> u32 {
        self.executions().values().sum()
    }

    /// Each of `names` ran exactly once, and nothing else did.
    #[track_caller]
    pub(crate) fn assert_each_once<I: IntoIterator<Item: ToString>>(&self, names: I) {
        self.assert_each_at_least_once(names, 0);
    }

    /// Each of `names` ran, nothing else did, and there were at most `extra` runs too many in all.
    #[track_caller]
    pub(crate) fn assert_each_at_least_once<I: IntoIterator<Item: ToString>>(&self, names: I, extra: u32) {
        check(self.executions(), names, extra);
    }

    /// The same of several ledgers together: each of `names` ran exactly once.
    #[track_caller]
    pub(crate) fn assert_each_once_in_all<I: IntoIterator<Item: ToString>>(ledgers: &[Self], names: I) {
        let mut all = HashMap::new();
        for (name, count) in ledgers.iter().flat_map(Self::executions) {
            *all.entry(name).or_insert(0) += count;
        }
        check(all, names, 0);
    }
}

#[track_caller]
fn check<I: IntoIterator<Item: ToString>>(mut counts: HashMap<String, u32>, names: I, extra: u32) {
    let mut missing = Vec::new();
    let mut twice = Vec::new();
    for name in names.into_iter().map(|name| name.to_string()) {
        match counts.remove(&name) {
            None => missing.push(name),
            Some(1) => {}
            Some(count) => twice.push((name, count)),
        }
    }
    assert!(missing.is_empty(), "expected every call to run; {} never did: {missing:?}", missing.len());
    assert!(counts.is_empty(), "expected no other runs than those asked for: {counts:?}");
    let surplus: u32 = twice.iter().map(|(_, count)| count - 1).sum();
    assert!(surplus <= extra, "expected at most {extra} runs too many, there were {surplus}: {twice:?}");
}

#[test]
fn counts_lines_and_finds_what_is_missing_or_too_many() {
    let directory = super::directory();
    let ledger = Ledger::new(directory.path());
    for name in ["1", "2", "2"] {
        Ledger::append(ledger.path(), name).unwrap();
    }
    assert_eq!(ledger.total(), 3, "expected each line to count");
    assert_eq!(ledger.executions()["2"], 2, "expected equal lines to be counted together");
    ledger.assert_each_at_least_once(1..=2, 1);
    let fails = |check: &dyn Fn()| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).expect_err("expected a failure")
    };
    fails(&|| ledger.assert_each_once(1..=2));
    fails(&|| ledger.assert_each_at_least_once(1..=3, 1));
    fails(&|| ledger.assert_each_at_least_once(2..=2, 1));
}
