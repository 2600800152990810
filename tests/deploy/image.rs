//! The image: built where there is Docker or Podman. Elsewhere its steps are carried out in directories, in the profile of the tests.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::Signal;

use super::{path, succeed, text};
use crate::support::example::{alone, forget_run};
use crate::support::process::Program;
use crate::support::redis::{Options, TestRedis};
use crate::support::trial::PATIENCE;
use crate::support::{directory, root};

/// A stage of the build: where its files are, and what its steps have set.
#[derive(Default)]
struct Stage {
    name: String,
    files: PathBuf,
    workdir: String,
    arguments: Vec<(String, String)>,
    user: Option<u32>,
    entrypoint: Vec<String>,
    command: Vec<String>,
}

impl Stage {
    /// Where a path of the stage is on this machine.
    fn place(&self, path: &str) -> PathBuf {
        self.files.join(Path::new(&self.workdir).join(path).strip_prefix("/").expect("an absolute path"))
    }
}

/// The instructions of a Containerfile, each with what stands behind it.
fn steps(text: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let joined = lines.join("\n").replace("\\\n", " ");
    let steps = joined.lines().filter_map(|line| line.trim().split_once(' '));
    steps.map(|(word, rest)| (word.to_owned(), rest.trim().to_owned())).collect()
}

/// Carries out the steps. The first stage is in a place that stays, so that nothing is compiled twice; the last one is in `last`.
fn build(text: &str, last: &Path) -> Result<Stage, String> {
    let first = Path::new(env!("CARGO_TARGET_TMPDIR")).join("image");
    let _ = fs::remove_dir_all(&first);
    let mut stages: Vec<Stage> = Vec::new();
    for (word, rest) in steps(text) {
        if word == "FROM" {
            let name = rest.split_once(" AS ").map_or("", |(_, name)| name).to_owned();
            let files = if stages.is_empty() { first.clone() } else { last.to_owned() };
            fs::create_dir_all(&files).unwrap();
            stages.push(Stage { name, files, workdir: "/".to_owned(), ..Stage::default() });
            continue;
        }
        let (stage, earlier) = stages.split_last_mut().ok_or("expected FROM first")?;
        match word.as_str() {
            "ARG" => {
                let (name, value) = rest.split_once('=').ok_or("expected a default of each ARG")?;
                stage.arguments.push((name.to_owned(), value.trim_matches('"').to_owned()));
            }
            "WORKDIR" => stage.workdir = rest,
            "COPY" => copy(&rest, stage, earlier)?,
            "RUN" => run(&rest, stage)?,
            "USER" => stage.user = rest.split(':').next().and_then(|user| user.parse().ok()),
            "ENTRYPOINT" => stage.entrypoint = words(&rest)?,
            "CMD" => stage.command = words(&rest)?,
            _ => return Err(format!("this test does not know what {word} does")),
        }
    }
    stages.pop().ok_or_else(|| "expected a stage".to_owned())
}

fn words(json: &str) -> Result<Vec<String>, String> {
    serde_json::from_str(json).map_err(|error| format!("expected words in JSON, not {json}: {error}"))
}

fn copy(rest: &str, stage: &Stage, earlier: &[Stage]) -> Result<(), String> {
    let words: Vec<&str> = rest.split(' ').collect();
    match words[..] {
        [".", to] => {
            copy_sources(root(), &stage.place(to));
            Ok(())
        }
        [from_stage, from, to] => {
            let name = from_stage.strip_prefix("--from=");
            let of = earlier.iter().find(|earlier| Some(earlier.name.as_str()) == name);
            let from = of.ok_or_else(|| format!("there is no stage {from_stage}"))?.place(from);
            let to = stage.place(to);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            // By another process: one that is forked here meanwhile would hold it open for writing.
            done(Command::new("cp").arg("--").args([from, to]))
        }
        _ => Err(format!("this test does not know how to COPY {rest}")),
    }
}

