//! Reads the users of a dashboard and checks their passwords.

use std::collections::BTreeMap;
use std::fmt;

use argon2::Argon2;
use argon2::password_hash::rand_core::OsRng;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use sha2::{Digest, Sha256};

/// A hash that no password has, for names that nobody has: to refuse them takes as long.
const NOBODY: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5bm9ib2R5bm9i$kqNTeTXbWkXTzCGTPPR4C5tZOJNGJUgJr0r1pQ3jLpE";

/// What somebody may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Role {
    /// Look.
    Viewer,
    /// Look and act.
    Operator,
}

/// The users of a dashboard: a line `NAME:ROLE:HASH` for each, where the role is `viewer` or `operator` and the hash is that of
/// argon2, in its usual notation. Empty lines and lines that begin with `#` are ignored.
#[derive(Clone, Default)]
pub struct DashboardUsers(BTreeMap<String, User>);

#[derive(Clone)]
struct User {
    role: Role,
    hash: String,
}

/// Why the users of a dashboard cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UsersError {
    /// A line is not that of a user.
    #[error("line {line}: {problem}; `web user NAME` prints such a line")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// There are no users.
    #[error("there are no users: add a line that `web user NAME` prints")]
    Empty,
    /// A password cannot be hashed.
    #[error("the password cannot be used: {0}")]
    Password(String),
}

impl Role {
    /// The role in one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Viewer, Self::Operator].into_iter().find(|role| role.name() == name)
    }
}

impl DashboardUsers {
    /// Reads users from lines.
    ///
    /// # Errors
    /// A line is wrong, or there are no users.
    pub fn parse(text: &str) -> Result<Self, UsersError> {
        let mut users = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, user) =
                User::parse(line).map_err(|problem| UsersError::Line { line: number, problem })?;
            if users.insert(name, user).is_some() {
                let problem = "the name is that of an earlier line";
                return Err(UsersError::Line { line: number, problem });
            }
        }
        if users.is_empty() { Err(UsersError::Empty) } else { Ok(Self(users)) }
    }

    /// The line of a user with this password.
    ///
    /// # Errors
    /// The name or the password cannot be used.
    pub fn line(name: &str, role: Role, password: &str) -> Result<String, UsersError> {
        check_name(name).map_err(|problem| UsersError::Password(problem.to_owned()))?;
        if password.is_empty() {
            return Err(UsersError::Password("it is empty".to_owned()));
        }
        let salt = SaltString::generate(&mut OsRng);
        let hash = Argon2::default().hash_password(password.as_bytes(), &salt);
        let hash = hash.map_err(|error| UsersError::Password(error.to_string()))?;
        Ok(format!("{name}:{}:{hash}", role.name()))
    }

    pub(super) fn role(&self, name: &str) -> Option<Role> {
        self.0.get(name).map(|user| user.role)
    }

    /// Whether a user has this password. Takes tens of milliseconds, also for a name that nobody has.
    pub(super) fn has_password(&self, name: &str, password: &str) -> bool {
        let user = self.0.get(name);
        let hash = user.map_or(NOBODY, |user| &user.hash);
        let is_right = PasswordHash::new(hash)
            .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok());
        is_right && user.is_some()
    }

    /// What the sessions of a user are signed with. It changes with the password and the role.
    pub(super) fn key(&self, name: &str) -> Option<[u8; 32]> {
        let User { role, hash } = self.0.get(name)?;
        Some(Sha256::digest(format!("delayed dashboard\n{name}\n{}\n{hash}", role.name())).into())
    }
}

impl User {
    fn parse(line: &str) -> Result<(String, Self), &'static str> {
        let mut parts = line.splitn(3, ':');
        let (Some(name), Some(role), Some(hash)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("expected NAME:ROLE:HASH");
        };
        check_name(name)?;
        let role = Role::parse(role).ok_or("the role is neither `viewer` nor `operator`")?;
        let hash = hash.trim();
        if PasswordHash::new(hash).is_err() || !hash.starts_with("$argon2") {
            return Err("the hash is not that of argon2");
        }
        Ok((name.to_owned(), Self { role, hash: hash.to_owned() }))
    }
}

fn check_name(name: &str) -> Result<(), &'static str> {
    let is_odd = |character: char| character.is_control() || character.is_whitespace() || character == ':';
    match name.is_empty() || name.len() > 100 || name.contains(is_odd) {
        true => Err("the name must have 1 to 100 characters, without spaces and colons"),
        false => Ok(()),
    }
}

impl fmt::Debug for DashboardUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_is_known_by_the_password_alone() {
        let line = DashboardUsers::line("ann", Role::Operator, "pa:ss wörd").unwrap();
        let users = DashboardUsers::parse(&format!("# of the team\n\n{line}\n")).unwrap();
        assert!(users.has_password("ann", "pa:ss wörd"));
        assert!(!users.has_password("ann", "pa:ss word") && !users.has_password("bob", "pa:ss wörd"));
        assert!(PasswordHash::new(NOBODY).is_ok(), "expected a hash that is compared");
        assert_eq!((users.role("ann"), users.role("bob")), (Some(Role::Operator), None));
        let changed = DashboardUsers::parse(&line.replace("operator", "viewer")).unwrap();
        assert_ne!(users.key("ann"), changed.key("ann"));
        assert_eq!(format!("{users:?}"), "{\"ann\"}");
    }

    #[test]
    fn wrong_line_is_named() {
        let good = DashboardUsers::line("ann", Role::Viewer, "x").unwrap();
        for (text, expected) in [
            ("", "no users"),
            ("ann", "line 1: expected NAME:ROLE:HASH"),
            ("\nann:boss:$argon2id$x", "line 2: the role"),
            ("ann:viewer:secret", "line 1: the hash"),
            (" :viewer:secret", "line 1: the name"),
            (&format!("{good}\n{good}"), "line 2: the name is that of an earlier line"),
        ] {
            let error = DashboardUsers::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "expected {expected} in {error}");
        }
        for (name, password) in [("a:b", "x"), ("", "x"), ("ann", "")] {
            assert!(DashboardUsers::line(name, Role::Viewer, password).is_err(), "{name} {password}");
        }
    }
}
