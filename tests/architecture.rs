//! The direction of imports that `docs/architecture.md` draws, and the few rules that a compiler does not hold.

mod cycles;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::support::root;

/// Arrows that the drawing forbids and that are meant: from, to, why.
const MEANT: [(&str, &str, &str); 2] = [
    ("worker", "sweeper", "every worker sweeps by turns"),
    ("worker", "client", "it gives its tasks a client of its own Redis"),
];

/// The most lines that a file may have.
const MOST_LINES: usize = 500;

/// What only some rooms may contain: a word of code, the rooms, what to do instead.
const RESERVED: [(&str, &[&str], &str); 9] = [
    ("unsafe", &["sys"], "a safe function of src/sys"),
    ("redis::", &["broker"], "a method of the broker"),
    ("print!", &["cli", "bin"], "an event of tracing, or an answer to the caller"),
    ("println!", &["cli", "bin"], "an event of tracing, or an answer to the caller"),
    ("eprint!", &["cli", "bin"], "an event of tracing, or an answer to the caller"),
    ("eprintln!", &["cli", "bin"], "an event of tracing, or an answer to the caller"),
    ("dbg!", &[], "an event of tracing"),
    ("stdout", &["cli", "bin", "sys"], "an event of tracing, or an answer to the caller"),
    ("stderr", &["cli", "bin", "sys"], "an event of tracing, or an answer to the caller"),
];

/// What only Linux has, as the crates `nix` and `libc` call it, and where it may stand. `scripts/test` compiles for other
/// systems too where their standard library is installed.
const LINUX: ([&str; 2], [&str; 22]) = (
    ["sys/linux.rs", "sys/process_state.rs"],
    [
        "CLONE_NEWNS",
        "MSG_CMSG_CLOEXEC",
        "MSG_NOSIGNAL",
        "SIOCSIFFLAGS",
        "SOCK_CLOEXEC",
        "SOCK_NONBLOCK",
        "SYS_close_range",
        "__errno_location",
        "accept4",
        "dup3",
        "epoll",
        "eventfd",
        "inotify",
        "memfd",
        "memfd_create",
        "pipe2",
        "prctl",
        "signalfd",
        "timerfd",
        "unshare",
        "waitid",
        "setns",
    ],
);

/// A file of `src`.
struct Source {
    /// From `src` on: `worker/claim.rs`.
    path: PathBuf,
    text: String,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    /// The room: the first part of the path. None for `lib.rs`, which declares.
    fn room(&self) -> Option<&str> {
        let first = self.path.iter().next().and_then(|part| part.to_str()).unwrap_or("");
        let room = first.strip_suffix(".rs").unwrap_or(first);
        (room != "lib").then_some(room)
    }

    /// Its lines without comments, with their numbers. An address such as `redis://` is no comment.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, line)| {
            let comment = line.match_indices("//").find(|(at, _)| !line[..*at].ends_with(':'));
            (i + 1, &line[..comment.map_or(line.len(), |(at, _)| at)])
        })
    }

    /// The names behind `crate::` (which is called `delayed` too), with the numbers of their lines; a list in
    /// braces gives each of its names.
    fn imports(&self) -> Vec<(usize, String)> {
        let code: String = self.code().map(|(_, line)| format!("{line}\n")).collect();
        let mut imports = Vec::new();
        for (at, prefix) in words(&code, "crate::").chain(words(&code, "use delayed::")) {
            let line = code[..at].matches('\n').count() + 1;
            let after = &code[at + prefix.len()..];
            match after.strip_prefix('{') {
                Some(list) => {
                    imports.extend(listed(list).into_iter().map(|name| (line, name)));
                }
                None => imports.push((line, identifier(after))),
            }
        }
        imports
    }
}

/// Where `word` stands alone in `text`.
fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).filter(move |(at, _)| {
        let open = word.ends_with(is_name) && text[at + word.len()..].starts_with(is_name);
        !open && !text[..*at].ends_with(is_name)
    })
}

