//! Does every mistake in a task give an error that names the fix, and nothing but that?
//!
//! `TRYBUILD=overwrite cargo test -p delayed-macros --test ui` writes the expected texts anew.

#[test]
fn mistakes_are_compile_errors() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
