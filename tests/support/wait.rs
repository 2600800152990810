//! Waits for conditions. The only place of the tests that pauses.

use std::time::{Duration, Instant};

/// Between two looks at a condition.
const POLL: Duration = Duration::from_millis(2);

/// Waits until `condition` holds. Panics with `what` when it does not before the `deadline`.
#[track_caller]
pub(crate) fn until(what: &str, deadline: Duration, mut condition: impl FnMut() -> bool) {
    until_some(what, deadline, || condition().then_some(()));
}

/// Waits until `look` finds something.
#[track_caller]
pub(crate) fn until_some<T>(what: &str, deadline: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    until_ok(deadline, || look().ok_or_else(|| what.to_owned()))
}

/// Waits until `look` succeeds. Panics with what the last look found wrong: give it the state to print.
#[track_caller]
pub(crate) fn until_ok<T>(deadline: Duration, look: impl FnMut() -> Result<T, String>) -> T {
    let found = or_last(deadline, look);
    found.unwrap_or_else(|wrong| panic!("waited {deadline:?} for: {wrong}"))
}

/// Waits until `look` succeeds. Gives what the last look found when it does not before the `deadline`.
pub(crate) fn or_last<T, E>(deadline: Duration, mut look: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let end = Instant::now() + deadline;
    loop {
        let late = Instant::now() >= end;
        let found = look();
        if found.is_ok() || late {
            return found;
        }
        pause(POLL);
    }
}

/// Lets time pass that is itself the matter of a test: a slow network, a lease that ends. `tests/conventions.rs` lists
/// who may.
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[test]
fn waits_until_it_holds_and_names_what_it_waited_for() {
    let mut looks = 0;
    until("three looks", Duration::from_secs(5), || {
        looks += 1;
        looks == 3
    });
    assert_eq!(looks, 3, "expected to look until it held, and not again");
    let panic = std::panic::catch_unwind(|| until("the moon", Duration::ZERO, || false)).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains("the moon"), "expected the text of the time-out to name its matter: {text}");
}
