//! Subscribes to channels on a separate connection.

use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};

use crate::broker::Broker;
use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::protocol::keys::{DUE_CHANNEL, PAUSED_CHANNEL, queue_of};
use crate::protocol::names::QueueName;

/// The channels to listen to.
#[derive(Debug)]
pub(crate) enum Channels {
    /// The channels with these names.
    Named(Vec<String>),
    /// All channels whose names match this pattern.
    Matching(String),
}

/// A notice published on the channels of a queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A call is due after that time, before all others.
    Due { queue: QueueName, after: Duration },
    /// The queue was paused or resumed.
    Paused { queue: QueueName, is_paused: bool, by: String },
}

/// A connection that receives notices.
pub(crate) struct Listener(Pin<Box<dyn Stream<Item = redis::Msg> + Send>>);

impl Broker {
    /// Connects and subscribes. It receives all later messages until the connection breaks.
    pub(crate) async fn listen(&self, channels: &Channels) -> Result<Listener, BrokerError> {
        let timeout = self.target.timeout;
        let subscribe = async {
            let mut connection = self.target.master().await?.client().get_async_pubsub().await?;
            match channels {
                Channels::Named(names) => connection.subscribe(names).await?,
                Channels::Matching(pattern) => connection.psubscribe(pattern).await?,
            }
            Ok(connection)
        };
        match tokio::time::timeout(timeout, subscribe).await {
            Ok(subscribed) => {
                let connection = subscribed.map_err(|error| BrokerError::from_redis("subscribe", &error))?;
                Ok(Listener(Box::pin(connection.into_on_message())))
            }
            Err(_) => Err(BrokerError::new(
                "subscribe",
                BrokerErrorKind::Unreachable,
                format!("no reply within {timeout:?}"),
            )),
        }
    }
}

impl Listener {
    /// The next notice. Skips other messages. `None` if the connection broke.
    pub(crate) async fn next(&mut self) -> Option<Notice> {
        loop {
            let message = self.0.next().await?;
            let (channel, payload) = (message.get_channel::<String>(), message.get_payload::<String>());
            if let (Ok(channel), Ok(payload)) = (channel, payload)
                && let Some(notice) = Notice::parse(&channel, &payload)
            {
                return Some(notice);
            }
        }
    }
}

impl Notice {
    fn parse(channel: &str, payload: &str) -> Option<Self> {
        if let Some(queue) = queue_of(channel, DUE_CHANNEL) {
            return Some(Self::Due { queue, after: Duration::from_millis(payload.parse().ok()?) });
        }
        let queue = queue_of(channel, PAUSED_CHANNEL)?;
        let (is_paused, by) = match payload.split_once(' ')? {
            ("paused", by) => (true, by.to_owned()),
            ("resumed", by) => (false, by.to_owned()),
            _ => return None,
        };
        Some(Self::Paused { queue, is_paused, by })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_read_from_their_channels_and_others_left_out() {
        let queue = || QueueName::parse("a:due").unwrap();
        let after = Duration::from_millis(7);
        assert_eq!(Notice::parse("a:due:due", "7"), Some(Notice::Due { queue: queue(), after }));
        for (payload, is_paused) in [("paused ann at home", true), ("resumed ann at home", false)] {
            let by = "ann at home".into();
            let notice = Notice::Paused { queue: queue(), is_paused, by };
            assert_eq!(Notice::parse("a:due:paused", payload), Some(notice));
        }
        for (channel, payload) in [
            ("a:due", "paused ann"),
            ("a:paused", "7"),
            ("a:paused", "stopped ann"),
            (":paused", "paused ann"),
            ("a", "7"),
        ] {
            assert_eq!(Notice::parse(channel, payload), None, "{channel} {payload}");
        }
    }
}
