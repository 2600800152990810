//! `docs/telemetry.md` lists every span and event of `src`, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::root;

const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
/// The most characters of a message.
const LONGEST: usize = 72;

/// What is known of a message, or of a span by its name.
#[derive(Debug, Default, PartialEq, Eq)]
struct Row {
    levels: BTreeSet<String>,
    fields: BTreeSet<String>,
}

type Rows = BTreeMap<String, Row>;

/// The code of a file, without its tests and comments.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line}\n")).collect()
}

/// The arguments of a macro whose parenthesis was opened before.
fn arguments(text: &str) -> Vec<String> {
    let (mut arguments, mut argument, mut depth) = (Vec::new(), String::new(), 0);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => {
                argument.push('"');
                while let Some(inner) = characters.next() {
                    argument.push(inner);
                    match inner {
                        '\\' => argument.extend(characters.next()),
                        '"' => break,
                        _ => {}
                    }
                }
                continue;
            }
            ')' if depth == 0 => break,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                arguments.push(std::mem::take(&mut argument).trim().to_owned());
                continue;
            }
            _ => {}
        }
        argument.push(character);
    }
    arguments.push(argument.trim().to_owned());
    arguments.retain(|argument| !argument.is_empty());
    arguments
}

/// The text of a literal: `"…"` without its quotes.
fn literal(argument: &str) -> Option<String> {
    let text = argument.strip_prefix('"')?.strip_suffix('"')?;
    Some(text.replace("\\\"", "\""))
}

/// The name of a field: `queue` of `queue = %lane.queue`, of `%queue` and of `queue`.
fn field(argument: &str) -> String {
    let name = argument.split(['=', ' ']).next().unwrap();
    name.trim_start_matches(['%', '?']).rsplit('.').next().unwrap().to_owned()
}

/// Every use of a macro with this ending: its level and its arguments.
fn uses<'a>(code: &'a str, ending: &'a str) -> impl Iterator<Item = (&'static str, Vec<String>)> + 'a {
    LEVELS.into_iter().flat_map(move |level| {
        let opening = format!("tracing::{level}{ending}!(");
        let found: Vec<_> =
            code.match_indices(&opening).map(|(at, it)| arguments(&code[at + it.len()..])).collect();
        found.into_iter().map(move |arguments| (level, arguments))
    })
}

/// The events or spans of a file, and what is wrong with them.
fn rows(path: &Path, text: &str, ending: &str, rows: &mut Rows, mistakes: &mut Vec<String>) {
    let code = code(text);
    for (level, mut arguments) in uses(&code, ending) {
        let Some(place) = arguments.iter().position(|argument| literal(argument).is_some()) else {
            mistakes.push(format!(
                "{}: expected a message in {level}!({})",
                path.display(),
                arguments.join(", ")
            ));
            continue;
        };
        let message = literal(&arguments.remove(place)).unwrap();
        if message.contains('{') || message.starts_with(char::is_uppercase) || message.len() > LONGEST {
            mistakes.push(format!(
                "{}: expected a short fixed text in lower case, with all that varies as fields: {message:?}",
                path.display()
            ));
        }
        let row = rows.entry(message).or_default();
        row.levels.insert(level.to_owned());
        row.fields
            .extend(arguments.iter().filter(|argument| !argument.starts_with("target:")).map(|it| field(it)));
    }
}

/// All Rust files of a directory.
fn files(directory: &Path) -> Vec<std::path::PathBuf> {
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let below = paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] });
    below.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

/// The rows of the table below a heading.
fn documented(text: &str, heading: &str) -> Rows {
    let section =
        text.split(&format!("## {heading}\n")).nth(1).unwrap_or_else(|| panic!("expected ## {heading}"));
    let lines = section.split("\n## ").next().unwrap().lines().filter(|line| line.starts_with("| "));
    let mut rows = Rows::new();
    for line in lines.filter(|line| !line.starts_with("| level")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [levels, message, fields, when] = cells[..] else { panic!("expected four cells: {line}") };
        assert!(!when.is_empty(), "expected when it comes: {line}");
        let names = |cell: &str| {
            cell.split(", ").filter(|it| !it.is_empty()).map(|it| it.trim_matches('`').to_owned()).collect()
        };
        let row = Row { levels: names(levels), fields: names(fields) };
        let before = rows.insert(message.trim_matches('`').to_owned(), row);
        assert!(before.is_none(), "expected one row for {message}");
    }
    rows
}

/// What differs, one line each.
fn differences(found: &Rows, documented: &Rows) -> Vec<String> {
    let missing = found.iter().filter(|(name, _)| !documented.contains_key(*name));
    let gone = documented.keys().filter(|name| !found.contains_key(*name));
    let other = found.iter().filter(|(name, row)| documented.get(*name).is_some_and(|known| known != *row));
    let missing = missing.map(|(name, row)| format!("not in the table: `{name}`: {row:?}"));
    let gone = gone.map(|name| format!("not in src any more: `{name}`"));
    let other = other.map(|(name, row)| format!("other than in the table: `{name}`: {row:?}"));
    missing.chain(gone).chain(other).collect()
}

#[test]
fn every_span_and_event_of_src_is_in_the_table_and_no_other() {
    let document = std::fs::read_to_string(root().join("docs/telemetry.md")).unwrap();
    let mut mistakes = Vec::new();
    for (heading, ending, fewest) in [("Spans", "_span", 1), ("Events", "", 50)] {
        let mut found = Rows::new();
        for path in files(&root().join("src")) {
            rows(&path, &std::fs::read_to_string(&path).unwrap(), ending, &mut found, &mut mistakes);
        }
        assert!(found.len() >= fewest, "expected to have found them: {found:#?}");
        mistakes.extend(differences(&found, &documented(&document, heading)));
    }
    assert!(mistakes.is_empty(), "docs/telemetry.md:\n{}", mistakes.join("\n"));
}

#[test]
fn made_up_events_are_read() {
    let (mut found, mut mistakes) = (Rows::new(), Vec::new());
    let text = r#"
        // tracing::info!("not this one");
        tracing::info!(queue = %lane.queue(1, 2), %error, ?silent, task, why = "a, b", "swept");
        tracing::debug!(target: "x", task, "swept");
        tracing::warn!(id, "{what} failed");
        tracing::error!(id);
    "#;
    rows(Path::new("a.rs"), text, "", &mut found, &mut mistakes);
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let swept = Row {
        levels: names(&["info", "debug"]),
        fields: names(&["queue", "error", "silent", "task", "why"]),
    };
    assert_eq!(found["swept"], swept);
    assert_eq!(mistakes.len(), 2, "{mistakes:#?}");
    let table = "## Events\n\n| level | message | fields | when |\n|---|---|---|---|\n\
                 | info, debug | `swept` | `queue`, `error`, `silent`, `task`, `why` | a sweep |\n| warn | `gone` |  | never |\n";
    let differ = differences(&found, &documented(table, "Events"));
    assert_eq!(differ.len(), 2, "{differ:#?}");
}
