//! Where is the Python that has the ancestor's package?

use std::path::PathBuf;

/// The interpreter of `DELAYED_TEST_PYTHON`, else of `.venv` in the root of the repository.
pub(crate) fn interpreter() -> PathBuf {
    let given = std::env::var_os("DELAYED_TEST_PYTHON").map(PathBuf::from);
    let python = given.unwrap_or_else(|| super::root().join(".venv/bin/python"));
    assert!(
        python.is_file(),
        "expected the tests' Python at {}: run scripts/test, which installs it",
        python.display()
    );
    python
}
