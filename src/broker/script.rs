//! How is a script called? By its digest; a server that does not know it is told its text.

use std::sync::LazyLock;

use redis::{Arg, Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value};

use crate::broker::commands::{Calls, Numbered, call_blocking};
use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::crash;
use crate::protocol::names::SUFFIXES;

/// A Lua script of `lua/`.
pub(super) struct Script {
    pub(super) name: &'static str,
    /// What of its file is sent.
    text: &'static str,
    digest: LazyLock<String>,
}

macro_rules! scripts {
    ($($constant:ident = $name:literal;)*) => {
        /// Every script.
        static ALL: &[&Script] = &[$(&$constant),*];

        $(pub(super) static $constant: Script = Script {
            name: $name,
            text: {
                const FILE: &[u8] = include_bytes!(concat!("../../lua/", $name, ".lua"));
                const CODE: &[u8; FILE.len()] = &without_comments(FILE).0;
                match str::from_utf8(CODE.split_at(without_comments::<{ FILE.len() }>(FILE).1).0) {
                    Ok(text) => text,
                    Err(_) => panic!("a script is UTF-8"),
                }
            },
            digest: LazyLock::new(|| redis::Script::new($constant.text).get_hash().to_owned()),
        };)*
    };
}

/// A script without its lines of comment, and how long it is. A worker sends all scripts before it begins, and half of them is
/// comment. The lines stay, though empty: what Redis says of a line is said of that of the file.
const fn without_comments<const N: usize>(file: &[u8]) -> ([u8; N], usize) {
    let (mut code, mut length, mut at) = ([0; N], 0, 0);
    while at < file.len() {
        let mut word = at;
        while word < file.len() && file[word] == b' ' {
            word += 1;
        }
        let is_comment = word + 1 < file.len() && file[word] == b'-' && file[word + 1] == b'-';
        loop {
            let byte = file[at];
            if !is_comment || byte == b'\n' {
                code[length] = byte;
                length += 1;
            }
            at += 1;
            if byte == b'\n' || at == file.len() {
                break;
            }
        }
    }
    (code, length)
}

scripts! {
    CLAIM = "claim";
    PICK_UP = "pick_up";
    RETRY = "retry";
    PUT_BACK = "put_back";
    BURY = "bury";
    BEAT = "beat";
    RECONCILE = "reconcile";
    RESIGN = "resign";
    KILL = "kill";
    REQUEUE_LOST = "requeue_lost";
    BALANCE = "balance";
    REVIVE = "revive";
    PURGE = "purge";
}

/// Appends requests that tell the server all scripts, so that no call has to be sent twice.
pub(super) fn add_loads(pipeline: &mut Pipeline) {
    for script in ALL {
        pipeline.cmd("SCRIPT").arg("LOAD").arg(script.text);
    }
}

/// The digest by which the script of that name is called.
#[cfg(feature = "testing")]
pub(crate) fn digest_of(name: &str) -> Option<&'static str> {
    let script = ALL.iter().find(|script| script.name == name)?;
    Some(script.digest.as_str())
}

impl Script {
    /// A call with `keys`; `arguments` and `bytes` say how much will be appended, so that it is allocated once.
    pub(super) fn command(&self, keys: &[&str], arguments: usize, bytes: usize) -> Cmd {
        let key_bytes: usize = keys.iter().map(|key| key.len()).sum();
        let mut command = Cmd::with_capacity(keys.len() + arguments + 3, key_bytes + bytes + 64);
        command.arg("EVALSHA").arg(self.digest.as_str()).arg(keys.len());
        for key in keys {
            command.arg(*key);
        }
        command
    }

