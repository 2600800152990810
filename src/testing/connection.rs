//! Asks the Redis of a test.

use crate::error::Error;
use crate::inspect::Inspector;
use crate::testing::background::Background;

/// A connection to the Redis of a test, and the runtime that drives it.
#[derive(Debug)]
pub(super) struct Connection {
    inspector: Inspector,
    background: Background,
    url: String,
}

impl Connection {
    /// Connects.
    pub(super) fn open(url: String) -> Result<Self, Error> {
        let background = Background::start().map_err(Error::Io)?;
        let address = url.clone();
        let inspector = background.wait(async move { Inspector::connect(&address).await })?;
        Ok(Self { inspector, background, url })
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
        self.background.run(ask(self.inspector())).await.unwrap_or_else(|error| refuse(&error))
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

    /// Runs a future while this thread waits.
    pub(super) fn wait<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        self.background.wait(future)
    }
}

#[track_caller]
fn refuse(error: &Error) -> ! {
    panic!("delayed::testing::Redis: {error}")
}
