//! A program without tasks is told why.

use delayed::{Registry, RegistryError};

#[test]
fn program_without_tasks_is_told_why() {
    assert_eq!(Registry::collect().map(|tasks| tasks.len()), Err(RegistryError::Empty));
}
