//! What workers tell of their tasks.

use std::collections::HashMap;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::protocol::names::TASKS;

impl Broker {
    /// Tells of tasks: their paths, and what is told of each.
    #[cfg(feature = "worker")]
    pub(crate) async fn publish(&self, tasks: &[(&str, Vec<u8>)]) -> Result<(), BrokerError> {
        if tasks.is_empty() {
            return Ok(());
        }
        let mut command = redis::cmd("HSET");
        command.arg(TASKS);
        for (path, told) in tasks {
            command.arg(path).arg(told);
        }
        self.read("publish", &command).await
    }

    /// What is told of all tasks, by their paths.
    pub(crate) async fn published(&self) -> Result<HashMap<Vec<u8>, Vec<u8>>, BrokerError> {
        self.read_own("published", redis::cmd("HGETALL").arg(TASKS)).await
    }

    /// Forgets tasks.
    #[cfg(feature = "worker")]
    pub(crate) async fn unpublish(&self, paths: &[Vec<u8>]) -> Result<(), BrokerError> {
        if paths.is_empty() {
            return Ok(());
        }
        self.read("unpublish", redis::cmd("HDEL").arg(TASKS).arg(paths)).await
    }
}
