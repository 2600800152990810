//! The rules that tests keep to: each of them runs, its name is short, and it waits for a condition, not for a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::architecture::files;
use crate::support::root;

/// The most characters that a test's name may have: subject, condition, outcome. Its module says the rest.
const LONGEST_NAME: usize = 60;

/// Where time itself is tested: the file, how many pauses it has, and why no condition can stand for them.
const PAUSES: [(&str, usize, &str); 22] = [
    ("bad_input/unknown.rs", 1, "counts the commands of a span"),
    ("chaos/faults.rs", 4, "its plan says when each fault begins and how long it lasts"),
    ("chaos/producers.rs", 3, "calls are sent at a rate"),
    ("chaos/steady.rs", 2, "calls are sent at a rate"),
    ("chaos/varied.rs", 1, "calls are sent at a rate"),
    ("client/waits.rs", 2, "Redis stays away for longer than the longest back-off"),
    (
        "faults/killed_worker.rs",
        1,
        "idle workers and sweepers are past their first sweep, which leaves no trace",
    ),
    ("faults/network.rs", 2, "cuts come at any moment; connections are refused for a while"),
    ("faults/paused.rs", 2, "leases would have ended"),
    ("faults/redis_down.rs", 2, "Redis is silent for longer than a timeout, and than a lease"),
    ("faults/replies.rs", 1, "a lease would have ended"),
    ("isolation/crashes.rs", 1, "news is late by more than a closed pipe may mean"),
    ("isolation/fork_fails.rs", 1, "counts the attempts of a span"),
    ("isolation/timeouts.rs", 1, "a timeout and its grace pass while nobody can act"),
    ("proxy.rs", 2, "nothing happens while a direction is held"),
    ("tls.rs", 1, "a lease would have ended"),
    ("worker_behaviour/embedded.rs", 1, "a timer decides on which thread a task goes on"),
    ("worker_behaviour/pauses.rs", 1, "counts the commands of a span"),
    ("worker_behaviour/prefetch.rs", 2, "nothing more begins, and nothing more is claimed"),
    ("worker_behaviour/queues.rs", 1, "nothing more is claimed"),
    ("worker_behaviour/timeouts.rs", 1, "measures the processor time of a span"),
    ("worker_behaviour/wakeup.rs", 4, "counts the commands of a span; looks at a lease again and again"),
];

/// The names of the tests of a file of Rust: functions behind `#[test]`, and those that `both!` makes into tests.
fn names_in_rust(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let (mut is_test, mut is_list) = (false, false);
    for line in text.lines().map(str::trim) {
        if is_list {
            is_list = line != "}";
            names.extend(line.split_whitespace().filter(|_| is_list));
            continue;
        }
        is_list = line == "both! {";
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let function = line.trim_start_matches("async ").strip_prefix("fn ");
        if let (true, Some(function)) = (is_test, function) {
            names.extend(function.split('(').next().filter(|name| !name.starts_with('$')));
            is_test = false;
        }
    }
    names
}

/// The names of the tests of a file of Python or Go.
fn names_elsewhere(text: &str) -> Vec<&str> {
    let names = text.lines().filter_map(|line| {
        let line = line.trim_start();
        let name = line.strip_prefix("def ").or_else(|| line.strip_prefix("func "))?;
        name.split('(').next().filter(|name| name.starts_with("test_") || name.starts_with("Test"))
    });
    names.collect()
}

/// What files of these extensions contain, below these directories of the repository.
fn texts(directories: &[&str], extensions: &[&str]) -> Vec<(PathBuf, String)> {
    let paths = directories.iter().flat_map(|directory| files(&root().join(directory), extensions));
    paths
        .map(|path| (path.strip_prefix(root()).unwrap().to_owned(), std::fs::read_to_string(&path).unwrap()))
        .collect()
}

#[test]
fn names_of_tests_are_short() {
    let rust = texts(&["tests", "src", "macros/src", "macros/tests"], &["rs"]);
    let others = texts(&["tests/peers", "python-compat/tests"], &["py", "go"]);
    let mut all: Vec<(&Path, &str)> = Vec::new();
    all.extend(
        rust.iter()
            .flat_map(|(path, text)| names_in_rust(text).into_iter().map(|name| (path.as_path(), name))),
    );
    all.extend(
        others
            .iter()
            .flat_map(|(path, text)| names_elsewhere(text).into_iter().map(|name| (path.as_path(), name))),
    );
    assert!(all.len() > 1000, "expected to find the tests, there are {}", all.len());
    let long: Vec<String> = all
        .iter()
        .filter(|(_, name)| name.len() > LONGEST_NAME)
        .map(|(path, name)| format!("{}: {name} ({} characters)", path.display(), name.len()))
        .collect();
    assert!(long.is_empty(), "expected names of at most {LONGEST_NAME} characters:\n{}", long.join("\n"));
}

#[test]
fn made_up_tests_are_found() {
    let rust = "#[test]\n#[cfg(unix)]\nfn one() {}\nfn helper() {}\nboth! {\n    two\n    three\n}\n    #[tokio::test]\n    async fn four() {}\n";
    assert_eq!(names_in_rust(rust), ["one", "two", "three", "four"]);
    assert_eq!(
        names_elsewhere("def test_five() -> None:\nfunc TestSix(t *testing.T) {\ndef helper():\n"),
        ["test_five", "TestSix"]
    );
}

#[test]
fn every_test_file_runs() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let main = std::fs::read_to_string(root().join("tests/main.rs")).unwrap();
    let tests = std::fs::read_dir(root().join("tests")).unwrap().map(|entry| entry.unwrap().path());
    for path in tests.filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let (file, name) =
            (path.file_name().unwrap().to_str().unwrap(), path.file_stem().unwrap().to_str().unwrap());
        assert!(
            manifest.contains(&format!("path = \"tests/{file}\"")) || main.contains(&format!("mod {name};")),
            "expected tests/{file} as a [[test]] of Cargo.toml or as a module of tests/main.rs: else it never runs"
        );
    }
}

#[test]
fn every_pause_has_a_reason() {
    let listed: BTreeMap<&str, usize> = PAUSES.iter().map(|(file, count, _)| (*file, *count)).collect();
    // One waits between two looks; the other is this list. Tasks of the programs under test take time: that is what
    // they are for.
    let apart = ["support/wait.rs", "conventions.rs", "programs"];
    let mut found = BTreeMap::new();
    let files = texts(&["tests"], &["rs"]);
    for (path, text) in &files {
        let path = path.strip_prefix("tests").unwrap();
        if apart.iter().any(|apart| path.starts_with(apart)) {
            continue;
        }
        let pauses: usize = ["wait::pause(", "thread::sleep(", "time::sleep("]
            .iter()
            .map(|word| text.matches(word).count())
            .sum();
        if pauses > 0 {
            found.insert(path.to_str().unwrap(), pauses);
        }
    }
    assert_eq!(
        found, listed,
        "expected tests to wait for a condition (support::wait), or a reason in PAUSES"
    );
}

#[test]
fn nothing_is_left_out_in_silence() {
    for (path, text) in texts(&["tests"], &["rs"]) {
        let is_this = path.ends_with("conventions.rs");
        assert!(
            is_this || !text.contains("#[ignore"),
            "expected no test of {} to be ignored",
            path.display()
        );
    }
    for (path, text) in texts(&["tests/peers", "python-compat/tests"], &["py", "go"]) {
        for word in ["pytest.skip", "mark.skip", "importorskip", "t.Skip", "xfail"] {
            assert!(
                !text.contains(word),
                "expected no `{word}` in {}: what is missing is a failure",
                path.display()
            );
        }
    }
}
