//! What do the documents say of each point? The tables of docs/lifecycle.md, read.

use std::collections::BTreeSet;

use crate::support::root;

/// Where a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Not in Redis: not yet, or not any more.
    Nowhere,
    Waiting,
    Owned,
    /// In the timetable.
    Scheduled,
    /// With those that wait for a limit.
    Parked,
    Dead,
}

/// How often it is run in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runs {
    Never,
    /// As often as without the crash.
    Once,
    /// Once more than that.
    Again,
}

/// A cell: what is expected of one point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) place: Place,
    pub(super) runs: Runs,
}

/// A table: its header and its rows, without the numbers and the column that has the names.
pub(super) struct Table {
    /// The numbers of the rows, if they have any.
    pub(super) numbers: Vec<String>,
    columns: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
}

pub(super) fn lifecycle() -> String {
    std::fs::read_to_string(root().join("docs/lifecycle.md")).unwrap()
}

impl Table {
    /// The table whose header begins with `first`, or has it behind the numbers of the rows.
    pub(super) fn find(document: &str, first: &str) -> Self {
        let (header, numbered) = (format!("| {first} |"), format!("| no. | {first} |"));
        let begins = |line: &&str| line.starts_with(&header) || line.starts_with(&numbered);
        let mut lines = document.lines().skip_while(|line| !begins(line)).map(cells);
        let mut columns =
            lines.next().unwrap_or_else(|| panic!("expected a table that begins with {header:?}"));
        let mut rows: Vec<_> = lines.skip(1).take_while(|row| row.len() == columns.len()).collect();
        let mut numbers = Vec::new();
        if columns[0] == "no." {
            columns.remove(0);
            numbers = rows.iter_mut().map(|row| row.remove(0)).collect();
        }
        let row = |mut row: Vec<String>| (row.remove(0), row);
        Self { numbers, columns: columns.split_off(1), rows: rows.into_iter().map(row).collect() }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|(name, _)| name.as_str())
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(String::as_str)
    }

    /// What stands in a cell.
    pub(super) fn text(&self, name: &str, column: &str) -> &str {
        let row = self.rows.iter().find(|(row, _)| row == name);
        let place = self.columns.iter().position(|found| found == column);
        let (Some((_, row)), Some(place)) = (row, place) else {
            panic!("expected {column:?} of {name:?} in docs/lifecycle.md")
        };
        &row[place]
    }

    /// What is expected; none where there is no such point.
    pub(super) fn cell(&self, name: &str, column: &str) -> Option<Cell> {
        let text = self.text(name, column);
        if text == "–" {
            return None;
        }
        let (place, runs) = text.split_once(", ").unwrap_or((text, ""));
        let place = match place {
            "nowhere" | "gone" => Place::Nowhere,
            "waiting" => Place::Waiting,
            "owned" => Place::Owned,
            "scheduled" => Place::Scheduled,
            "parked" => Place::Parked,
            "dead" => Place::Dead,
            _ => panic!("expected a place in {text:?}"),
        };
        let runs = match runs {
            "never" => Runs::Never,
            "once" => Runs::Once,
            "again" => Runs::Again,
            _ => panic!("expected how often it is run in {text:?}"),
        };
        Some(Cell { place, runs })
    }
}

fn cells(line: &str) -> Vec<String> {
    let line = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |"));
    line.map_or_else(Vec::new, |line| line.split(" | ").map(str::to_owned).collect())
}

/// The first word of a text.
pub(super) fn word(text: &str) -> &str {
    text.split([' ', ':']).next().unwrap_or(text)
}

/// Every transition: the scripts, and what is drawn and told in the documents.
pub(super) fn transitions(document: &str) -> BTreeSet<String> {
    let scripts = std::fs::read_dir(root().join("lua")).unwrap().map(|entry| entry.unwrap().path());
    let scripts = scripts.filter(|path| path.extension().is_some_and(|extension| extension == "lua"));
    let scripts = scripts.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
    let drawing = document.split("```").nth(1).expect("the drawing comes first");
    let arrows = drawing.lines().filter(|line| line.contains("-->"));
    let drawn = arrows.map(|line| word(line.rsplit(": ").next().unwrap()).to_owned());
    let told = Table::find(document, "transition");
    let told = told.names().map(str::to_owned);
    scripts.chain(drawn).chain(told).collect()
}

#[test]
fn a_table_is_read() {
    let document = "\
| transition | script |
|---|---|
| enqueue | `x` |

text
| no. | run | a | b, c |
|---|---|---|---|
| 1 | before: x | gone, once | – |
| 2 | after | dead, never | owned, again |

```mermaid
    [*] --> waiting: delete (by hand)
```
";
    let table = Table::find(document, "run");
    assert_eq!(table.numbers, ["1", "2"]);
    assert_eq!(table.names().collect::<Vec<_>>(), ["before: x", "after"]);
    assert_eq!(table.columns().collect::<Vec<_>>(), ["a", "b, c"]);
    assert_eq!(table.cell("before: x", "a"), Some(Cell { place: Place::Nowhere, runs: Runs::Once }));
    assert_eq!(table.cell("before: x", "b, c"), None);
    assert_eq!(table.cell("after", "b, c"), Some(Cell { place: Place::Owned, runs: Runs::Again }));
    let transitions = transitions(document);
    for name in ["enqueue", "delete", "requeue_lost", "beat"] {
        assert!(transitions.contains(name), "expected {name} in {transitions:?}");
    }
}
