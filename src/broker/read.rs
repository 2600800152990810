//! Reads that change nothing, and the few single commands of operators.

use std::collections::HashMap;
use std::time::Duration;

use redis::{Arg, Cmd, Pipeline, RedisError, RedisResult, Value};

use crate::broker::Broker;
use crate::broker::commands::{Calls, Numbered};
use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::broker::server::ServerFacts;
use crate::crash;
use crate::protocol::keys::{QUEUES, QueueKeys};

/// The last possible id of a stream entry. Redis accepts no position after it.
const LAST_ID: &str = "18446744073709551615-18446744073709551615";

/// How many descriptions of workers one request reads.
const INFOS: usize = 100;

/// An entry of a stream, such as a dead letter.
#[derive(Debug, Clone)]
pub(crate) struct StreamEntry {
    pub(crate) id: String,
    pub(crate) fields: HashMap<String, Vec<u8>>,
}

impl StreamEntry {
    /// The size of its fields.
    pub(crate) fn bytes(&self) -> usize {
        self.fields.values().map(Vec::len).sum()
    }
}

/// Fields and their values.
type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// An entry of a stream: its id, and its fields, whose names may be arbitrary.
pub(super) type Entry = (String, HashMap<Vec<u8>, Vec<u8>>);

impl From<Entry> for StreamEntry {
    fn from((id, fields): Entry) -> Self {
        Self { id, fields: fields.into_iter().map(|(name, value)| (shown(&name), value)).collect() }
    }
}

