//! Asks the Redis of a test, on a runtime of its own: so a thread may wait for the answer wherever it is.

use std::sync::mpsc;

use tokio::runtime::{Builder, Runtime};

use crate::error::Error;
use crate::inspect::Inspector;

/// A connection to the Redis of a test, and the runtime that drives it.
#[derive(Debug)]
pub(super) struct Connection {
    inspector: Inspector,
    /// Always there, until the end.
    runtime: Option<Runtime>,
    url: String,
}

impl Connection {
    /// Connects, on a thread without a runtime.
    pub(super) fn open(url: String) -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("delayed-testing")
            .enable_all()
            .build()
            .map_err(Error::Io)?;
        let inspector = runtime.block_on(Inspector::connect(&url))?;
        Ok(Self { inspector, runtime: Some(runtime), url })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn inspector(&self) -> Inspector {
        self.inspector.clone()
    }

    /// Asks Redis something.
    ///
    /// # Panics
    /// Redis cannot be used.
    pub(super) async fn ask<T, F>(&self, ask: impl FnOnce(Inspector) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let asked = self.runtime().spawn(ask(self.inspector()));
        match asked.await {
            Ok(answer) => answer.unwrap_or_else(|error| refuse(&error)),
            Err(error) => refuse(&error),
        }
    }

    /// The same, while this thread waits.
    #[track_caller]
    pub(super) fn ask_blocking<T, F>(&self, ask: impl FnOnce(Inspector) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        self.wait(ask(self.inspector())).unwrap_or_else(|error| refuse(&error))
    }

    /// Runs a future while this thread waits, also where it runs async code.
    #[track_caller]
    pub(super) fn wait<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let (done, ended) = mpsc::channel();
        self.runtime().spawn(async move { drop(done.send(future.await)) });
        // A panic of the future has said why.
        ended.recv().unwrap_or_else(|_| refuse(&"it panicked"))
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is taken at the end")
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A test may drop it in async code, where waiting is not allowed.
            runtime.shutdown_background();
        }
    }
}

#[track_caller]
fn refuse(problem: &dyn std::fmt::Display) -> ! {
    panic!("delayed::testing::Redis: {problem}")
}
