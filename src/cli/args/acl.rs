//! The arguments of `acl`.

use crate::acl::{QueuePattern, Role};
use crate::cli::args::Json;

/// `acl`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The line is one for `users.acl`; with `acl setuser` in place of `user` it is a command. It does not change the passwords of the
user, unless --password-hash is given: a new user cannot log in until it has one.

Examples:
  {program} acl --role worker --queue mail --queue reports
  {program} acl --role producer --queue mail --user shop --password-hash \"$(printf %s \"$PASSWORD\" | sha256sum | cut -c-64)\"
  {program} acl --role dashboard --role sweeper --redis-7 >>users.acl
  {program} acl --role operator | sed 's/^user /acl setuser /' | redis-cli")]
pub(in crate::cli) struct Acl {
    /// What the user does; may be repeated
    #[arg(long = "role", required = true, value_name = "ROLE", value_delimiter = ',')]
    pub(in crate::cli) roles: Vec<Role>,
    /// A queue, or a pattern as Redis knows it, such as 'mail:?'; may be repeated; default: all queues
    #[arg(long = "queue", value_name = "PATTERN", value_delimiter = ',', value_parser = QueuePattern::parse)]
    pub(in crate::cli) queues: Vec<QueuePattern>,
    /// The name of the user; default: that of the first role
    #[arg(long, value_name = "NAME", value_parser = user)]
    pub(in crate::cli) user: Option<String>,
    /// The SHA-256 of a password, which replaces those of the user; may be repeated
    #[arg(long = "password-hash", value_name = "SHA256", value_parser = hash)]
    pub(in crate::cli) passwords: Vec<String>,
    /// Python or Go workers serve the queues too: let the user see their live keys
    #[arg(long)]
    pub(in crate::cli) shared: bool,
    /// For Redis 7 and newer: forbid to write keys that are only read (%R~)
    #[arg(long = "redis-7")]
    pub(in crate::cli) redis_7: bool,
    #[command(flatten)]
    pub(in crate::cli) output: Json,
}

fn user(text: &str) -> Result<String, String> {
    match text.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        true => Err("the name of a user has at least one character, and no blanks".into()),
        false => Ok(text.into()),
    }
}

fn hash(text: &str) -> Result<String, String> {
    let is_hash = text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hash.then(|| text.into()).ok_or_else(|| {
        "not a SHA-256: give 64 hexadecimal digits in lower case, as `printf %s PASSWORD | sha256sum` prints".into()
    })
}
