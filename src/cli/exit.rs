//! How does a command end? With a code for each kind of failure, and a sentence that says what to do.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use crate::broker::{BrokerError, BrokerErrorKind};
use crate::cli::logs::LINES;
use crate::cli::output;
use crate::client::BulkError;
use crate::error::Error;
use crate::json::ArgumentsError;
use crate::protocol::names::NameError;
use crate::task::RegistryError;
use crate::task::error::chain;

/// What the codes mean, for `--help`.
pub(super) const CODES: &str = "\
Exit codes:
  0  done
  1  the command failed, or `doctor` found a problem
  2  the command line is invalid, or arguments do not fit their task
  3  Redis cannot be reached, is not ready, or did not respond (then the call may have been applied)
  4  Redis rejected the request: password, read-only, full, wrong type of key, too old, no hash tag in a Cluster
  5  configuration: a setting out of range, a TLS failure, no tasks, two tasks with one name
  6  not found: no such task, no such call, no such dead letter, no such run
  7  a call has not ended in the time to wait for it; it continues
  70 a task ended the process of its worker, for example with std::process::exit";

/// What kind of end it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Code {
    /// Whoever read our output has gone: nothing more to say.
    Unread = 0,
    Failed = 1,
    Usage = 2,
    Unreachable = 3,
    Refused = 4,
    Configuration = 5,
    NotFound = 6,
    /// What was waited for goes on.
    Late = 7,
}

/// Why a command did not do what it should.
#[derive(Debug)]
pub(super) struct Failure {
    code: Code,
    text: String,
}

impl Failure {
    pub(super) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    pub(super) fn usage(text: impl Into<String>) -> Self {
        Self::new(Code::Usage, text)
    }

    pub(super) fn configuration(text: impl Into<String>) -> Self {
        Self::new(Code::Configuration, text)
    }

    pub(super) fn not_found(text: impl Into<String>) -> Self {
        Self::new(Code::NotFound, text)
    }

    pub(super) fn io(what: &str, error: &std::io::Error) -> Self {
        let code = if error.kind() == ErrorKind::BrokenPipe { Code::Unread } else { Code::Failed };
        Self::new(code, format!("{what}: {error}"))
    }

    /// What holds although it failed.
    pub(super) fn although(mut self, fact: &str) -> Self {
        self.text = format!("{}; {fact}", self.text);
        self
    }

    pub(super) fn code(&self) -> Code {
        self.code
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Says it, as a sentence or as JSON, and gives the code.
    pub(super) fn report(&self, json: bool) -> ExitCode {
        if self.code != Code::Unread {
            // It may repeat what somebody gave, or a server said.
            let text = output::clean_lines(&self.text);
            let said = match json {
                true => serde_json::json!({ "error": text, "exit": self.code as u8 }).to_string(),
                false => format!("error: {text}"),
            };
            // Where nobody reads errors, the code is all that can be given.
            if LINES.is_open() {
                let _ = writeln!(std::io::stderr(), "{said}");
            }
        }
        ExitCode::from(self.code as u8)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Broker(error) => code_of(error.kind()),
            Error::Config(_)
            | Error::Name(_)
            | Error::Limit(_)
            | Error::Periodic(_)
            | Error::Registry(_)
            | Error::NoZygote { .. }
            | Error::Zygote(_) => Code::Configuration,
            Error::AlreadyScheduled { .. } | Error::Exists { .. } | Error::QueueFull { .. } => Code::Refused,
            Error::Encode { .. }
            | Error::TooLarge { .. }
            | Error::Refused { .. }
            | Error::Io(_)
            | Error::ZygoteDied => Code::Failed,
        };
        Self::new(code, chain(&error))
    }
}

impl From<BrokerError> for Failure {
    fn from(error: BrokerError) -> Self {
        Error::from(error).into()
    }
}

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Self {
        Error::from(error).into()
    }
}

impl From<NameError> for Failure {
    fn from(error: NameError) -> Self {
        Error::from(error).into()
    }
}

impl From<ArgumentsError> for Failure {
    fn from(error: ArgumentsError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<BulkError> for Failure {
    fn from(error: BulkError) -> Self {
        let code = error.error().broker_kind().map_or(Code::Failed, code_of);
        Self::new(code, chain(&error))
    }
}

fn code_of(kind: BrokerErrorKind) -> Code {
    match kind {
        BrokerErrorKind::Unreachable | BrokerErrorKind::Uncertain | BrokerErrorKind::NotReady => {
            Code::Unreachable
        }
        BrokerErrorKind::Full
        | BrokerErrorKind::ReadOnly
        | BrokerErrorKind::Denied
        | BrokerErrorKind::WrongType
        | BrokerErrorKind::Unsupported => Code::Refused,
        BrokerErrorKind::Address | BrokerErrorKind::Tls => Code::Configuration,
        BrokerErrorKind::Stale | BrokerErrorKind::Reply => Code::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_failure_has_its_code() {
        let broker = |kind| Failure::from(BrokerError::new("claim", kind, "x")).code;
        assert_eq!(broker(BrokerErrorKind::Unreachable), Code::Unreachable);
        assert_eq!(broker(BrokerErrorKind::Denied), Code::Refused);
        assert_eq!(broker(BrokerErrorKind::Address), Code::Configuration);
        assert_eq!(Failure::from(RegistryError::Empty).code, Code::Configuration);
        let closed = std::io::Error::from(ErrorKind::BrokenPipe);
        assert_eq!(Failure::io("output", &closed).code, Code::Unread);
    }
}
