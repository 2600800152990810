//! The Redis permissions of a process, by what it does: the rules of an ACL that let it do all of its work and nothing else.

mod table;

use std::collections::BTreeSet;

use serde::Serialize;

pub use self::table::{Rights, Role};
use crate::protocol::names::is_hidden;

/// Matches everything.
const EVERY: &str = "*";
/// Stands in the table for a queue.
const QUEUE: &str = "Q";
/// Stands in it for the id of a worker: 16 characters of `a-z2-7`.
const WORKER: &str = "W";
/// Matches one of these characters.
const WORKER_CHARACTER: &str = "[a-z2-7]";
/// The live keys of workers of Python, whose ids are numbers, and of Go, whose ids are 32 hexadecimal digits.
const FOREIGN: [&str; 2] = ["[0-9]*", "[0-9a-f]"];

/// Queues: the name of one, or a pattern with `*`, `?` or `[…]` as Redis knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct QueuePattern(String);

/// Which permissions are asked for.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// At least one.
    pub(crate) roles: &'a [Role],
    /// None: all queues.
    pub(crate) queues: &'a [QueuePattern],
    /// Whether workers of Python or Go serve the queues too.
    pub(crate) shared: bool,
    /// Whether keys that are only read are told apart, which Redis 7 can do.
    pub(crate) redis_7: bool,
}

/// Permissions, sorted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Patterns of keys: `~mail`, and `%R~mail` for one that is only read.
    pub(crate) keys: Vec<String>,
    /// Patterns of channels: `&mail:due`.
    pub(crate) channels: Vec<String>,
    /// Commands: `+evalsha`.
    pub(crate) commands: Vec<String>,
}

impl QueuePattern {
    /// Checks and takes a pattern.
    ///
    /// # Errors
    /// The text is empty, or has a blank or a character that cannot be seen.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("a pattern must not be empty: use `*` for all queues".into());
        }
        match text.chars().find(|c| c.is_whitespace() || is_hidden(*c)) {
            Some(character) => Err(format!(
                "the pattern contains {character:?}, which no name of a queue contains: repeat --queue for several"
            )),
            None => Ok(Self(text.into())),
        }
    }

    /// Whether it matches the keys beside its queues too, as `mail*` matches `mail_dead`.
    #[must_use]
    pub(crate) fn is_open(&self) -> bool {
        let before = self.0.strip_suffix('*');
        // After an odd number of backslashes it is a character of the name.
        before.is_some_and(|before| (before.len() - before.trim_end_matches('\\').len()).is_multiple_of(2))
    }

    /// The pattern as text.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The pattern of the keys that are called so in the table.
    fn keys(&self, name: &str) -> String {
        let of_worker = WORKER_CHARACTER.repeat(16);
        match name.strip_prefix(QUEUE) {
            Some(_) if self.is_open() => self.0.clone(),
            _ => name.replace(WORKER, &of_worker).replace(QUEUE, &self.0),
        }
    }
}

