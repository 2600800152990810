//! Stores the descriptions that workers publish of their tasks.

use std::collections::HashMap;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::protocol::names::TASKS;

impl Broker {
    /// Stores descriptions, each with the path of its task.
    #[cfg(feature = "worker")]
    pub(crate) async fn publish(&self, tasks: &[(&str, Vec<u8>)]) -> Result<(), BrokerError> {
        if tasks.is_empty() {
            return Ok(());
        }
        let mut command = redis::cmd("HSET");
        command.arg(TASKS);
        for (path, description) in tasks {
            command.arg(path).arg(description);
        }
        self.read("publish", &command).await
    }

    /// All descriptions, by path.
    pub(crate) async fn published(&self) -> Result<HashMap<Vec<u8>, Vec<u8>>, BrokerError> {
        self.read_own("published", redis::cmd("HGETALL").arg(TASKS)).await
    }

    /// Deletes the descriptions of tasks.
    #[cfg(feature = "worker")]
    pub(crate) async fn unpublish(&self, paths: &[Vec<u8>]) -> Result<(), BrokerError> {
        if paths.is_empty() {
            return Ok(());
        }
        self.read("unpublish", redis::cmd("HDEL").arg(TASKS).arg(paths)).await
    }
}
