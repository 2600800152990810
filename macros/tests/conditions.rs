//! `#[cfg]` on the function holds for all that stands beside it, in any order of the attributes.
#![deny(warnings)]
#![allow(clippy::non_minimal_cfg)]

#[cfg(any())]
#[delayed::task]
fn above(missing: NoSuchType) {}

#[delayed::task]
#[cfg(any())]
fn below(missing: NoSuchType) {}

#[delayed::task]
#[cfg(all())]
#[allow(clippy::needless_pass_by_value, unused_variables)]
#[must_use]
fn there(word: String, #[allow(unused_variables)] other: String) -> i64 {
    1
}

#[delayed::task]
#[cfg_attr(all(), inline)]
fn conditional_attribute() {}

#[delayed::task]
#[deprecated = "use `there`"]
fn old() {}

#[test]
fn conditions_hold_for_all_that_is_generated() {
    let tasks = delayed::Registry::collect().unwrap();
    assert_eq!(
        tasks.iter().map(|task| task.signature()).collect::<Vec<_>>(),
        ["conditional_attribute()", "old()", "there(word: String, other: String) -> i64",]
    );
    let _ = there::call("a".into(), "b".into());
}
