//! Calls scripts by their digests, and sends the text to a server that does not know one.
//!
//! A process loads all scripts once, when it first connects; reconnecting sends none of them. They are sent without
//! comments and indentation, which are a third of their bytes: before authentication, Redis accepts at most 16,384 bytes
//! per argument.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{Arg, Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value};

use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::broker::numbered::{Calls, Numbered};
use crate::broker::wrong_key::{expected_type, named};
use crate::crash;
use crate::protocol::names::SUFFIXES;

/// A Lua script of `lua/`.
pub(super) struct Script {
    pub(super) name: &'static str,
    loaded: LazyLock<Loaded>,
}

/// The text and the digest of a script, as sent.
struct Loaded {
    text: String,
    digest: String,
}

/// Text that several scripts share, by name: `--! include name` inserts it.
const SHARED: [(&str, &str); 12] = [
    ("batch", include_str!("../../lua/shared/batch.lua")),
    ("cancelled", include_str!("../../lua/shared/cancelled.lua")),
    ("deaths", include_str!("../../lua/shared/deaths.lua")),
    ("letters", include_str!("../../lua/shared/letters.lua")),
    ("line", include_str!("../../lua/shared/line.lua")),
    ("marks", include_str!("../../lua/shared/marks.lua")),
    ("now", include_str!("../../lua/shared/now.lua")),
    ("paused", include_str!("../../lua/shared/paused.lua")),
    ("record", include_str!("../../lua/shared/record.lua")),
    ("stale", include_str!("../../lua/shared/stale.lua")),
    ("suspects", include_str!("../../lua/shared/suspects.lua")),
    ("tracked", include_str!("../../lua/shared/tracked.lua")),
];

/// How many bytes Redis accepts as one bulk from a connection that is not authenticated. The scripts follow the password
/// without waiting for its reply, so a longer script would turn "wrong password" into a broken connection.
#[cfg(test)]
const LARGEST_BULK: usize = 16_384;

/// The scripts that take any number of keys, and use no others.
const NAMING_ALL: [&str; 2] = ["beat", "resign"];

macro_rules! scripts {
    ($($constant:ident = $name:literal;)*) => {
        /// Every script.
        static ALL: &[&Script] = &[$(&$constant),*];

        $(pub(super) static $constant: Script = Script {
            name: $name,
            loaded: LazyLock::new(|| Loaded::new(include_str!(concat!("../../lua/", $name, ".lua")))),
        };)*
    };
}

impl Loaded {
    fn new(file: &str) -> Self {
        let text = spliced(file);
        let digest = redis::Script::new(&text).get_hash().to_owned();
        Self { text, digest }
    }
}

/// Inserts the shared text into a script, and replaces comments with empty lines, because Redis names line numbers in its
/// errors.
fn spliced(file: &str) -> String {
    let mut text = String::with_capacity(2 * file.len());
    for line in file.lines().map(str::trim_start) {
        match line.strip_prefix("--! include ") {
            Some(name) => {
                let shared = SHARED.iter().find(|(shared, _)| *shared == name.trim_end());
                text += &spliced(shared.expect("a script includes what stands in lua/shared").1);
            }
            None => {
                text += if line.starts_with("--") { "" } else { line };
                text.push('\n');
            }
        }
    }
    text
}

scripts! {
    CLAIM = "claim";
    PICK_UP = "pick_up";
    BEGIN = "begin";
    RETRY = "retry";
    RETRY_LATER = "retry_later";
    SCHEDULE = "schedule";
    SUBMIT = "submit";
    FILL = "fill";
    SPLIT = "split";
    START = "start";
    FINISH = "finish";
    NOTE = "note";
    PUT_BACK = "put_back";
    BURY = "bury";
    BEAT = "beat";
    RECONCILE = "reconcile";
    RESIGN = "resign";
    KILL = "kill";
    REQUEUE_LOST = "requeue_lost";
    BALANCE = "balance";
    PROMOTE = "promote";
    CANCEL = "cancel";
    RUN_NOW = "run_now";
    REVIVE = "revive";
    PURGE = "purge";
    PAUSE = "pause";
    RESUME = "resume";
    ACQUIRE = "acquire";
    WAKE = "wake";
    RENEW = "renew";
    PARK = "park";
    UNPARK = "unpark";
    DEFER = "defer";
    DEFINE = "define";
    TICK = "tick";
    JOIN = "join";
    CLOSE = "close";
    REOPEN = "reopen";
}

