//! The descriptors of a process: a child has its own, and none of those that its parent had open.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use crate::sys::system;

/// Creates a pipe whose reading end is nonblocking. Neither end is inherited by executed programs.
pub(crate) fn pipe() -> nix::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = blocking_pipe()?;
    set_nonblocking(&read)?;
    Ok((read, write))
}

/// Creates a pipe. Neither end is inherited by executed programs.
pub(crate) fn blocking_pipe() -> nix::Result<(OwnedFd, OwnedFd)> {
    system::pipe()
}

/// Makes reads and writes fail with `EAGAIN` instead of waiting.
pub(crate) fn set_nonblocking(descriptor: &OwnedFd) -> nix::Result<()> {
    fcntl(descriptor, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map(drop)
}

/// Makes reads and writes wait.
pub(crate) fn set_blocking(descriptor: &OwnedFd) -> nix::Result<()> {
    fcntl(descriptor, FcntlArg::F_SETFL(OFlag::empty())).map(drop)
}

/// Keeps `kept`, as 3, 4, …, and the standard streams, and closes all others, regardless of their owners in this process.
///
/// For a process that was just forked and never uses the descriptors that it inherited.
#[expect(unsafe_code, reason = "descriptors are made owned ones")]
pub(crate) fn keep_only(kept: Vec<OwnedFd>) -> nix::Result<Vec<OwnedFd>> {
    let count = i32::try_from(kept.len()).map_err(|_| nix::Error::EINVAL)?;
    // Moved out of the way first, so that none is overwritten before it was moved.
    let mut above = Vec::new();
    for descriptor in &kept {
        above.push(fcntl(descriptor, FcntlArg::F_DUPFD_CLOEXEC(3 + count))?);
    }
    for descriptor in kept {
        let _ = descriptor.into_raw_fd();
    }
    let mut placed = Vec::new();
    for (place, from) in (3..).zip(above) {
        // An overwritten descriptor is never used again, as this function requires.
        system::duplicate_onto(from, place)?;
        // SAFETY: It was just created, and any other owner of this number was forgotten.
        placed.push(unsafe { OwnedFd::from_raw_fd(place) });
    }
    // As above: no closed descriptor is used again.
    if !system::close_from(3 + count) {
        close_each(3 + count)?;
    }
    Ok(placed)
}

/// For kernels before 5.9, and for sandboxes without `close_range`.
#[expect(unsafe_code, reason = "close")]
fn close_each(first: RawFd) -> nix::Result<()> {
    let open: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")
        .map_err(|_| nix::Error::ENOSYS)?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|descriptor| *descriptor >= first)
        .collect();
    for descriptor in open {
        // SAFETY: As in `keep_only`. One of them belongs to the listing, and is already closed.
        unsafe { libc::close(descriptor) };
    }
    Ok(())
}

/// Makes the standard input empty.
pub(crate) fn empty_standard_input() -> nix::Result<()> {
    let nothing = File::open("/dev/null").map_err(|_| nix::Error::ENOENT)?;
    replace(0, nothing.as_fd())
}

/// Redirects the standard output and the standard error to `output`.
pub(crate) fn redirect_output(output: &OwnedFd) -> nix::Result<()> {
    replace(1, output.as_fd())?;
    replace(2, output.as_fd())
}

#[expect(unsafe_code, reason = "dup2 onto a standard stream")]
fn replace(stream: RawFd, by: BorrowedFd<'_>) -> nix::Result<()> {
    // SAFETY: The standard streams are always open in a Rust program, and nothing owns them.
    nix::Error::result(unsafe { libc::dup2(by.as_raw_fd(), stream) }).map(drop)
}

/// Flushes the partial line that this process still buffers.
pub(crate) fn flush_standard_output() {
    let _ = std::io::stdout().flush();
}

/// The pipe to which a process writes its output, distinguished from a descriptor that may have replaced it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputPipe {
    device: u64,
    inode: u64,
}

impl OutputPipe {
    /// Identifies the current standard output.
    pub(crate) fn of_standard_output() -> nix::Result<Self> {
        Self::at(1)
    }

    /// Writes `mark` after any unread output. Returns whether it did.
    #[expect(unsafe_code, reason = "ioctl FIONREAD, and write to a standard stream")]
    pub(crate) fn mark_unread(&self, mark: &[u8]) -> bool {
        let is_it =
            |end: &RawFd| Self::at(*end).is_ok_and(|it| (it.device, it.inode) == (self.device, self.inode));
        let Some(end) = [1, 2].into_iter().find(is_it) else { return false };
        let mut unread: libc::c_int = 0;
        // SAFETY: The number outlives the call.
        if unsafe { libc::ioctl(end, libc::FIONREAD, &raw mut unread) } != 0 || unread == 0 {
            return false;
        }
        // SAFETY: The bytes outlive the call. So few bytes are written completely or not at all.
        let written = unsafe { libc::write(end, mark.as_ptr().cast(), mark.len()) };
        usize::try_from(written) == Ok(mark.len())
    }

    #[expect(unsafe_code, reason = "fstat of a standard stream")]
    fn at(end: RawFd) -> nix::Result<Self> {
        // SAFETY: A task may have closed the descriptor; the kernel then reports an error.
        let stat = nix::sys::stat::fstat(unsafe { BorrowedFd::borrow_raw(end) })?;
        // Their types differ between systems.
        Ok(Self { device: stat.st_dev as _, inode: stat.st_ino as _ })
    }
}

/// Creates an unnamed file in memory with these bytes, positioned at its start.
pub(crate) fn file_of(bytes: &[u8]) -> std::io::Result<File> {
    let mut file = system::memory_file(c"delayed-message")?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Reads all bytes of such a file.
pub(crate) fn read_file(descriptor: OwnedFd) -> std::io::Result<Vec<u8>> {
    let mut file = File::from(descriptor);
    let mut bytes = Vec::with_capacity(usize::try_from(file.metadata()?.len()).unwrap_or(0));
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
