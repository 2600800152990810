//! Validates the names of queues, workers and tasks.

use std::fmt;
use std::sync::Arc;

/// SET: the names of the queues that a worker or client of ours has used. No queue may have its name.
pub const QUEUES: &str = "delayed_queues";

/// HASH: the tokens of gateways, by their names.
pub const TOKENS: &str = "delayed_tokens";

/// HASH: the descriptions that workers publish of their tasks, by path.
pub const TASKS: &str = "delayed_tasks";

/// HASH: how many calls of a queue have ended, by time; expires.
#[must_use]
pub fn history(queue: &QueueName) -> String {
    format!("delayed_history:{queue}")
}

/// HASH: how many runs of a task have ended in the last hours, and how long they took; expires.
#[must_use]
pub fn task_history(task: &str) -> String {
    format!("delayed_task_history:{task}")
}

/// STREAM: what was done in dashboards, bounded.
pub const AUDIT: &str = "delayed_audit";
/// The stream of what dashboards have refused.
pub const REFUSED: &str = "delayed_audit_refused";

/// STRING: the digest of the request that was sent to a gateway with this idempotency key; expires.
#[must_use]
pub fn idempotency(digest: &str) -> String {
    format!("delayed_idempotency:{digest}")
}

/// The longest name of a queue, in bytes.
pub const MAX_QUEUE_NAME: usize = 200;

/// What we append to a queue's name for keys of ours and of the ancestors; a queue's name ends in none of them.
pub const SUFFIXES: [&str; 19] = [
    "_noti",
    "_hand",
    "_processing",
    "_workers",
    "_dead",
    "_deaths",
    "_sweep",
    "_due",
    "_later",
    "_timetable",
    "_paused",
    "_parked",
    "_periodic",
    "_scheduled",
    "_cancelled",
    "_done",
    "_finished",
    "_outbox",
    "_flows",
];

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name has no characters.
    #[error("a queue name must not be empty: give it a name such as `default`")]
    Empty,
    /// The name is longer than [`MAX_QUEUE_NAME`] bytes.
    #[error("the queue name has {length} bytes: at most {MAX_QUEUE_NAME} are allowed")]
    TooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// The name has a space, or a character that [is hidden](is_hidden).
    #[error("the queue name {name:?} contains {character:?}: use printable characters without spaces")]
    Character {
        /// The name.
        name: String,
        /// The first character that is not allowed.
        character: char,
    },
    /// The name is that of the key in which the names of queues are kept.
    #[error(
        "a queue cannot be called {QUEUES:?}, which is the key with the names of all queues: use another name"
    )]
    Queues,
    /// The name ends as one of our keys does.
    #[error(
        "the queue name {name:?} ends in `{suffix}`, which is reserved for other keys of a queue: use \
        {instead:?}"
    )]
    Suffix {
        /// The name.
        name: String,
        /// The suffix.
        suffix: &'static str,
        /// The name without the suffix.
        instead: String,
    },
}

/// Why the path of a task was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// The path has no characters.
    #[error(
        "the path of a task must not be empty: use the path under which its worker has it, such as \
        `my_crate::tasks::add`"
    )]
    Empty,
    /// The path has a space or a control character.
    #[error("the path {path:?} contains {character:?}, which the path of a task cannot contain")]
    Character {
        /// The path.
        path: String,
        /// The first character that is not allowed.
        character: char,
    },
    /// The path of a Python function has no module, or no function.
    #[error("the path {path:?} is not that of a Python function: use `package.module:function`")]
    Python {
        /// The path.
        path: String,
    },
}

