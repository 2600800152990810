//! Extracts the cause from an error of the library: the error of the connection, and whether anything was sent.

use std::error::Error;
use std::sync::Arc;
use std::{fmt, io};

use redis::RedisError;

/// A stored error. It is shared because several requests may get it.
pub(super) type Shared = Arc<dyn Error + Send + Sync>;

/// Marks an error that occurred before a byte of a request was written.
#[derive(Debug)]
pub(super) struct NotSent(RedisError);

impl NotSent {
    /// Wraps it in an error of the library, because it passes through the library.
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

/// Marks the error that a call is on its server, but too few replicas have confirmed it.
#[derive(Debug)]
pub(super) struct Unconfirmed {
    pub(super) confirmed: u32,
    pub(super) needed: u32,
}

impl Unconfirmed {
    /// Wraps it in an error of the library, because it passes through the library.
    pub(super) fn wrap(self) -> RedisError {
        io::Error::other(self).into()
    }
}

impl fmt::Display for Unconfirmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} replicas have confirmed it in time", self.confirmed, self.needed)
    }
}

impl Error for Unconfirmed {}

/// The source of an error: the error of the connection if there is one, else the library's own.
pub(super) fn of(error: &RedisError) -> Shared {
    inside(error).map_or_else(|| Arc::new(error.clone()) as Shared, Arc::clone)
}

/// The error of this type that a connection reported.
pub(super) fn of_connection<T: Error + 'static>(error: &RedisError) -> Option<&T> {
    inside(error)?.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref()
}

fn inside(error: &RedisError) -> Option<&Shared> {
    error.source()?.downcast_ref()
}
