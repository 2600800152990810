//! No file of `src` uses one that uses it, directly or through others: what a file is can be read without what is above it.
//!
//! A `use` and a path in the code count, and are followed through the names that a parent re-exports to the file that they
//! come from. To declare and re-export what a child has is no use of it. Unit tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{Source, identifier, sources, words};

/// Uses that close a cycle for now, and why: from, to.
const MEANT: [(&str, &str, &str); 5] = [
    (
        "protocol/decode/actual.rs",
        "protocol/decode/reader.rs",
        "a message on what was found is made by reading it once more",
    ),
    (
        "runner/pool.rs",
        "runner/pooled_child.rs",
        "the tasks of its children are a part of the pool, in a file of their own",
    ),
    (
        "runner/zygote/subreaper.rs",
        "runner/zygote/server.rs",
        "one process becomes the other; both end by the same sweep",
    ),
    ("sys/wait.rs", "sys/linux.rs", "the one has what only Linux has of the other"),
    (
        "testing/network/proxy.rs",
        "testing/network/relay.rs",
        "the handle of a proxy and its loop, which share their state",
    ),
];

/// Rooms that are left out as a whole for now, and why.
const LEFT_OUT: [(&str, &str); 3] = [
    ("worker", "its event loop is one struct with its methods in many files: it is to get owners instead"),
    ("client", "`Client` stands in its `mod.rs`, which the parts of it use"),
    (
        "cli",
        "the context of all commands stands in its `mod.rs`, and settings, output and exit codes use each other",
    ),
];

/// The names of a module, from the root of the crate on.
type Module = Vec<String>;

/// Which files each file uses.
type Uses<'a> = BTreeMap<&'a Path, BTreeSet<&'a Path>>;

/// A file, read for what it uses.
struct File<'a> {
    path: &'a Path,
    module: Module,
    /// The names that `use` brings into it, and what they are.
    names: BTreeMap<String, Module>,
    /// What it uses, as it is written there, from the root of the crate on.
    used: Vec<Module>,
}

impl<'a> File<'a> {
    fn new(source: &'a Source) -> Self {
        let mut module: Module =
            source.path.with_extension("").iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        module.pop_if(|last| last == "mod" || last == "lib");
        let mut file = Self { path: &source.path, module, names: BTreeMap::new(), used: Vec::new() };
        let code: String = source.code().map(|(_, line)| format!("{line}\n")).collect();
        let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let (imports, rest) = split_imports(code);
        let children: Vec<String> = words(code, "mod ")
            .map(|(at, _)| &code[at + 4..])
            .filter(|after| {
                after.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').starts_with(';')
            })
            .map(identifier)
            .collect();
        for (is_public, tree) in imports {
            for (path, name) in paths(tree) {
                let Some(path) = file.absolute(path, &children) else { continue };
                file.names.insert(name, path.clone());
                if !is_public {
                    file.used.push(path);
                }
            }
        }
        let starts = ["crate", "self", "super"].into_iter().chain(children.iter().map(String::as_str));
        for start in starts {
            for (at, _) in words(&rest, &format!("{start}::")) {
                if !rest[..at].ends_with("::") && !rest[..at].ends_with("(in ") {
                    let path = paths(&rest[at..]).into_iter().next().map(|(path, _)| path);
                    file.used.extend(path.and_then(|path| file.absolute(path, &children)));
                }
            }
        }
        file
    }

    /// A path that is written here, from the root of the crate on; none for one of another crate.
    fn absolute(&self, path: Vec<&str>, children: &[String]) -> Option<Module> {
        let mut base = match *path.first()? {
            "crate" => Vec::new(),
            "self" | "super" => self.module.clone(),
            child if children.iter().any(|name| name == child) => self.module.clone(),
            _ => return None,
        };
        for part in path {
            match part {
                "crate" | "self" => {}
                "super" => drop(base.pop()?),
                name => base.push(name.to_owned()),
            }
        }
        Some(base)
    }
}

