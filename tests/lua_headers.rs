//! The header of each script is its contract: it is held against the body and the documents.

use std::collections::BTreeSet;

use delayed::__private::script_text;

use crate::support::root;

/// What may be unpacked, and why it is small enough: Lua's stack takes 8000 values.
const UNPACKED: [(&str, &str, &str); 33] = [
    ("acquire", "wake_next(KEYS[3], KEYS[4], most - held, now)", "at most 100"),
    ("balance", "tokens", "1000 at a time"),
    ("bury", "letter", "six fields"),
    ("claim", "ARGV, behind + 1, behind + wanted", "wire ids, at most 1000"),
    ("claim", "ARGV, first, last_id", "wire ids, at most 1000"),
    ("claim", "ARGV, BEFORE_IDS + 1, behind", "wire ids, at most 1000"),
    ("claim", "over", "at most as many as wire ids, and one more"),
    ("claim", "fields", "two for each wire id, and two more"),
    ("fill", "new, i, math.min(i + AT_ONCE - 1, #new)", "1000 at a time"),
    ("fill", "ARGV, at, at + 5", "what belongs to one batch"),
    ("split", "ARGV, i, i + FIELDS - 1", "what belongs to one item"),
    ("finish", "ARGV, at + 1, at + 8", "what belongs to one call"),
    ("finish", "ARGV, more, at + 9", "one field"),
    ("finish", "wire_ids", "at most 100"),
    ("finish", "ids", "at most 100"),
    ("close", "redis.call('HMGET', KEYS[1], 'keep', 'state')", "two fields"),
    ("close", "ARGV, 4", "two fields of a record"),
    ("join", "redis.call('HGET', KEYS[1], 'n' .. number)", "what belongs to one node"),
    ("join", "above, 4, 7", "what belongs to one node"),
    ("join", "ARGV, i, i + FIELDS - 1", "what belongs to one step"),
    ("join", "redis.call('HMGET', KEYS[1], 'n' .. number, 'g' .. number)", "two fields"),
    ("reopen", "redis.call('HMGET', KEYS[1], 'state', 'round')", "two fields"),
    ("promote", "ids, done + 1, last", "100 at a time"),
    ("promote", "members, done + 1, last", "100 at a time"),
    ("promote", "messages", "100 at a time"),
    ("promote", "tokens", "100 at a time"),
    ("reconcile", "owned", "at most as many as wire ids"),
    ("start", "ARGV, i, i + 3", "what belongs to one call"),
    ("tick", "ARGV, i, i + TASK - 1", "what belongs to one task"),
    ("tick", "ARGV, at + 1, at + CALL - 1", "what belongs to one call"),
    ("unpark", "absent", "at most 200"),
    ("wake", "entries", "at most 100"),
    ("submit", "ARGV, i, i + FIELDS - 1", "what belongs to one call"),
];

struct Script {
    name: String,
    /// What stands in its file.
    text: String,
    header: Vec<String>,
    /// What is sent of it: with what it shares with others, without comments.
    body: String,
}

impl Script {
    fn new(name: &str, text: &str, sent: &str) -> Self {
        let header = text.lines().take_while(|line| line.starts_with("--"));
        let header: Vec<String> = header.map(|line| line[2..].trim().to_owned()).collect();
        // What is said in comments is not done.
        let code = sent.lines().skip(header.len()).map(|line| line.split("--").next().unwrap_or(""));
        let body = code.collect::<Vec<_>>().join("\n");
        Self { name: name.into(), text: text.into(), header, body }
    }

