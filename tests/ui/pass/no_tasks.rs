//! A program without tasks is told why.

use delayed::{Registry, RegistryError};

fn main() {
    assert_eq!(Registry::collect().map(|tasks| tasks.len()), Err(RegistryError::Empty));
}