/// The trees of all `use` declarations, and whether they are public, then the code without them.
fn split_imports(code: &str) -> (Vec<(bool, &str)>, String) {
    let (mut imports, mut rest) = (Vec::new(), String::new());
    let mut from = 0;
    for (at, _) in words(code, "use ") {
        let line = code[..at].rfind('\n').map_or(0, |end| end + 1);
        let before = code[line..at].trim();
        let is_public = before.starts_with("pub");
        if at < from || !(before.is_empty() || is_public) {
            continue;
        }
        let Some(length) = code[at..].find(';') else { continue };
        rest.push_str(&code[from..line]);
        imports.push((is_public, code[at + 4..at + length].trim()));
        from = at + length + 1;
    }
    rest.push_str(&code[from..]);
    (imports, rest)
}

/// The paths of a tree of `use`, and the names that they get. Code behind a path that is none ends it.
fn paths(tree: &str) -> Vec<(Vec<&str>, String)> {
    let tree = tree.trim_start();
    let length = tree.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(tree.len());
    let (first, rest) = tree.split_at(length);
    let Some(rest) = rest.strip_prefix("::").filter(|rest| !rest.starts_with(['<', '*'])) else {
        let alias = rest.trim_start().strip_prefix("as ").map(identifier);
        return vec![(vec![first], alias.unwrap_or_else(|| first.to_owned()))];
    };
    let behind = match rest.strip_prefix('{') {
        Some(list) => branches(list).into_iter().flat_map(paths).collect(),
        None => paths(rest),
    };
    let with_first = |(mut path, name): (Vec<_>, String)| {
        path.insert(0, first);
        // `a::{self}` is `a`.
        let name = if name == "self" { first.to_owned() } else { name };
        (path, name)
    };
    behind.into_iter().map(with_first).collect()
}

/// The parts of a list in braces, which was opened before.
fn branches(list: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '}' if depth == 0 => {
                parts.push(&list[start..at]);
                break;
            }
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => depth += i32::from(c == '{') - i32::from(c == '}'),
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// Which files each of them uses.
fn uses(sources: &[Source]) -> Uses<'_> {
    let is_tested = |source: &&Source| {
        source.path.file_stem().is_some_and(|name| name != "tests") && !source.path.starts_with("bin")
    };
    let files: Vec<File<'_>> = sources.iter().filter(is_tested).map(File::new).collect();
    let by_module: BTreeMap<&Module, &File<'_>> = files.iter().map(|file| (&file.module, file)).collect();
    let from = |file: &File<'_>| {
        let found = file.used.iter().filter_map(|path| origin(path, &by_module, 0));
        found.filter(|used| used.path != file.path).map(|used| sources_path(sources, used.path)).collect()
    };
    files.iter().map(|file| (sources_path(sources, file.path), from(file))).collect()
}

fn sources_path<'a>(sources: &'a [Source], path: &Path) -> &'a Path {
    sources.iter().map(|source| source.path.as_path()).find(|known| *known == path).expect("one of them")
}

/// The file that defines what a path names, through re-exports.
fn origin<'f, 'a>(
    path: &[String],
    files: &BTreeMap<&Module, &'f File<'a>>,
    depth: usize,
) -> Option<&'f File<'a>> {
    let length = (0..=path.len()).rev().find(|length| files.contains_key(&path[..*length].to_vec()))?;
    let file = files[&path[..length].to_vec()];
    match path.get(length).and_then(|name| file.names.get(name)) {
        Some(behind) if depth < 9 => {
            let behind: Module = behind.iter().chain(&path[length + 1..]).cloned().collect();
            // A name of another crate, or a macro.
            origin(&behind, files, depth + 1).or(Some(file))
        }
        _ => Some(file).filter(|file| !file.module.is_empty()),
    }
}

/// Files that use each other, each group once.
fn cycles<'a>(uses: &Uses<'a>) -> Vec<Vec<&'a Path>> {
    let reached: BTreeMap<&Path, BTreeSet<&Path>> =
        uses.keys().map(|file| (*file, reachable(uses, file))).collect();
    let groups: BTreeSet<Vec<&Path>> = reached
        .iter()
        .filter(|(file, reached)| reached.contains(*file))
        .map(|(file, there)| there.iter().filter(|other| reached[*other].contains(file)).copied().collect())
        .collect();
    groups.into_iter().collect()
}

/// The files that a file uses, directly or through others.
fn reachable<'a>(uses: &Uses<'a>, file: &Path) -> BTreeSet<&'a Path> {
    let (mut reached, mut open) = (BTreeSet::new(), uses[file].clone());
    while let Some(file) = open.pop_first() {
        if reached.insert(file) {
            open.extend(&uses[file]);
        }
    }
    reached
}

