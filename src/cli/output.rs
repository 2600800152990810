//! How is something printed? As a table for people, or as JSON.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use comfy_table::{Table, TableStyle};
use indicatif::{ProgressBar, ProgressStyle};
use jiff::Timestamp;
use serde::Serialize;

use crate::cli::exit::Failure;
use crate::protocol::names::is_hidden;

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

/// A text that does nothing to a terminal: hidden characters are written out.
pub(super) fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        if is_hidden(character) {
            clean.extend(character.escape_default());
        } else {
            clean.push(character);
        }
    }
    clean
}

/// A text of several lines, each of which does nothing to a terminal.
pub(super) fn clean_lines(text: &str) -> String {
    text.split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

/// Prints columns under their headings.
pub(super) fn table<const N: usize>(headings: [&str; N], rows: Vec<[String; N]>) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_header(headings.map(str::to_uppercase));
    for row in rows {
        table.add_row(row.map(|cell| clean(&cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    print(&table.trim_fmt())
}

/// A moment in milliseconds since 1970, and how long ago it was: `2026-01-31T12:00:00Z (3m ago)`.
pub(super) fn moment(ms: u64) -> String {
    let Some(moment) = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()) else {
        return format!("{ms} ms");
    };
    let seconds = Timestamp::now().as_second() - moment.as_second();
    let distance = age(Duration::from_secs(seconds.unsigned_abs()));
    if seconds < 0 { format!("{moment} (in {distance})") } else { format!("{moment} ({distance} ago)") }
}

/// The largest unit that fits.
fn age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds @ 3_600..86_400 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// A duration as it may stand in the file, in the largest unit that it is a whole number of.
pub(super) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    if time.subsec_nanos() > 0 || seconds == 0 {
        return humantime::format_duration(time).to_string();
    }
    let units = [(86_400, "d"), (3_600, "h"), (60, "m")];
    let fits = units.into_iter().find(|(unit, _)| seconds.is_multiple_of(*unit));
    fits.map_or_else(|| format!("{seconds}s"), |(unit, name)| format!("{}{name}", seconds / unit))
}

/// Shows on a terminal how far something is.
pub(super) fn progress(what: &'static str) -> impl FnMut(u64, u64) + Send {
    let style = ProgressStyle::with_template("{msg} {pos}/{len} {wide_bar} {eta}");
    let bar = ProgressBar::new(0).with_message(what);
    if let Ok(style) = style {
        bar.set_style(style);
    }
    let bar = Cleared(bar);
    move |done, total| {
        bar.0.set_length(total);
        bar.0.set_position(done);
    }
}

struct Cleared(ProgressBar);

impl Drop for Cleared {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Asks on a terminal; none where there is nobody to ask.
pub(super) fn confirm(question: &str) -> Result<Option<bool>, Failure> {
    let failed = |error| Failure::io("the answer could not be read", &error);
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(None);
    }
    let mut ask = std::io::stderr().lock();
    write!(ask, "{question} [y/N] ").and_then(|()| ask.flush()).map_err(failed)?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(failed)?;
    Ok(Some(matches!(answer.trim(), "y" | "Y" | "yes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_do_nothing_to_a_terminal_and_ages_have_one_unit() {
        assert_eq!(clean("a\u{1b}[31m\nb"), "a\\u{1b}[31m\\nb");
        for hidden in "\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}".chars() {
            assert_eq!(clean(&format!("a{hidden}b")), format!("a\\u{{{:x}}}b", u32::from(hidden)));
        }
        assert_eq!(clean("é 👩\u{200d}🔧 نامه\u{200c}ها"), "é 👩\u{200d}🔧 نامه\u{200c}ها");
        assert_eq!(age(Duration::from_secs(59)), "59s");
        assert_eq!(age(Duration::from_secs(2 * 86_400 + 1)), "2d");
        for text in ["90d", "25s", "90m", "250ms"] {
            assert_eq!(duration(humantime::parse_duration(text).unwrap()), text);
        }
        assert!(moment(0).starts_with("1970-01-01T00:00:00Z ("));
    }
}
