//! Which requests is a fault for?

use crate::broker::digest_of;
use crate::testing::network::frame::words;

/// Selects the requests of a [`Trap`](super::Trap): all matching ones, or only the [`nth`](Self::nth).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requests {
    kind: Kind,
    pub(super) nth: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    All,
    Command(String),
    /// By its digest.
    Script(String),
    With(Vec<u8>),
}

impl Requests {
    /// All requests, including those with which a client begins a connection.
    #[must_use]
    pub fn all() -> Self {
        Kind::All.into()
    }

    /// Requests with this command, such as `BLMOVE`; case does not matter.
    #[must_use]
    pub fn command(name: impl Into<String>) -> Self {
        Kind::Command(name.into()).into()
    }

    /// Calls (`EVALSHA`) of a script: one of ours by its name, such as `claim`, or any script by its digest.
    /// `docs/lifecycle.md` lists our scripts. An enqueue is not a script: select it with the [command](Self::command)
    /// `EXEC`.
    ///
    /// # Panics
    /// If there is no script of that name, and it is not a digest.
    #[must_use]
    pub fn script(name: &str) -> Self {
        let is_digest = name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let digest = digest_of(name).or(is_digest.then_some(name));
        let digest =
            digest.unwrap_or_else(|| panic!("expected the name of a script or a digest, not {name:?}"));
        Kind::Script(digest.to_owned()).into()
    }

    /// Requests that contain these bytes: in a key, an argument, or a part of a message.
    #[must_use]
    pub fn with(bytes: impl Into<Vec<u8>>) -> Self {
        Kind::With(bytes.into()).into()
    }

    /// Only the `n`-th of them, from 1, counted from now on across all connections.
    ///
    /// # Panics
    /// When `n` is 0.
    #[must_use]
    pub fn nth(self, n: u32) -> Self {
        assert!(n > 0, "requests are counted from 1");
        Self { nth: Some(n), ..self }
    }

    /// Whether a request is of this kind, whichever it is of them.
    pub(super) fn have(&self, request: &[u8]) -> bool {
        let word = |place: usize, expected: &str| {
            let words = words(request).unwrap_or_default();
            words.get(place).is_some_and(|word| word.eq_ignore_ascii_case(expected.as_bytes()))
        };
        match &self.kind {
            Kind::All => true,
            Kind::Command(name) => word(0, name),
            Kind::Script(digest) => word(0, "EVALSHA") && word(1, digest),
            Kind::With(bytes) => {
                bytes.is_empty() || request.windows(bytes.len()).any(|part| part == bytes.as_slice())
            }
        }
    }
}

impl From<Kind> for Requests {
    fn from(kind: Kind) -> Self {
        Self { kind, nth: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(words: &[&str]) -> Vec<u8> {
        let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        format!("*{}\r\n{words}", words.matches('$').count()).into_bytes()
    }

    #[test]
    fn a_request_is_known_by_its_command_its_script_or_its_bytes() {
        let digest = digest_of("claim").expect("a script of ours");
        let (get, claim) = (request(&["get", "EVALSHA"]), request(&["EVALSHA", digest, "0"]));
        for (requests, of_get, of_claim) in [
            (Requests::all(), true, true),
            (Requests::command("GET"), true, false),
            (Requests::command("evalsha").nth(7), false, true),
            (Requests::script("claim"), false, true),
            (Requests::script(&digest.to_uppercase()), false, true),
            (Requests::script("bury"), false, false),
            (Requests::with("VALSH"), true, true),
            (Requests::with(b"0".to_vec()), false, true),
        ] {
            assert_eq!((requests.have(&get), requests.have(&claim)), (of_get, of_claim), "{requests:?}");
        }
    }

    #[test]
    #[should_panic(expected = "name of a script")]
    fn a_script_that_does_not_exist_is_refused() {
        let _ = Requests::script("claims");
    }
}
