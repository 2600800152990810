//! Identifies a call, in the order of time.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

/// The id of a call: 16 bytes, a UUID of version 7. Written as `018bcfe5-687b-7b5c-8a3e-0123456789ab`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId([u8; 16]);

/// A text that is not the id of a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected the id of a call (32 hexadecimal digits, with or without hyphens), got {text:?}")]
pub struct CallIdError {
    text: String,
}

impl CallId {
    /// A new id. Later ones of the same process are greater.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "each is another, so none is the default")]
    pub fn new() -> Self {
        Self(Uuid::now_v7().into_bytes())
    }

    /// The id that these bytes are.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes, as they travel.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// The random part of an id that [`new`](Self::new) made.
    #[cfg_attr(not(feature = "worker"), expect(dead_code))]
    pub(crate) fn random(&self) -> u64 {
        let [.., a, b, c, d, e, f, g, h] = self.0;
        // The first two bits are the same in all.
        u64::from_be_bytes([a, b, c, d, e, f, g, h]) << 2
    }

    /// When it was made, in milliseconds since 1970; none when it is no UUID of version 7.
    #[cfg_attr(not(feature = "inspect"), allow(dead_code))]
    pub(crate) fn made_ms(&self) -> Option<u64> {
        let [a, b, c, d, e, f, version, ..] = self.0;
        (version >> 4 == 7).then(|| u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// Reads it as it is displayed; hyphens and case do not matter.
    ///
    /// # Errors
    /// Anything but 32 hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, CallIdError> {
        let refused = |_| CallIdError { text: text.chars().take(64).collect() };
        Uuid::try_parse(text).map(|uuid| Self(uuid.into_bytes())).map_err(refused)
    }
}

impl FromStr for CallId {
    type Err = CallIdError;

    fn from_str(text: &str) -> Result<Self, CallIdError> {
        Self::parse(text)
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Uuid::from_bytes(self.0), f)
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_displayed_and_later_ones_are_greater() {
        let (first, second) = (CallId::new(), CallId::new());
        assert!(first < second);
        assert_eq!(CallId::parse(&first.to_string()), Ok(first));
        assert_eq!(CallId::parse(&first.to_string().replace('-', "").to_uppercase()), Ok(first));
        assert_eq!(CallId::from_bytes(*first.as_bytes()), first);
        assert!("mail".parse::<CallId>().unwrap_err().to_string().ends_with("got \"mail\""));
    }
}
