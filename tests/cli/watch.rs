//! Does `--watch` repeat a command: in a pipe, and in place on a real terminal?

use nix::sys::signal::Signal;
use serde_json::Value;

use super::tmux::Tmux;
use super::{DELAYED, PATIENCE, command};
use crate::support::process::Program;
use crate::support::redis::{Options, TestRedis};

/// What can be watched.
const WATCHED: [&[&str]; 4] = [&["queues"], &["workers"], &["calls", "list"], &["dead", "list"]];

fn watch(redis: &TestRedis, words: &[&str]) -> Program {
    let mut command = command(DELAYED, redis.directory(), words);
    Program::spawn(command.env("DELAYED_REDIS_URL", redis.url()))
}

#[test]
fn in_a_pipe_each_output_follows_the_time() {
    let redis = TestRedis::start();
    for words in WATCHED {
        let mut told = watch(&redis, &[words, &["--watch=50ms"]].concat());
        told.wait_for_lines(", every 50ms", 3);
        told.signal(Signal::SIGINT);
        assert!(told.wait_exit(PATIENCE).success(), "{words:?}: {}", told.printed());
        assert!(!told.printed().contains('\u{1b}'), "{words:?}: {}", told.printed());
        let mut json = watch(&redis, &[words, &["--watch=50ms", "--json"]].concat());
        for line in json.wait_for_lines("[", 3) {
            serde_json::from_str::<Value>(&line).unwrap_or_else(|error| panic!("{words:?}: {error}: {line}"));
        }
        json.signal(Signal::SIGINT);
        assert!(json.wait_exit(PATIENCE).success(), "{words:?}: {}", json.printed());
    }
    let mut doctor = watch(&redis, &["doctor", "--watch=50ms"]);
    doctor.wait_for_line("eviction");
    doctor.signal(Signal::SIGINT);
    assert!(doctor.wait_exit(PATIENCE).success(), "{}", doctor.printed());
}

#[test]
fn watching_outlives_redis_and_shows_what_comes() {
    let mut redis = TestRedis::with(Options { append_only: true, ..Options::default() });
    let told = watch(&redis, &["queues", "--watch=50ms"]);
    let json = watch(&redis, &["queues", "--watch=50ms", "--json"]);
    told.wait_for_line("there are no queues");
    redis.kill();
    told.wait_for_line("error: ");
    let away: Value = serde_json::from_str(&json.wait_for_line("\"error\"")).unwrap();
    assert_eq!(away["exit"], 3, "{away}");
    redis.restart();
    super::on(&redis, DELAYED, &["enqueue", "my::task", "[]", "--queue", "mail"]).expect(0);
    told.wait_for_line("mail ");
    json.wait_for_line("\"mail\"");
}

#[test]
fn a_terminal_is_redrawn_in_place() {
    for size in [(80, 24), (200, 50)] {
        let mut redis = TestRedis::with(Options { append_only: true, ..Options::default() });
        let tmux = Tmux::start(&redis, size, "queues --watch=100ms");
        tmux.wait("no queues", |screen| screen.contains("there are no queues"));
        super::on(&redis, DELAYED, &["enqueue", "my::task", "[]", "--queue", "mail"]).expect(0);
        let screen = tmux.wait("mail", |screen| screen.contains("\nmail "));
        assert_eq!(screen.matches(", every 100ms").count(), 1, "{screen}");
        assert!(!screen.contains("there are no queues"), "{screen}");
        redis.kill();
        let away = |screen: &str| screen.contains("error: ") && screen.contains("\nmail ");
        tmux.wait("an error above the last figures", away);
        redis.restart();
        tmux.wait("figures without an error", |screen| {
            !screen.contains("error: ") && screen.contains("mail ")
        });
        tmux.tell(&["send-keys", "C-c"]);
        tmux.wait("success", |screen| screen.contains("exit code 0"));
    }
}

#[test]
fn what_does_not_fit_a_terminal_is_counted() {
    let redis = TestRedis::start();
    for number in 0..30 {
        let queue = format!("queue{number}");
        super::on(&redis, DELAYED, &["enqueue", "my::task", "[]", "--queue", &queue]).expect(0);
    }
    let tmux = Tmux::start(&redis, (80, 24), "queues --watch=100ms");
    let screen = tmux.wait("a count", |screen| screen.contains("… 9 more lines"));
    assert!(screen.starts_with("--- "), "{screen}");
    tmux.tell(&["resize-window", "-x", "120", "-y", "40"]);
    tmux.wait("all queues", |screen| !screen.contains("more lines") && screen.contains("queue9 "));
    tmux.tell(&["send-keys", "C-c"]);
    tmux.wait("success", |screen| screen.contains("exit code 0"));
}

#[test]
fn hostile_texts_do_nothing_to_a_watched_terminal() {
    let redis = TestRedis::start();
    super::on(&redis, DELAYED, &["enqueue", "my::task", "[]", "--queue", "mail"]).expect(0);
    let mut letter = redis::cmd("XADD");
    letter
        .arg("mail_dead")
        .arg("1700000000000-0")
        .arg("message")
        .arg(b"\x92\xa1f\xc4\x01\x05")
        .arg("attempt")
        .arg(3);
    letter.arg("reason").arg("failed").arg("detail").arg("a\u{1b}]0;stolen\u{7}\u{1b}[2Jb");
    let () = letter.query(&mut redis.connection()).unwrap();
    let tmux = Tmux::start(&redis, (200, 50), "dead list --watch=100ms");
    tmux.wait("the detail, written out", |screen| screen.contains("a\\u{1b}]0;stolen\\u{7}\\u{1b}[2Jb"));
    assert_ne!(tmux.tell(&["display-message", "-p", "#{pane_title}"]).trim(), "stolen");
}