impl Rules {
    /// The rules for these roles together.
    #[must_use]
    pub(crate) fn new(request: &Request<'_>) -> Self {
        let every = [QueuePattern(EVERY.into())];
        let queues = if request.queues.is_empty() { &every } else { request.queues };
        let rights: Vec<&Rights> = request.roles.iter().flat_map(|role| role.rights().all()).collect();
        let patterns = |names: &dyn Fn(&Rights) -> &'static str| -> BTreeSet<String> {
            let names = rights.iter().flat_map(|rights| names(rights).split_whitespace());
            names.flat_map(|name| queues.iter().map(move |queue| queue.keys(name))).collect()
        };
        let (mut written, mut read) = (patterns(&|rights| rights.keys), patterns(&|rights| rights.reads));
        if request.shared {
            let [python, digit] = FOREIGN;
            read.extend([python.to_owned(), digit.repeat(32)]);
        }
        if !request.redis_7 {
            written.append(&mut read);
        }
        // Redis accepts no other pattern beside that of all keys.
        for keys in [&mut written, &mut read] {
            if keys.contains(EVERY) {
                keys.retain(|key| key == EVERY);
            }
        }
        let only_read = read.difference(&written).map(|key| format!("%R~{key}"));
        let only_read = only_read.filter(|_| !written.contains(EVERY));
        let channels = rights.iter().flat_map(|rights| rights.channels.split_whitespace());
        let channels =
            channels.flat_map(|name| queues.iter().map(move |queue| name.replace(QUEUE, &queue.0)));
        let commands = rights.iter().flat_map(|rights| [rights.commands, rights.in_scripts]);
        let commands: BTreeSet<&str> = commands.flat_map(str::split_whitespace).collect();
        Self {
            keys: written.iter().map(|key| format!("~{key}")).chain(only_read).collect(),
            channels: channels
                .map(|channel| format!("&{channel}"))
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
            commands: commands.into_iter().map(|command| format!("+{command}")).collect(),
        }
    }

    /// The rules as one line, which takes all other keys, channels and commands from the user. Passwords stay as they are,
    /// unless there are new ones, each as the SHA-256 of it.
    #[must_use]
    pub(crate) fn line(&self, user: &str, passwords: &[String], redis_7: bool) -> String {
        let mut words = vec!["user".to_owned(), user.to_owned(), "on".to_owned()];
        if !passwords.is_empty() {
            words.push("resetpass".into());
            words.extend(passwords.iter().map(|hash| format!("#{hash}")));
        }
        words.extend(redis_7.then(|| "clearselectors".to_owned()));
        words.push("resetkeys".into());
        words.extend_from_slice(&self.keys);
        words.push("resetchannels".into());
        words.extend_from_slice(&self.channels);
        words.push("-@all".into());
        words.extend_from_slice(&self.commands);
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(roles: &[Role], queues: &[&str], redis_7: bool) -> Rules {
        let queues: Vec<_> = queues.iter().map(|queue| QueuePattern::parse(queue).unwrap()).collect();
        Rules::new(&Request { roles, queues: &queues, shared: false, redis_7 })
    }

    #[test]
    fn open_patterns_are_told_from_names() {
        for (pattern, is_open) in [
            ("mail", false),
            ("mail*", true),
            ("*", true),
            ("*mail", false),
            ("mail\\*", false),
            ("a\\\\*", true),
        ] {
            assert_eq!(QueuePattern::parse(pattern).unwrap().is_open(), is_open, "{pattern}");
        }
    }

    #[test]
    fn keys_of_a_name_are_listed_and_those_of_a_pattern_are_one() {
        let keys = rules(&[Role::Producer], &["mail"], false).keys;
        for key in ["~mail", "~mail_noti", "~mail:c:*", "~delayed_queues", "~{delayed:*}:*"] {
            assert!(keys.iter().any(|found| found == key), "expected {key} in {keys:?}");
        }
        let of_queue: Vec<_> = rules(&[Role::Worker], &["mail*"], false)
            .keys
            .into_iter()
            .filter(|key| key.starts_with("~mail"))
            .collect();
        assert_eq!(of_queue, ["~mail*"]);
        assert_eq!(rules(&[Role::Worker], &[], true).keys, ["~*"]);
        assert_eq!(rules(&[Role::Dashboard], &["mail", "*"], false).keys, ["~*"]);
        assert_eq!(rules(&[Role::Dashboard], &[], true).keys, ["~delayed_queues", "%R~*"]);
    }

    #[test]
    fn key_that_one_role_writes_is_not_only_read() {
        let dashboard = rules(&[Role::Dashboard], &["mail"], true).keys;
        assert!(dashboard.contains(&"%R~mail_dead".to_owned()), "{dashboard:?}");
        let both = rules(&[Role::Dashboard, Role::Worker], &["mail"], true).keys;
        assert!(
            both.contains(&"~mail_dead".to_owned()) && !both.contains(&"%R~mail_dead".to_owned()),
            "{both:?}"
        );
    }

    #[test]
    fn line_replaces_passwords_only_with_given_ones() {
        let rules =
            Rules { keys: vec!["~a".into()], channels: vec!["&c".into()], commands: vec!["+echo".into()] };
        assert_eq!(rules.line("w", &[], false), "user w on resetkeys ~a resetchannels &c -@all +echo");
        assert_eq!(
            rules.line("w", &["12ab".into()], true),
            "user w on resetpass #12ab clearselectors resetkeys ~a resetchannels &c -@all +echo"
        );
    }
}
