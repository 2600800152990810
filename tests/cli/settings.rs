//! Do settings come from where they should, and does each kind of failure have its code?

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use super::{DELAYED, WORKER, command, ended, on};
use crate::support;
use crate::support::redis::{Options, TestRedis};

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let directory = support::directory();
    let file = "[redis]\nurl = \"redis://:geheim@h:1/2\"\n[worker]\nlease = \"3s\"\nconcurrency = 7\n[dead]\nmax_age = \"1d\"\n";
    std::fs::write(directory.path().join("delayed.toml"), file).unwrap();
    let mut config = command(DELAYED, directory.path(), &["config", "--json", "--log-level", "debug"]);
    config.env("DELAYED_CONCURRENCY", "8").env("DELAYED_QUEUES", "a=2, b=1").env("DELAYED_LOG", "error");
    let config = ended(&mut config).json();
    let of = |key: &str| {
        let setting = config.as_array().unwrap().iter().find(|setting| setting["key"] == key).unwrap();
        (setting["value"].clone(), setting["origin"].as_str().unwrap().to_owned())
    };
    assert_eq!(of("redis.url"), ("redis://:***@h:1/2".into(), "delayed.toml".into()));
    assert_eq!(of("worker.lease"), ("3s".into(), "delayed.toml".into()));
    assert_eq!(of("worker.concurrency"), (8.into(), "DELAYED_CONCURRENCY".into()));
    assert_eq!(of("worker.queues"), (Value::from(vec!["a=2", "b=1"]), "DELAYED_QUEUES".into()));
    assert_eq!(of("log.level"), ("debug".into(), "--log-level".into()));
    let redis_of = |words: &[&str]| {
        let mut config = command(DELAYED, directory.path(), words);
        let config = ended(config.env("DELAYED_REDIS_URL", "redis://environment")).json();
        let setting =
            config.as_array().unwrap().iter().find(|setting| setting["key"] == "redis.url").unwrap();
        setting["value"].as_str().unwrap().to_owned()
    };
    assert_eq!(redis_of(&["config", "--json"]), "redis://environment");
    assert_eq!(redis_of(&["config", "--json", "--redis", "redis://flag"]), "redis://flag");
    assert_eq!(of("dead.max_age"), ("1d".into(), "delayed.toml".into()));
    assert_eq!(of("worker.shutdown"), ("25s".into(), "default".into()));
    let words = ["config", "--redis", "unix:///x?db=1&pass=geheim"];
    let shown =
        ended(&mut command(DELAYED, directory.path(), &words)).expect(0).says("unix:///x?db=1&pass=***");
    assert!(!shown.out.contains("geheim"), "expected no password: {shown:?}");
}

