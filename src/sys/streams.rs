//! The standard output and error of this process: checks whether they can be written, and discards their output if not.

use std::fs::File;
use std::io::{Write, stderr};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// A standard stream that a program writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// The stream of `println!`.
    Output = 1,
    /// The stream of `eprintln!`.
    Error = 2,
}

impl Stream {
    pub(crate) const BOTH: [Self; 2] = [Self::Output, Self::Error];

    /// In words.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Output => "standard output",
            Self::Error => "standard error",
        }
    }

    /// The stream that could not be written, and the reason, if the text is of such a panic, as `print!` and its like
    /// cause.
    pub(crate) fn of_panic(text: &str) -> Option<(Self, &str)> {
        let (name, error) = text.strip_prefix("failed printing to ")?.split_once(": ")?;
        match name {
            "stdout" => Some((Self::Output, error)),
            "stderr" => Some((Self::Error, error)),
            _ => None,
        }
    }

    #[expect(unsafe_code, reason = "borrows a standard stream")]
    fn borrow(self) -> BorrowedFd<'static> {
        // SAFETY: The standard streams are always open in a Rust program. If a task has closed one, the kernel reports an
        // error.
        unsafe { BorrowedFd::borrow_raw(self as RawFd) }
    }

    /// Makes writes block. Returns whether they did not: another process with the same pipe or terminal had made it
    /// nonblocking.
    pub(crate) fn make_blocking(self) -> bool {
        let Ok(flags) = fcntl(self.borrow(), FcntlArg::F_GETFL).map(OFlag::from_bits_retain) else {
            return false;
        };
        flags.contains(OFlag::O_NONBLOCK)
            && fcntl(self.borrow(), FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK)).is_ok()
    }

    /// Discards all later output by redirecting it to `nothing`.
    #[expect(unsafe_code, reason = "dup2 onto a standard stream")]
    pub(crate) fn discard(self, nothing: &File) {
        // SAFETY: As above; nothing owns it.
        unsafe { libc::dup2(nothing.as_raw_fd(), self as RawFd) };
    }
}

/// Writes a line to standard error, if that can be written.
#[cfg(feature = "worker")]
pub(crate) fn write_error_line(text: &str) {
    // A single write, so that no other line comes in between.
    let _ = stderr().write_all(format!("{text}\n").as_bytes());
}

/// Waits until one of these streams can no longer be written, because its reader is gone. `None` if that cannot be waited
/// for.
pub(crate) fn wait_until_broken(streams: &[Stream]) -> Option<Stream> {
    loop {
        let mut watched: Vec<PollFd<'_>> =
            streams.iter().map(|stream| PollFd::new(stream.borrow(), PollFlags::empty())).collect();
        match poll(&mut watched, PollTimeout::NONE) {
            Err(Errno::EINTR) => continue,
            Err(_) => return None,
            Ok(_) => {}
        }
        let gone = PollFlags::POLLERR | PollFlags::POLLHUP;
        let broken = |watched: &PollFd<'_>| watched.revents().is_some_and(|found| found.intersects(gone));
        return watched.iter().position(broken).map(|at| streams[at]);
    }
}