/// Appends requests that load all scripts, so that no call has to be sent twice.
pub(super) fn add_loads(pipeline: &mut Pipeline) {
    for script in ALL {
        pipeline.cmd("SCRIPT").arg("LOAD").arg(&script.loaded.text);
    }
}

/// The digest of the script with that name.
#[cfg(feature = "testing")]
pub(crate) fn digest_of(name: &str) -> Option<&'static str> {
    let script = ALL.iter().find(|script| script.name == name)?;
    Some(script.loaded.digest.as_str())
}

/// The text of the script with that name, as sent. For tests and benchmarks.
#[must_use]
pub fn script_text(name: &str) -> Option<&'static str> {
    let script = ALL.iter().find(|script| script.name == name)?;
    Some(script.loaded.text.as_str())
}

impl Script {
    /// Creates a call with `keys`; `arguments` and `bytes` say how much will be appended, so that memory is allocated once.
    pub(super) fn command(&self, keys: &[&str], arguments: usize, bytes: usize) -> Cmd {
        let key_bytes: usize = keys.iter().map(|key| key.len()).sum();
        let mut command = Cmd::with_capacity(keys.len() + arguments + 3, key_bytes + bytes + 64);
        command.arg("EVALSHA").arg(self.loaded.digest.as_str()).arg(keys.len());
        for key in keys {
            command.arg(*key);
        }
        command
    }

    /// Runs a call that [`Self::command`] created.
    pub(super) async fn run<C: Calls>(&self, connection: &mut C, command: Cmd) -> Result<Value, BrokerError> {
        let call = Numbered::new(if connection.is_of_cluster() { self.guarded(command) } else { command });
        crash::point(self.name, "before");
        let mut result = connection.call(&call).await;
        if is_unknown_script(&result) {
            // Redis refused it before anything ran, so it is safe to send it again.
            let load = redis::cmd("SCRIPT").arg("LOAD").arg(&self.loaded.text).to_owned();
            result = match connection.call(&Numbered::beside(load, &call)).await {
                Ok(_) => connection.call(&call.again()).await,
                Err(error) => Err(error),
            };
        }
        crash::point(self.name, "replied");
        let error = match result.and_then(Value::extract_error) {
            Ok(reply) => return Ok(reply),
            Err(error) => self.failed(call.command(), &error),
        };
        let queue = queue_of(call.command()).unwrap_or_default();
        // A script that ends a step of a flow uses the outbox without being given its key.
        let outbox = format!("{queue}_outbox");
        let keys = keys_of(call.command()).chain([outbox.as_str()]);
        let keys: Vec<_> = keys.filter_map(|key| Some((key, expected_type(key, queue)?))).collect();
        Err(named(error, &keys, connection).await)
    }

    /// The same call with one more key, which does not exist.
    ///
    /// While a Cluster moves a slot, the keys of a queue are on two nodes. Redis runs no script then of which a named key is
    /// missing, but it would stop one halfway that uses a missing key without naming it, as those of records. With this key
    /// one is always missing. The scripts with a list of keys name all of theirs.
    fn guarded(&self, command: Cmd) -> Cmd {
        // One of the names of records or of limits, so that who may use these may use it, too.
        let guard = match queue_of(&command) {
            Some(queue) => Some(format!("{queue}:c:!")),
            None => keys_of(&command).find_map(|key| Some(format!("{}}}:!", key.split_once('}')?.0))),
        };
        let Some(guard) = guard.filter(|_| !NAMING_ALL.contains(&self.name)) else { return command };
        let keys = keys_of(&command).count();
        let mut guarded = Cmd::new();
        for (place, word) in command.args_iter().enumerate() {
            match word {
                _ if place == 2 => guarded.arg(keys + 1),
                Arg::Simple(bytes) => guarded.arg(bytes),
                _ => unreachable!("a script has no other arguments"),
            };
            if place == 2 + keys {
                guarded.arg(&guard);
            }
        }
        guarded
    }

