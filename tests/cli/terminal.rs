//! What does somebody see who sits at a terminal? A question, and how far a long move is.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use redis::Commands;

use super::{DELAYED, Ended, PATIENCE, command};
use crate::support::redis::{TestRedis, snapshot};

/// Runs a program that has a terminal for its questions and answers, where its standard error is too, and answers what it
/// asks. Gives what stood on the terminal as its errors.
fn on_terminal(redis: &TestRedis, words: &[&str], answer: &str) -> Ended {
    let mut terminal = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).unwrap();
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).unwrap();
    let path = ptsname_r(&terminal).unwrap();
    let other =
        OpenOptions::new().read(true).write(true).custom_flags(nix::libc::O_NOCTTY).open(path).unwrap();
    let mut command = command(DELAYED, redis.directory(), words);
    command.env("DELAYED_REDIS_URL", redis.url()).env("TERM", "xterm").env_remove("NO_COLOR");
    command.stdin(other.try_clone().unwrap()).stderr(other).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It has our copies of the terminal's other end, which is to be the program's alone.
    drop(command);
    let (mut shown, mut part, mut answered) = (Vec::new(), [0; 4096], false);
    loop {
        let mut wanted = [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)];
        if poll(&mut wanted, PollTimeout::try_from(PATIENCE).unwrap()).unwrap() == 0 {
            child.kill().unwrap();
            panic!("expected an end, or more than {}", String::from_utf8_lossy(&shown));
        }
        // A terminal that its last user has left can be read no more.
        let Ok(count) = terminal.read(&mut part) else { break };
        shown.extend_from_slice(&part[..count]);
        if shown.ends_with(b"[y/N] ") && !std::mem::replace(&mut answered, true) {
            terminal.write_all(answer.as_bytes()).unwrap();
        }
    }
    let output = child.wait_with_output().unwrap();
    let [out, err] = [output.stdout, shown].map(|bytes| String::from_utf8(bytes).expect("expected UTF-8"));
    Ended { code: output.status.code(), out, err }
}

