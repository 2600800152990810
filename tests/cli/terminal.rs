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
    assert_eq!((refused, left(&redis)), (serde_json::json!({ "queue": "q", "dropped": 0 }), (5, 5)));
    let ended = on_terminal(&redis, &["purge", "q"], "y\n").expect(0).says(question);
    assert_eq!((ended.out.as_str(), left(&redis)), ("dropped 5 messages of q\n", (0, 0)));
    let ended = on_terminal(&redis, &["purge", "q", "--yes"], "").expect(0);
    assert!(!ended.err.contains("[y/N]"), "expected no question: {ended:?}");
}

#[test]
fn a_long_purge_shows_how_far_it_is_and_leaves_nothing_on_the_screen() {
    let redis = with_messages(50_000);
    let ended = on_terminal(&redis, &["purge", "q", "--yes"], "").expect(0).says("dropped 2000/50000");
    assert_eq!(ended.out, "dropped 50000 messages of q\n");
    assert_eq!(last_seen(&ended.err), "", "expected the bar to be gone: {ended:?}");
    assert_eq!(left(&redis), (0, 0));
}

#[test]
fn a_long_requeue_shows_how_far_it_is_and_leaves_nothing_on_the_screen() {
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