/// Arbitrary bytes as text.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Broker {
    /// Runs one command and converts its reply.
    pub(super) async fn read<T: redis::FromRedisValue>(
        &self,
        op: &'static str,
        command: &redis::Cmd,
    ) -> Result<T, BrokerError> {
        let reply: Value = command
            .query_async(&mut self.commands.clone())
            .await
            .map_err(|error| BrokerError::from_redis(op, &error).of_key(first_key(command)))?;
        redis::from_redis_value(reply)
            .map_err(|error| BrokerError::new(op, BrokerErrorKind::Reply, error.to_string()))
    }

    /// The same, certain that the reply is that of this command: for reads that decide what is written or dropped next.
    pub(super) async fn read_own<T: redis::FromRedisValue>(
        &self,
        op: &'static str,
        command: &redis::Cmd,
    ) -> Result<T, BrokerError> {
        let reply = self.commands.clone().call(&Numbered::new(command.clone())).await;
        let reply = reply.and_then(Value::extract_error);
        let reply = reply.map_err(|error| BrokerError::from_redis(op, &error).of_key(first_key(command)))?;
        redis::from_redis_value(reply)
            .map_err(|error| BrokerError::new(op, BrokerErrorKind::Reply, error.to_string()))
    }

    /// Facts about the server.
    pub(crate) async fn server_facts(&self) -> Result<ServerFacts, BrokerError> {
        self.read("info", &redis::cmd("INFO")).await.map(|text: String| ServerFacts::parse(&text))
    }

    /// Settings of the server by pattern; empty if `CONFIG` is not allowed.
    pub(crate) async fn server_config(&self, pattern: &str) -> Result<HashMap<String, String>, BrokerError> {
        self.read("config", redis::cmd("CONFIG").arg("GET").arg(pattern)).await
    }

    /// The server's clock: the time since 1970.
    pub(crate) async fn server_time(&self) -> Result<Duration, BrokerError> {
        let (seconds, micros): (u64, u64) = self.read("time", &redis::cmd("TIME")).await?;
        Ok(Duration::from_secs(seconds) + Duration::from_micros(micros))
    }

    /// Checks that the server accepts writes, including those that need memory. The write is empty: it changes no key,
    /// whatever its type, and creates none.
    pub(crate) async fn write_nothing(&self) -> Result<(), BrokerError> {
        let command = redis::cmd("SETRANGE").arg(QUEUES).arg(0).arg("").to_owned();
        match self.read::<Value>("write", &command).await {
            // The key holds a set, as it should. Redis checks its type only after it has allowed the write itself.
            Err(error) if error.kind() == BrokerErrorKind::WrongType => Ok(()),
            written => written.map(drop),
        }
    }

    /// Checks that these queues can be used together. In a Redis Cluster, fails if their keys have no slot in common or are
    /// on another node.
    pub(crate) async fn check_slot<'a>(
        &self,
        queues: impl IntoIterator<Item = &'a QueueKeys>,
    ) -> Result<(), BrokerError> {
        if !self.is_cluster {
            return Ok(());
        }
        let mut command = redis::cmd("EXISTS");
        for keys in queues {
            command.arg(&keys.queue).arg(&keys.notifications);
        }
        self.read::<Value>("check_slot", &command).await.map(drop)
    }

    /// Registers a queue, so that sweepers find it.
    pub(crate) async fn register_queue(&self, queue: &str) -> Result<(), BrokerError> {
        self.read::<Value>("register_queue", redis::cmd("SADD").arg(QUEUES).arg(queue)).await.map(drop)
    }

    /// The queues that workers or clients have registered. Skips entries that are not text, which another program put
    /// there.
    pub(crate) async fn registered_queues(&self) -> Result<Vec<String>, BrokerError> {
        let names: Vec<Vec<u8>> = self.read("registered_queues", redis::cmd("SMEMBERS").arg(QUEUES)).await?;
        Ok(names.into_iter().filter_map(|name| String::from_utf8(name).ok()).collect())
    }

    /// The lengths of a queue: waiting, tokens, owned, dead letters, suspects, scheduled.
    pub(crate) async fn lengths(&self, keys: &QueueKeys) -> Result<[u64; 6], BrokerError> {
        let mut pipe = redis::pipe();
        pipe.cmd("LLEN").arg(&keys.queue).cmd("LLEN").arg(&keys.notifications);
        pipe.cmd("HLEN").arg(&keys.processing).cmd("XLEN").arg(&keys.dead).cmd("HLEN").arg(&keys.deaths);
        pipe.cmd("HLEN").arg(&keys.later);
        self.lengths_of("lengths", &mut pipe).await
    }

    /// The lengths that these commands ask for.
    pub(super) async fn lengths_of<const N: usize>(
        &self,
        op: &'static str,
        pipe: &mut Pipeline,
    ) -> Result<[u64; N], BrokerError> {
        let failed = |error: RedisError| BrokerError::from_redis(op, &error);
        let replies: Vec<RedisResult<u64>> =
            pipe.ignore_errors().query_async(&mut self.commands.clone()).await.map_err(failed)?;
        let mut lengths = [0; N];
        for ((length, reply), command) in lengths.iter_mut().zip(replies).zip(pipe.cmd_iter()) {
            *length = reply.map_err(|error| failed(error).of_key(first_key(command)))?;
        }
        Ok(lengths)
    }

    /// Waiting messages, oldest first, from `start` on.
    pub(crate) async fn waiting(
        &self,
        keys: &QueueKeys,
        start: u64,
        count: u64,
    ) -> Result<Vec<Vec<u8>>, BrokerError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        self.read("waiting", redis::cmd("LRANGE").arg(&keys.queue).arg(start).arg(start + count - 1)).await
    }

    /// Up to `count` waiting messages, oldest first, without the last `skip`.
    pub(super) async fn last_waiting(
        &self,
        keys: &QueueKeys,
        skip: u64,
        count: u64,
    ) -> Result<Vec<Vec<u8>>, BrokerError> {
        let [first, last] = [skip + count, skip + 1].map(|place| format!("-{place}"));
        self.read("waiting", redis::cmd("LRANGE").arg(&keys.queue).arg(first).arg(last)).await
    }

    /// The message at the head of each list, and the length of the list; `None` if it is no longer a list.
    pub(crate) async fn heads(&self, lists: &[&str]) -> Result<Vec<Option<(Vec<u8>, u64)>>, BrokerError> {
        let mut pipe = redis::pipe();
        pipe.ignore_errors();
        for list in lists {
            pipe.cmd("LINDEX").arg(*list).arg(0).cmd("LLEN").arg(*list);
        }
        let replies: Vec<RedisResult<Value>> = pipe
            .query_async(&mut self.commands.clone())
            .await
            .map_err(|error| BrokerError::from_redis("heads", &error))?;
        let head = |pair: &[RedisResult<Value>]| match pair {
            [Ok(Value::BulkString(head)), Ok(Value::Int(length))] => {
                Some((head.clone(), length.unsigned_abs()))
            }
            _ => None,
        };
        Ok(replies.chunks(2).map(head).collect())
    }

    /// A part of the owned messages: the next cursor, and pairs of (wire id, message).
    pub(crate) async fn owned(
        &self,
        keys: &QueueKeys,
        cursor: u64,
    ) -> Result<(u64, Vec<(String, Vec<u8>)>), BrokerError> {
        let mut command = redis::cmd("HSCAN");
        command.arg(&keys.processing).arg(cursor).arg("COUNT").arg(200);
        let (next, owned): (u64, Pairs) = self.read("owned", &command).await?;
        Ok((next, owned.into_iter().map(|(wire_id, message)| (shown(&wire_id), message)).collect()))
    }

    /// The wire ids of the slots that own a message.
    pub(crate) async fn owners(&self, keys: &QueueKeys) -> Result<Vec<String>, BrokerError> {
        let owners: Vec<Vec<u8>> = self.read("owners", redis::cmd("HKEYS").arg(&keys.processing)).await?;
        Ok(owners.iter().map(|wire_id| shown(wire_id)).collect())
    }

    /// The message that one slot owns.
    pub(crate) async fn owned_by(
        &self,
        keys: &QueueKeys,
        wire_id: &str,
    ) -> Result<Option<Vec<u8>>, BrokerError> {
        self.read("owned_by", redis::cmd("HGET").arg(&keys.processing).arg(wire_id)).await
    }

    /// Whether each of these live keys exists.
    pub(crate) async fn alive(&self, wire_ids: &[&str]) -> Result<Vec<bool>, BrokerError> {
        self.each("alive", "EXISTS", wire_ids).await
    }

    /// The type of each key; `none` if it does not exist.
    pub(crate) async fn key_types(&self, keys: &[&str]) -> Result<Vec<String>, BrokerError> {
        self.each("key_types", "TYPE", keys).await
    }

    /// In how many milliseconds each key expires; -1 if never, -2 if it does not exist.
    pub(crate) async fn expiries(&self, keys: &[&str]) -> Result<Vec<i64>, BrokerError> {
        self.each("expiries", "PTTL", keys).await
    }

    /// The value of each key; `None` if it does not exist.
    pub(crate) async fn values(&self, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>, BrokerError> {
        self.each("values", "GET", keys).await
    }

    /// Runs one command for each key.
    async fn each<T: redis::FromRedisValue>(
        &self,
        op: &'static str,
        command: &str,
        keys: &[&str],
    ) -> Result<Vec<T>, BrokerError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = redis::pipe();
        for key in keys {
            pipe.cmd(command).arg(*key);
        }
        pipe.query_async(&mut self.commands.clone())
            .await
            .map_err(|error| BrokerError::from_redis(op, &error))
    }

    /// The workers of a queue: each id, and the time in milliseconds at which its lease ends.
    pub(crate) async fn workers(&self, keys: &QueueKeys) -> Result<Vec<(String, u64)>, BrokerError> {
        let mut command = redis::cmd("ZRANGE");
        command.arg(&keys.workers).arg(0).arg(-1).arg("WITHSCORES");
        let workers: Vec<(Vec<u8>, String)> = self.read("workers", &command).await?;
        // A score that is not a valid time counts as before or after all times.
        let end = |score: &str| score.parse().unwrap_or(if score.starts_with('-') { 0 } else { u64::MAX });
        Ok(workers.into_iter().map(|(id, score)| (shown(&id), end(&score))).collect())
    }

    /// The description of a worker, as MessagePack; `None` if its lease ended long ago.
    pub(crate) async fn worker_info(&self, worker_key: &str) -> Result<Option<Vec<u8>>, BrokerError> {
        self.read("worker_info", redis::cmd("HGET").arg(worker_key).arg("info")).await
    }

    /// The descriptions of workers, as [`worker_info`](Self::worker_info).
    pub(crate) async fn worker_infos(
        &self,
        worker_keys: &[String],
    ) -> Result<Vec<Option<Vec<u8>>>, BrokerError> {
        let mut infos = Vec::with_capacity(worker_keys.len());
        for keys in worker_keys.chunks(INFOS) {
            let mut pipe = redis::pipe();
            for key in keys {
                pipe.hget(key, "info");
            }
            let page: Vec<Option<Vec<u8>>> = (pipe.query_async(&mut self.commands.clone()).await)
                .map_err(|error| BrokerError::from_redis("worker_info", &error))?;
            infos.extend(page);
        }
        Ok(infos)
    }

    /// Dead letters with ids above `after` (`-` for all), oldest first.
    pub(crate) async fn dead_letters(
        &self,
        keys: &QueueKeys,
        after: &str,
        count: u64,
    ) -> Result<Vec<StreamEntry>, BrokerError> {
        if after == LAST_ID {
            return Ok(Vec::new());
        }
        let start = if after == "-" { after.to_owned() } else { format!("({after}") };
        let mut command = redis::cmd("XRANGE");
        command.arg(&keys.dead).arg(start).arg("+").arg("COUNT").arg(count);
        let entries: Vec<Entry> = self.read("dead_letters", &command).await?;
        Ok(entries.into_iter().map(StreamEntry::from).collect())
    }

    /// Dead letters before an id, or the newest ones before `+`, newest first.
    pub(crate) async fn latest_dead(
        &self,
        keys: &QueueKeys,
        before: &str,
        count: u64,
    ) -> Result<Vec<StreamEntry>, BrokerError> {
        let end = if before == "+" { before.to_owned() } else { format!("({before}") };
        let mut command = redis::cmd("XREVRANGE");
        command.arg(&keys.dead).arg(end).arg("-").arg("COUNT").arg(count);
        let entries: Vec<Entry> = self.read("latest_dead", &command).await?;
        Ok(entries.into_iter().map(StreamEntry::from).collect())
    }

    /// The id of the newest dead letter.
    pub(crate) async fn newest_dead(&self, keys: &QueueKeys) -> Result<Option<String>, BrokerError> {
        let mut command = redis::cmd("XREVRANGE");
        command.arg(&keys.dead).arg("+").arg("-").arg("COUNT").arg(1);
        let entries: Vec<Entry> = self.read("newest_dead", &command).await?;
        Ok(entries.into_iter().next().map(|(id, _)| id))
    }

    /// One dead letter.
    pub(crate) async fn dead_letter(
        &self,
        keys: &QueueKeys,
        id: &str,
    ) -> Result<Option<StreamEntry>, BrokerError> {
        let mut command = redis::cmd("XRANGE");
        command.arg(&keys.dead).arg(id).arg(id);
        let entries: Vec<Entry> = self.read("dead_letter", &command).await?;
        Ok(entries.into_iter().next().map(StreamEntry::from))
    }

    /// Deletes dead letters by id. Returns how many existed.
    pub(crate) async fn delete_dead(&self, keys: &QueueKeys, ids: &[String]) -> Result<u64, BrokerError> {
        let mut command = redis::cmd("XDEL");
        command.arg(&keys.dead);
        for id in ids {
            command.arg(id);
        }
        crash::point("delete", "before");
        let deleted = self.read("delete_dead", &command).await;
        crash::point("delete", "replied");
        deleted
    }
}

/// The key that a command reads, which follows its name.
fn first_key(command: &Cmd) -> Option<&str> {
    match command.args_iter().nth(1) {
        Some(Arg::Simple(key)) => std::str::from_utf8(key).ok(),
        _ => None,
    }
}
