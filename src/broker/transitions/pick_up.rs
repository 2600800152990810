//! Pick up: claims one message behind a wait.

use std::time::Duration;

use crate::broker::error::BrokerError;
use crate::broker::reader::Reader;
use crate::broker::script::{self, milliseconds};
use crate::broker::transitions::claim::Claimed;
use crate::protocol::keys::QueueKeys;

/// The arguments of `pick_up`: see `lua/pick_up.lua`.
#[derive(Debug)]
pub(crate) struct PickUpRequest<'a> {
    /// HASH of the worker.
    pub(crate) worker_key: &'a str,
    /// The number of this call.
    pub(crate) seq: u64,
    /// How long the live key lasts.
    pub(crate) lease: Duration,
    /// The wire id of the free slot.
    pub(crate) wire_id: &'a str,
}

/// Claims at most one message, over the connection that waits.
pub(in crate::broker) async fn pick_up(
    keys: &QueueKeys,
    ask: &PickUpRequest<'_>,
    connection: &mut Reader,
) -> Result<Claimed, BrokerError> {
    let script_keys = [
        &keys.queue,
        &keys.notifications,
        &keys.processing,
        ask.worker_key,
        &keys.deaths,
        &keys.hand,
        &keys.paused,
        &keys.cancelled,
    ];
    let mut command = script::PICK_UP.command(&script_keys, 3, ask.wire_id.len() + 32);
    command.arg(ask.seq).arg(milliseconds(ask.lease)).arg(ask.wire_id);
    let reply = script::PICK_UP.run(connection, command).await?;
    Claimed::read(&script::PICK_UP, reply)
}
