//! Describes how a call is followed: for how long its record is kept, and the lock that makes it unique.

use crate::protocol::call_id::CallId;
use crate::protocol::decode::{Head, Reader};

/// How long the lock of a unique call holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Until the call begins to run.
    UntilStarted,
    /// Until the call has ended.
    UntilDone,
    /// For a time from its enqueue on, whatever becomes of the call.
    Period,
    /// Until the call is due: a newer one takes its place in the timetable.
    Replace,
    /// Until the call has ended: others wait for their turn, instead of being refused.
    Ordered,
}

/// The lock of a unique call: its mode and a digest.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Lock([u8; Self::LENGTH]);

/// What a message says of how its call is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tracking {
    /// The id of the call.
    pub id: CallId,
    /// For how many milliseconds the record is kept after the end; `None`: there is no record.
    pub keep_ms: Option<u64>,
    /// The lock, if the call is unique.
    pub lock: Option<Lock>,
}

impl LockMode {
    const ALL: [Self; 5] = [Self::UntilStarted, Self::UntilDone, Self::Period, Self::Replace, Self::Ordered];

    const fn letter(self) -> u8 {
        match self {
            Self::UntilStarted => b's',
            Self::UntilDone => b'd',
            Self::Period => b'p',
            Self::Replace => b'r',
            Self::Ordered => b'o',
        }
    }
}

impl Lock {
    /// The length in bytes.
    pub const LENGTH: usize = 17;

    /// The lock of a call of `task` with this payload, as the standard encoders write it.
    #[must_use]
    pub fn of_arguments(mode: LockMode, task: &str, payload: &[u8]) -> Self {
        Self::new(mode, task, 0, payload)
    }

    /// The lock of a call of `task` with a key of its own.
    #[must_use]
    pub fn of_key(mode: LockMode, task: &str, key: &str) -> Self {
        Self::new(mode, task, 1, key.as_bytes())
    }

    /// The lock of calls of any task that run in their order.
    #[must_use]
    pub fn of_order(key: &str) -> Self {
        Self::of_key(LockMode::Ordered, "", key)
    }

    /// The first 16 bytes of the SHA-1 of the path, a byte that says what follows, and that.
    fn new(mode: LockMode, task: &str, kind: u8, rest: &[u8]) -> Self {
        let mut sha1 = sha1_smol::Sha1::new();
        sha1.update(task.as_bytes());
        sha1.update(&[kind]);
        sha1.update(rest);
        let mut bytes = [mode.letter(); Self::LENGTH];
        bytes[1..].copy_from_slice(&sha1.digest().bytes()[..16]);
        Self(bytes)
    }

    /// The letter of its mode and the digest.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The digest.
    #[must_use]
    pub fn digest(&self) -> &[u8] {
        &self.0[1..]
    }

    /// Its mode.
    #[must_use]
    pub fn mode(&self) -> LockMode {
        let [letter, ..] = self.0;
        LockMode::ALL.into_iter().find(|mode| mode.letter() == letter).unwrap_or(LockMode::UntilDone)
    }

    /// Reads `u`; `None` for anything else than a lock.
    pub(crate) fn read(value: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(value);
        let Ok(Head::Bin(length)) = reader.head() else { return None };
        let bytes: [u8; Self::LENGTH] = reader.take(length).try_into().ok()?;
        LockMode::ALL.iter().any(|mode| mode.letter() == bytes[0]).then_some(Self(bytes))
    }
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} ", self.mode())?;
        self.digest().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_depends_on_task_and_on_arguments_or_key() {
        let of = |task, payload| Lock::of_arguments(LockMode::UntilDone, task, payload);
        assert_eq!(of("f", b"\x05"), of("f", b"\x05"));
        let key = Lock::of_key(LockMode::UntilDone, "f", "\x05");
        let locks = [of("f", b"\x05"), of("g", b"\x05"), of("f", b"\x06"), key];
        for (place, lock) in locks.iter().enumerate() {
            assert!(!locks[place + 1..].contains(lock), "expected {lock:?} once");
        }
        let other = Lock::of_arguments(LockMode::Period, "f", b"\x05");
        assert_eq!((other.digest(), other.mode()), (locks[0].digest(), LockMode::Period));
    }

    #[test]
    fn what_is_no_lock_is_not_read() {
        let lock = Lock::of_key(LockMode::Replace, "f", "k");
        let mut encoded = Vec::new();
        crate::protocol::encode::bytes(&mut encoded, lock.as_bytes());
        assert_eq!(Lock::read(&encoded), Some(lock));
        encoded[2] = b'?';
        for other in [&encoded[..], b"\xc0", b"\xa1d", b"\xc4\x01d"] {
            assert_eq!(Lock::read(other), None);
        }
    }
}
