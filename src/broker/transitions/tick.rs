//! Tick: makes the calls of periodic tasks that are due.

use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script;
use crate::protocol::keys::QueueKeys;
use crate::protocol::message::Message;
use crate::protocol::periodic::TickCall;

/// Maximum number of calls that one script call makes.
pub(crate) const MAX_TICK_CALLS: usize = 100;
/// The number of arguments for each task, and for each call.
const FIELDS: usize = 7;

/// What is due of a periodic task, and when it is due next.
#[derive(Debug)]
pub(crate) struct Tick<'a> {
    pub(crate) name: &'a str,
    /// When it is due, in milliseconds since 1970. `None`: its calls are made by hand, and its entry does not change.
    pub(crate) due: Option<u64>,
    /// Its definition, as it was read.
    pub(crate) definition: &'a [u8],
    /// When it is due next. `None`: never.
    pub(crate) next: Option<u64>,
    /// The first tick that is not made up for, and how many these are.
    pub(crate) missed: Option<(u64, u64)>,
    pub(crate) calls: Vec<TickCall>,
    /// For how many milliseconds the lock of a call holds, where it holds for a time.
    pub(crate) lock_ms: u64,
}

/// What became of a periodic task that was due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ticked {
    /// So many calls were enqueued.
    Made(u64),
    /// It has changed since it was read, and nothing was done.
    LeftAlone,
    /// A call could not be enqueued, and the task is still due: why.
    Refused(String),
}

impl Broker {
    /// Makes up to [`MAX_TICK_CALLS`] calls of periodic tasks. Returns for each task what became of it.
    pub(crate) async fn tick(
        &self,
        keys: &QueueKeys,
        ticks: &[Tick<'_>],
    ) -> Result<Vec<Ticked>, BrokerError> {
        let QueueKeys { queue, notifications, due, periodic, .. } = keys;
        let calls = || ticks.iter().flat_map(|tick| &tick.calls);
        let bytes: usize = ticks.iter().map(|tick| tick.name.len() + 128).sum::<usize>()
            + calls().map(|call| call.message.len() + 160).sum::<usize>();
        let count = FIELDS * (ticks.len() + calls().count());
        let mut command = script::TICK.command(&[queue, notifications, due, periodic], count, bytes);
        let or_empty = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        for tick in ticks {
            let (first, missed) = tick.missed.unwrap_or_default();
            command
                .arg(tick.name)
                .arg(or_empty(tick.due))
                .arg(sha1(tick.definition))
                .arg(or_empty(tick.next));
            command.arg(first).arg(missed).arg(tick.calls.len());
            for TickCall { tick: moment, tracking, message } in &tick.calls {
                let task = Message::decode(message).map(|message| message.task()).unwrap_or_default();
                let lock = tracking.as_ref().and_then(|tracking| tracking.lock.as_ref());
                command
                    .arg(moment)
                    .arg(tracking.as_ref().map_or(&b""[..], |tracking| &tracking.id.as_bytes()[..]))
                    .arg(or_empty(tracking.as_ref().and_then(|tracking| tracking.keep_ms)))
                    .arg(lock.map_or(&b""[..], |lock| lock.as_bytes()))
                    .arg(tick.lock_ms.max(1))
                    .arg(task)
                    .arg(message);
            }
        }
        let reply = script::TICK.run(&mut self.commands.clone(), command).await?;
        let ticked = |value: Value| match value {
            Value::Int(count) => Ok(u64::try_from(count).map_or(Ticked::LeftAlone, Ticked::Made)),
            Value::BulkString(error) => Ok(Ticked::Refused(String::from_utf8_lossy(&error).into_owned())),
            other => Err(script::TICK.unexpected(&other)),
        };
        script::TICK.array(reply)?.into_iter().map(ticked).collect()
    }
}

fn sha1(bytes: &[u8]) -> String {
    let mut sha1 = sha1_smol::Sha1::new();
    sha1.update(bytes);
    sha1.digest().to_string()
}
