//! The permissions that `acl` prints let each role do all of its work, and nothing else.

mod other_roles;
mod producers;
mod refused;
mod table;
mod tools;

use std::process::Output;

use delayed::Client;
use redis::Connection;
use tokio::runtime::Runtime;

use crate::support::process::DELAYED;
use crate::support::redis::Options;
use crate::support::trial::{Trial, WORKER};

/// The SHA-256 of `word`.
const HASH: &str = "98c1eb4ee93476743763878fcb96a25fbc9a175074d64004779ecb5242f645e6";
/// The queues that users may reach.
const QUEUES: [&str; 4] = ["--queue", "q", "--queue", "other"];

/// A Redis with users that have the permissions of their roles.
struct Site {
    trial: Trial,
    runtime: Runtime,
}

impl Site {
    fn new() -> Self {
        // `doctor` asks for settings of a server that keeps nothing, and these contain passwords.
        let mut trial = Trial::with(Options { append_only: true, ..Options::default() });
        let () = redis::cmd("ACL").arg(&["LOG", "RESET"]).query(&mut trial.redis).unwrap();
        Self { trial, runtime: Runtime::new().unwrap() }
    }

    /// Makes a user of this role for these queues: the address with it.
    fn user(&mut self, role: &str, words: &[&str]) -> String {
        self.try_user(role, words).unwrap()
    }

    fn try_user(&mut self, role: &str, words: &[&str]) -> Result<String, String> {
        let words = [&["acl", "--role", role, "--password-hash", HASH], words].concat();
        let output = self.run("unix:///nowhere", DELAYED, &words);
        let line = String::from_utf8(output.stdout).unwrap();
        let mut command = redis::cmd("ACL");
        command.arg("SETUSER").arg(line.split_whitespace().skip(1).collect::<Vec<_>>());
        let made = command.query::<()>(&mut self.trial.redis).map_err(|error| error.to_string());
        made.map(|()| format!("{}?user={role}&pass=word", self.trial.server.url()))
    }

    fn client(&self, url: &str) -> Client {
        self.runtime.block_on(Client::connect(url)).unwrap()
    }

    /// Runs a command to its end, which is expected to be a good one.
    #[track_caller]
    fn run(&self, url: &str, program: &str, words: &[&str]) -> Output {
        let output = self.try_run(url, program, words);
        assert!(output.status.success(), "{words:?}: {}", text(&output));
        output
    }

    fn try_run(&self, url: &str, program: &str, words: &[&str]) -> Output {
        self.trial.command(program).args(words).args(["--redis", url]).output().unwrap()
    }

    /// Runs commands of a program that has tasks.
    #[track_caller]
    fn run_all(&self, url: &str, lines: &[&str]) {
        for line in lines {
            self.run(url, WORKER, &line.split(' ').collect::<Vec<_>>());
        }
    }

    /// What was refused: who asked for what. Not that a connection named the library that it is of, for which Redis 7.0 knows
    /// no permission: Redis 6 logs that as `client`.
    fn refused(&mut self) -> Vec<String> {
        let log: Vec<redis::Value> =
            redis::cmd("ACL").arg(&["LOG", "128"]).query(&mut self.trial.redis).unwrap();
        let entry = |entry: redis::Value| {
            let fields: std::collections::BTreeMap<String, redis::Value> =
                redis::from_redis_value(entry).unwrap();
            let field = |name: &str| redis::from_redis_value::<String>(fields[name].clone()).unwrap();
            format!("{} {} {} {}", field("username"), field("context"), field("reason"), field("object"))
        };
        let log = log.into_iter().map(entry);
        log.filter(|entry| !entry.ends_with(" client|setinfo") && !entry.ends_with(" client")).collect()
    }

    #[track_caller]
    fn assert_nothing_refused(&mut self) {
        assert_eq!(self.refused(), Vec::<String>::new());
    }
}

/// A connection of a user.
fn connect(url: &str) -> Connection {
    redis::Client::open(url).unwrap().get_connection().unwrap()
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}
