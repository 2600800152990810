//! Kill requests of operators to workers, and the workers' answers.

use std::fmt;
use std::time::Duration;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script::milliseconds;
use crate::protocol::keys;

/// How long an answer is kept for the operator.
const KEPT: Duration = Duration::from_secs(60);

/// A request to end the run of a slot, as stored in Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KillRequest {
    /// The slot.
    pub(crate) wire_id: String,
    /// SHA-1 of the message that the slot owned at that time.
    pub(crate) digest: String,
    /// The number of the worker's last script call at that time. The request does not concern messages claimed later.
    pub(crate) seq: u64,
    /// Who sent it.
    pub(crate) by: String,
}

/// The answer of a worker to a kill request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KillAnswer {
    /// The run ends within that time.
    Ends(Duration),
    /// The run continues: it was asked to end, and cannot be stopped.
    Blocks,
    /// The slot no longer runs the message.
    Over,
    /// The run was ended; its message is a dead letter.
    Killed,
    /// The run succeeded nevertheless.
    Succeeded,
    /// Others took over the message meanwhile.
    Lost,
}

/// The SHA-1 of a message, as scripts write it.
pub(crate) fn digest(message: &[u8]) -> String {
    sha1_smol::Sha1::from(message).digest().to_string()
}

impl KillRequest {
    /// The kill requests in these fields; malformed ones are left out.
    pub(super) fn all_of(fields: Vec<(String, String)>) -> Vec<Self> {
        fields.into_iter().filter_map(|(wire_id, text)| Self::read(wire_id, &text)).collect()
    }

    fn read(wire_id: String, text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ' ');
        let (digest, seq, by) = (parts.next()?.to_owned(), parts.next()?, parts.next()?.to_owned());
        Some(Self { wire_id, digest, seq: seq.parse().ok()?, by })
    }
}

impl fmt::Display for KillAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ends(within) => write!(f, "ends {}", milliseconds(*within)),
            Self::Blocks => f.write_str("blocks"),
            Self::Over => f.write_str("over"),
            Self::Killed => f.write_str("killed"),
            Self::Succeeded => f.write_str("succeeded"),
            Self::Lost => f.write_str("lost"),
        }
    }
}

impl KillAnswer {
    fn read(text: &str) -> Option<Self> {
        Some(match text {
            "blocks" => Self::Blocks,
            "over" => Self::Over,
            "killed" => Self::Killed,
            "succeeded" => Self::Succeeded,
            "lost" => Self::Lost,
            _ => Self::Ends(Duration::from_millis(text.strip_prefix("ends ")?.parse().ok()?)),
        })
    }
}

impl Broker {
    /// Withdraws a kill request that no beat has taken yet.
    pub(crate) async fn withdraw(&self, orders_key: &str, wire_id: &str) -> Result<(), BrokerError> {
        redis::cmd("HDEL")
            .arg(orders_key)
            .arg(wire_id)
            .query_async(&mut self.commands.clone())
            .await
            .map_err(|error| BrokerError::from_redis("withdraw", &error))
    }

    /// Answers a kill request about the message with that digest.
    pub(crate) async fn answer(
        &self,
        wire_id: &str,
        digest: &str,
        answer: KillAnswer,
    ) -> Result<(), BrokerError> {
        redis::cmd("SET")
            .arg(keys::answer(wire_id))
            .arg(format!("{digest} {answer}"))
            .arg("PX")
            .arg(milliseconds(KEPT))
            .query_async(&mut self.commands.clone())
            .await
            .map_err(|error| BrokerError::from_redis("answer", &error))
    }

    /// A worker's last answer to a kill request about the message with that digest.
    pub(crate) async fn answered(
        &self,
        wire_id: &str,
        digest: &str,
    ) -> Result<Option<KillAnswer>, BrokerError> {
        let text: Option<String> = redis::cmd("GET")
            .arg(keys::answer(wire_id))
            .query_async(&mut self.commands.clone())
            .await
            .map_err(|error| BrokerError::from_redis("answered", &error))?;
        Ok(text.and_then(|text| KillAnswer::read(text.strip_prefix(digest)?.strip_prefix(' ')?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_whoever_gave_it() {
        let order = |text: &str| KillRequest::read("q:w:0".into(), text);
        let read = order("da39 7 anna at home@host").expect("an order");
        assert_eq!((read.digest.as_str(), read.seq, read.by.as_str()), ("da39", 7, "anna at home@host"));
        for wrong in ["", "da39", "da39 7", "da39 x anna"] {
            assert_eq!(order(wrong), None, "{wrong:?}");
        }
        assert_eq!(digest(b""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    }

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        for answer in [
            KillAnswer::Ends(Duration::from_millis(1500)),
            KillAnswer::Blocks,
            KillAnswer::Over,
            KillAnswer::Killed,
            KillAnswer::Succeeded,
            KillAnswer::Lost,
        ] {
            assert_eq!(KillAnswer::read(&answer.to_string()), Some(answer));
        }
        assert_eq!(KillAnswer::read("ends soon"), None);
    }
}
