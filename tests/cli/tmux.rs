//! A real terminal.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{DELAYED, PATIENCE, command};
use crate::support::redis::TestRedis;
use crate::support::wait;

/// A terminal that runs one command, and then shows its exit code.
pub(super) struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    pub(super) fn start(redis: &TestRedis, size: (u16, u16), words: &str) -> Self {
        Self::at(redis.directory(), &redis.url(), size, words)
    }

    /// The same for the Redis at an address.
    pub(super) fn at(directory: &Path, url: &str, (width, height): (u16, u16), words: &str) -> Self {
        // A server that ends may still hold the socket when the next one starts.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let tmux = Self { socket: directory.join(format!("tmux{number}.sock")) };
        let size = [width, height].map(|number| number.to_string());
        // Ctrl-C is sent to the shell too.
        let script = format!("trap : INT; {DELAYED} {words}; echo \"exit code $?\"; exec cat");
        let mut start = command("tmux", directory, &["-f", "/dev/null", "-S"]);
        start.arg(&tmux.socket).args([
            "new-session",
            "-d",
            "-x",
            &size[0],
            "-y",
            &size[1],
            "sh",
            "-c",
            &script,
        ]);
        start.args([";", "set", "-g", "status", "off"]);
        start.env("DELAYED_REDIS_URL", url).env("LC_ALL", "C.UTF-8").env_remove("TMUX");
        assert!(start.status().expect("tmux is installed").success());
        tmux
    }

    pub(super) fn tell(&self, words: &[&str]) -> String {
        let output = Command::new("tmux").arg("-S").arg(&self.socket).args(words).output().unwrap();
        String::from_utf8(output.stdout).expect("expected UTF-8")
    }

    pub(super) fn screen(&self) -> String {
        self.tell(&["capture-pane", "-p"])
    }

    /// Waits until the screen is as it must be.
    pub(super) fn wait(&self, what: &str, is_right: impl Fn(&str) -> bool) -> String {
        wait::until_ok(PATIENCE, || {
            let screen = self.screen();
            if is_right(&screen) { Ok(screen) } else { Err(format!("expected {what} in\n{screen}")) }
        })
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.tell(&["kill-server"]);
    }
}
