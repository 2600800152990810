//! Reads what `top` shows, again and again.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::{Receiver, channel};

use crate::error::Error;
use crate::inspect::{DeadLetter, History, HistorySpan, Inspector, QueueStatus, WorkerStatus};
use crate::protocol::names::QueueName;

/// How many dead letters of each queue are read.
const LETTERS: usize = 100;
/// How many characters of arguments are read.
const ARGUMENTS: usize = 400;
/// How often is looked for queues that are not registered.
const SCAN: Duration = Duration::from_secs(60);

/// What Redis says at a moment.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) queues: Vec<QueueStatus>,
    pub(super) workers: Vec<WorkerStatus>,
    pub(super) letters: Vec<DeadLetter>,
    pub(super) history: History,
}

/// The facts, or why there are none.
pub(super) type Snapshot = Result<Facts, String>;

/// Reads with this pause until nobody listens.
pub(super) fn read_all(inspector: Inspector, pause: Duration) -> Receiver<Snapshot> {
    let (send, receive) = channel(1);
    tokio::spawn(async move {
        let mut names: Option<(Instant, Vec<QueueName>)> = None;
        loop {
            let facts = read(&inspector, &mut names).await.map_err(|error| crate::task::error::chain(&error));
            if send.send(facts).await.is_err() {
                return;
            }
            tokio::time::sleep(pause).await;
        }
    });
    receive
}

async fn read(inspector: &Inspector, names: &mut Option<(Instant, Vec<QueueName>)>) -> Result<Facts, Error> {
    let queues = match names {
        Some((since, queues)) if since.elapsed() < SCAN => queues.clone(),
        _ => {
            let found: Vec<QueueName> =
                inspector.queue_names().await.map_err(Error::from)?.into_iter().collect();
            *names = Some((Instant::now(), found.clone()));
            found
        }
    };
    let (mut statuses, mut letters) = (Vec::new(), Vec::new());
    for queue in &queues {
        statuses.push(inspector.queue(queue).await?);
        letters.extend(inspector.newest_dead_letters(queue, None, None, LETTERS, ARGUMENTS).await?);
    }
    letters.sort_by_key(|letter| std::cmp::Reverse(crate::inspect::order(&letter.id)));
    let workers = match queues.is_empty() {
        true => Vec::new(),
        false => inspector.workers(&queues, ARGUMENTS).await?,
    };
    let history = inspector.history(&queues, HistorySpan::Hour).await?;
    Ok(Facts { queues: statuses, workers, letters, history })
}
