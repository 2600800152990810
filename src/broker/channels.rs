//! Subscribes to channels, on a connection of its own.

use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};

use crate::broker::Broker;
use crate::broker::error::{BrokerError, BrokerErrorKind};

/// What to listen to.
#[derive(Debug)]
pub(crate) enum Channels {
    /// These.
    Named(Vec<String>),
    /// All whose names match this pattern.
    Matching(String),
}

/// A connection that receives what is published.
pub(crate) struct Listener(Pin<Box<dyn Stream<Item = redis::Msg> + Send>>);

impl Broker {
    /// Connects and subscribes. It receives all later messages until the connection breaks.
    pub(crate) async fn listen(&self, channels: &Channels) -> Result<Listener, BrokerError> {
        let timeout = self.target.timeout;
        let subscribe = async {
            let mut connection = self.target.client().get_async_pubsub().await?;
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
                format!("no answer within {timeout:?}"),
            )),
        }
    }
}

impl Listener {
    /// The next message: its channel and a number of milliseconds. Skips other messages. `None`: the connection broke.
    pub(crate) async fn next(&mut self) -> Option<(String, Duration)> {
        loop {
            let message = self.0.next().await?;
            if let (Ok(channel), Ok(after)) = (message.get_channel::<String>(), message.get_payload::<u64>())
            {
                return Some((channel, Duration::from_millis(after)));
            }
        }
    }
}
