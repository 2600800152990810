//! Enqueue: appends messages to a queue in a transaction, all or none of them.
//!
//! This is not a script, unlike all other moves: Redis converts each argument to a Lua string and reads each of its bytes
//! for that. This doubles the time, or multiplies it for a large message.

use redis::{Cmd, Value};

use crate::broker::Broker;
use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::broker::numbered::Transaction;
use crate::broker::token::TOKEN;
use crate::crash;
use crate::protocol::keys::QueueKeys;

const OP: &str = "enqueue";

/// Messages that are ready to be enqueued.
pub(crate) struct Ready {
    transaction: Transaction,
    queue: String,
}

impl Ready {
    pub(crate) fn new<'a>(keys: &QueueKeys, messages: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let (count, bytes) =
            messages.clone().fold((0, 0), |(count, bytes), message| (count + 1, bytes + message.len()));
        let push = |list: &str, bytes: usize| {
            let mut command = Cmd::with_capacity(count + 2, list.len() + bytes + 5);
            command.arg("RPUSH").arg(list);
            command
        };
        let (mut waiting, mut tokens) = (push(&keys.queue, bytes), push(&keys.notifications, count));
        for message in messages {
            waiting.arg(message);
            tokens.arg(TOKEN);
        }
        Self { transaction: Transaction::new([waiting, tokens]), queue: keys.queue.clone() }
    }
}

impl Broker {
    /// Checks that messages can be enqueued: fails if the queue or its notifications hold another type. Call it before the
    /// first enqueue, because a transaction executes all of its commands that succeed.
    pub(crate) async fn check_types(&self, keys: &QueueKeys) -> Result<(), BrokerError> {
        let mut pipe = redis::pipe();
        pipe.cmd("LLEN").arg(&keys.queue).cmd("LLEN").arg(&keys.notifications);
        self.lengths_of::<2>("check_types", &mut pipe).await.map(drop)
    }

    /// Appends messages, each with its token, all or none as long as both keys are lists. Returns the number of waiting
    /// messages.
    ///
    /// If this fails, nothing was appended, unless the error [says](BrokerError::may_have_been_applied) that this is
    /// unknown.
    pub(crate) async fn enqueue(&self, ready: Ready) -> Result<u64, BrokerError> {
        crash::point(OP, "before");
        let results = self.commands.transact(&ready.transaction).await;
        crash::point(OP, "replied");
        let failed = |error| BrokerError::from_redis(OP, &error).of_queue(Some(&ready.queue));
        let mut results = results.map_err(failed)?.into_iter();
        let (Some(waiting), Some(tokens)) = (results.next(), results.next()) else {
            return Err(BrokerError::new(OP, BrokerErrorKind::Reply, "two results are missing"));
        };
        let Value::Int(waiting) = waiting.extract_error().map_err(failed)? else {
            return Err(BrokerError::new(OP, BrokerErrorKind::Reply, "no number of messages"));
        };
        match tokens.extract_error() {
            Ok(_) => Ok(waiting.unsigned_abs()),
            Err(error) => Err(BrokerError::new(OP, BrokerErrorKind::Reply, error.to_string()).advised(
                "the calls are in their queue, but the key of its notifications has the wrong type: `doctor` says \
                which; rename or delete it, and a sweeper lets the calls run",
            )),
        }
    }
}