fn identifier(text: &str) -> String {
    text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The first names of a list in braces, which was opened before.
fn listed(text: &str) -> Vec<String> {
    let mut depth = 1;
    let end = text.find(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth == 0
    });
    let (mut names, mut start, mut depth) = (Vec::new(), 0, 0);
    let list = &text[..end.unwrap_or(text.len())];
    for (at, c) in list.char_indices().chain([(list.len(), ',')]) {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 {
            names.push(identifier(&list[start..at]));
            start = at + 1;
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// How high each room is in the drawing.
fn drawn(document: &str) -> BTreeMap<String, usize> {
    let mut heights = BTreeMap::new();
    let of_drawing = |line: &&str| line.starts_with(" level ") || line.contains("error: above levels");
    for (height, line) in document.lines().filter(of_drawing).collect::<Vec<_>>().iter().rev().enumerate() {
        match line.strip_prefix(" level ") {
            Some(level) => {
                heights.extend(level.split_whitespace().skip(1).map(|room| (room.to_owned(), height)))
            }
            None => heights.extend([("error".to_owned(), height)]),
        }
    }
    heights
}

/// What is wrong with one file.
fn mistakes(source: &Source, heights: &BTreeMap<String, usize>) -> Vec<String> {
    let file = format!("src/{}", source.path.display());
    let mut mistakes = Vec::new();
    let lines = source.text.lines().count();
    if lines > MOST_LINES {
        mistakes.push(format!("{file}: expected at most {MOST_LINES} lines, there are {lines}: split it"));
    }
    let Some(room) = source.room() else { return mistakes };
    let depth = source.path.components().count();
    let is_top = depth == 1 || (depth == 2 && source.path.ends_with("mod.rs"));
    for (number, line) in source.code() {
        if is_top && (line.starts_with("use super::") || line.starts_with("pub use super::")) {
            mistakes.push(format!("{file}:{number}: expected `crate::` for what is outside of the room"));
        }
        for (word, rooms, instead) in RESERVED {
            if !rooms.contains(&room) && words(line, word).next().is_some() {
                mistakes.push(format!("{file}:{number}: expected {instead} instead of `{word}`"));
            }
        }
        let (places, only_linux) = LINUX;
        for word in only_linux {
            let is_for_linux = places.iter().any(|place| source.path.ends_with(place));
            if !is_for_linux && words(line, word).next().is_some() {
                mistakes.push(format!("{file}:{number}: expected `{word}` in src/{} alone", places[0]));
            }
        }
    }
    if room == "bin" {
        return mistakes;
    }
    let Some(height) = heights.get(room) else {
        mistakes.push(format!("{file}: expected the room `{room}` in the drawing of docs/architecture.md"));
        return mistakes;
    };
    for (number, name) in source.imports() {
        let meant = MEANT.iter().any(|(from, to, _)| *from == room && *to == name);
        match heights.get(&name) {
            _ if name == room || meant => {}
            Some(below) if below < height => {}
            Some(_) => mistakes.push(format!(
                "{file}:{number}: expected `{room}` not to use `{name}`, which is not below it in docs/architecture.md"
            )),
            None => mistakes.push(format!(
                "{file}:{number}: expected `crate::{name}` to name a room, not what lib.rs exports"
            )),
        }
    }
    mistakes
}

/// Files that no `mod` line reaches.
fn unreached(sources: &[Source]) -> Vec<String> {
    let declares = |parent: &Path, name: &str| {
        let declaration = format!("mod {name};");
        let parent = sources.iter().find(|source| source.path == *parent);
        parent.is_some_and(|parent| parent.code().any(|(_, line)| words(line, &declaration).next().is_some()))
    };
    let is_reached = |source: &&Source| {
        let module = if source.path.ends_with("mod.rs") {
            source.path.parent().unwrap().to_path_buf()
        } else {
            source.path.with_extension("")
        };
        let name = module.file_name().unwrap().to_string_lossy().into_owned();
        let above = module.parent().unwrap();
        match above.as_os_str().is_empty() {
            true => declares(Path::new("lib.rs"), &name),
            false => declares(&above.join("mod.rs"), &name) || declares(&above.with_extension("rs"), &name),
        }
    };
    let roots = |source: &&Source| source.path != Path::new("lib.rs") && !source.path.starts_with("bin");
    let unreached = sources.iter().filter(roots).filter(|source| !is_reached(source));
    unreached
        .map(|source| format!("expected a `mod` line that reaches src/{}", source.path.display()))
        .collect()
}

/// All files below a directory that have one of these extensions.
pub(crate) fn files(directory: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("expected the directory {}: {error}", directory.display()));
    let mut files = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            files.extend(self::files(&path, extensions));
        } else if path.extension().is_some_and(|extension| extensions.iter().any(|one| extension == *one)) {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn sources() -> Vec<Source> {
    let src = root().join("src");
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        Source { path: path.strip_prefix(&src).unwrap().to_path_buf(), text }
    };
    files(&src, &["rs"]).into_iter().map(read).collect()
}

fn heights() -> BTreeMap<String, usize> {
    drawn(&std::fs::read_to_string(root().join("docs/architecture.md")).unwrap())
}

#[test]
fn every_file_keeps_to_the_drawing_and_to_its_room() {
    let (sources, heights) = (sources(), heights());
    let mistakes: Vec<String> = sources.iter().flat_map(|source| mistakes(source, &heights)).collect();
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    let imports: usize = sources.iter().map(|source| source.imports().len()).sum();
    assert!(imports > 50, "expected to have looked at the imports of the crate, there were {imports}");
}

#[test]
fn every_file_is_reached() {
    let unreached = unreached(&sources());
    assert!(unreached.is_empty(), "{}", unreached.join("\n"));
}

#[test]
fn every_exception_is_needed() {
    let sources = sources();
    for (from, to, why) in MEANT {
        let uses = |source: &Source| {
            source.room() == Some(from) && source.imports().iter().any(|(_, name)| name == to)
        };
        assert!(sources.iter().any(uses), "expected `{from}` to use `{to}` ({why}): else drop the exception");
    }
}

/// The names of the files of a directory with that ending.
fn names(directory: &str, extension: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(root().join(directory)).unwrap().map(|entry| entry.unwrap().path());
    let of_kind = entries.filter(|path| path.extension().is_some_and(|found| found == extension));
    of_kind.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn every_transition_is_one_script_one_file_and_one_test() {
    let scripts = names("lua", "lua");
    let mut files = names("src/broker/transitions", "rs");
    assert!(files.remove("mod") && files.remove("enqueue"), "expected a transaction beside the scripts");
    assert_eq!(files, scripts, "expected each lua/*.lua to have a file src/broker/transitions/*.rs");
    let tests = std::fs::read_to_string(root().join("tests/lua/mod.rs")).unwrap();
    for name in scripts {
        let file = root().join(format!("src/broker/transitions/{name}.rs"));
        let calls = std::fs::read_to_string(file).unwrap();
        assert!(calls.contains(&format!("fn {name}(")), "expected a method `{name}` in its file");
        let constant = format!("script::{}.", name.to_uppercase());
        assert!(calls.contains(&constant), "expected `{name}` to call its own script");
        assert!(tests.contains(&format!("\nmod {name};")), "expected tests/lua/{name}.rs");
    }
}

#[test]
fn the_drawing_is_read() {
    let heights = heights();
    for (below, above) in [
        ("protocol", "task"),
        ("isolation", "sys"),
        ("sys", "runner"),
        ("config", "broker"),
        ("config", "runner"),
        ("broker", "error"),
        ("error", "worker"),
        ("inspect", "app"),
        ("app", "cli"),
    ] {
        assert!(
            heights[below] < heights[above],
            "expected {below} below {above} in the drawing: {heights:?}"
        );
    }
    let levels: BTreeSet<usize> = heights.values().copied().collect();
    assert_eq!(levels.len(), 9, "expected eight levels and the roof: {heights:?}");
}

#[test]
fn made_up_violations_are_found() {
    let heights = heights();
    for (path, text, expected) in [
        ("protocol/keys.rs", "use crate::broker::Broker;", Some("`protocol` not to use `broker`")),
        ("runner/inline.rs", "use crate::broker::Broker;", Some("`runner` not to use `broker`")),
        (
            "runner/inline.rs",
            "use crate::{task::Task, broker::{Broker, Claimed}};",
            Some("not to use `broker`"),
        ),
        (
            "sweeper.rs",
            "fn f() { crate::worker::run() }",
            Some("src/sweeper.rs:1: expected `sweeper` not to"),
        ),
        ("client/mod.rs", "\nuse crate::inspect::Peek;", Some("src/client/mod.rs:2")),
        ("broker/mod.rs", "use crate::Error;", Some("to name a room")),
        ("task/mod.rs", "use delayed::client::Client;", Some("`task` not to use `client`")),
        ("task/mod.rs", "use super::client::Client;", Some("`crate::` for what is outside")),
        ("attic/mod.rs", "", Some("the room `attic` in the drawing")),
        ("worker/mod.rs", "unsafe { f() }", Some("src/sys instead of `unsafe`")),
        ("inspect.rs", "use redis::cmd;", Some("instead of `redis::`")),
        ("task/mod.rs", "    eprintln!(\"x\");", Some("instead of `eprintln!`")),
        ("task/mod.rs", &"\n".repeat(501), Some("at most 500 lines, there are 501")),
        ("worker/mod.rs", "use crate::sweeper::Sweeper;", None),
        ("worker/mod.rs", "use crate::worker::lane::Lane; // crate::cli", None),
        ("sys/fork.rs", "unsafe { f() } // SAFETY: …", None),
        ("sys/fork.rs", "nix::unistd::pipe2(flags)", Some("expected `pipe2` in src/sys/linux.rs alone")),
        ("sys/linux.rs", "nix::unistd::pipe2(flags)", None),
        ("broker/mod.rs", "use redis::cmd; let x = \"redis://host\";", None),
        ("task/mod.rs", "#![forbid(unsafe_code)] /// eprintln!", None),
        ("bin/delayed.rs", "println!(); delayed::main();", None),
    ] {
        let found = mistakes(&Source::new(path, text), &heights).join("\n");
        match expected {
            Some(expected) => {
                assert!(found.contains(expected), "expected {expected:?} for {text:?}, got {found:?}")
            }
            None => assert_eq!(found, "", "expected nothing to be wrong with {text:?} in {path}"),
        }
    }
    let tree = [
        Source::new("lib.rs", "pub mod a;\n// mod attic;\nmod c;"),
        Source::new("a/mod.rs", "mod b;"),
        Source::new("a/b.rs", "pub(crate) mod deep;"),
        Source::new("a/b/deep.rs", ""),
        Source::new("c.rs", ""),
        Source::new("a/lost.rs", ""),
        Source::new("attic.rs", ""),
        Source::new("bin/x.rs", ""),
    ];
    let expected =
        ["src/a/lost.rs", "src/attic.rs"].map(|file| format!("expected a `mod` line that reaches {file}"));
    assert_eq!(unreached(&tree), expected, "expected the two files that nothing declares");
}