/// Copies what the build may see, with its times: cargo compiles again what is newer.
fn copy_sources(from: &Path, to: &Path) {
    let ignored = text("Containerfile.dockerignore");
    let (anywhere, here): (Vec<&str>, Vec<&str>) = ignored.lines().partition(|line| line.starts_with("**/"));
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let is_ignored = from == root() && here.contains(&name.as_str());
        if is_ignored || anywhere.iter().any(|line| line["**/".len()..] == name) {
            continue;
        }
        let (from, to) = (entry.path(), to.join(&name));
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            copy_sources(&from, &to);
        } else if kind.is_file() {
            fs::copy(&from, &to).unwrap();
            let modified = fs::metadata(&from).unwrap().modified().unwrap();
            fs::File::options().append(true).open(&to).unwrap().set_modified(modified).unwrap();
        }
    }
}

/// Runs a step in a shell: in the profile of the tests, and with their directory for what is compiled.
fn run(rest: &str, stage: &Stage) -> Result<(), String> {
    let is_mount = |word: &&str| word.starts_with("--mount=type=cache,");
    let words: Vec<&str> = rest.split_whitespace().skip_while(is_mount).collect();
    let mut script = words.join(" ").replace(" /", &format!(" {}/", stage.files.display()));
    if cfg!(debug_assertions) {
        script = script.replace(" --release", "").replace("/release/", "/debug/");
    }
    let compiled = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    symlink(compiled, stage.place("target")).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-euc", &script]).current_dir(stage.place("")).env("CARGO_TARGET_DIR", compiled);
    shell.envs(stage.arguments.iter().map(|(name, value)| (name, value)));
    forget_run(&mut shell);
    let _alone = alone();
    done(&mut shell)
}

fn done(command: &mut Command) -> Result<(), String> {
    let Output { status, stderr, .. } = command.stdin(Stdio::null()).output().unwrap();
    let printed = String::from_utf8_lossy(&stderr);
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}: {printed}")) }
}

/// The command that starts a worker of the image, once it is built.
fn worker_of(text: &str, last: &Path) -> Result<Command, String> {
    let image = build(text, last)?;
    let program = image.place(image.entrypoint.first().ok_or("expected an ENTRYPOINT")?);
    let user = image.user.filter(|user| *user != 0).ok_or("expected a USER other than root, by number")?;
    if !program.exists() {
        return Err(format!("the program of ENTRYPOINT is not there: {}", program.display()));
    }
    let mut command = Command::new(program);
    command.args(&image.entrypoint[1..]).args(&image.command);
    // Others cannot become another user.
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(user).gid(user);
    }
    Ok(command)
}

/// The program that builds images here, if its daemon runs.
fn engine() -> Option<&'static str> {
    let answers =
        |engine: &str| Command::new(engine).arg("info").output().is_ok_and(|info| info.status.success());
    ["docker", "podman"].into_iter().find(|engine| answers(engine))
}

#[test]
fn image_is_built_and_its_worker_serves() {
    let server = TestRedis::with(Options { tcp: true, ..Options::default() });
    let containerfile = text("Containerfile");
    let place = directory();
    let mut command = match engine() {
        Some(engine) => {
            let mut build = Command::new(engine);
            succeed(build.args(["build", "-t", "delayed-test", "-f"]).arg(path("Containerfile")).arg(root()));
            let mut run = Command::new(engine);
            run.args(["run", "--rm", "--network=host", "-e", "DELAYED_REDIS_URL", "delayed-test"]);
            run
        }
        None => {
            // Open to the user of the image.
            fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
            for (right, wrong) in [
                ("examples/quickstart", "examples/nothing"),
                ("/image/my_app /usr", "/image/app /usr"),
                ("[\"/usr/local/bin/", "[\"/usr/bin/"),
            ] {
                let text = containerfile.replacen(right, wrong, 1);
                assert_ne!(text, containerfile, "expected {right}");
                let place = place.path().join("wrong");
                let built = worker_of(&text, &place);
                assert!(built.is_err(), "expected nothing to start with {wrong}: {built:?}");
                let _ = fs::remove_dir_all(place);
            }
            worker_of(&containerfile, &place.path().join("image")).unwrap_or_else(|error| panic!("{error}"))
        }
    };
    let mut worker = Program::spawn(command.current_dir("/").env("DELAYED_REDIS_URL", server.tcp_url()));
    worker.wait_for_line("serving");
    worker.signal(Signal::SIGTERM);
    assert!(worker.wait_exit(PATIENCE).success(), "{}", worker.printed());
}
