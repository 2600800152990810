//! How is something printed? As a table for people, or as JSON.

use std::io::Write;

use serde::Serialize;

use crate::cli::exit::Failure;

/// Prints one line, or several.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    write(&format!("{}\n", text.trim_end_matches('\n')))
}

/// Prints a value as JSON.
pub(super) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(crate::cli::exit::Code::Failed, error.to_string()))?;
    print(&text)
}

fn write(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::io("the output could not be written", &error))
}

/// A text that does nothing to a terminal: control characters are written out.
pub(super) fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            clean.extend(character.escape_default());
        } else {
            clean.push(character);
        }
    }
    clean
}
