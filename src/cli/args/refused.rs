//! What does an error show of words that are not understood? Nothing that does something to a terminal, and no password.

use clap::error::{ContextKind, ContextValue, Error};

use crate::cli::output;
use crate::config::RedisConfig;

/// The error with words that can be shown; in those of others its colours stay.
pub(super) fn shown(mut error: Error) -> Error {
    let changed: Vec<(ContextKind, String)> = error
        .context()
        .filter_map(|(kind, value)| match value {
            ContextValue::String(said) => Some((kind, word(said))).filter(|(_, shown)| shown != said),
            _ => None,
        })
        .collect();
    for (kind, word) in changed {
        error.insert(kind, ContextValue::String(word));
        // A suggestion repeats the word as it was.
        error.remove(ContextKind::Suggested);
    }
    error
}

/// What may be an address is one whose flag was forgotten.
fn word(said: &str) -> String {
    match said.contains("://") {
        true => output::clean(&RedisConfig::new(said).redacted_url()),
        false => output::clean(said),
    }
}
