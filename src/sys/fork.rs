//! How is a process forked without harm? By a process of one thread: no lock is held by a thread that is not there.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::marker::PhantomData;

use nix::sys::prctl;
use nix::unistd::{ForkResult, Pid};

/// Shows that this process has one thread. Who holds it starts none.
#[derive(Debug)]
pub(crate) struct SingleThreaded {
    // Not to be sent: there is no other thread to send it to.
    _here: PhantomData<*const ()>,
}

/// Which side of a fork this is.
pub(crate) enum Side {
    /// The process that asked; this is the new one's id.
    Parent(Pid),
    /// The new process.
    Child,
}

/// How many threads this process has.
pub(crate) fn threads() -> io::Result<usize> {
    fs::read_dir("/proc/self/task").map(Iterator::count)
}

impl SingleThreaded {
    /// Looks how many threads there are.
    ///
    /// # Errors
    /// With more than one thread: how many there are. When that cannot be told: 0.
    pub(crate) fn check() -> Result<Self, usize> {
        match threads() {
            Ok(1) => Ok(Self { _here: PhantomData }),
            Ok(count) => Err(count),
            Err(_) => Err(0),
        }
    }

    /// Forks. The child is of one thread too, so it may do what any program may.
    #[expect(unsafe_code, reason = "fork")]
    pub(crate) fn fork(&self) -> nix::Result<Side> {
        // SAFETY: After a fork, only the calling thread lives on in the child. What other threads had locked would stay
        // locked there for ever; `self` shows that there is no other thread.
        match unsafe { nix::unistd::fork() }? {
            ForkResult::Parent { child } => Ok(Side::Parent(child)),
            ForkResult::Child => Ok(Side::Child),
        }
    }
}

/// Ends this process at once: no destructors, no exit handlers, which belong to the process that it was forked from.
#[expect(unsafe_code, reason = "std's exit runs the handlers of the process that this was forked from")]
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no preconditions.
    unsafe { libc::_exit(code) }
}

/// What `ps` shows of this process: at most 15 bytes.
pub(crate) fn name_process(name: &CStr) {
    // For people only.
    let _ = prctl::set_name(name);
}

/// The processes that have this one as their parent, zombies too: for a process of one thread. The orphans among the
/// descendants of one that adopts them are its children.
pub(crate) fn children() -> io::Result<Vec<Pid>> {
    let text = fs::read_to_string("/proc/thread-self/children")?;
    Ok(text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw).collect())
}
