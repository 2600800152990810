//! Defines periodic tasks.

use crate::broker::{Change, PutTask};
use crate::client::link::Link;
use crate::client::patience::Until;
use crate::client::session::Session;
use crate::client::{Client, keys};
use crate::error::Error;
use crate::protocol::names::QueueName;
use crate::task::{Periodic, PeriodicEntry};

impl Client {
    /// Defines a periodic task, or replaces the one of its name. From now on the workers and sweepers of its queue make its
    /// calls. A task that is paused stays so, and a tick that is due already is made.
    ///
    /// ```no_run
    /// # mod tasks { #[delayed::task] pub fn report(kind: String) {} }
    /// # async fn example(client: delayed::Client) -> Result<(), delayed::Error> {
    /// use delayed::Periodic;
    ///
    /// let call = tasks::report::call("full".into()).queue("reports");
    /// client.define_periodic(Periodic::new("nightly", "0 3 * * *", call).tz("Europe/Berlin")).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// Processes that define the same task at the same time write it once.
    ///
    /// # Errors
    /// [`PeriodicError`](crate::PeriodicError), or Redis cannot be reached or used. After an error of Redis the task may be
    /// defined; to define it again is harmless.
    pub async fn define_periodic(&self, task: Periodic) -> Result<(), Error> {
        self.define_all_periodic([task]).await
    }

    /// Defines many periodic tasks.
    ///
    /// # Errors
    /// As [`define_periodic`](Self::define_periodic). All are checked before the first is defined.
    pub async fn define_all_periodic(&self, tasks: impl IntoIterator<Item = Periodic>) -> Result<(), Error> {
        let link = self.link.here();
        let checked = |task: Periodic| link.check(task.into_entry()?);
        let entries = tasks.into_iter().map(checked).collect::<Result<Vec<_>, _>>()?;
        let until = link.until();
        link.session(until).await?.define_periodic(&entries, until).await
    }

    /// Defines a periodic task, from a thread that may block.
    ///
    /// # Errors
    /// As [`define_periodic`](Self::define_periodic), or a thread cannot be started.
    ///
    /// # Panics
    /// On a thread that runs async code: await [`define_periodic`](Self::define_periodic) there.
    pub fn define_periodic_blocking(&self, task: Periodic) -> Result<(), Error> {
        let link = self.link.here();
        let entry = link.check(task.into_entry()?)?;
        let (until, ground) = (link.until(), link.ground().map_err(Error::Io)?);
        ground.handle.block_on(async { ground.session(until).await?.define_periodic(&[entry], until).await })
    }

    /// Removes a periodic task with its history. Calls that were made stay. Returns whether there was one.
    ///
    /// # Errors
    /// Redis cannot be reached or used.
    pub async fn remove_periodic(&self, queue: &QueueName, name: &str) -> Result<bool, Error> {
        let link = self.link.here();
        let until = link.until();
        let session = link.session(until).await?;
        let keys = keys(queue);
        Ok(until
            .retry(async |end| session.broker().by(end).remove_periodic(&keys, queue, name).await)
            .await?)
    }
}

impl Link {
    /// Refuses a definition that is larger than a message may be.
    fn check(&self, entry: PeriodicEntry) -> Result<PeriodicEntry, Error> {
        let (size, limit) = (entry.definition.len(), self.config.client.max_message);
        if size > limit { Err(Error::TooLarge { task: entry.name, size, limit }) } else { Ok(entry) }
    }
}

impl Session {
    async fn define_periodic(&self, entries: &[PeriodicEntry], until: Until) -> Result<(), Error> {
        let mut rest: Vec<&PeriodicEntry> = entries.iter().collect();
        while let Some(first) = rest.first() {
            let queue = first.queue.clone();
            let (of_queue, others): (Vec<_>, Vec<_>) =
                rest.into_iter().partition(|entry| entry.queue == queue);
            rest = others;
            self.register(&queue, until).await?;
            let keys = keys(&queue);
            let tasks: Vec<PutTask<'_>> = of_queue.into_iter().map(PutTask::of).collect();
            until
                .retry(async |end| self.broker().by(end).put_periodic(&keys, Change::Put, &tasks).await)
                .await?;
        }
        Ok(())
    }
}
