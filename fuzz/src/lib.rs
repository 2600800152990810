//! What holds for any bytes: one function for each fuzz target. `tests/corpus.rs` runs them too, over the corpus.

mod allocations;
mod arguments;
mod describe;
mod frame;
mod json;
mod message;

pub use arguments::{all_tasks, read};
pub use json::accept;

/// Panics where the bytes show that something does not hold.
pub type Target = fn(&[u8]);

pub const TARGETS: [(&str, Target); 5] = [
    ("arguments", |input| drop(arguments::read(input))),
    ("describe", describe::target),
    ("frame", frame::target),
    ("json", |input| drop(json::accept(input))),
    ("message", message::target),
];

/// Runs a target by its name.
pub fn run(target: &str, input: &[u8]) {
    let (_, run) = TARGETS.iter().find(|(name, _)| *name == target).expect("there is such a target");
    within_memory(*run, input);
}

/// Runs a target, which must not ask for more memory than such an input is worth.
pub fn within_memory(run: Target, input: &[u8]) {
    let largest = allocations::largest(|| run(input));
    let limit = 16 * 1024 + 256 * input.len();
    assert!(largest <= limit, "{largest} bytes of memory at once for an input of {}", input.len());
}
