//! Claim: releases the messages of finished slots, and moves waiting messages into free slots.

use std::time::Duration;

use bytes::Bytes;
use redis::Value;

use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::script::{self, Script, milliseconds};
use crate::broker::token::Token;
use crate::broker::transitions::pause::Paused;
use crate::protocol::keys::QueueKeys;

/// Maximum number of slots, or messages, that one call moves.
pub(crate) const MAX_BATCH: usize = 512;

/// The arguments of `claim`: see `lua/claim.lua`.
#[derive(Debug)]
pub(crate) struct ClaimRequest<'a> {
    /// HASH of the worker.
    pub(crate) worker_key: &'a str,
    /// The number of this call.
    pub(crate) seq: u64,
    /// How long a live key lasts.
    pub(crate) lease: Duration,
    /// The token that woke the caller.
    pub(crate) in_hand: Option<Token>,
    /// Whether the live keys of the free slots need a new lease.
    pub(crate) renew: bool,
    /// How many released slots succeeded and may be suspects; they come first.
    pub(crate) forgive: usize,
    /// How many slots are released; they come first.
    pub(crate) released: usize,
    /// How many released slots are not claimed again; they come first.
    pub(crate) kept: usize,
    /// At most [`MAX_BATCH`] wire ids: released ones first, free ones last.
    pub(crate) wire_ids: &'a [&'a str],
}

/// The reply of `claim` or `pick_up`.
#[derive(Debug)]
pub(crate) struct Claimed {
    /// Released messages that this worker no longer owned.
    pub(crate) lost: u64,
    /// Messages that still wait.
    pub(crate) waiting: u64,
    /// Whether suspects exist: messages that died with their workers.
    pub(crate) suspects: bool,
    /// Whether the claimed message is a suspect that must run alone.
    pub(crate) alone: bool,
    /// The positions of messages whose calls were cancelled, from 0.
    pub(crate) cancelled: Vec<usize>,
    /// The claimed messages, in the order of the free slots.
    pub(crate) messages: Vec<Bytes>,
    /// The queue is paused: nothing was claimed.
    pub(crate) paused: Option<Paused>,
}

impl Claimed {
    pub(super) fn read(script: &Script, reply: Value) -> Result<Self, BrokerError> {
        let mut values = script.array(reply)?;
        // The value of `paused`, or the positions of cancelled calls.
        let fifth = if values.len() == 5 { values.pop() } else { None };
        let (paused, places) = match fifth {
            Some(Value::Array(places)) => (None, Some(Value::Array(places))),
            paused => (paused, None),
        };
        let paused = paused.map(|text| Paused::read(script, &text)).transpose()?;
        let values = <[Value; 4]>::try_from(values);
        let [lost, waiting, suspects, messages] =
            values.map_err(|values| script.unexpected(&Value::Array(values)))?;
        let number = |value| match value {
            Value::Int(number) => Ok(number.unsigned_abs()),
            other => Err(script.unexpected(&other)),
        };
        let (lost, waiting, suspects) = (number(lost)?, number(waiting)?, number(suspects)?);
        let messages = match messages {
            Value::BulkString(packed) => {
                let packed = Bytes::from(packed);
                unpack(&packed).ok_or_else(|| script.unexpected(&Value::BulkString(packed.into())))?
            }
            messages => {
                let values = script.array(messages)?;
                let mut messages = Vec::with_capacity(values.len());
                for value in values {
                    match value {
                        Value::BulkString(message) => messages.push(message.into()),
                        other => return Err(script.unexpected(&other)),
                    }
                }
                messages
            }
        };
        let cancelled = places.map_or(Ok(Vec::new()), |places| read_places(script, places))?;
        Ok(Self { lost, waiting, suspects: suspects > 0, alone: suspects == 2, cancelled, paused, messages })
    }
}

/// Converts an array of positions from 1 to positions from 0.
pub(super) fn read_places(script: &Script, places: Value) -> Result<Vec<usize>, BrokerError> {
    let place = |place| match place {
        Value::Int(place @ 1..) => Ok(place.unsigned_abs() as usize - 1),
        other => Err(script.unexpected(&other)),
    };
    script.array(places)?.into_iter().map(place).collect()
}

