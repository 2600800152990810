//! Asks Sentinels for the master that they watch.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{ErrorKind, RedisError, RedisResult, Value};

use crate::broker::node::Node;
use crate::broker::socket;

/// How long a Sentinel may take, and the server that it names.
const SHORT: Duration = Duration::from_millis(500);

/// How long the other Sentinels are waited for once one has answered.
const OTHERS: Duration = Duration::from_millis(100);

/// The Sentinels of an address, and the name of their master.
pub(super) struct Sentinels {
    nodes: Vec<Arc<Node>>,
    name: String,
}

impl Sentinels {
    pub(super) fn new(nodes: Vec<Node>, name: String) -> Self {
        Self { nodes: nodes.into_iter().map(Arc::new).collect(), name }
    }

    /// The master, which says itself that it is one. `like` has the settings for a connection to it.
    ///
    /// All Sentinels are asked, because one that is cut off may still name an old master.
    pub(super) async fn master(&self, like: &Node) -> RedisResult<Arc<Node>> {
        let mut asked: FuturesUnordered<_> = self.nodes.iter().map(|node| self.ask(node)).collect();
        let (mut named, mut failed) = (Vec::<((String, u16), usize)>::new(), None);
        let mut patience = SHORT * 2;
        while let Ok(Some(answer)) = tokio::time::timeout(patience, asked.next()).await {
            match answer {
                Ok(address) => {
                    patience = OTHERS;
                    match named.iter_mut().find(|(known, _)| *known == address) {
                        Some((_, votes)) => *votes += 1,
                        None => named.push((address, 1)),
                    }
                }
                Err(error) => failed = Some(error),
            }
        }
        named.sort_by_key(|(_, votes)| std::cmp::Reverse(*votes));
        for ((host, port), _) in named {
            let node = Arc::new(like.at(&host, port)?);
            match role(&node).await {
                Ok(()) => return Ok(node),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| (ErrorKind::Io, "no Sentinel answers", self.to_string()).into()))
    }

    /// The address of the master as one Sentinel knows it.
    async fn ask(&self, sentinel: &Arc<Node>) -> RedisResult<(String, u16)> {
        let mut ask = redis::pipe();
        ask.cmd("SENTINEL").arg("get-master-addr-by-name").arg(&self.name);
        let reply = socket::ask(sentinel, &ask, SHORT)
            .await
            .and_then(|mut replies| replies.pop().unwrap_or(Value::Nil).extract_error());
        let address: Option<(String, u16)> = match reply {
            Ok(reply) => redis::from_redis_value(reply)?,
            Err(error) => return Err(self.refused(sentinel, error)),
        };
        address.ok_or_else(|| {
            let problem = format!("{} watches no master of the name `{}`", sentinel.address(), self.name);
            (ErrorKind::InvalidClientConfig, "the Sentinel does not know it", problem).into()
        })
    }

    fn refused(&self, sentinel: &Node, error: RedisError) -> RedisError {
        let address = sentinel.address();
        match error.code() {
            Some("ERR") if error.to_string().contains("unknown command") => {
                let problem = format!("{address} is no Sentinel: use redis:// for the address of a server");
                (ErrorKind::InvalidClientConfig, "not a Sentinel", problem).into()
            }
            code if matches!(code, Some("NOAUTH" | "WRONGPASS" | "NOPERM"))
                || error.kind() == ErrorKind::AuthenticationFailed =>
            {
                let problem = format!(
                    "{address} requires a login of its own: add sentinel_user and sentinel_password to the address \
                    ({error})"
                );
                (ErrorKind::AuthenticationFailed, "the Sentinel rejects the login", problem).into()
            }
            _ => error,
        }
    }
}

/// Fails unless the server is a master.
async fn role(node: &Arc<Node>) -> RedisResult<()> {
    let mut ask = redis::pipe();
    ask.cmd("ROLE");
    let reply = socket::ask(node, &ask, SHORT).await?.pop().unwrap_or(Value::Nil).extract_error()?;
    is_master(&reply, node)
}

/// Fails unless the reply to `ROLE` is that of a master.
pub(super) fn is_master(reply: &Value, node: &Node) -> RedisResult<()> {
    let role = match reply {
        Value::Array(parts) => parts.first(),
        _ => None,
    };
    match role {
        Some(Value::BulkString(role)) if role == b"master" => Ok(()),
        _ => {
            let problem = format!("{} is a replica, though the Sentinels name it", node.address());
            let busy = std::io::Error::new(std::io::ErrorKind::NotConnected, problem);
            Err(busy.into())
        }
    }
}

impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<&str> = self.nodes.iter().map(|node| node.address()).collect();
        write!(f, "{} of the Sentinels {}", self.name, addresses.join(","))
    }
}
