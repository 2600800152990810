//! Caches the tasks that workers publish.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::Mutex;

use super::problem::Problem;
use crate::error::Error;
use crate::inspect::Inspector;
use crate::protocol::published::Published;

/// The lifetime of the cache.
const FRESH: Duration = Duration::from_secs(10);
/// Its lifetime when a task is not in it, because a worker may have published the task since, or when reading failed.
const RECENT: Duration = Duration::from_secs(1);

/// The published tasks by path.
pub(super) type Elsewhere = Arc<BTreeMap<String, Published>>;

/// The tasks of the last read, or its error, and its time.
#[derive(Debug, Default)]
pub(super) struct PublishedTasks(Mutex<Option<(Instant, Result<Elsewhere, Problem>)>>);

impl PublishedTasks {
    /// Returns the published tasks, and reads them from Redis again if the cache is too old for these paths.
    ///
    /// # Errors
    /// Redis cannot be used.
    pub(super) async fn read(&self, inspector: &Inspector, paths: &[&str]) -> Result<Elsewhere, Problem> {
        // Held while reading, so that concurrent requests share one read.
        let mut cache = self.0.lock().await;
        if let Some((since, read)) = &*cache {
            let is_complete =
                read.as_ref().is_ok_and(|tasks| paths.iter().all(|path| tasks.contains_key(*path)));
            if since.elapsed() < if is_complete { FRESH } else { RECENT } {
                return read.clone();
            }
        }
        let read = load(inspector).await;
        *cache = Some((Instant::now(), read.clone()));
        read
    }
}

async fn load(inspector: &Inspector) -> Result<Elsewhere, Problem> {
    let all = inspector.broker().published().await.map_err(Error::from)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
    let decode = |(path, bytes): (Vec<u8>, Vec<u8>)| {
        let task = Published::decode(&bytes).filter(|task| task.is_valid(now))?;
        Some((String::from_utf8(path).ok()?, task))
    };
    Ok(Arc::new(all.into_iter().filter_map(decode).collect()))
}
