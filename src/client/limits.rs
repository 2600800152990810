//! Sets what limits allow.

use crate::client::Client;
use crate::client::patience::Until;
use crate::client::session::Session;
use crate::error::Error;
use crate::protocol::limit::{Limit, LimitName};

impl Client {
    /// Creates or changes a limit, for all calls that name it, in all queues and workers of this Redis. This takes
    /// effect immediately, even while calls wait or run. Lowering a limit ends no run: no call begins until fewer run
    /// than the limit allows.
    ///
    /// ```no_run
    /// # async fn example(client: delayed::Client) -> Result<(), delayed::Error> {
    /// use delayed::Limit;
    ///
    /// client.set_limit("github", Limit::concurrent(4).rate(100, "1m")).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The name is invalid, nothing could run under the limit, or Redis cannot be reached or used. After an error of Redis it
    /// may have been set; to set it again is harmless.
    pub async fn set_limit(&self, name: &str, limit: Limit) -> Result<(), Error> {
        let name = LimitName::parse(name)?;
        limit.check()?;
        let link = self.link.here();
        let until = link.until();
        link.session(until).await?.set_limit(&name, &limit, until).await
    }

    /// Creates or changes a limit, from a thread that may block.
    ///
    /// # Errors
    /// As [`set_limit`](Self::set_limit), or a thread cannot be started.
    ///
    /// # Panics
    /// On a thread that runs async code: await [`set_limit`](Self::set_limit) there.
    pub fn set_limit_blocking(&self, name: &str, limit: Limit) -> Result<(), Error> {
        let name = LimitName::parse(name)?;
        limit.check()?;
        let link = self.link.here();
        let (until, ground) = (link.until(), link.ground().map_err(Error::Io)?);
        ground.handle.block_on(async { ground.session(until).await?.set_limit(&name, &limit, until).await })
    }
}

impl Session {
    async fn set_limit(&self, name: &LimitName, limit: &Limit, until: Until) -> Result<(), Error> {
        Ok(until.retry(async |end| self.broker().by(end).set_limit(name, limit).await).await?)
    }
}
