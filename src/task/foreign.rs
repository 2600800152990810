//! Builds calls of Python and Go functions, with the bytes that their own packages write.

use serde::Serialize;

use crate::protocol::encode::{self, EncodeError, Encoder};
use crate::protocol::names::{check_path, check_python_path};

/// A call of a Python function, for a worker of the Python package `delayed`.
///
/// Structs become maps, which Python reads as `dict`.
///
/// ```
/// use delayed::{Call, PyTask};
///
/// let task = PyTask::new("mails.tasks:send").arg("ann@example.org").kwarg("urgent", true).retry(3);
/// let call: Call = task.queue("mail");
/// assert_eq!(call.task(), "mails.tasks:send");
/// ```
#[derive(Debug, Clone)]
#[must_use = "a call does nothing until a client enqueues it"]
pub struct PyTask {
    path: String,
    args: Vec<Vec<u8>>,
    kwargs: Vec<(String, Vec<u8>)>,
    retry: i64,
    error: Option<EncodeError>,
}

impl PyTask {
    /// Calls the function at `path`: `package.module:function`. An invalid path is an error of
    /// [`Call::encode`](crate::Call::encode), and so of the client that enqueues the call.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), args: Vec::new(), kwargs: Vec::new(), retry: 0, error: None }
    }

    /// Adds a positional argument.
    pub fn arg(mut self, value: impl Serialize) -> Self {
        let place = self.args.len() + 1;
        match encode::with_maps(&value) {
            Ok(value) => self.args.push(value),
            Err(reason) => self.fail("args", format!("number {place}: {reason}")),
        }
        self
    }

    /// Adds a keyword argument. It replaces one with the same name.
    pub fn kwarg(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        let name = name.into();
        match encode::with_maps(&value) {
            Ok(value) => {
                self.kwargs.retain(|(other, _)| *other != name);
                self.kwargs.push((name, value));
            }
            Err(reason) => self.fail("kwargs", format!("`{name}`: {reason}")),
        }
        self
    }

    /// Sets how often the call is retried if it fails; a negative number: without limit.
    pub fn retry(mut self, retry: i64) -> Self {
        self.set_retry(retry);
        self
    }

    pub(crate) fn set_retry(&mut self, retry: i64) {
        self.retry = retry;
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        check_python_path(&self.path)?;
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let mut args = Vec::new();
        encode::array_head(&mut args, self.args.len());
        self.args.iter().for_each(|value| args.extend_from_slice(value));
        let mut kwargs = Vec::new();
        encode::map_head(&mut kwargs, self.kwargs.len());
        for (name, value) in &self.kwargs {
            encode::text(&mut kwargs, name);
            kwargs.extend_from_slice(value);
        }
        Ok(encode::py_task(&self.path, &args, &kwargs, self.retry))
    }

    /// Keeps the first error.
    fn fail(&mut self, name: &'static str, reason: String) {
        self.error.get_or_insert(EncodeError::Argument { name, reason });
    }
}

/// A call of a Go function, for a worker of the module `go-delayed`.
///
/// Structs become arrays of their fields, which is how Go reads them.
///
/// ```
/// use delayed::{Call, GoTask};
///
/// let call: Call = GoTask::new("mails.Send").arg("ann@example.org").arg(true).into();
/// assert_eq!(call.task(), "mails.Send");
/// ```
#[derive(Debug, Clone)]
#[must_use = "a call does nothing until a client enqueues it"]
pub struct GoTask {
    path: String,
    args: Vec<Result<Vec<u8>, EncodeError>>,
}

impl GoTask {
    /// Calls the function at `path`, as it is registered in Go. A path that is empty or has spaces is an error of
    /// [`Call::encode`](crate::Call::encode), and so of the client that enqueues the call.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), args: Vec::new() }
    }

    /// Adds an argument.
    pub fn arg(mut self, value: impl Serialize) -> Self {
        let mut encoder = Encoder::new(1);
        encoder.argument("args", &value);
        let place = self.args.len() + 1;
        self.args.push(encoder.finish().map_err(|error| match error {
            EncodeError::Argument { name, reason } => {
                EncodeError::Argument { name, reason: format!("number {place}: {reason}") }
            }
            other => other,
        }));
        self
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        check_path(&self.path)?;
        let mut payload = Vec::new();
        match self.args.len() {
            0 => payload.push(0xc0),
            1 => {}
            count => encode::array_head(&mut payload, count),
        }
        for value in &self.args {
            payload.extend_from_slice(value.as_ref().map_err(Clone::clone)?);
        }
        Ok(encode::go_task(&self.path, &payload))
    }
}
