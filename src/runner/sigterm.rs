//! SIGTERM asks a run in a child to end: it sets the flag of its context.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::sys::{descriptors, signals};
use crate::task::Cancellation;

/// Turns SIGTERM into the cancellation of the run that listens; while none does, SIGTERM ends the process.
#[derive(Default)]
pub(super) struct SigtermHandler {
    shared: Option<Arc<Shared>>,
    heard: bool,
}

#[derive(Default)]
struct Shared {
    run: Mutex<Option<Cancellation>>,
    fired: AtomicBool,
}

impl SigtermHandler {
    /// Sets the run that SIGTERM cancels; with `None`, SIGTERM ends the process again.
    ///
    /// # Errors
    /// The system provides no pipe or no thread.
    pub(super) fn listen(&mut self, run: Option<Cancellation>) -> io::Result<()> {
        let hears = run.is_some();
        match &self.shared {
            None if !hears => return Ok(()),
            None => self.start(run)?,
            Some(shared) => {
                *shared.run.lock().unwrap_or_else(PoisonError::into_inner) = run;
                if hears != self.heard {
                    if hears { signals::hear_term()? } else { signals::obey_term()? }
                }
            }
        }
        self.heard = hears;
        Ok(())
    }

    /// Whether its thread runs, which it does until the process ends.
    pub(super) fn has_started(&self) -> bool {
        self.shared.is_some()
    }

    /// Whether a SIGTERM has come to a run that listened.
    pub(super) fn has_fired(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.fired.load(Ordering::Relaxed))
    }

    /// Starts the thread that waits for the signal: setting the flag takes locks, which a signal handler must not do.
    fn start(&mut self, run: Option<Cancellation>) -> io::Result<()> {
        let shared = Arc::new(Shared { run: Mutex::new(run), fired: AtomicBool::new(false) });
        let (read, write) = descriptors::blocking_pipe()?;
        descriptors::set_nonblocking(&write)?;
        let heard = Arc::clone(&shared);
        std::thread::Builder::new().name("delayed-term".into()).stack_size(64 << 10).spawn(move || {
            let mut pipe = std::fs::File::from(read);
            while let Ok(1..) = pipe.read(&mut [0; 16]) {
                heard.fired.store(true, Ordering::Relaxed);
                let run = heard.run.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if let Some(run) = run {
                    run.cancel();
                }
            }
        })?;
        signals::on_term_write(write)?;
        self.shared = Some(shared);
        Ok(())
    }
}