/// Leaves out what is meant.
fn without_meant<'a>(mut uses: Uses<'a>) -> Uses<'a> {
    let is_in_one = |one: &Path, other: &Path| {
        LEFT_OUT.iter().any(|(room, _)| one.starts_with(room) && other.starts_with(room))
    };
    for (file, used) in &mut uses {
        used.retain(|used| {
            let is_meant =
                MEANT.iter().any(|(from, to, _)| file == &Path::new(from) && *used == Path::new(to));
            !is_meant && !is_in_one(file, used)
        });
    }
    uses
}

fn shown(uses: &Uses<'_>, cycles: &[Vec<&Path>]) -> String {
    let mut text = String::new();
    for files in cycles {
        for file in files {
            let used: Vec<_> = uses[file].iter().filter(|used| files.contains(used)).collect();
            text.push_str(&format!("src/{} uses {used:?}\n", file.display()));
        }
        text.push('\n');
    }
    text
}

#[test]
fn no_file_uses_one_that_uses_it() {
    let sources = sources();
    let uses = without_meant(uses(&sources));
    let count: usize = uses.values().map(BTreeSet::len).sum();
    assert!(count > 300, "expected to have looked at the uses of all files, there were {count}");
    let found = cycles(&uses);
    assert!(found.is_empty(), "expected no file to use one that uses it:\n{}", shown(&uses, &found));
}

#[test]
fn every_cycle_that_is_meant_is_there() {
    let sources = sources();
    let all = uses(&sources);
    let rest = without_meant(all.clone());
    for (from, to, why) in MEANT {
        let (from, to) = (Path::new(from), Path::new(to));
        let is_used = all.get(from).is_some_and(|used| used.contains(to));
        let closes = is_used && reachable(&rest, to).contains(from);
        assert!(closes, "expected {from:?} to use {to:?}, which uses it ({why}): else drop the exception");
    }
    for (room, why) in LEFT_OUT {
        let is_there = cycles(&all).iter().flatten().any(|file| file.starts_with(room));
        assert!(is_there, "expected cycles in {room} ({why}): else drop the exception");
    }
}

#[test]
fn made_up_cycles_are_found() {
    let tree = |texts: &[(&str, &str)]| -> Vec<Source> {
        texts.iter().map(|(path, text)| Source::new(path, text)).collect()
    };
    for (sources, expected) in [
        (tree(&[("a.rs", "use crate::b::B;"), ("b.rs", "use crate::a::{A, C};")]), "a.rs b.rs"),
        (tree(&[("a.rs", "use crate::b::B;"), ("b.rs", "fn f() { crate::a::f() }")]), "a.rs b.rs"),
        (
            tree(&[
                ("a.rs", "use crate::b;"),
                ("b.rs", "use crate::c::{self, d};"),
                ("c.rs", "use crate::a::A;"),
            ]),
            "a.rs b.rs c.rs",
        ),
        // Through what a parent re-exports.
        (
            tree(&[
                ("r/mod.rs", "mod a;\nmod b;\npub(crate) use self::a::A;\nuse self::b::B as Other;"),
                ("r/a.rs", "use crate::r::Other;"),
                ("r/b.rs", "use super::{A};"),
            ]),
            "r/a.rs r/b.rs",
        ),
        (
            tree(&[("r/mod.rs", "mod a;\nfn f() { a::f() }\nfn g() {}"), ("r/a.rs", "use super::g;")]),
            "r/a.rs r/mod.rs",
        ),
        (tree(&[("r/mod.rs", "mod a;\npub use a::f;\nfn g() {}"), ("r/a.rs", "use super::g;")]), ""),
        (
            tree(&[
                ("a.rs", "use crate::b::B;"),
                ("b.rs", "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}"),
            ]),
            "",
        ),
        (tree(&[("a.rs", "use crate::b::B;"), ("b.rs", "pub(in crate::a) fn f() {} // crate::a::A")]), ""),
        (tree(&[("a.rs", "use crate::b::B;"), ("b.rs", "use redis::a::A;")]), ""),
    ] {
        let uses = uses(&sources);
        let found: Vec<String> =
            cycles(&uses).iter().flatten().map(|file| file.display().to_string()).collect();
        assert_eq!(found.join(" "), expected, "{:?}", sources.iter().map(|s| &s.text).collect::<Vec<_>>());
    }
}
