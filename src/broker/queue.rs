//! The moves of a message that is in its queue: claim with release, pick up, retry, put back, bury, revive, purge.

use std::time::Duration;

use bytes::Bytes;
use redis::Value;

use crate::broker::Broker;
use crate::broker::commands::Checked;
use crate::broker::error::BrokerError;
use crate::broker::reader::Reader;
use crate::broker::recovery::DeadLimits;
use crate::broker::script::{self, Script};
use crate::protocol::keys::QueueKeys;

/// The most slots, or messages, that one call moves.
pub(crate) const MAX_BATCH: usize = 512;
/// How many bytes of what a process wrote last a dead letter keeps.
const MAX_OUTPUT: usize = 8 << 10;

/// Where the token is that a worker was woken with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// Popped: only the worker knows of it.
    Popped,
    /// In the queue's hand, unless another worker has taken it from there: they are all alike.
    Moved,
}

/// What a worker asks of `claim`: see `lua/claim.lua`.
#[derive(Debug)]
pub(crate) struct ClaimRequest<'a> {
    /// HASH of the worker.
    pub(crate) worker_key: &'a str,
    /// The number of this call.
    pub(crate) seq: u64,
    /// How long a live key is good for.
    pub(crate) lease: Duration,
    /// The token that the caller was woken with.
    pub(crate) in_hand: Option<Token>,
    /// Whether the live keys of the free slots need a new lease.
    pub(crate) renew: bool,
    /// Released slots that succeeded and may be suspects; they stand first.
    pub(crate) forgive: usize,
    /// Released slots; they stand first.
    pub(crate) released: usize,
    /// Released slots that are not claimed again; they stand first.
    pub(crate) kept: usize,
    /// At most [`MAX_BATCH`] wire ids: released ones first, free ones last.
    pub(crate) wire_ids: &'a [&'a str],
}

/// What a worker asks of `pick_up`: see `lua/pick_up.lua`.
#[derive(Debug)]
pub(crate) struct PickUpRequest<'a> {
    /// HASH of the worker.
    pub(crate) worker_key: &'a str,
    /// The number of this call.
    pub(crate) seq: u64,
    /// How long the live key is good for.
    pub(crate) lease: Duration,
    /// The free slot's.
    pub(crate) wire_id: &'a str,
}

/// What `claim` or `pick_up` answered.
#[derive(Debug)]
pub(crate) struct Claimed {
    /// Released messages that this worker owned no more.
    pub(crate) lost: u64,
    /// Messages that still wait.
    pub(crate) waiting: u64,
    /// Whether messages are known that died with their workers.
    pub(crate) suspects: bool,
    /// Whether the claimed message is one of them that is to run alone.
    pub(crate) alone: bool,
    /// The claimed messages, in the order of the free slots.
    pub(crate) messages: Vec<Bytes>,
}

/// Where a message is put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Before all that wait.
    Head,
    /// Behind all that wait.
    Tail,
}

/// What a worker asks of `bury`.
#[derive(Debug)]
pub(crate) struct BuryRequest<'a> {
    pub(crate) worker_key: &'a str,
    pub(crate) seq: u64,
    pub(crate) wire_id: &'a str,
    pub(crate) limits: DeadLimits,
    /// One word.
    pub(crate) reason: &'static str,
    /// A sentence.
    pub(crate) detail: &'a str,
    pub(crate) attempt: u32,
    /// `host/pid/worker id`.
    pub(crate) place: &'a str,
    /// What its process wrote last; its last 8 KB are kept.
    pub(crate) output: &'a str,
}

/// What `bury` answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Buried {
    /// It is a dead letter, and so many older ones had to go.
    Done { trimmed: u64 },
    /// The slot owned nothing any more.
    Lost,
    /// The key of the dead letters holds another type: the slot owns its message as before.
    WrongType,
}

impl PickUpRequest<'_> {
    /// Sends it over `connection`.
    pub(super) async fn send(
        &self,
        keys: &QueueKeys,
        connection: &mut Checked<Reader>,
    ) -> Result<Claimed, BrokerError> {
        let script_keys =
            [&keys.queue, &keys.notifications, &keys.processing, self.worker_key, &keys.deaths, &keys.hand];
        let mut command = script::PICK_UP.command(&script_keys, 3, self.wire_id.len() + 32);
        command.arg(self.seq).arg(milliseconds(self.lease)).arg(self.wire_id);
        let reply = script::PICK_UP.run(connection, command).await?;
        Claimed::read(&script::PICK_UP, reply)
    }
}

impl Claimed {
    fn read(script: &Script, reply: Value) -> Result<Self, BrokerError> {
        let values = <[Value; 4]>::try_from(script.array(reply)?);
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
        Ok(Self { lost, waiting, suspects: suspects > 0, alone: suspects == 2, messages })
    }
}

