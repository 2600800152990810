//! Wake: gives a limit back, and returns which calls may run now.

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::broker::transitions::acquire::texts;
use crate::protocol::limit::LimitKeys;

/// Maximum number of holders that one script call gives back, and of calls that it reports as lost.
pub(crate) const MAX_WAKING: usize = 100;

/// The arguments of `wake`.
#[derive(Debug, Default)]
pub(crate) struct Waking<'a> {
    /// Whether to return calls again that were told to run and have not come.
    pub(crate) again: bool,
    /// Holders that give the limit back, each with the SHA-1 of its message if its token was not used.
    pub(crate) released: Vec<(&'a str, &'a str)>,
    /// The entries of calls that were told to run and cannot be found.
    pub(crate) lost: Vec<&'a str>,
}

impl Broker {
    /// Returns how many calls wait for a limit, and the entries of those that may run now.
    pub(crate) async fn wake(
        &self,
        keys: &LimitKeys,
        waking: &Waking<'_>,
    ) -> Result<(u64, Vec<String>), BrokerError> {
        let Waking { again, released, lost } = waking;
        let bytes = released.iter().map(|(holder, _)| holder.len() + 64).sum::<usize>() + 256 * lost.len();
        let mut command = script::WAKE.command(&keys.all(), 2 + 2 * released.len() + lost.len(), bytes + 16);
        command.arg(u8::from(*again)).arg(released.len());
        for (holder, digest) in released {
            command.arg(*holder).arg(*digest);
        }
        for entry in lost {
            command.arg(*entry);
        }
        let reply = script::WAKE.run(&mut self.commands.clone(), command).await?;
        let mut reply = script::WAKE.array(reply)?.into_iter();
        let waiting = script::WAKE.count(&reply.next().unwrap_or(Value::Nil))?;
        Ok((waiting, texts(&script::WAKE, reply)?))
    }
}