/// What a program prints on a terminal of so many characters, with these variables.
fn printed(redis: &TestRedis, width: u16, variables: &[(&str, &str)], words: &[&str]) -> String {
    let size = nix::pty::Winsize { ws_row: 24, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = nix::pty::openpty(Some(&size), None).unwrap();
    let mut command = command(DELAYED, redis.directory(), words);
    command.env("DELAYED_REDIS_URL", redis.url()).env("TERM", "xterm").env_remove("NO_COLOR");
    command.envs(variables.iter().copied()).stdout(pty.slave).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(command);
    let (mut terminal, mut shown, mut part) = (std::fs::File::from(pty.master), Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = terminal.read(&mut part) {
        shown.extend_from_slice(&part[..count]);
    }
    child.wait().unwrap();
    String::from_utf8(shown).expect("expected UTF-8").replace("\r\n", "\n")
}

/// A queue of all that tables show.
fn with_all() -> TestRedis {
    let redis = TestRedis::start();
    let path = "a_crate_with_a_long_name::tasks::a_task_with_a_long_name";
    for options in [
        &["--after", "1h"][..],
        &["--with-id"],
        &["--with-id", "--timeout", "30s", "--expires", "1h", "--retry", "3"],
    ] {
        let words =
            [&["enqueue", path, "[\"a text of several words\", 2]", "--queue", "a_long_queue"], options];
        super::on(&redis, DELAYED, &words.concat()).expect(0);
    }
    let mut connection = redis.connection();
    let () = connection.hset("a_long_queue_processing", "4711", b"\x92\xa1f\xc4\x01\x05").unwrap();
    let mut letter = redis::cmd("XADD");
    letter.arg("a_long_queue_dead").arg("1700000000000-0").arg("message").arg(b"\x92\xa1f\xc4\x01\x05");
    letter.arg("reason").arg("failed").arg("detail").arg("it did not come to a good end");
    let () = letter.arg("attempt").arg(3).query(&mut connection).unwrap();
    redis
}

#[test]
fn tables_fit_the_terminal_and_are_whole_in_a_pipe() {
    let redis = with_all();
    let tables: [&[&str]; 6] = [
        &["queues"],
        &["workers"],
        &["peek", "a_long_queue"],
        &["calls", "list"],
        &["dead", "list"],
        &["config"],
    ];
    for words in tables {
        let mut lengths = Vec::new();
        for width in [80, 120] {
            let shown = printed(&redis, width, &[("NO_COLOR", "1")], words);
            let longest = shown.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= usize::from(width), "{words:?} on {width}: {longest}\n{shown}");
            assert!(shown.lines().count() > 1, "{words:?}: {shown}");
            lengths.push(longest);
        }
        let piped = super::on(&redis, DELAYED, words).expect(0);
        assert!(!piped.out.contains('…'), "{words:?}: {}", piped.out);
        assert!(lengths[1] >= lengths[0], "{words:?}: {lengths:?}");
    }
    let shown = printed(&redis, 80, &[], &["peek", "a_long_queue"]);
    assert!(shown.contains('…'), "expected a call to be cut: {shown}");
    let shown = printed(&redis, 120, &[], &["calls", "list"]);
    assert!(shown.contains("in 59m"), "expected a time from now: {shown}");
}

#[test]
fn what_is_bad_is_red_on_a_terminal_that_has_colors() {
    let redis = with_all();
    let red = |text: &str| format!("\u{1b}[31m{text}\u{1b}[0m");
    let queues: &[&str] = &["queues"];
    assert!(printed(&redis, 80, &[], queues).contains(&red("1")), "{}", printed(&redis, 80, &[], queues));
    let () = redis.connection().set("a_long_queue_due", "x").unwrap();
    for (words, text) in [(queues, "1"), (&["doctor"], "PROBLEM"), (&["workers"], "dead")] {
        let shown = printed(&redis, 80, &[], words);
        assert!(shown.contains(&red(text)), "{words:?}: {shown}");
        for plain in [("NO_COLOR", "1"), ("TERM", "dumb")] {
            let shown = printed(&redis, 80, &[plain], words);
            assert!(!shown.contains('\u{1b}'), "{plain:?} {words:?}: {shown}");
        }
        assert!(!super::on(&redis, DELAYED, words).out.contains('\u{1b}'), "{words:?}");
    }
}

fn with_messages(count: usize) -> TestRedis {
    let redis = TestRedis::start();
    let mut connection = redis.connection();
    let () = connection.rpush("q", vec!["\u{7}"; count]).unwrap();
    let () = connection.rpush("q_noti", vec!["1"; count]).unwrap();
    redis
}

/// How many wait, and how many tokens there are.
fn left(redis: &TestRedis) -> (usize, u64) {
    let state = snapshot(&mut redis.connection(), "q");
    (state.waiting.len(), state.tokens)
}

/// What is seen in the end of what was written on lines that are written over.
fn last_seen(shown: &str) -> String {
    let mut line = String::new();
    for part in shown.split_inclusive("\u{1b}[2K") {
        match part.strip_suffix("\u{1b}[2K") {
            Some(_) => line.clear(),
            None => line.push_str(part.trim_start_matches('\r')),
        }
    }
    line
}

#[test]
fn purge_asks_and_does_what_is_answered() {
    let redis = with_messages(5);
    let question = "Drop 5 messages that wait in q, for good? [y/N] ";
    for answer in ["n\n", "\n", "yep\n", "\u{4}"] {
        let ended = on_terminal(&redis, &["purge", "q"], answer).expect(0);
        assert!(ended.err.starts_with(question), "{ended:?}");
        assert_eq!(ended.out, "nothing was dropped\n", "{answer:?}");
        assert_eq!(left(&redis), (5, 5), "expected all to be left after {answer:?}");
    }
    let refused = on_terminal(&redis, &["purge", "q", "--json"], "n\n").says(question).json();
    assert_eq!(
        (refused, left(&redis)),
        (serde_json::json!({ "queue": "q", "dropped": 0, "owned": null }), (5, 5))
    );
    let ended = on_terminal(&redis, &["purge", "q"], "y\n").expect(0).says(question);
    assert_eq!((ended.out.as_str(), left(&redis)), ("dropped 5 messages of q\n", (0, 0)));
    let ended = on_terminal(&redis, &["purge", "q", "--yes"], "").expect(0);
    assert!(!ended.err.contains("[y/N]"), "expected no question: {ended:?}");
}

#[test]
fn cancelling_a_queue_asks_and_does_what_is_answered() {
    let redis = TestRedis::start();
    for _ in 0..2 {
        super::on(&redis, DELAYED, &["enqueue", "a", "[1]", "--queue", "q", "--after", "1h"]).expect(0);
    }
    let words = ["calls", "cancel", "--queue", "q"];
    let question = "Cancel 2 scheduled calls of q, for good? [y/N] ";
    let kept = on_terminal(&redis, &words, "n\n").expect(0).says(question);
    assert_eq!(kept.out, "nothing was cancelled\n");
    on_terminal(&redis, &words, "y\n").expect(0).says(question).says("cancelled 2 calls");
    let asked = on_terminal(&redis, &words, "").expect(0).says("cancelled 0 calls");
    assert!(!asked.err.contains("[y/N]"), "expected no question where there is no call: {asked:?}");
}

#[test]
fn long_purge_shows_progress_and_clears_the_screen() {
    let redis = with_messages(50_000);
    let ended = on_terminal(&redis, &["purge", "q", "--yes"], "").expect(0).says("dropped 2000/50000");
    assert_eq!(ended.out, "dropped 50000 messages of q\n");
    assert_eq!(last_seen(&ended.err), "", "expected the bar to be gone: {ended:?}");
    assert_eq!(left(&redis), (0, 0));
}

#[test]
fn long_requeue_shows_progress_and_clears_the_screen() {
    let redis = TestRedis::start();
    let mut pipe = redis::pipe();
    for n in 1..=1234 {
        pipe.cmd("XADD").arg("q_dead").arg(format!("{n}-0")).arg("message").arg("\u{7}").ignore();
    }
    let () = pipe.query(&mut redis.connection()).unwrap();
    let ended = on_terminal(&redis, &["dead", "requeue", "--all", "--queue", "q"], "")
        .expect(0)
        .says("requeued 100/1234");
    assert_eq!(ended.out, "requeued 1234 dead letters of q\n");
    assert_eq!(last_seen(&ended.err), "", "expected the bar to be gone: {ended:?}");
    assert_eq!(left(&redis), (1234, 1234));
    assert_eq!(snapshot(&mut redis.connection(), "q").dead.len(), 0);
}

/// A shell that has a terminal of its own, as somebody has who sits there, and all that stood on it.
struct Shell {
    terminal: nix::pty::PtyMaster,
    shell: std::process::Child,
    shown: String,
}

impl Shell {
    fn start(redis: &TestRedis) -> Self {
        let terminal = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).unwrap();
        grantpt(&terminal).and_then(|()| unlockpt(&terminal)).unwrap();
        let path = ptsname_r(&terminal).unwrap();
        // It takes the terminal for its own by opening it.
        let script = "exec bash --norc --noprofile -i <\"$0\" >\"$0\" 2>&1";
        let mut command = command("setsid", redis.directory(), &["sh", "-c", script, &path]);
        command.env("DELAYED_REDIS_URL", redis.url()).env("HISTFILE", "").env("NO_COLOR", "1");
        let shell = command.stdout(Stdio::null()).spawn().unwrap();
        Self { terminal, shell, shown: String::new() }
    }

    fn types(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until a text stands there so many times.
    #[track_caller]
    fn shows(&mut self, text: &str, times: usize) {
        let mut part = [0; 4096];
        while self.shown.matches(text).count() < times {
            let mut wanted = [PollFd::new(self.terminal.as_fd(), PollFlags::POLLIN)];
            let ready = poll(&mut wanted, PollTimeout::try_from(PATIENCE).unwrap()).unwrap();
            assert!(ready > 0, "expected {text:?} {times} times: {}", self.shown);
            let count = self.terminal.read(&mut part).unwrap();
            self.shown.push_str(&String::from_utf8_lossy(&part[..count]));
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

#[test]
fn ctrl_z_stops_a_worker_and_fg_lets_it_claim_again() {
    let redis = TestRedis::start();
    let mut shell = Shell::start(&redis);
    let greet = |name: &str| {
        super::on(&redis, super::WORKER, &["enqueue", "report.greet", &format!("[{name:?}]")]).expect(0);
    };
    shell.types(&format!("{} worker --queue reports\n", super::WORKER));
    shell.shows("serving", 1);
    greet("Ann");
    shell.shows("Hello, Ann!", 1);
    for round in 1..=2 {
        shell.types("\u{1a}");
        shell.shows("Stopped", round);
        greet("Bob");
        assert_eq!(shell.shown.matches("Hello, Bob!").count(), round - 1, "expected it to stand still");
        shell.types("fg\n");
        shell.shows("Hello, Bob!", round);
    }
    shell.types("\u{3}");
    shell.shows("stopped worker", 1);
    shell.types("echo code $?\n");
    shell.shows("code 0", 1);
}