    fn failed(&self, command: &Cmd, error: &RedisError) -> BrokerError {
        BrokerError::from_redis(self.name, error).of_queue(queue_of(command))
    }

    /// The values of a reply, or of a part of it, that must be an array.
    pub(super) fn array(&self, reply: Value) -> Result<Vec<Value>, BrokerError> {
        match reply {
            Value::Array(values) => Ok(values),
            other => Err(self.unexpected(&other)),
        }
    }

    /// The number of messages from a reply.
    pub(super) fn count(&self, reply: &Value) -> Result<u64, BrokerError> {
        match reply {
            Value::Int(count) => Ok(count.unsigned_abs()),
            other => Err(self.unexpected(other)),
        }
    }

    /// The error for a reply that does not have the form given in the script's header.
    pub(super) fn unexpected(&self, reply: &Value) -> BrokerError {
        // Without the contents of calls, which may be large.
        let came = match reply {
            Value::Array(values) => format!("an array of {}", values.len()),
            Value::BulkString(bytes) => format!("a string of {} bytes", bytes.len()),
            other => format!("{other:?}"),
        };
        BrokerError::new(self.name, BrokerErrorKind::Reply, came)
    }
}

/// A duration in milliseconds, for scripts and expiries; at least 1, because Redis refuses an expiry of 0.
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 2).max(1)
}

/// The queue of a call's keys: each call has a key that is named after its queue.
fn queue_of(command: &Cmd) -> Option<&str> {
    keys_of(command).find_map(|key| SUFFIXES.iter().find_map(|suffix| key.strip_suffix(suffix)))
}

/// The keys of a call.
fn keys_of(command: &Cmd) -> impl Iterator<Item = &str> {
    let mut texts = command.args_iter().skip(2).map_while(|text| match text {
        Arg::Simple(text) => Some(std::str::from_utf8(text).ok()),
        _ => None,
    });
    let count = texts.next().flatten().and_then(|count| count.parse().ok()).unwrap_or(0);
    texts.take(count).flatten()
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
    fn shared_text_stands_where_it_is_included() {
        let (name, shared) = SHARED[0];
        let text = spliced(&format!("return 1\n  --! include {name}\nreturn 2\n"));
        assert_eq!(text, format!("return 1\n{}return 2\n", spliced(shared)));
        assert_eq!(spliced("return '--! include x'"), "return '--! include x'\n");
    }

    #[test]
    fn lines_keep_their_numbers_without_comments() {
        let text = spliced("-- one\nif x then -- two\n  return '-- three'\n\n    -- five\nend\n");
        assert_eq!(text, "\nif x then -- two\nreturn '-- three'\n\n\nend\n");
    }

    #[test]
    fn every_script_fits_before_a_password() {
        for script in ALL {
            let bytes = script.loaded.text.len();
            assert!(
                bytes < LARGEST_BULK,
                "expected lua/{}.lua to be sent in less than {LARGEST_BULK} bytes, it has {bytes}: {} too many",
                script.name,
                bytes - LARGEST_BULK + 1
            );
        }
    }

    #[test]
    fn every_script_is_whole() {
        for script in ALL {
            assert!(
                !script.loaded.text.contains("include "),
                "expected no line of {} to be left",
                script.name
            );
        }
        for (name, _) in SHARED {
            let line = format!("--! include {name}\n");
            let users = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/lua")).unwrap();
            let files = users.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
            let users = files.filter(|path| std::fs::read_to_string(path).unwrap().contains(&line)).count();
            assert!(users > 1, "expected several scripts to include {name}, not {users}");
        }
    }
}
