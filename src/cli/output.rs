//! How is something printed? As a table for people, or as JSON.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, TableStyle, Width};
use jiff::Timestamp;
use serde::Serialize;

use crate::cli::exit::Failure;
use crate::cli::watch;
use crate::protocol::names::is_hidden;
use crate::sys::terminal::terminal_width;

/// How wide a terminal is that does not say so.
const USUAL_WIDTH: u16 = 80;
/// Between two columns.
const GAP: u16 = 2;

/// Stand in a table for the beginnings of colors and for their end, since they have no width; in what is shown they are
/// written out ([`clean`]).
const RED: &str = "\u{200e}";
const YELLOW: &str = "\u{200f}";
const PLAIN: &str = "\u{200b}";

/// Prints one line, or several.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    write(&format!("{}\n", text.trim_end_matches('\n')))
}

/// Says something that is no part of what was asked for.
pub(super) fn note(text: &str) {
    // It would be drawn over.
    if std::io::stdout().is_terminal() && watch::add(&format!("{text}\n")) {
        return;
    }
    // Where nobody reads it, it is not missed.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Prints a value as JSON, with `--watch` on one line.
pub(super) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text =
        if watch::is_round() { serde_json::to_string(value) } else { serde_json::to_string_pretty(value) };
    let text = text.map_err(|error| Failure::new(crate::cli::exit::Code::Failed, error.to_string()))?;
    print(&text)
}

/// Writes a text as it is, or adds it to the output of a round of `--watch`.
pub(super) fn write(text: &str) -> Result<(), Failure> {
    if watch::add(text) {
        return Ok(());
    }
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

/// Prints columns under their headings. On a terminal it fits into the width of that: these columns are cut, in this order,
/// each down to so many characters. Elsewhere it is not cut.
pub(super) fn table<const N: usize>(
    headings: [&str; N],
    rows: Vec<[Cell; N]>,
    shrink: &[(usize, u16)],
) -> Result<(), Failure> {
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_header(headings.map(str::to_uppercase));
    for row in rows {
        let mut row = Row::from(row.map(Cell::marked));
        row.max_height(1);
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP));
    }
    if std::io::stdout().is_terminal() {
        let width = terminal_width().unwrap_or(USUAL_WIDTH);
        fit(&mut table, width, shrink);
    }
    let text = table.trim_fmt();
    print(
        &[(RED, "\u{1b}[31m"), (YELLOW, "\u{1b}[33m"), (PLAIN, "\u{1b}[0m")]
            .into_iter()
            .fold(text, |text, (mark, color)| text.replace(mark, color)),
    )
}

/// Makes columns of a table narrower until it is no wider than that.
fn fit(table: &mut Table, width: u16, shrink: &[(usize, u16)]) {
    let mut widths = table.column_max_content_widths();
    let sum: u16 = widths.iter().fold(0, |sum, width| sum.saturating_add(*width).saturating_add(GAP));
    let mut excess = sum.saturating_sub(GAP).saturating_sub(width);
    for (column, least) in shrink {
        let cut = widths[*column].saturating_sub(*least).min(excess);
        widths[*column] -= cut;
        excess -= cut;
    }
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(u16::MAX);
    for (column, width) in table.column_iter_mut().zip(widths) {
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width.saturating_add(GAP))));
    }
}

/// What stands in one place of a table.
pub(super) struct Cell {
    text: String,
    color: Option<&'static str>,
}

impl Cell {
    /// The same in red, where it is something bad.
    pub(super) fn red_if(self, is_bad: bool) -> Self {
        Self { color: if is_bad { Some(RED) } else { self.color }, ..self }
    }

    /// The same in yellow, where it is something to look at.
    pub(super) fn yellow_if(self, is_odd: bool) -> Self {
        Self { color: if is_odd { Some(YELLOW) } else { self.color }, ..self }
    }

    fn marked(self) -> String {
        let text = clean(&self.text);
        match self.color {
            Some(color) if has_color() => format!("{color}{text}{PLAIN}"),
            _ => text,
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), color: None }
    }
}

/// Whether what is printed is in color: on a terminal that knows colors, unless `NO_COLOR` is set.
fn has_color() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value: std::ffi::OsString| !value.is_empty());
    std::io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb()
}

/// Whether the terminal shows control sequences as they are.
pub(super) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb")
}

/// A text in red, on a terminal.
pub(super) fn red(text: &str) -> String {
    if has_color() { format!("\u{1b}[31m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// A text in yellow, on a terminal.
pub(super) fn yellow(text: &str) -> String {
    if has_color() { format!("\u{1b}[33m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// How far a moment in milliseconds since 1970 is from now: `3m ago`, `in 5s`.
pub(super) fn distance(ms: u64) -> String {
    let (now, then) = (now_ms(), ms);
    let distance = age(Duration::from_millis(now.abs_diff(then)));
    if then > now { format!("in {distance}") } else { format!("{distance} ago") }
}

/// How long ago a moment was: `3m`. Nothing, where it is still to come.
pub(super) fn since(ms: u64) -> String {
    age(Duration::from_millis(now_ms().saturating_sub(ms)))
}

fn now_ms() -> u64 {
    u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0)
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

/// A number of things: `1 message`, `2 messages`.
pub(super) fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Shows on a terminal how far something is, until it is dropped.
pub(super) fn progress(what: &'static str) -> impl FnMut(u64, u64) + Send {
    let line = (std::io::stderr().is_terminal() && !is_dumb()).then_some(ProgressLine);
    move |done, total| {
        if line.is_some() {
            // Where nobody sees it, it is not missed.
            let _ = write!(std::io::stderr(), "{ERASE}{what} {done}/{total}");
        }
    }
}

/// Goes to the beginning of the line and erases it.
const ERASE: &str = "\r\u{1b}[2K";

/// A line of a terminal that shows progress. It is erased at the end.
struct ProgressLine;

impl Drop for ProgressLine {
    fn drop(&mut self) {
        let _ = write!(std::io::stderr(), "{ERASE}");
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
