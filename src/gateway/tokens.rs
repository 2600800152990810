//! Checks who sends a request, and what they may do: tokens with scopes, of which Redis keeps digests alone.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::problem::Problem;
use crate::broker::Broker;
use crate::error::Error;
use crate::inspect::Inspector;
use crate::protocol::names::QueueName;

/// How long a token that was revoked may still be accepted.
const FRESH: Duration = Duration::from_secs(2);
/// With what the text of a token begins, so that scanners for leaked secrets find it.
const PREFIX: &str = "delayed_";

/// What a token permits. A pattern is a name, or the beginning of one followed by `*`; no patterns permit all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Scope {
    /// The queues.
    #[serde(default)]
    queues: Vec<String>,
    /// The tasks.
    #[serde(default)]
    tasks: Vec<String>,
}

/// A token as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Stored {
    /// SHA-256 of its text, in hexadecimal.
    digest: String,
    created_ms: u64,
    #[serde(flatten)]
    scope: Scope,
}

/// A token of the gateway, without its text, which nobody keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TokenStatus {
    /// Its name.
    pub name: String,
    /// The patterns of the queues that it may use; empty: all.
    pub queues: Vec<String>,
    /// The patterns of the tasks that it may use; empty: all.
    pub tasks: Vec<String>,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: u64,
}

/// Who has sent a request.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    /// The name of the token; none where none is needed.
    pub(super) name: Option<Arc<str>>,
    scope: Arc<Scope>,
}

/// Who may send requests while there is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenTo {
    /// Nobody.
    Nobody,
    /// The programs of this machine, and no web page that is open on it.
    ThisMachine,
    /// Everybody: the application around the gateway decides.
    All,
}

/// The tokens, as they were a moment ago.
#[derive(Debug)]
pub(super) struct Tokens {
    open: OpenTo,
    known: RwLock<Option<(Instant, Arc<Known>)>>,
}

/// By the digest of a token.
type Known = HashMap<String, Sender>;

impl Scope {
    fn permits(&self, task: &str, queue: &str) -> bool {
        let fits = |patterns: &[String], name: &str| {
            patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, name))
        };
        fits(&self.tasks, task) && fits(&self.queues, queue)
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    }
}

impl Sender {
    /// Checks that the sender may enqueue or see a call.
    pub(super) fn check(&self, task: &str, queue: &QueueName) -> Result<(), Problem> {
        if self.scope.permits(task, queue.as_str()) {
            return Ok(());
        }
        let detail = format!("this token is not for the task `{task}` in the queue {queue}");
        Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail))
    }

    /// Whether the sender may see a task, in any queue.
    pub(super) fn sees(&self, task: &str, queue: &str) -> bool {
        self.scope.permits(task, queue)
    }
}

impl Tokens {
    pub(super) fn new(open: OpenTo) -> Self {
        Self { open, known: RwLock::default() }
    }

    /// Who has sent a request with these headers.
    pub(super) async fn sender(&self, broker: &Broker, headers: &HeaderMap) -> Result<Sender, Problem> {
        let unauthorized = |detail: &str| Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail));
        let known = self.known(broker).await?;
        if known.is_empty() && self.open != OpenTo::Nobody {
            if self.open == OpenTo::ThisMachine {
                check_local(headers)?;
            }
            return Ok(Sender { name: None, scope: Arc::default() });
        }
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = given.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| {
            // The names of schemes have no case.
            scheme.eq_ignore_ascii_case("bearer")
        });
        let Some((_, token)) = token else {
            return unauthorized("send a token: `Authorization: Bearer …`; `gateway token create` makes one");
        };
        match known.get(&digest(token.trim().as_bytes())) {
            Some(sender) => Ok(sender.clone()),
            None => unauthorized("this token is unknown, or was revoked"),
        }
    }

    async fn known(&self, broker: &Broker) -> Result<Arc<Known>, Problem> {
        let fresh = {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            known.as_ref().filter(|(since, _)| since.elapsed() < FRESH).map(|(_, known)| Arc::clone(known))
        };
        if let Some(known) = fresh {
            return Ok(known);
        }
        let stored = broker.tokens().await.map_err(|error| Problem::from(Error::from(error)))?;
        let known = stored.into_iter().filter_map(|(name, token)| {
            let Stored { digest, scope, .. } = serde_json::from_str(&token).ok()?;
            Some((digest, Sender { name: Some(name.into()), scope: Arc::new(scope) }))
        });
        let known: Arc<Known> = Arc::new(known.collect());
        let mut place = self.known.write().unwrap_or_else(PoisonError::into_inner);
        *place = Some((Instant::now(), Arc::clone(&known)));
        Ok(known)
    }
}

