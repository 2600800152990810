//! A runtime on a thread of its own: so a thread may wait for a future wherever it is, also where it runs async code.

use std::io;
use std::panic::resume_unwind;
use std::sync::mpsc;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinError;

/// A runtime that runs while this is there.
#[derive(Debug)]
pub(super) struct Background {
    /// Always there, until the end.
    runtime: Option<Runtime>,
}

impl Background {
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("delayed-testing")
            .enable_all()
            .build()?;
        Ok(Self { runtime: Some(runtime) })
    }

    /// Runs a future. If it panics, so does this.
    pub(super) async fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        self.runtime().spawn(future).await.unwrap_or_else(|error| pass_on(error))
    }

    /// Runs a future while this thread waits. If it panics, so does this.
    pub(super) fn wait<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let (done, ended) = mpsc::channel();
        let running = self.runtime().spawn(future);
        self.runtime().spawn(async move { drop(done.send(running.await)) });
        let ended = ended.recv().expect("the runtime is there while this is");
        ended.unwrap_or_else(|error| pass_on(error))
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is taken at the end")
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A test may drop it in async code, where waiting is not allowed.
            runtime.shutdown_background();
        }
    }
}

fn pass_on(error: JoinError) -> ! {
    match error.try_into_panic() {
        Ok(payload) => resume_unwind(payload),
        Err(error) => panic!("delayed::testing: {error}"),
    }
}
