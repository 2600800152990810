//! Identifies a call, in the order of time.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

/// The id of a call: 16 bytes, a UUID. A new one is of version 7, that of a text of version 5. Written as
/// `018bcfe5-687b-7b5c-8a3e-0123456789ab`.
///
/// A text becomes the same id in Rust, in Python, on the command line, and on each host: a UUID is taken as it is, and any other
/// text is hashed.
///
/// ```
/// use delayed::CallId;
///
/// assert_eq!(CallId::from("order:7").to_string(), "33fe6d75-c3fc-59bb-bf42-d06fc16bdf64");
/// let uuid = "018bcfe5-687b-7b5c-8a3e-0123456789ab";
/// assert_eq!(CallId::from(uuid).to_string(), uuid);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId([u8; 16]);

/// A text that is not the id of a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected the id of a call (32 hexadecimal digits, with or without hyphens), got {text:?}")]
pub struct CallIdError {
    text: String,
}

/// The namespace of the ids that are hashed from texts: the UUID of version 5 of `delayed` in that of DNS names.
const NAMESPACE: Uuid = Uuid::from_u128(0x2510_aeec_3d9c_5138_86ed_7110_3aea_cdb2);

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

    /// A number that an id of [`hashed`](Self::hashed) text spreads evenly.
    #[cfg(feature = "periodic")]
    pub(crate) fn seed(&self) -> u64 {
        let [a, b, c, d, e, f, ..] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
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
        // With braces, or as a URN, it is not how an id is displayed.
        let uuid = if matches!(text.len(), 32 | 36) { Uuid::try_parse(text).ok() } else { None };
        let refused = || CallIdError { text: text.chars().take(64).collect() };
        uuid.map(|uuid| Self(uuid.into_bytes())).ok_or_else(refused)
    }

    /// The id of a text that is no UUID.
    fn hashed(text: &str) -> Self {
        let mut sha1 = sha1_smol::Sha1::new();
        sha1.update(NAMESPACE.as_bytes());
        sha1.update(text.as_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&sha1.digest().bytes()[..16]);
        Self(uuid::Builder::from_sha1_bytes(bytes).into_uuid().into_bytes())
    }

    /// Whether it was hashed from a text.
    #[cfg_attr(not(feature = "cli"), allow(dead_code))]
    pub(crate) fn is_hashed(&self) -> bool {
        self.0[6] >> 4 == 5
    }
}

impl From<&str> for CallId {
    /// The id that this text stands for: see [`CallId`].
    fn from(text: &str) -> Self {
        Self::parse(text).unwrap_or_else(|_| Self::hashed(text))
    }
}

impl From<String> for CallId {
    /// The id that this text stands for: see [`CallId`].
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&String> for CallId {
    /// The id that this text stands for: see [`CallId`].
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
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
