//! Knows the tasks of workers elsewhere, by what these tell of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::Mutex;

use super::problem::Problem;
use crate::error::Error;
use crate::inspect::Inspector;
use crate::protocol::published::Published;

/// How long what was read is used.
const FRESH: Duration = Duration::from_secs(10);
/// How long it is used although a task is not among it, which may have been told of meanwhile.
const RECENT: Duration = Duration::from_secs(1);
/// How many tasks are known, at most.
const TASKS: usize = 10_000;

/// The tasks of workers elsewhere, by their paths.
pub(super) type Elsewhere = Arc<BTreeMap<String, Published>>;

/// What was read of them last.
#[derive(Debug, Default)]
pub(super) struct PublishedTasks(Mutex<Option<(Instant, Elsewhere)>>);

impl PublishedTasks {
    /// The tasks, read again if these paths are not among those read before.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub(super) async fn read(&self, inspector: &Inspector, paths: &[&str]) -> Result<Elsewhere, Problem> {
        // Requests that come meanwhile wait for the same.
        let mut read = self.0.lock().await;
        if let Some((since, tasks)) = &*read {
            let are_known = paths.iter().all(|path| tasks.contains_key(*path));
            if since.elapsed() < if are_known { FRESH } else { RECENT } {
                return Ok(Arc::clone(tasks));
            }
        }
        let told = inspector.broker().published().await.map_err(Error::from)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
        let tasks = told
            .into_iter()
            .filter_map(|(path, told)| Some((String::from_utf8(path).ok()?, Published::decode(&told, now)?)));
        let tasks = Arc::new(tasks.take(TASKS).collect());
        *read = Some((Instant::now(), Arc::clone(&tasks)));
        Ok(tasks)
    }
}
