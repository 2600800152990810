//! Do the ancestors' sweepers leave our workers alone as long as they live, and bring back what they owned when dead?

use std::collections::BTreeSet;

use super::*;

/// Calls that are held: half of them are `async`, the others block.
fn held(count: usize) -> Vec<String> {
    let task = |n: usize| if n.is_multiple_of(2) { "demo::hold" } else { "demo::hold_blocking" };
    (0..count).map(|n| line("go", task(n), &format!(r#""args": [{n}]"#))).collect()
}

/// The lines that each of so many held calls leaves, when it is run once.
fn both_ends(count: usize) -> BTreeSet<String> {
    (0..count).flat_map(|n| [format!("begin {n}"), format!("end {n}")]).collect()
}

/// What the sweepers said they brought back, in all.
fn requeued(sweeper: &Program) -> u64 {
    let count = |line: &str| line.strip_prefix("requeued ")?.parse::<i64>().ok();
    let counts = sweeper.printed();
    counts.lines().filter_map(count).map(|count| count.max(0).unsigned_abs()).sum()
}

#[test]
fn they_leave_alone_what_our_living_workers_own() {
    let mut site = Site::new();
    let calls = 12;
    site.produce(Python, &held(calls));
    // The shortest lease that there is; with and without our own sweeps.
    let workers = [
        site.worker(Rust, "notes", &["--lease", "1s", "--concurrency", "6", "--no-sweep"]),
        site.worker(Rust, "notes", &["--lease", "1s", "--concurrency", "6"]),
    ];
    site.wait_for("notes", calls);
    let sweepers = [site.sweeper(Go), site.sweeper(Python), site.sweeper(Rust)];
    // They rest for a tenth of a second: this is several leases.
    for sweeper in &sweepers[..2] {
        sweeper.wait_for_lines("requeued 0", 35);
    }
    assert_eq!(site.state().processing.len(), calls, "expected each to be owned still");
    site.free();
    let notes = site.wait_for("notes", 2 * calls);
    site.wait_until_settled();
    assert_eq!(notes.len(), 2 * calls, "expected each to run once: {notes:?}");
    assert_eq!(notes.into_iter().collect::<BTreeSet<_>>(), both_ends(calls), "expected each to run once");
    assert_eq!((requeued(&sweepers[0]), requeued(&sweepers[1])), (0, 0), "expected nothing to be requeued");
    let [go, python, rust] = sweepers;
    for (language, program) in [(Go, go), (Python, python), (Rust, rust)] {
        stop(language, program);
    }
    workers.into_iter().for_each(|worker| stop(Rust, worker));
}

fn brings_back_what_our_dead_worker_owned(language: Language) {
    let mut site = Site::new();
    let calls = 7;
    site.produce(language, &held(calls));
    let sweeper = site.sweeper(language);
    let mut victim = site.worker(
        Rust,
        "victim",
        &["--lease", "1s", "--concurrency", "8", "--no-sweep", "--shutdown", "1s"],
    );
    site.wait_for("victim", calls);
    victim.kill9();
    wait::until_ok(PATIENCE, || match site.state() {
        state if state.waiting.len() == calls && state.tokens == calls as u64 => Ok(()),
        state => Err(format!("all {calls} to wait again, each with a token: {state:#?}")),
    });
    wait::until_ok(PATIENCE, || match requeued(&sweeper) {
        count if count == calls as u64 => Ok(()),
        _ => Err(format!("the sweeper to say that it brought back {calls}:\n{}", sweeper.printed())),
    });
    site.free();
    let heir = site.worker(Rust, "heir", &["--no-sweep"]);
    let notes = site.wait_for("heir", 2 * calls);
    site.wait_until_settled();
    assert_eq!(notes.len(), 2 * calls, "expected each to run once more: {notes:?}");
    assert_eq!(
        notes.into_iter().collect::<BTreeSet<_>>(),
        both_ends(calls),
        "expected each to run once more"
    );
    stop(Rust, heir);
    stop(language, sweeper);
}

#[test]
fn the_python_sweeper_brings_back_what_our_dead_worker_owned() {
    brings_back_what_our_dead_worker_owned(Python);
}

#[test]
fn the_go_sweeper_brings_back_what_our_dead_worker_owned() {
    brings_back_what_our_dead_worker_owned(Go);
}
