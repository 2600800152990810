//! Does what the fuzz targets hold, hold for their corpus? A compiler that is stable is enough for that.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../fuzz/src/lib.rs"]
#[allow(unreachable_pub, reason = "it is a crate of its own beside the fuzz targets")]
mod fuzz;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// A corpus is read by people too.
const MOST_FILES: usize = 64;
const MOST_BYTES: usize = 4096;

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}

fn names(directory: PathBuf) -> BTreeSet<String> {
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn each_file_of_the_corpus_holds_what_its_target_holds() {
    for (target, _) in fuzz::TARGETS {
        let files = names(corpus().join(target));
        assert!((5..=MOST_FILES).contains(&files.len()), "{target} has {} files", files.len());
        for name in files {
            let input = fs::read(corpus().join(target).join(&name)).unwrap();
            assert!(input.len() <= MOST_BYTES, "{target}/{name} has {} bytes", input.len());
            println!("{target}/{name}");
            fuzz::run(target, &input);
        }
    }
}

#[test]
fn the_corpus_reaches_each_task() {
    let tasks: BTreeSet<&str> = fuzz::all_tasks().iter().map(|task| task.name).collect();
    let reached = |target: &str, reach: fn(&[u8]) -> Vec<&'static str>| -> BTreeSet<&str> {
        let directory = corpus().join(target);
        names(directory.clone())
            .iter()
            .flat_map(|name| reach(&fs::read(directory.join(name)).unwrap()))
            .collect()
    };
    assert_eq!(reached("arguments", fuzz::read), tasks);
    assert_eq!(reached("json", fuzz::accept), tasks);
}

#[test]
fn each_target_has_a_program_and_a_corpus() {
    let targets: BTreeSet<String> = fuzz::TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(corpus()), targets);
    let programs: BTreeSet<String> = targets.iter().map(|target| format!("{target}.rs")).collect();
    assert_eq!(names(corpus().join("../fuzz_targets")), programs);
}

#[test]
#[should_panic(expected = "bytes of memory at once")]
fn memory_for_a_length_that_lies_is_noticed() {
    let trusts_the_length = |input: &[u8]| {
        drop(std::hint::black_box(Vec::<u8>::with_capacity(usize::from(input[0]) << 20)));
    };
    fuzz::within_memory(trusts_the_length, &[1]);
}