/// The strings of an array of MessagePack. They stay where they are: none asks for memory of its own.
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
    /// Releases what finished and claims for the slots that are free.
    pub(crate) async fn claim(
        &self,
        keys: &QueueKeys,
        ask: &ClaimRequest<'_>,
    ) -> Result<Claimed, BrokerError> {
        let script_keys =
            [&keys.queue, &keys.notifications, &keys.processing, ask.worker_key, &keys.deaths, &keys.hand];
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

    /// Moves a message from its slot to the tail of the queue. False: the slot owned nothing any more.
    pub(crate) async fn retry(
        &self,
        keys: &QueueKeys,
        worker_key: &str,
        seq: u64,
        wire_id: &str,
        message: &[u8],
    ) -> Result<bool, BrokerError> {
        let script_keys = [&keys.queue, &keys.notifications, &keys.processing, worker_key, &keys.deaths];
        let mut command = script::RETRY.command(&script_keys, 3, wire_id.len() + message.len() + 24);
        command.arg(seq).arg(wire_id).arg(message);
        match script::RETRY.run(&mut self.commands.clone(), command).await? {
            Value::Int(done) => Ok(done == 1),
            reply => Err(script::RETRY.unexpected(&reply)),
        }
    }

    /// Moves messages from their slots back to the queue, unchanged. Gives how many there were.
    pub(crate) async fn put_back(
        &self,
        keys: &QueueKeys,
        worker_key: &str,
        seq: u64,
        place: Place,
        wire_ids: &[&str],
    ) -> Result<u64, BrokerError> {
        let script_keys = [&keys.queue, &keys.notifications, &keys.processing, worker_key];
        let bytes = wire_ids.iter().map(|id| id.len()).sum::<usize>() + 32;
        let mut command = script::PUT_BACK.command(&script_keys, wire_ids.len() + 2, bytes);
        command.arg(seq).arg(if place == Place::Head { "head" } else { "tail" });
        for id in wire_ids {
            command.arg(*id);
        }
        match script::PUT_BACK.run(&mut self.commands.clone(), command).await? {
            Value::Int(count) => Ok(count.unsigned_abs()),
            reply => Err(script::PUT_BACK.unexpected(&reply)),
        }
    }

    /// Moves a message from its slot to the dead letters.
    pub(crate) async fn bury(&self, keys: &QueueKeys, ask: &BuryRequest<'_>) -> Result<Buried, BrokerError> {
        let script_keys = [&keys.processing, ask.worker_key, &keys.dead, &keys.deaths];
        let output = tail(ask.output, MAX_OUTPUT);
        let bytes = ask.detail.len() + ask.wire_id.len() + ask.place.len() + output.len() + 128;
        let mut command = script::BURY.command(&script_keys, 9, bytes);
        command
            .arg(ask.seq)
            .arg(ask.wire_id)
            .arg(ask.limits.max_count)
            .arg(milliseconds(ask.limits.max_age))
            .arg(ask.reason)
            .arg(ask.detail)
            .arg(ask.attempt)
            .arg(ask.place)
            .arg(output);
        match script::BURY.run(&mut self.commands.clone(), command).await? {
            Value::Array(reply) => match reply.as_slice() {
                [Value::Int(1), Value::Int(trimmed)] => Ok(Buried::Done { trimmed: trimmed.unsigned_abs() }),
                [Value::Int(0), _] => Ok(Buried::Lost),
                [Value::Int(-1), _] => Ok(Buried::WrongType),
                _ => Err(script::BURY.unexpected(&Value::Array(reply))),
            },
            reply => Err(script::BURY.unexpected(&reply)),
        }
    }

    /// Moves dead letters, given as (id, message), back to the tail of the queue. Gives how many there still were.
    pub(crate) async fn revive(
        &self,
        keys: &QueueKeys,
        letters: &[(String, Vec<u8>)],
    ) -> Result<u64, BrokerError> {
        let script_keys = [keys.queue.as_str(), &keys.notifications, &keys.dead];
        let bytes = letters.iter().map(|(id, message)| id.len() + message.len()).sum();
        let mut command = script::REVIVE.command(&script_keys, letters.len() * 2, bytes);
        for (id, message) in letters {
            command.arg(id).arg(message.as_slice());
        }
        match script::REVIVE.run(&mut self.commands.clone(), command).await? {
            Value::Int(count) => Ok(count.unsigned_abs()),
            reply => Err(script::REVIVE.unexpected(&reply)),
        }
    }

    /// Drops up to `count` (at most 10,000) waiting messages, oldest first. Gives how many there were.
    pub(crate) async fn purge(&self, keys: &QueueKeys, count: u64) -> Result<u64, BrokerError> {
        let mut command = script::PURGE.command(&[&keys.queue, &keys.notifications], 1, 16);
        command.arg(count);
        match script::PURGE.run(&mut self.commands.clone(), command).await? {
            Value::Int(count) => Ok(count.unsigned_abs()),
            reply => Err(script::PURGE.unexpected(&reply)),
        }
    }
}

/// A duration as scripts take it; at least 1, since Redis refuses an expiry of 0.
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 2).max(1)
}

/// The last bytes of a text, at most `most` of them, and whole characters.
fn tail(text: &str, most: usize) -> &str {
    let mut start = text.len().saturating_sub(most);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::BrokerErrorKind;

    #[test]
    fn messages_in_one_string_are_read_where_they_are_and_broken_ones_are_refused() {
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

    #[test]
    fn the_end_of_a_text_is_kept_in_whole_characters() {
        assert_eq!(tail("почта", 4), "та");
        assert_eq!(tail("почта", 5), "та");
        assert_eq!(tail("a", 5), "a");
        assert_eq!(tail("", 5), "");
    }
}