/// Whether a character is not seen itself, and may do something to those around it: a control character, or one of
/// Unicode's that turns the direction of a text, ends a line, or takes no room. Not the joiners, which some languages and
/// emoji need.
#[must_use]
pub fn is_hidden(character: char) -> bool {
    let turns_or_takes_no_room = matches!(
        character,
        '\u{61c}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    );
    character.is_control() || turns_or_takes_no_room
}

/// Whether a worker could know a task by this path.
///
/// # Errors
/// A path that is empty, or has spaces or control characters.
pub fn check_path(path: &str) -> Result<(), PathError> {
    if path.is_empty() {
        return Err(PathError::Empty);
    }
    match path.chars().find(|c| c.is_whitespace() || c.is_control()) {
        Some(character) => Err(PathError::Character { path: path.into(), character }),
        None => Ok(()),
    }
}

/// Whether a worker of Python could know a function by this path.
///
/// # Errors
/// As [`check_path`]; and a path without a module or a function.
pub fn check_python_path(path: &str) -> Result<(), PathError> {
    check_path(path)?;
    match path.split_once(':') {
        Some((module, function)) if !module.is_empty() && !function.is_empty() => Ok(()),
        _ => Err(PathError::Python { path: path.into() }),
    }
}

/// The name of a queue: 1 to 200 bytes of printable text without spaces. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueName(Arc<str>);

impl QueueName {
    /// Checks and takes a name.
    ///
    /// # Errors
    /// A name that is empty, too long, has spaces or [hidden](is_hidden) characters, is `delayed_queues`, or ends in one of
    /// [`SUFFIXES`].
    pub fn parse(name: &str) -> Result<Self, NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if name.len() > MAX_QUEUE_NAME {
            return Err(NameError::TooLong { length: name.len() });
        }
        if let Some(character) = name.chars().find(|c| c.is_whitespace() || is_hidden(*c)) {
            return Err(NameError::Character { name: name.into(), character });
        }
        if name == QUEUES {
            return Err(NameError::Queues);
        }
        if let Some(suffix) = SUFFIXES.into_iter().find(|suffix| name.ends_with(suffix)) {
            let instead =
                name.strip_suffix(suffix).filter(|rest| !rest.is_empty()).unwrap_or("default").into();
            return Err(NameError::Suffix { name: name.into(), suffix, instead });
        }
        Ok(Self(name.into()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for QueueName {
    /// `default`.
    fn default() -> Self {
        Self("default".into())
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl std::str::FromStr for QueueName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::parse(name)
    }
}

impl<'de> serde::Deserialize<'de> for QueueName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&name).map_err(serde::de::Error::custom)
    }
}

/// The id of a worker: 16 characters of `a-z2-7` (80 random bits).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct WorkerId(Arc<str>);

impl WorkerId {
    /// The length of an id in characters.
    pub const LENGTH: usize = 16;

    /// Draws a new id at random.
    #[must_use]
    pub fn random() -> Self {
        const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        let bits = uuid::Uuid::new_v4().as_u128();
        // A version 4 UUID has fixed bits at 48..52 and 62..64, counted from the top: leave those out.
        let (high, low) = (bits >> 80, bits & ((1 << 62) - 1));
        let random = (high << 62) | low;
        let text: String =
            (0..Self::LENGTH).map(|i| char::from(ALPHABET[(random >> (5 * i)) as usize & 31])).collect();
        Self(text.into())
    }

    /// Reads the worker's id out of a wire id (`Q:W:slot`), or none when it is a foreign worker's.
    #[must_use]
    pub fn of_wire_id(queue: &QueueName, wire_id: &str) -> Option<Self> {
        let rest = wire_id.strip_prefix(queue.as_str())?.strip_prefix(':')?;
        let (worker, slot) = rest.split_once(':')?;
        let is_slot = !slot.is_empty() && slot.bytes().all(|b| b.is_ascii_digit());
        Self::parse(worker).filter(|_| is_slot)
    }

    /// Reads an id, or none when it is something else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let well_formed = text.len() == Self::LENGTH
            && text.bytes().all(|b| b.is_ascii_lowercase() || (b'2'..=b'7').contains(&b));
        well_formed.then(|| Self(text.into()))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_names_that_are_refused_say_what_to_use() {
        assert_eq!(QueueName::parse(""), Err(NameError::Empty));
        assert!(matches!(QueueName::parse("a b"), Err(NameError::Character { character: ' ', .. })));
        assert!(matches!(QueueName::parse("a\n"), Err(NameError::Character { character: '\n', .. })));
        for hidden in ['\u{200b}', '\u{202e}', '\u{2066}', '\u{feff}'] {
            let refused = QueueName::parse(&format!("a{hidden}b"));
            assert!(matches!(refused, Err(NameError::Character { character, .. }) if character == hidden));
        }
        assert!(matches!(QueueName::parse(&"a".repeat(201)), Err(NameError::TooLong { length: 201 })));
        assert_eq!(QueueName::parse("delayed_queues"), Err(NameError::Queues));
        let refused = QueueName::parse("mail_noti").expect_err("ends in a suffix");
        assert!(refused.to_string().ends_with("use \"mail\""), "{refused}");
        let refused = QueueName::parse("_dead").expect_err("is a suffix");
        assert!(refused.to_string().ends_with("use \"default\""), "{refused}");
    }

    #[test]
    fn queue_names_that_are_allowed() {
        for name in ["a", "mail", "{mail}:high", "почта", "نامه\u{200c}ها", "a_noti_b", &"a".repeat(200)]
        {
            assert_eq!(QueueName::parse(name).map(|queue| queue.to_string()), Ok(name.to_owned()));
        }
    }

    #[test]
    fn paths_that_no_worker_could_know_are_refused() {
        assert_eq!(check_path(""), Err(PathError::Empty));
        assert!(matches!(check_path("a::b "), Err(PathError::Character { character: ' ', .. })));
        assert!(matches!(check_path("a\nb"), Err(PathError::Character { character: '\n', .. })));
        for path in ["my_crate::tasks::add", "mail.send", "main.(*Mailer).Send-fm"] {
            assert_eq!(check_path(path), Ok(()));
        }
        for path in ["send", ":send", "mails:", "mails.send"] {
            assert!(matches!(check_python_path(path), Err(PathError::Python { .. })), "{path}");
        }
        assert_eq!(check_python_path("mails.tasks:Mailer.send"), Ok(()));
    }

    #[test]
    fn a_worker_id_is_found_again_in_its_wire_id() {
        let (queue, worker) = (QueueName::parse("a:b").unwrap(), WorkerId::random());
        assert_eq!(worker.as_str().len(), WorkerId::LENGTH);
        assert_ne!(worker, WorkerId::random());
        let wire_id = format!("a:b:{worker}:63");
        assert_eq!(WorkerId::of_wire_id(&queue, &wire_id), Some(worker));
        for foreign in ["12345", "a:b:12345:1", "a:b:0123456789abcdef:1", "9f86d081884c7d659a2feaa0c55ad015"]
        {
            assert_eq!(WorkerId::of_wire_id(&queue, foreign), None);
        }
    }
}