    fn all() -> Vec<Self> {
        let mut paths: Vec<_> = std::fs::read_dir(root().join("lua"))
            .expect("expected the directory lua")
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "lua"))
            .collect();
        paths.sort();
        assert!(paths.len() >= 13, "expected the scripts in lua/, found {paths:?}");
        let script = |path: &std::path::PathBuf| {
            let name = path.file_stem().unwrap().to_str().unwrap();
            let sent = script_text(name).unwrap_or_else(|| panic!("expected {name} in src/broker/script.rs"));
            Self::new(name, &std::fs::read_to_string(path).unwrap(), sent)
        };
        paths.iter().map(script).collect()
    }

    /// The places of `KEYS` or `ARGV` that the header describes, `…` among them.
    fn described(&self, array: &str) -> BTreeSet<String> {
        let lines = self.header.iter().filter_map(|line| line.strip_prefix(array)?.strip_prefix('['));
        lines
            .filter_map(|line| line.split_once(']'))
            .filter(|(_, text)| text.starts_with("  ") && text.trim().len() > 2)
            .map(|(place, _)| place.to_owned())
            .collect()
    }

    /// The places that the body uses; `…` for all that is not a plain number.
    fn used(&self, array: &str) -> BTreeSet<String> {
        let mut places = BTreeSet::new();
        for (at, _) in self.body.match_indices(array) {
            if self.body[..at].ends_with(|before: char| before.is_ascii_alphanumeric()) {
                continue; // as in the name of a command
            }
            let after = &self.body[at + array.len()..];
            let place =
                after.strip_prefix('[').and_then(|after| after.split_once(']')).map(|(place, _)| place);
            match place {
                Some(place) if place.parse::<u32>().is_ok() => places.insert(place.to_owned()),
                _ => places.insert("…".into()),
            };
        }
        places
    }

    /// The lists that the header describes, but for the queue itself: their places and names.
    fn lists_beside_the_queue(&self) -> Vec<(String, String)> {
        let lines = self.header.iter().filter_map(|line| line.strip_prefix("KEYS[")?.split_once(']'));
        let words = lines.map(|(place, rest)| (place, rest.split_whitespace().take(2).collect::<Vec<_>>()));
        words
            .filter(|(_, words)| matches!(words[..], [name, "LIST"] if name != "queue"))
            .map(|(place, words)| (place.to_owned(), words[0].to_owned()))
            .collect()
    }

    /// What is wrong with it.
    fn mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        let mut expect = |holds: bool, what: String| {
            if !holds {
                mistakes.push(format!("lua/{}.lua: {what}", self.name));
            }
        };
        let first = self.header.first().map_or("", String::as_str);
        let sentence = first.strip_prefix(&self.name).and_then(|rest| rest.strip_prefix(": "));
        expect(
            sentence.is_some_and(|sentence| sentence.len() > 20 && sentence.ends_with('.')),
            format!("expected the first line `-- {}: a sentence.`, it is {first:?}", self.name),
        );
        for array in ["KEYS", "ARGV"] {
            let (described, used) = (self.described(array), self.used(array));
            for place in used.difference(&described) {
                expect(
                    false,
                    format!("expected a line of the header for {array}[{place}], which the body uses"),
                );
            }
            for place in described.difference(&used) {
                expect(
                    false,
                    format!("expected the body to use {array}[{place}], which the header describes"),
                );
            }
        }
        expect(
            self.header.iter().any(|line| line.starts_with("Returns ")),
            "expected a line `-- Returns …` in the header".into(),
        );
        let errors = self.header.iter().skip_while(|line| !line.starts_with("Errors  "));
        let errors: Vec<&str> = errors.flat_map(|line| line.split_whitespace()).collect();
        for raised in self.body.split("error_reply('").skip(1) {
            let word = raised.split([' ', '\'']).next().unwrap_or("");
            let shouted = word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
            expect(shouted, format!("expected an error to begin with one word in capitals, not {word:?}"));
            expect(errors.contains(&word), format!("expected a line `-- Errors  {word}  …` in the header"));
        }
        expect(
            errors.is_empty() || self.body.contains("error_reply("),
            "expected an error in the body, as the header has a line for errors".into(),
        );
        expect(!self.body.contains("== nil"), "expected `not x`: an absent reply is false, never nil".into());
        for what in unpacked(&self.body) {
            let known = UNPACKED.iter().any(|(name, known, _)| *name == self.name && *known == what);
            expect(
                known,
                format!("expected `unpack({what})` in the list of what is bounded, with the reason"),
            );
        }
        for (place, name) in self.lists_beside_the_queue() {
            for command in ["DEL", "UNLINK", "LTRIM", "LMOVE", "RPOPLPUSH", "RENAME", "SET"] {
                let removes = self.body.lines().any(|line| {
                    line.contains(&format!("'{command}'")) && line.contains(&format!("KEYS[{place}]"))
                });
                expect(
                    !removes,
                    format!(
                        "expected `{command}` not to be used on {name}, which may be another program's: LREM takes tokens alone"
                    ),
                );
            }
        }
        expect(
            !self.body.contains("[["),
            "expected no `[[`: each line is sent without its indentation, and not at all if it begins with `--`".into(),
        );
        let lines = self.text.lines().count();
        expect(lines <= 260, format!("expected at most 260 lines, there are {lines}"));
        mistakes
    }
}