/// Refuses requests that a web page has its browser send: of another origin, or under a name that was made to mean this machine.
fn check_local(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let is_local = |host: &str| {
        let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let name = name.map_or(host, |(name, _)| name).trim_start_matches('[').trim_end_matches(']');
        name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
    };
    if headers.contains_key(header::ORIGIN) || !text(header::HOST).is_none_or(is_local) {
        let detail = "a web page cannot use the gateway without a token: `gateway token create` makes one";
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail));
    }
    Ok(())
}

/// SHA-256 in hexadecimal. A token is random, so that its digest needs no salt and no work.
pub(super) fn digest(text: &[u8]) -> String {
    hexadecimal(&Sha256::digest(text))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Inspector {
    /// Creates a token for the gateway, and returns its text; `None` if there is one with this name. The text is kept nowhere: only a
    /// digest of it is. A pattern is the name of a queue or task, or the beginning of one followed by `*`; no patterns permit
    /// all.
    ///
    /// # Errors
    /// Redis cannot be reached or used.
    pub async fn create_token(
        &self,
        name: &str,
        queues: &[String],
        tasks: &[String],
    ) -> Result<Option<String>, Error> {
        // Two of them are 244 random bits.
        let random = [uuid::Uuid::new_v4(), uuid::Uuid::new_v4()].map(|part| part.simple().to_string());
        let text = format!("{PREFIX}{}", random.concat());
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let stored = Stored {
            digest: digest(text.as_bytes()),
            created_ms: now.map_or(0, |now| now.as_millis() as u64),
            scope: Scope { queues: queues.to_vec(), tasks: tasks.to_vec() },
        };
        let stored = serde_json::to_string(&stored).map_err(|error| Error::Io(error.into()))?;
        let is_new = self.broker().add_token(name, &stored).await?;
        Ok(is_new.then_some(text))
    }

    /// Returns the tokens of the gateway, ordered by their names.
    ///
    /// # Errors
    /// Redis cannot be reached or used.
    pub async fn tokens(&self) -> Result<Vec<TokenStatus>, Error> {
        let stored = self.broker().tokens().await?;
        let tokens = stored.into_iter().filter_map(|(name, token)| {
            let Stored { created_ms, scope, .. } = serde_json::from_str(&token).ok()?;
            Some(TokenStatus { name, queues: scope.queues, tasks: scope.tasks, created_ms })
        });
        Ok(tokens.collect())
    }

    /// Revokes a token. Gateways refuse it within two seconds. Returns whether there was one.
    ///
    /// # Errors
    /// Redis cannot be reached or used.
    pub async fn revoke_token(&self, name: &str) -> Result<bool, Error> {
        Ok(self.broker().remove_token(name).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_pages_are_told_from_programs_of_this_machine() {
        let headers = |pairs: &[(&'static str, &'static str)]| {
            let pairs = pairs.iter().map(|(name, value)| {
                (header::HeaderName::from_static(name), HeaderValue::from_static(value))
            });
            pairs.collect::<HeaderMap>()
        };
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "[::1]:8080"] {
            assert!(check_local(&headers(&[("host", host)])).is_ok(), "{host}");
        }
        assert!(check_local(&headers(&[])).is_ok());
        for host in ["evil.example", "evil.example:8080", "localhost.evil.example", ""] {
            assert!(check_local(&headers(&[("host", host)])).is_err(), "{host}");
        }
        assert!(check_local(&headers(&[("host", "localhost"), ("origin", "null")])).is_err());
    }

    #[test]
    fn patterns_are_names_or_beginnings_of_names() {
        let scope = Scope { queues: vec!["mail".into(), "low*".into()], tasks: vec!["shop::*".into()] };
        assert!(scope.permits("shop::charge", "mail") && scope.permits("shop::charge", "low_2"));
        assert!(!scope.permits("shop::charge", "mail_2") && !scope.permits("bank::charge", "mail"));
        assert!(Scope::default().permits("anything", "anywhere"));
    }
}
