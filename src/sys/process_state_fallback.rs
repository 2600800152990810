//! The functions of `process_state.rs` on systems other than Linux, where no child is reused.

use std::io;

/// What a process is, apart from its memory.
#[derive(Debug)]
pub(crate) struct Attributes;

impl Attributes {
    pub(crate) fn now() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn are_unchanged(&mut self) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The descriptors that are open.
#[derive(Debug)]
pub(crate) struct Descriptors;

impl Descriptors {
    pub(crate) fn now() -> nix::Result<Self> {
        Err(nix::Error::ENOSYS)
    }

    pub(crate) fn keep<T>(&mut self, open: impl FnOnce() -> T) -> T {
        open()
    }

    pub(crate) fn have_others(&mut self) -> nix::Result<bool> {
        Err(nix::Error::ENOSYS)
    }
}

pub(crate) fn has_threads(_: usize) -> bool {
    false
}

pub(crate) fn threads() -> Option<usize> {
    None
}

pub(crate) fn has_alarm() -> bool {
    false
}
