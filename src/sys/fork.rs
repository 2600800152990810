//! Forks safely: only from a process with one thread, because a lock held by another thread would stay locked in the child.

use std::convert::Infallible;
use std::ffi::CStr;
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{ForkResult, Pid};

use crate::sys::system;

/// How long a joined thread may still be listed, and how often the list is read.
const TO_BE_GONE: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_millis(1);

/// Proves that this process has one thread. Its owner must not start another.
#[derive(Debug)]
pub(crate) struct SingleThreaded {
    // Not `Send`, because there is no other thread.
    _here: PhantomData<*const ()>,
}

/// The side of a fork that the caller is on.
pub(crate) enum Forked {
    /// The process that forked, with the id of the new one.
    Parent(Pid),
    /// The new process.
    Child,
}

/// The exit code of a process that panicked, as in any Rust program.
const PANICKED: i32 = 101;
/// Minimum and maximum stack of a process that was forked from a new thread, whose stack does not grow.
const LEAST_STACK: u64 = 2 << 20;
const MOST_STACK: u64 = 256 << 20;

/// The number of threads of this process.
pub(crate) fn threads() -> io::Result<usize> {
    system::threads()
}

impl SingleThreaded {
    /// Checks that there is only one thread. The inner error is the number of threads.
    ///
    /// # Errors
    /// The threads cannot be counted.
    pub(crate) fn check() -> io::Result<Result<Self, usize>> {
        let until = Instant::now() + TO_BE_GONE;
        loop {
            match threads()? {
                1 => return Ok(Ok(Self { _here: PhantomData })),
                _ if Instant::now() < until => thread::sleep(LOOK),
                count => return Ok(Err(count)),
            }
        }
    }

    /// Forks. The child has one thread, too, so it may do anything that a program may.
    pub(crate) fn fork(&self) -> nix::Result<Forked> {
        fork()
    }

    /// Forks from a new thread, which then ends. The child runs `child` with unused thread-local values, so that a random
    /// generator kept in one is seeded anew in each process that the child forks. In this process, the values that `child`
    /// has captured are not dropped.
    pub(crate) fn fork_untouched<F>(&self, child: F) -> io::Result<Pid>
    where
        F: FnOnce(Self) -> Infallible + Send + 'static,
    {
        let stack = usize::try_from(stack_size()).unwrap_or(usize::MAX);
        let begins = Arc::new(Barrier::new(2));
        let begun = Arc::clone(&begins);
        // Named like the first thread of any program, because panic messages contain the name.
        let child = ManuallyDrop::new(child);
        let forks = thread::Builder::new().name("main".into()).stack_size(stack).spawn(move || {
            begun.wait();
            // The other thread only waits for this one, and holds no lock.
            match fork()? {
                Forked::Parent(pid) => Ok(pid),
                Forked::Child => {
                    let _ = catch_unwind(AssertUnwindSafe(|| {
                        ManuallyDrop::into_inner(child)(Self { _here: PhantomData })
                    }));
                    exit_now(PANICKED)
                }
            }
        })?;
        begins.wait();
        forks.join().unwrap_or(Err(nix::Error::EAGAIN)).map_err(io::Error::from)
    }
}

/// Forks while no other thread of this process holds a lock.
#[expect(unsafe_code, reason = "fork")]
fn fork() -> nix::Result<Forked> {
    // SAFETY: After a fork, only the calling thread lives on in the child, and locks of other threads would stay locked
    // there for ever. Callers have a `SingleThreaded`, which proves that there is no other thread, or are the only thread
    // beside its owner, which waits in `join`.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(Forked::Parent(child)),
        ForkResult::Child => Ok(Forked::Child),
    }
}

/// The stack size that the first thread of a program may have.
fn stack_size() -> u64 {
    getrlimit(Resource::RLIMIT_STACK).map_or(LEAST_STACK, |(soft, _)| soft.clamp(LEAST_STACK, MOST_STACK))
}

/// Ends this process at once, without destructors or exit handlers: these belong to the process that it was forked from.
#[expect(unsafe_code, reason = "std's exit runs the handlers of the process that this was forked from")]
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Sets the name that `ps` shows for this process: at most 15 bytes.
pub(crate) fn name_process(name: &CStr) {
    // Only for display, so errors are ignored.
    let _ = system::name_process(name);
}

/// The children of this process, including zombies, for a process with one thread. If it adopts orphans, orphans among its
/// descendants are its children, too.
pub(crate) fn children() -> io::Result<Vec<Pid>> {
    system::children()
}
