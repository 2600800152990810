//! The errors inside of one of the library's: what a connection met, and whether anything was sent.

use std::error::Error;
use std::sync::Arc;
use std::{fmt, io};

use redis::RedisError;

/// An error as it is kept: it may have come to several requests at once.
pub(super) type Shared = Arc<dyn Error + Send + Sync>;

/// Marks an error that was met before a byte of a request was written.
#[derive(Debug)]
pub(super) struct NotSent(RedisError);

impl NotSent {
    /// As the library's error, since it comes through the library.
    pub(super) fn wrap(error: RedisError) -> RedisError {
        io::Error::new(io::ErrorKind::NotConnected, Self(error)).into()
    }

    pub(super) fn inside(error: &RedisError) -> Option<&RedisError> {
        of_connection::<Self>(error).map(|marked| &marked.0)
    }
}

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for NotSent {}

/// What to give as the source: the error of the connection where there is one, else the library's own.
pub(super) fn of(error: &RedisError) -> Shared {
    inside(error).map_or_else(|| Arc::new(error.clone()) as Shared, Arc::clone)
}

/// The error of that type which a connection met.
pub(super) fn of_connection<T: Error + 'static>(error: &RedisError) -> Option<&T> {
    inside(error)?.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref()
}

fn inside(error: &RedisError) -> Option<&Shared> {
    error.source()?.downcast_ref()
}