/// The strings of a MessagePack array, as slices of the same memory, without new allocations.
fn unpack(packed: &Bytes) -> Option<Vec<Bytes>> {
    let mut rest = packed.as_ref();
    let count = usize::try_from(rmp::decode::read_array_len(&mut rest).ok()?).ok()?;
    let mut strings = Vec::with_capacity(count.min(MAX_BATCH));
    for _ in 0..count {
        let length = usize::try_from(rmp::decode::read_str_len(&mut rest).ok()?).ok()?;
        let (string, behind) = rest.split_at_checked(length)?;
        strings.push(packed.slice_ref(string));
        rest = behind;
    }
    rest.is_empty().then_some(strings)
}

impl Broker {
    /// Releases finished slots and claims messages for free ones.
    pub(crate) async fn claim(
        &self,
        keys: &QueueKeys,
        ask: &ClaimRequest<'_>,
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
        let bytes = ask.wire_ids.iter().map(|id| id.len()).sum::<usize>() + 64;
        let mut command = script::CLAIM.command(&script_keys, ask.wire_ids.len() + 7, bytes);
        let in_hand = match ask.in_hand {
            None => 0,
            Some(Token::Popped) => 1,
            Some(Token::Moved) => 2,
        };
        command
            .arg(ask.seq)
            .arg(milliseconds(ask.lease))
            .arg(in_hand)
            .arg(u8::from(ask.renew))
            .arg(ask.forgive)
            .arg(ask.released)
            .arg(ask.kept);
        for id in ask.wire_ids {
            command.arg(*id);
        }
        let reply = script::CLAIM.run(&mut self.commands.clone(), command).await?;
        Claimed::read(&script::CLAIM, reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::BrokerErrorKind;

    #[test]
    fn packed_messages_are_read_in_place_and_broken_ones_refused() {
        let read = |packed: &[u8]| unpack(&Bytes::copy_from_slice(packed));
        for (head, length) in [(&[0xda, 1, 0][..], 256), (&[0xdb, 0, 1, 0, 0], 65_536)] {
            let message = vec![7; length];
            let packed = [&[0x91], head, &message].concat();
            assert_eq!(read(&packed), Some(vec![Bytes::from(message)]), "of {length} bytes");
        }
        let long = [&[0xdc, 0, 2, 0xd9, 40][..], &[7; 40], &[0xa2, 0xc1, 0]].concat();
        assert_eq!(read(&long), Some(vec![Bytes::from(vec![7; 40]), Bytes::from(vec![0xc1, 0])]));
        assert_eq!(read(&[0x90]), Some(vec![]));
        for cut in 0..long.len() {
            assert_eq!(read(&long[..cut]), None, "of {cut} bytes");
        }
        for broken in [&[0x91, 0xa1, 1, 2][..], &[0x91, 1], &[0xa1, 1], &[0xdd, 255, 255, 255, 255, 0xa0]] {
            assert_eq!(read(broken), None, "{broken:?}");
        }
        let packed = Bytes::from(long);
        let inside = packed.as_ptr_range();
        assert!(unpack(&packed).expect("it is whole").iter().all(|one| inside.contains(&one.as_ptr())));
    }

    #[test]
    fn what_claim_does_not_answer_is_refused_without_its_bytes() {
        let (one, bytes) = (Value::Int(1), Value::BulkString(b"secret".to_vec()));
        let whole = |messages| Value::Array(vec![one.clone(), one.clone(), one.clone(), messages]);
        let read = |reply| Claimed::read(&script::CLAIM, reply);
        assert!(read(whole(Value::Array(vec![bytes.clone()]))).is_ok());
        for wrong in [
            bytes.clone(),
            Value::Array(vec![one.clone(); 3]),
            Value::Array(vec![bytes.clone(); 4]),
            whole(bytes),
            whole(Value::Nil),
            whole(Value::Array(vec![Value::Nil])),
        ] {
            let shown = format!("{wrong:?}");
            let error = read(wrong).expect_err(&shown);
            assert_eq!(error.kind(), BrokerErrorKind::Reply, "{shown}");
            assert!(!error.to_string().contains("secret") && !error.to_string().contains("115"), "{error}");
        }
    }
}
