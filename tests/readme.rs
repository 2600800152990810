//! Is what the README shows true? Its commands are run, and its programs are the examples.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::support::example::example;
use super::support::process::Program;
use super::support::{directory, python, root, wait};

/// How long a command may take on a machine that is busy: one of them compiles Go.
const PATIENCE: Duration = Duration::from_secs(60);

/// The most lines of a README that is still read.
pub(super) const LONGEST: usize = 285;

/// Stands for what a reader has: `cargo run` of the quickstart, which is built already.
const SHELL: &str = r#"
set -eu
cargo() {
  [ "$1 $2 $3 $4 $5" = 'run -q --example quickstart --' ] || { echo "not a command that the test knows: $*"; exit 99; }
  shift 5
  exec "$QUICKSTART" "$@"
}
"#;

/// A fenced block: its info string, and its lines.
struct Block {
    info: String,
    text: String,
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

fn blocks(info: &str) -> Vec<String> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut inside = false;
    for line in readme().lines() {
        match line.strip_prefix("```") {
            Some(_) if inside => inside = false,
            Some(info) => {
                inside = true;
                blocks.push(Block { info: info.to_owned(), text: String::new() });
            }
            None if inside => {
                let block = blocks.last_mut().expect("a block was begun");
                block.text.push_str(line);
                block.text.push('\n');
            }
            None => {}
        }
    }
    assert!(!inside, "expected every block of the README to end");
    let found: Vec<String> =
        blocks.into_iter().filter(|block| block.info == info).map(|block| block.text).collect();
    assert!(!found.is_empty(), "expected a block {info:?} in the README");
    found
}

/// Commands with the lines that they are to print.
fn commands(block: &str) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for line in block.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => commands.push((command.to_owned(), Vec::new())),
            None => commands.last_mut().expect("a command comes first").1.push(line.to_owned()),
        }
    }
    commands
}

/// A directory that has what the commands of the README name.
fn reader() -> tempfile::TempDir {
    let place = directory();
    let link = |from: &Path, name: &str| std::os::unix::fs::symlink(from, place.path().join(name)).unwrap();
    link(&root().join("examples"), "examples");
    let environment = python::interpreter();
    link(environment.ancestors().nth(2).expect("DIRECTORY/bin/python"), ".venv");
    place
}

fn shell(place: &Path, command: &str) -> Command {
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(format!("{SHELL}{command}")).current_dir(place);
    bash.env("QUICKSTART", example("quickstart")).env("PWD", place).env_remove("DELAYED_REDIS_URL");
    bash.env("PYTHONPATH", root().join("python-compat/src")).env("PYTHONDONTWRITEBYTECODE", "1");
    bash
}

/// Runs a command to its end, and holds its standard output against the lines.
fn run(place: &Path, command: &str, lines: &[String]) {
    let output = shell(place, command).stdin(Stdio::null()).output().expect("expected to start bash");
    let (printed, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "expected `{command}` to succeed:\n{printed}{said}");
    for line in lines {
        assert!(
            printed.lines().any(|other| other == line),
            "expected `{command}` to print {line:?}:\n{printed}{said}"
        );
    }
}

#[test]
fn the_commands_of_the_readme_print_what_it_says() {
    let place = reader();
    let mut serving: Option<Program> = None;
    for (command, lines) in blocks("console").iter().flat_map(|block| commands(block)) {
        if command.contains(" -- dev") {
            let program = Program::spawn(&mut shell(place.path(), &command));
            lines.iter().for_each(|line| {
                program.wait_for_line(line);
            });
            program.wait_for_line("serving");
            assert!(serving.replace(program).is_none(), "expected one server in the README");
        } else {
            run(place.path(), &command, &lines);
        }
    }
    let mut serving = serving.expect("expected a server in the README");
    for line in blocks("text said by dev").iter().flat_map(|block| block.lines()) {
        serving.wait_for_line(line);
    }
    serving.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(serving.wait_exit(PATIENCE).success(), "{}", serving.printed());
    let socket = place.path().join(".delayed/redis.sock");
    wait::until("the end of the private Redis", PATIENCE, || !socket.exists());
}

#[test]
fn the_programs_of_the_readme_are_the_examples() {
    for (info, file) in [
        ("rust,no_run", "examples/quickstart.rs"),
        ("python", "examples/python_caller/call.py"),
        ("go", "examples/go_caller/main.go"),
    ] {
        let (block, text) = (blocks(info).remove(0), std::fs::read_to_string(root().join(file)).unwrap());
        assert!(text.contains(&block), "expected {file} to have the text of the README:\n{block}");
    }
}

#[test]
fn every_command_that_the_readme_names_exists() {
    let text = readme();
    let table = text.split("## Running it").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut words = 0;
    for line in table.lines().filter(|line| line.starts_with("| `") && !line.starts_with("| `SIG")) {
        let names = line.split('|').nth(1).unwrap().split('`').skip(1).step_by(2);
        for name in names {
            let status =
                Command::new(example("quickstart")).args(name.split(' ')).arg("--help").output().unwrap();
            assert!(status.status.success(), "expected the command `{name}`");
            words += 1;
        }
    }
    assert!(words > 8, "expected to have found the commands of the README, there were {words}");
}

#[test]
fn the_scripts_of_the_readme_are_there_and_are_bash() {
    for line in blocks("sh").iter().flat_map(|block| block.lines()) {
        let script = root().join(line.split(' ').next().unwrap());
        let output = Command::new("bash").arg("-n").arg(&script).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&script).unwrap().permissions());
        assert!(mode & 0o111 != 0, "expected {} to be executable", script.display());
    }
}

#[test]
fn every_file_that_the_documents_name_is_there() {
    for document in [
        "README.md",
        "docs/architecture.md",
        "docs/deploy.md",
        "docs/guarantees.md",
        "docs/operations.md",
        "docs/recipes.md",
    ] {
        let text = std::fs::read_to_string(root().join(document)).unwrap();
        for word in text.split('`').skip(1).step_by(2) {
            let file = word.split("::").next().unwrap().split(' ').next().unwrap();
            let names_a_file =
                ["docs/", "examples/", "scripts/", "tests/", "macros/", "src/", "lua/", "bench/", "deploy/"];
            if !names_a_file.iter().any(|start| file.starts_with(start)) {
                continue;
            }
            let path = root().join(file);
            assert!(path.exists(), "expected {file}, which {document} names");
            // `tests/x.rs::name` is a test of that file.
            for name in word.split("::").skip(1) {
                let test = std::fs::read_to_string(&path).unwrap();
                assert!(
                    test.contains(&format!("fn {name}(")) || test.contains(&format!("def {name}(")),
                    "expected the test {name} in {file}, which {document} names"
                );
            }
        }
    }
}

#[test]
fn the_readme_is_short() {
    let lines = readme().lines().count();
    assert!(lines <= LONGEST, "expected at most {LONGEST} lines in the README, there are {lines}");
}