    /// Runs a call that [`Self::command`] began.
    pub(super) async fn run<C: Calls>(&self, connection: &mut C, command: Cmd) -> Result<Value, BrokerError> {
        let call = Numbered::new(command);
        crash::point(self.name, "before");
        let mut result = connection.call(&call).await;
        if is_unknown_script(&result) {
            // Refused before anything ran, so it is safe to send it again.
            let load = redis::cmd("SCRIPT").arg("LOAD").arg(self.text).to_owned();
            result = match connection.call(&Numbered::new(load)).await {
                Ok(_) => connection.call(&call.again()).await,
                Err(error) => Err(error),
            };
        }
        crash::point(self.name, "replied");
        result.and_then(Value::extract_error).map_err(|error| self.failed(call.command(), &error))
    }

    /// Runs a call on a connection that blocks its thread.
    pub(super) fn run_blocking(
        &self,
        connection: &mut redis::Connection,
        command: &Cmd,
    ) -> Result<Value, BrokerError> {
        crash::point(self.name, "before");
        let mut result = call_blocking(connection, command);
        if is_unknown_script(&result) {
            let load = redis::cmd("SCRIPT").arg("LOAD").arg(self.text).to_owned();
            result = call_blocking(connection, &load).and_then(|_| call_blocking(connection, command));
        }
        crash::point(self.name, "replied");
        result.and_then(Value::extract_error).map_err(|error| self.failed(command, &error))
    }

    fn failed(&self, command: &Cmd, error: &RedisError) -> BrokerError {
        BrokerError::from_redis(self.name, error).of_queue(queue_of(command))
    }

    /// The values of a reply, or of a part of it, that is to be an array.
    pub(super) fn array(&self, reply: Value) -> Result<Vec<Value>, BrokerError> {
        match reply {
            Value::Array(values) => Ok(values),
            other => Err(self.unexpected(&other)),
        }
    }

    /// The reply was of another shape than the script's header says.
    pub(super) fn unexpected(&self, reply: &Value) -> BrokerError {
        // Nothing of what calls carry, which may be much.
        let came = match reply {
            Value::Array(values) => format!("an array of {}", values.len()),
            Value::BulkString(bytes) => format!("a string of {} bytes", bytes.len()),
            other => format!("{other:?}"),
        };
        BrokerError::new(self.name, BrokerErrorKind::Reply, came)
    }
}

/// The queue whose keys a call has: each call has one that stands beside the queue's own.
fn queue_of(command: &Cmd) -> Option<&str> {
    let keys = command.args_iter().skip(3).filter_map(|key| match key {
        Arg::Simple(key) => std::str::from_utf8(key).ok(),
        _ => None,
    });
    keys.into_iter().find_map(|key| SUFFIXES.iter().find_map(|suffix| key.strip_suffix(suffix)))
}

fn is_unknown_script(result: &RedisResult<Value>) -> bool {
    let no_script = ErrorKind::Server(ServerErrorKind::NoScript);
    match result {
        Err(error) => error.kind() == no_script,
        Ok(Value::ServerError(error)) => error.kind() == Some(ServerErrorKind::NoScript),
        Ok(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_left_out_and_lines_stay_where_they_are() {
        for (file, expected) in [
            (
                "-- of it\nlocal a = '--' -- b\n  -- c\n\n  return a\n",
                "\nlocal a = '--' -- b\n\n\n  return a\n",
            ),
            ("return 1 - -1", "return 1 - -1"),
            ("-", "-"),
            ("  --", ""),
            ("", ""),
        ] {
            let (code, length) = without_comments::<64>(file.as_bytes());
            assert_eq!(str::from_utf8(&code[..length]), Ok(expected), "{file:?}");
        }
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/lua/");
        for script in ALL {
            let file = std::fs::read_to_string(format!("{directory}{}.lua", script.name)).unwrap();
            let is_code = |line: &&str| !line.trim_start().starts_with("--") && !line.is_empty();
            assert!(
                script.text.lines().filter(|line| !line.is_empty()).eq(file.lines().filter(is_code)),
                "expected all code of {} and nothing else",
                script.name
            );
            assert_eq!(script.text.lines().count(), file.lines().count(), "{}", script.name);
        }
    }
}