#[test]
fn shown_flags_of_worker_and_sweeper_are_those_they_accept() {
    let directory = support::directory();
    let file = "[worker]\nconcurrency = 7\nlease = \"3s\"\n[sweeper]\ninterval = \"7s\"\nmax_deaths = 7\n";
    std::fs::write(directory.path().join("delayed.toml"), file).unwrap();
    let shown = |variables: &[(&str, &str)], words: &[&str], key: &str| {
        let mut config = command(WORKER, directory.path(), &[&["config", "--json"], words].concat());
        let config = ended(config.envs(variables.iter().copied())).json();
        let setting = config.as_array().unwrap().iter().find(|setting| setting["key"] == key).unwrap();
        format!("{} {}", setting["value"], setting["origin"].as_str().unwrap())
    };
    let variables = [("DELAYED_CONCURRENCY", "8"), ("DELAYED_MAX_DEATHS", "8")];
    let flags = ["--concurrency", "9", "--max-deaths", "9"];
    for (key, variable, flag) in [
        ("worker.concurrency", "DELAYED_CONCURRENCY", "--concurrency"),
        ("sweeper.max_deaths", "DELAYED_MAX_DEATHS", "--max-deaths"),
    ] {
        assert_eq!(shown(&[], &[], key), "7 delayed.toml");
        assert_eq!(shown(&variables, &[], key), format!("8 {variable}"));
        assert_eq!(shown(&variables, &flags, key), format!("9 {flag}"));
    }
    let flags = [
        ["--memory", "1GB"],
        ["--no-sweep", "--keep-finished=500"],
        ["--retry=-1", "--retry-for=2d"],
        ["--children", "3"],
        ["--interval", "9s"],
        ["--queue", "a=2"],
    ]
    .concat();
    for (key, value) in [
        ("worker.limits.memory", r#""1GB" --memory"#),
        ("worker.sweep", "false --no-sweep"),
        ("worker.keep_finished", "500 --keep-finished"),
        ("worker.retry", "-1 --retry"),
        ("worker.retry_for", r#""2d" --retry-for"#),
        ("prefork.children", "3 --children"),
        ("worker.queues", r#"["a=2"] --queue"#),
        ("sweeper.queues", r#"["a"] --queue"#),
        ("worker.prefetch", r#""auto" default"#),
        ("sweeper.interval", r#""9s" --interval"#),
        ("worker.lease", r#""3s" delayed.toml"#),
    ] {
        assert_eq!(shown(&[], &flags, key), value, "{key}");
    }
    for (words, value) in
        [(["--prefetch", "5"], "5 --prefetch"), (["--prefetch", "auto"], r#""auto" --prefetch"#)]
    {
        assert_eq!(shown(&[], &words, "worker.prefetch"), value);
    }
    assert_eq!(shown(&[("DELAYED_PREFETCH", "5")], &[], "worker.prefetch"), "5 DELAYED_PREFETCH");
    let mut config = command(WORKER, directory.path(), &["config", "--concurrency", "0"]);
    ended(&mut config).expect(5).says("0 is not from 1 to 4096 (set by --concurrency)");
}

#[test]
fn with_json_an_error_is_json() {
    let directory = support::directory();
    for (words, code, text) in [
        (&["doctor", "--json", "--redis", "redis://127.0.0.1:1"][..], 3, "Redis cannot be reached"),
        (&["dead", "show", "1-1", "--json", "--redis", "nonsense"], 5, "the address is invalid"),
        (&["peek", "--json"], 2, "required arguments"),
        (&["worker", "--json"], 5, "no task is registered"),
        (&["worker", "--json", "--log-format", "pretty"], 2, "leave out --log-format pretty, or --json"),
        (&["sweeper", "--log-format", "pretty", "--json"], 2, "leave out --log-format pretty, or --json"),
        (&["dev", "--json", "--log-format", "pretty"], 2, "leave out --log-format pretty, or --json"),
        (&["sweeper", "--json", "--redis", "redis://127.0.0.1:1"], 3, "Redis cannot be reached"),
    ] {
        let ended = ended(&mut command(DELAYED, directory.path(), words)).expect(code);
        let told: Value =
            serde_json::from_str(&ended.err).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
        assert_eq!((&told["exit"], ended.out.as_str()), (&code.into(), ""));
        assert!(told["error"].as_str().unwrap().contains(text), "expected {text:?}: {told}");
    }
}

#[test]
fn an_error_does_nothing_to_a_terminal_and_shows_no_password() {
    let directory = support::directory();
    let address = "redis://127.0.0.1:1/\u{1b}[31m\u{7}";
    for (words, code, told) in [
        (&["queues", "--redis", address][..], 5, "127.0.0.1:1/\\u{1b}[31m\\u{7}"),
        (&["peek", "a\u{1b}[31mb\u{7}"], 2, "invalid value 'a\\u{1b}[31mb\\u{7}' for '<QUEUE>'"),
        (&["doctor", "\u{1b}[31m"], 2, "unexpected argument '\\u{1b}[31m' found"),
        (&["worker", "--fa\u{9b}31mst"], 2, "--fa\\u{9b}31mst"),
        (&["queues\u{7}"], 2, "unrecognized subcommand 'queues\\u{7}'"),
        (&["worker", "redis://:geheim@x:1"], 2, "unexpected argument 'redis://:***@x:1' found"),
        (&["redis://ann:geheim@x:1"], 2, "unrecognized subcommand 'redis://ann:***@x:1'"),
        (&["worker", "--reddis=redis://:geheim@x:1"], 2, "unexpected argument '--reddis' found"),
        (&["worker", "--log-format", "redis://x:1?pass=geheim"], 2, "invalid value 'redis://x:1?pass=***'"),
        (&["sweeper", "redis://x:1"], 2, "unexpected argument 'redis://x:1' found"),
    ] {
        let plain = ended(&mut command(DELAYED, directory.path(), words)).expect(code).says(told);
        assert!(!plain.err.chars().any(|c| c.is_control() && c != '\n'), "{plain:?}");
        let json = ended(&mut command(DELAYED, directory.path(), &[words, &["--json"]].concat()));
        let json = json.expect(code).never_says("geheim");
        let error = serde_json::from_str::<Value>(&json.err).unwrap()["error"].as_str().unwrap().to_owned();
        assert!(error.contains(told) && !error.contains('\u{1b}'), "expected {told:?}: {error}");
        plain.never_says("geheim");
    }
    let bad = "[worker]\nlease = \"3s\u{7f}\"\n";
    std::fs::write(directory.path().join("delayed.toml"), bad).unwrap();
    let file = ended(&mut command(DELAYED, directory.path(), &["config"])).expect(5).says("\n2 | lease");
    assert!(!file.err.contains('\u{7f}'), "{file:?}");
}

#[test]
fn a_mistake_in_the_line_of_the_address_shows_no_password() {
    let directory = support::directory();
    for (text, told) in [
        (r#"redis = { url = "redis://:geheim@x:1", timeout = 5 }"#, "line 1, which is not shown"),
        (r#"redis = "redis://ann:geh@eim geheim@x:1""#, "***"),
        (r#"redis = "ann:geheim@x:1""#, "***"),
        (r#"redis.uri = "redis://ann:geheim@x:1""#, "unknown field `uri`"),
        ("# one\nredis.password = \"geheim\"", "line 2, which is not shown"),
        (r#"redis.url = ["unix:///x?pass=a", "unix:///y?pass=geheim"]"#, "invalid type: sequence"),
        ("redis.url = redis://:geheim@x:1", "line 1, which"),
        (r#"redis.url = "redis://:geheim@x:1"#, "line 1, which"),
    ] {
        std::fs::write(directory.path().join("delayed.toml"), text).unwrap();
        for words in [&["config"][..], &["config", "--json"]] {
            let told = ended(&mut command(DELAYED, directory.path(), words)).expect(5).says(told);
            assert!(!told.err.contains("geh") && !told.err.contains("eim"), "{told:?}");
        }
    }
}

#[test]
fn mistakes_in_settings_are_named_with_their_place() {
    let directory = support::directory();
    let run = |words: &[&str]| ended(&mut command(WORKER, directory.path(), words));
    std::fs::write(directory.path().join("bad.toml"), "[worker]\nlaese = \"3s\"\n").unwrap();
    run(&["config", "--config", "bad.toml"]).expect(5).says("bad.toml").says("line 2").says("laese");
    run(&["config", "--config", "none.toml"]).expect(5).says("none.toml cannot be read");
    for (words, told) in [
        (&["enqueue", "f", "--timeout", "0s"][..], "a run needs some time"),
        (&["enqueue", "f", "--expires", "0s"], "a call with no time left is never run"),
        (&["peek", "default", "--count", "0"], "nothing would be shown: use 1 or more"),
        (&["dead", "list", "--count", "0"], "nothing would be shown: use 1 or more"),
    ] {
        run(words).expect(2).says(told);
    }
    let mut none = command(WORKER, directory.path(), &["enqueue", "f"]);
    ended(none.env("DELAYED_MAX_MESSAGE", "0"))
        .expect(5)
        .says("0 would reject every call")
        .says("DELAYED_MAX_MESSAGE");
    run(&["worker", "--concurrency", "0"]).expect(5).says("0 is not from 1 to 4096 (set by --concurrency)");
    let many = ["worker", "--concurrency", "4000", "--prefetch", "97"];
    run(&many).expect(5).says("worker.prefetch: 97 is more than 96");
    run(&["worker", "--prefetch", "many"]).expect(2).says("\"many\" is neither a whole number nor \"auto\"");
    for (text, told) in [("-1", "-1 is less than 0"), ("\"many\"", "neither a whole number nor \"auto\"")] {
        std::fs::write(directory.path().join("bad.toml"), format!("[worker]\nprefetch = {text}\n")).unwrap();
        run(&["config", "--config", "bad.toml"]).expect(5).says(told);
    }
    run(&["worker", "--queue", "a", "--queue", "a"]).expect(5).says("listed twice");
    run(&["worker", "--queue", "a b"]).expect(2).says("without spaces");
    run(&["worker", "--lease", "soon"]).expect(2).says("not a duration");
    run(&["worker", "--isolation", "thread"]).expect(2).says("not one of inline, fork, prefork");
    run(&["worker", "--memory", "1.5GB"]).expect(2).says("not an amount of bytes such as");
    run(&["worker", "--cpu", "1.5s"]).expect(5).says("error: --cpu: 1.5s of CPU time is not whole seconds");
    run(&["worker", "--max-tasks", "NEVER"])
        .expect(5)
        .says("error: --max-tasks: \"NEVER\" is neither a whole number nor \"never\"");
    for many in ["4294967294", "4294967295"] {
        run(&["worker", "--open-files", many]).expect(5).says("is too large").says("(set by --open-files)");
    }
    run(&["worker", "--timeout", "0s"]).expect(5).says("worker.timeout").says("(set by --timeout)");
    run(&["queues", "--redis", "nonsense"]).expect(5).says("the address is invalid");
    run(&["queues", "--log-level", "a=b=c"]).expect(5).says("log.level");
    run(&["queues", "--log-level", "inof"]).expect(5).says("\"inof\" is neither");
    run(&["config", "--log-level", "INFO,delayed=debug,delayed[claim]=trace"]).expect(0);
    run(&["queues", "--redis", "user:secret@h"]).expect(5).says("***@h").never_says("secret");
    run(&["queues", "--redis", "redis://no-such-host.invalid"]).expect(3).says("check that it is running");
    let mut environment = command(DELAYED, directory.path(), &["config"]);
    ended(environment.env("DELAYED_LEASE", "soon")).expect(5).says("error: DELAYED_LEASE: \"soon\"");
}

#[test]
fn each_kind_of_failure_has_its_code() {
    let directory = support::directory();
    let run = |words: &[&str]| ended(&mut command(DELAYED, directory.path(), words));
    run(&["nonsense"]).expect(2);
    run(&[]).expect(2).says("Usage: delayed");
    run(&["queues", "--redis", "unix:///nowhere/redis.sock"]).expect(3).says("Redis cannot be reached");
    run(&["--help"]).expect(0).says("3  Redis cannot be reached");
    run(&["dead", "requeue", "--help"]).expect(0).says("delayed dead requeue --task");
    let locked = TestRedis::with(Options { password: Some("geheim"), ..Options::default() });
    let url = format!("unix://{}", locked.socket().display());
    run(&["queues", "--redis", &url])
        .expect(4)
        .says("Redis rejected the connection: put the user and password");
    let wrong =
        format!("Redis at {} rejected the password (of the user `default`)", locked.socket().display());
    run(&["queues", "--redis", &format!("{url}?pass=falsch")]).expect(4).says(&wrong).never_says("falsch");
    run(&["queues", "--redis", &format!("{url}?user=ann&pass=falsch")])
        .expect(4)
        .says("rejected the user `ann`, or the password: check `redis.url`")
        .never_says("falsch");
    run(&["queues", "--redis", "redis://:fal#sch@h"])
        .expect(5)
        .says("must be percent-encoded: write # as %23: ")
        .never_says("sch@");
    run(&["queues", "--redis", "redis://:fal/sch@h"]).expect(5).says("write / as %2F: ").never_says("sch@");
    run(&["queues", "--redis", &format!("{url}?pass=geheim")]).expect(0);
    run(&["queues", "--redis", &format!("{url}?pass=geheim&db=99")]).expect(5).says("use a lower number");
    let few = TestRedis::start();
    let mut other = few.connection();
    redis::cmd("CONFIG").arg("SET").arg("maxclients").arg(1).exec(&mut other).unwrap();
    for words in [&["queues"][..], &["sweeper"]] {
        on(&few, DELAYED, words).expect(3).says("raise its `maxclients`").says("max number of clients");
    }
    let mut narrow =
        command("/bin/sh", directory.path(), &["-c", r#"ulimit -n 8; exec "$0" queues"#, DELAYED]);
    ended(&mut narrow).expect(5).says("may open only 8 files");
    let full = TestRedis::with(Options { max_memory: Some(1), ..Options::default() });
    on(&full, DELAYED, &["enqueue", "f"]).expect(4).says("Redis is full");
}

#[test]
fn completions_know_the_programs_name_and_its_commands() {
    let directory = support::directory();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = ended(&mut command(WORKER, directory.path(), &["completions", shell])).expect(0);
        assert!(script.out.contains("delayed-test-worker") && script.out.contains("sweeper"), "{shell}");
        let json = ended(&mut command(WORKER, directory.path(), &["completions", shell, "--json"])).json();
        let text = json["script"].as_str().unwrap();
        assert!(json["shell"] == shell && text.trim_end() == script.out.trim_end(), "{shell}");
    }
}

#[test]
fn man_writes_a_page_for_each_command() {
    let directory = support::directory();
    let page = ended(&mut command(WORKER, directory.path(), &["man"])).expect(0).out;
    assert!(page.contains(".TH delayed-test-worker 1") && page.contains("sweeper"), "{page}");
    let json = ended(&mut command(WORKER, directory.path(), &["man", "--json"])).json();
    assert_eq!(json["page"].as_str().unwrap().trim_end(), page.trim_end());
    let told = ended(&mut command(WORKER, directory.path(), &["man", "a/man1", "--json"])).json();
    let pages = told["pages"].as_array().unwrap();
    for name in ["delayed-test-worker.1", "delayed-test-worker-worker.1", "delayed-test-worker-dead-list.1"] {
        assert!(pages.contains(&name.into()), "expected {name}: {told}");
    }
    for name in pages {
        let page =
            std::fs::read_to_string(directory.path().join("a/man1").join(name.as_str().unwrap())).unwrap();
        let title = name.as_str().unwrap().strip_suffix(".1").unwrap();
        assert!(
            page.contains(&format!(".TH {title} 1")) && page.contains(".SH DESCRIPTION"),
            "{name}: {page}"
        );
        assert!(!page.contains("{program}"), "expected the program's name in {name}");
    }
    std::fs::write(directory.path().join("file"), "").unwrap();
    ended(&mut command(WORKER, directory.path(), &["man", "file"])).expect(1).says("cannot write file");
}

#[test]
fn completions_are_refused_to_a_name_that_no_script_can_have() {
    let directory = support::directory();
    let complete = |name: &str| {
        let path = directory.path().join(name);
        std::os::unix::fs::symlink(DELAYED, &path).unwrap();
        ended(&mut command(path.to_str().unwrap(), directory.path(), &["completions", "bash"]))
    };
    for name in ["my app", "a__subcmd__b", "a-_subcmd", "a'b", "a\"b", "a;b", "a$b", "-a", "a=b"] {
        complete(name).expect(1).says(&format!("the program's name {name:?} cannot be used"));
    }
    for name in ["my.app", "g++", "prüfer", "my__app", "1-2_3"] {
        let script = complete(name).expect(0).out;
        // In a file: an argument has at most 128 KiB.
        let file = directory.path().join("script");
        std::fs::write(&file, &script).unwrap();
        let read = std::process::Command::new("bash").arg("-n").arg(&file).status().unwrap();
        assert!(read.success() && script.contains(name), "expected bash to read it: {script}");
    }
}

#[test]
fn bash_completes_the_words_of_each_command() {
    let directory = support::directory();
    let complete = |line: &[&str]| {
        let script = r#"
            source <("$PROGRAM" completions bash)
            how=$(complete -p "$1") how=${how#*-F }
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
            "${how%% *}" "$1" "${!#}" "${@: -2:1}"
            echo "${COMPREPLY[@]}"
        "#;
        let mut bash = command("bash", directory.path(), &["-c", script, "bash"]);
        let done = ended(bash.args(line).env("PROGRAM", WORKER)).expect(0);
        assert_eq!(done.err, "", "of {line:?}");
        done.out.trim().to_owned()
    };
    let name = Path::new(WORKER).file_name().unwrap().to_str().unwrap();
    assert!(name.contains('-'), "expected a name like that of most programs");
    assert_eq!(complete(&[name, "swe"]), "sweeper");
    assert_eq!(complete(&[name, "worker", "--conc"]), "--concurrency");
    assert_eq!(complete(&[name, "dead", "req"]), "requeue");
    assert_eq!(complete(&[name, "dead", "requeue", "--ta"]), "--task");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let directory = support::directory();
    let mut child = command(WORKER, directory.path(), &["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn version_is_that_of_the_program_and_of_the_library() {
    let directory = support::directory();
    let ours = env!("CARGO_PKG_VERSION");
    let of = |program: &str| ended(&mut command(program, directory.path(), &["--version"])).expect(0).out;
    assert_eq!(of(DELAYED), format!("delayed {ours}\n"));
    assert_eq!(of(super::WORKER), format!("delayed-test-worker 7.8.9 (delayed {ours})\n"));
}
