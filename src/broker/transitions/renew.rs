//! Renew: renews the leases of calls that hold a limit.

use std::time::Duration;

use crate::broker::error::BrokerError;
use crate::broker::lease::LeaseKeeper;
use crate::broker::script::{self, milliseconds};
use crate::protocol::limit::LimitKeys;

impl LeaseKeeper {
    /// Renews the leases of up to 1000 holders of a limit. Returns how many of them still hold it.
    pub(crate) fn renew(
        &mut self,
        keys: &LimitKeys,
        lease: Duration,
        holders: &[String],
    ) -> Result<u64, BrokerError> {
        let bytes = holders.iter().map(|holder| holder.len() + 8).sum::<usize>();
        let mut command = script::RENEW.command(&[&keys.holders], 1 + holders.len(), bytes + 16);
        command.arg(milliseconds(lease));
        for holder in holders {
            command.arg(holder);
        }
        let reply = self.run(&script::RENEW, command)?;
        script::RENEW.count(&reply)
    }
}
