//! Does `top` show what is there in a real terminal, and do what its keys say?

use redis::{Commands, Connection};

use super::tmux::Tmux;
use super::{DELAYED, PATIENCE, WORKER, command, on};
use crate::support::cluster::TestCluster;
use crate::support::process::Program;
use crate::support::redis::{Options, TestRedis};
use crate::support::wait;

fn bury(redis: &mut Connection, detail: &str) {
    let mut letter = redis::cmd("XADD");
    letter.arg("mail_dead").arg("*").arg("message").arg(b"\x92\xa9mail.send\xc4\x01\x05");
    let _: String = letter.arg(&["attempt", "3", "reason", "failed", "detail", detail]).query(redis).unwrap();
}

/// Presses keys, one after the other.
fn press(tmux: &Tmux, keys: &[&str]) {
    for key in keys {
        tmux.tell(&["send-keys", key]);
    }
}

#[test]
fn keys_do_what_the_commands_do() {
    for size in [(80, 24), (200, 50)] {
        let server = TestRedis::with(Options { append_only: true, ..Options::default() });
        let mut redis = server.connection();
        let gate = server.directory().join("gate");
        let arguments = serde_json::json!(["one", gate]).to_string();
        on(&server, DELAYED, &["enqueue", "my::task", "[]", "--queue", "mail"]).expect(0);
        bury(&mut redis, "no such customer");
        let mut start = command(WORKER, server.directory(), &["worker", "--queue", "q", "--lease", "2s"]);
        start.env("DELAYED_REDIS_URL", server.url()).env("LEDGER", server.directory().join("ledger"));
        let worker = Program::spawn(&mut start);
        worker.wait_for_line("serving");
        on(&server, WORKER, &["enqueue", "trial.gated", &arguments, "--queue", "q"]).expect(0);

        let tmux = Tmux::start(&server, size, "top --pause 100ms");
        let screen = tmux.wait("queues and totals", |screen| {
            screen.contains("1 waiting  1 running")
                && screen.contains("1 dead  1 workers")
                && screen.contains("mail")
        });
        assert!(screen.contains("succeeded: ") && screen.contains("? keys"), "{screen}");
        press(&tmux, &["?"]);
        tmux.wait("help", |screen| screen.contains("pause or resume the queue"));
        press(&tmux, &["x", "p"]);
        tmux.wait("a question", |screen| screen.contains("Pause mail? [y/N]"));
        press(&tmux, &["n"]);
        tmux.wait("a refusal", |screen| screen.contains("not done"));
        assert!(!redis.exists::<_, bool>("mail_paused").unwrap());
        press(&tmux, &["p", "y"]);
        tmux.wait("the pause", |screen| screen.contains("(paused)") && screen.contains("paused mail"));
        assert!(redis.exists::<_, bool>("mail_paused").unwrap());

        press(&tmux, &["2"]);
        tmux.wait("the worker", |screen| screen.contains("alive") && screen.contains("1 of "));
        press(&tmux, &["3"]);
        tmux.wait("the run", |screen| screen.contains("trial.gated"));
        press(&tmux, &["K", "y"]);
        wait::until("the run to be killed", PATIENCE, || redis.xlen_of("q_dead") == 1);

        press(&tmux, &["4"]);
        tmux.wait("both dead letters", |screen| screen.contains("mail.send(5)") && screen.contains("killed"));
        press(&tmux, &["/", "m", "a", "i", "l", "Enter"]);
        tmux.wait("one of them", |screen| screen.contains("mail.send(5)") && !screen.contains("trial.gated"));
        press(&tmux, &["Enter"]);
        tmux.wait("its error", |screen| screen.contains("error     no such customer"));
        press(&tmux, &["x", "r", "y"]);
        wait::until("it to be requeued", PATIENCE, || redis.llen::<_, u64>("mail").unwrap() == 2);
        tmux.wait("what was done", |screen| screen.contains("requeued "));
        press(&tmux, &["q"]);
        tmux.wait("success", |screen| screen.contains("exit code 0"));
    }
}

/// What the client of this version has no method for.
trait Streams {
    fn xlen_of(&mut self, key: &str) -> u64;
}

impl Streams for Connection {
    fn xlen_of(&mut self, key: &str) -> u64 {
        redis::cmd("XLEN").arg(key).query(self).unwrap()
    }
}

#[test]
fn last_figures_stay_while_redis_is_away() {
    let mut server = TestRedis::with(Options { append_only: true, ..Options::default() });
    on(&server, DELAYED, &["enqueue", "my::task", "[]", "--queue", "mail"]).expect(0);
    let tmux = Tmux::start(&server, (80, 24), "top --pause 100ms");
    tmux.wait("mail", |screen| screen.contains("1 waiting") && screen.contains("mail"));
    server.kill();
    tmux.wait("what is wrong", |screen| !screen.contains("1 waiting") && screen.contains("mail"));
    server.restart();
    tmux.wait("the totals again", |screen| screen.contains("1 waiting"));
    tmux.tell(&["resize-window", "-x", "120", "-y", "40"]);
    tmux.wait("a larger screen", |screen| screen.lines().count() > 30 && screen.contains("mail"));
    press(&tmux, &["C-c"]);
    tmux.wait("success", |screen| screen.contains("exit code 0"));
}

#[test]
fn all_shards_of_a_cluster_are_shown() {
    let cluster = TestCluster::start(2, 0);
    let directory = crate::support::directory();
    let queues = [0, 1].map(|node| cluster.queue_on(node, "mail"));
    for queue in &queues {
        let mut enqueue =
            command(DELAYED, directory.path(), &["enqueue", "mail.send", "[5]", "--queue", queue]);
        let told = enqueue.env("DELAYED_REDIS_URL", cluster.url()).output().unwrap();
        assert!(told.status.success(), "{told:?}");
    }
    for (words, total) in [("top --pause 100ms", "2 waiting"), ("queues --watch=100ms", "")] {
        let tmux = Tmux::at(directory.path(), &cluster.url(), (80, 24), words);
        tmux.wait("the queues of both", |screen| {
            screen.contains(total) && queues.iter().all(|queue| screen.contains(queue))
        });
    }
}

#[test]
fn hostile_texts_do_nothing_to_the_terminal() {
    let server = TestRedis::start();
    bury(&mut server.connection(), "a\u{1b}]0;stolen\u{7}\u{1b}[2Jb");
    let tmux = Tmux::start(&server, (200, 50), "top --pause 100ms");
    tmux.wait("the queue", |screen| screen.contains("1 dead"));
    press(&tmux, &["4"]);
    tmux.wait("the text, written out", |screen| screen.contains("a\\u{1b}]0;stolen\\u{7}\\u{1b}[2Jb"));
    assert_ne!(tmux.tell(&["display-message", "-p", "#{pane_title}"]).trim(), "stolen");
}

#[test]
fn without_a_terminal_it_names_what_prints_lines() {
    let server = TestRedis::start();
    on(&server, DELAYED, &["top"]).expect(2).says("`queues --watch` prints lines");
}