/// What a text unpacks onto Lua's stack. `struct.unpack` gives as many values as its format has.
fn unpacked(text: &str) -> impl Iterator<Item = &str> {
    let calls = text.match_indices("unpack(").filter(|(at, _)| !text[..*at].ends_with("struct."));
    calls.map(|(at, call)| argument(&text[at + call.len()..]))
}

/// The text up to the parenthesis that closes it.
fn argument(text: &str) -> &str {
    let mut depth = 1;
    let end = text.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    &text[..end.unwrap_or(text.len())]
}

#[test]
fn every_header_states_what_its_script_does() {
    let mistakes: Vec<String> = Script::all().iter().flat_map(Script::mistakes).collect();
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn every_script_has_a_place_in_the_documents() {
    let lifecycle = std::fs::read_to_string(root().join("docs/lifecycle.md")).unwrap();
    for Script { name, .. } in Script::all() {
        assert!(
            lifecycle.contains(&format!("lua/{name}.lua")),
            "expected `lua/{name}.lua` in docs/lifecycle.md"
        );
    }
}

#[test]
fn shared_text_defines_functions_that_are_given_all_they_use() {
    for entry in std::fs::read_dir(root().join("lua/shared")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(&format!("-- {name}: ")), "expected {path:?} to begin with its name");
        for line in text.lines().filter(|line| !line.starts_with(' ')) {
            let is_constant = line
                .strip_prefix("local ")
                .and_then(|line| line.split_once(" = "))
                .is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
            let is_definition =
                is_constant || ["", "end", "}"].contains(&line) || line.starts_with("local function ");
            assert!(
                is_definition || line.starts_with("--"),
                "expected functions and constants alone in {path:?}: {line}"
            );
        }
        for array in ["KEYS", "ARGV"] {
            let uses =
                text.lines().any(|line| line.split("--").next().is_some_and(|code| code.contains(array)));
            assert!(!uses, "expected no {array} in {path:?}, whose places are another's");
        }
    }
}

#[test]
fn every_reason_for_unpacking_is_needed() {
    let scripts = Script::all();
    let unpacks = |name: &str, what: &str| {
        let script = scripts.iter().find(|script| script.name == name);
        script.is_some_and(|script| unpacked(&script.body).any(|unpacked| unpacked == what))
    };
    let unused: Vec<_> = UNPACKED.iter().filter(|(name, what, _)| !unpacks(name, what)).collect();
    assert!(unused.is_empty(), "expected these to be unpacked by their scripts: {unused:?}");
}

#[test]
fn the_mistakes_of_a_made_up_script_are_found() {
    let text = "\
-- wrong: a sentence that is long enough
--
-- KEYS[1]  tokens  LIST
-- KEYS[2]  unused  LIST
-- ARGV[2]
--
-- Errors  OTHER  of which there is no trace
local x = redis.call('UNLINK', KEYS[1]) -- KEYS[3] in a comment does not count
if x == nil and redis.call('HKEYS', KEYS[1]) then
  return redis.error_reply('WORD and prose')
end
redis.log(redis.LOG_NOTICE, [[
-- text]])
return unpack(ARGV, 2, tonumber(ARGV[1]))
";
    let found = Script::new("made_up", text, text).mistakes().join("\n");
    for expected in [
        "`-- made_up: a sentence.`",
        "KEYS[2], which the header describes",
        "header for ARGV[1], which the body uses",
        "header for ARGV[…], which the body uses",
        "`-- Returns …`",
        "`-- Errors  WORD  …`",
        "never nil",
        "`UNLINK` not to be used on tokens",
        "expected no `[[`",
        "`unpack(ARGV, 2, tonumber(ARGV[1]))`",
    ] {
        assert!(found.contains(expected), "expected a complaint with {expected:?} among:\n{found}");
    }
    assert!(!found.contains("KEYS[…]"), "expected the name of a command to be left out:\n{found}");
    assert!(!found.contains("KEYS[3]"), "expected comments to be left out:\n{found}");
    assert!(!found.contains("KEYS[1]"), "expected no complaint about what is right:\n{found}");
}
