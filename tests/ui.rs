//! Does every mistake in a task give an error that names the fix, and nothing but that?
//!
//! `TRYBUILD=overwrite cargo test --test ui` writes the expected texts anew.
#![cfg(feature = "macros")]

#[test]
fn mistakes_are_compile_errors() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/*.rs");
}
