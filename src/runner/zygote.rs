//! The zygote: a process with one thread that is forked before other threads exist, and does nothing but fork.

mod server;
mod subreaper;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::kill;
use nix::sys::socket::{Shutdown, shutdown};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::runner::child::ChildEnvironment;
use crate::sys::fork::{Forked, SingleThreaded};
use crate::sys::{HAS_ZYGOTE, descriptors, packets};
use crate::task::{Context, Layers, Next, Registry, RegistryError, States, TaskError};

/// The process that forks a worker's children. Start it first in `main`, while the process has one thread:
///
/// ```no_run
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let zygote = delayed::Zygote::builder().start()?;
///     tokio::runtime::Runtime::new()?.block_on(async {
///         let worker = delayed::Worker::builder("redis://127.0.0.1:6379").zygote(zygote).connect().await?;
///         worker.run().await?;
///         Ok(())
///     })
/// }
/// ```
///
/// [`delayed::main`](crate::main) does this itself. Dropping the zygote ends its process and everything that it forked.
#[derive(Debug)]
pub struct Zygote {
    control: OwnedFd,
    subreaper: Arc<Subreaper>,
}

/// The zygote's parent, a child of this process. `None` once it was reaped, because another process may then have its id.
#[derive(Debug)]
struct Subreaper(Mutex<Option<Pid>>);

/// How long the zygote and everything that it forked may take to end. If the subreaper and the zygote were suspended, they
/// end only after this process.
const TO_END: Duration = Duration::from_secs(5);
/// How often their end is checked.
const LOOK: Duration = Duration::from_millis(1);

/// Why a zygote could not be started.
///
/// `Debug` prints the same as `Display`, with its causes, because a `main` that returns this error prints it that way.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ZygoteError {
    /// The process has other threads.
    #[error(
        "this process has {count} threads, so a forked process could hang on a lock that one of them holds: start the \
        zygote first in a plain `fn main`, before any runtime (no `#[tokio::main]`), thread or connection; create a \
        state that starts threads with `state_with`, which calls its closure in each process"
    )]
    ThreadsRunning {
        /// The number of threads.
        count: usize,
    },
    /// The threads of this process cannot be counted.
    #[error(
        "/proc/self/task cannot be read, so it is unknown how many threads this process has, and no process can be \
        forked safely: mount /proc, or run tasks inline"
    )]
    Proc(#[source] io::Error),
    /// Tasks need Linux to run in their own processes.
    #[error("tasks can run in separate processes only on Linux: run them inline here")]
    Unsupported,
    /// The zygote lacks something that its tasks need.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The operating system could not start the zygote.
    #[error("the zygote cannot be started")]
    Io(#[source] io::Error),
}

impl std::fmt::Debug for ZygoteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&crate::task::error::chain(self))
    }
}

/// Builds a [`Zygote`].
#[derive(Debug, Default)]
#[must_use = "a zygote is made by `start`"]
pub struct ZygoteBuilder {
    registry: Option<Registry>,
    states: States,
    layers: Layers,
}

impl ZygoteBuilder {
    /// Sets the tasks that children can run. Give the worker the same. Default: all linked tasks.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    /// Shares a value with tasks that have a [`State<T>`](crate::State) parameter. Descriptors that it has open are closed
    /// in children: see [`state_with`](Self::state_with).
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.states.insert(value);
        self
    }

    /// Shares a value that each process creates itself when a task first needs it. Use this for values with connections or
    /// threads.
    pub fn state_with<T: Send + Sync + 'static>(
        mut self,
        make: impl Fn() -> T + Send + Sync + 'static,
    ) -> Self {
        self.states.insert_with(make);
        self
    }

    /// Shares all of these values with tasks, in place of those given before.
    pub fn states(mut self, states: States) -> Self {
        self.states = states;
        self
    }

    /// Adds a layer around the runs in its children, inside those added before: see
    /// [`WorkerBuilder::layer`](crate::worker::WorkerBuilder::layer). Give the worker the same.
    pub fn layer<F>(mut self, layer: impl Fn(Context, Next) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), TaskError>> + Send + 'static,
    {
        self.layers.push(layer);
        self
    }

    /// Surrounds the runs in its children with these layers, in place of those given before.
    #[cfg(feature = "cli")]
    pub(crate) fn layers(mut self, layers: Layers) -> Self {
        self.layers = layers;
        self
    }

    /// Forks the zygote.
    ///
    /// # Errors
    /// The process has more than one thread or no `/proc`, this system is not Linux, there are no tasks or two of one name, a state is missing, or the system refuses.
    pub fn start(self) -> Result<Zygote, ZygoteError> {
        let registry = match self.registry {
            Some(registry) => registry,
            None => Registry::collect()?,
        };
        registry.check_states(&self.states)?;
        if !HAS_ZYGOTE {
            return Err(ZygoteError::Unsupported);
        }
        let alone = SingleThreaded::check()
            .map_err(ZygoteError::Proc)?
            .map_err(|count| ZygoteError::ThreadsRunning { count })?;
        let refused = |error: nix::Error| ZygoteError::Io(error.into());
        let (control, theirs) = packets::pair().map_err(refused)?;
        let worker = nix::unistd::getpid();
        // Otherwise, children would print buffered output again.
        descriptors::flush_standard_output();
        match alone.fork().map_err(refused)? {
            Forked::Parent(subreaper) => {
                let subreaper = Arc::new(Subreaper(Mutex::new(Some(subreaper))));
                Ok(Zygote { control, subreaper })
            }
            Forked::Child => subreaper::run(
                alone,
                worker,
                theirs,
                ChildEnvironment::new(registry, self.states, self.layers),
            ),
        }
    }
}

impl Zygote {
    /// Creates a builder for a zygote.
    pub fn builder() -> ZygoteBuilder {
        ZygoteBuilder::default()
    }

    /// The worker's end of the connection to the zygote; it is nonblocking.
    pub(super) fn control(&self) -> io::Result<OwnedFd> {
        descriptors::set_nonblocking(&self.control)?;
        self.control.try_clone()
    }

    /// Resolves when the zygote and everything that it forked have ended, or after a timeout.
    pub(super) fn end(&self) -> impl Future<Output = ()> + Send + use<> {
        let subreaper = Arc::clone(&self.subreaper);
        async move {
            // Not on a blocking thread, because all of them may be busy.
            let until = Instant::now() + TO_END;
            while !subreaper.has_ended() {
                if Instant::now() >= until {
                    tracing::warn!(waited = ?TO_END, "subreaper did not exit");
                    return;
                }
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// Ends the connection, even if others hold copies of the descriptor, and thereby the zygote.
    pub(super) fn hang_up(&self) {
        // The zygote may be dead.
        let _ = shutdown(self.control.as_raw_fd(), Shutdown::Both);
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        self.hang_up();
        // The zygote ends within milliseconds. Without this wait, it would stay a zombie until the program ends.
        let until = Instant::now() + TO_END;
        while !self.subreaper.has_ended() && Instant::now() < until {
            thread::sleep(LOOK);
        }
    }
}

impl Subreaper {
    /// Whether the subreaper has ended; reaps it if so.
    fn has_ended(&self) -> bool {
        let mut subreaper = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lives = |pid| match waitpid(pid, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) | Err(nix::Error::EINTR) => true,
            // The program ignores SIGCHLD, so the kernel reaps ended processes, and this error is the only sign.
            Err(nix::Error::ECHILD) => kill(pid, None).is_ok(),
            _ => false,
        };
        *subreaper = subreaper.filter(|pid| lives(*pid));
        subreaper.is_none()
    }
}
