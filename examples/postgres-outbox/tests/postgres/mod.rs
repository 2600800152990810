//! A PostgreSQL of one test's own: on a private Unix socket, in a temporary directory.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::unistd::{Uid, User, chown};

/// How long it may take to start on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);
/// Becomes the server. A process beside it ends the server when our end of the pipe closes: when this is dropped, or killed.
const SCRIPT: &str = r#"exec 3<&0 </dev/null
(read -r _ <&3; kill -QUIT "$$") >/dev/null 2>&1 &
exec 3<&-
exec "$@""#;

pub struct Postgres {
    directory: tempfile::TempDir,
    child: Child,
}

impl Postgres {
    /// Starts a server; it accepts connections when this returns.
    pub fn start() -> Self {
        let directory = tempfile::Builder::new().prefix("delayed-").tempdir_in("/tmp").unwrap();
        let (place, programs) = (directory.path(), programs());
        let data = place.join("data");
        // The server refuses to run as root.
        let user = Uid::effective().is_root().then(|| {
            User::from_name("postgres").unwrap().expect("the user `postgres`, which the package creates")
        });
        if let Some(user) = &user {
            chown(place, Some(user.uid), Some(user.gid)).unwrap();
        }
        let command = |program: &Path| {
            let mut command = Command::new(program);
            if let Some(user) = &user {
                command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
            }
            command.current_dir(place);
            command
        };

        let mut initdb = command(&programs.join("initdb"));
        initdb
            .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"])
            .arg(&data);
        let output = initdb.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

        let log = place.join("log");
        let mut server = command(Path::new("/bin/sh"));
        server
            .args(["-c", SCRIPT, "sh"])
            .arg(programs.join("postgres"))
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(place);
        server.args(["-c", "listen_addresses=", "-c", "fsync=off"]);
        server.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
        let mut child = server.spawn().unwrap();

        // It writes this line when it is ready.
        let is_ready = || {
            let status = std::fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
            status.lines().nth(7).is_some_and(|line| line.trim() == "ready")
        };
        let end = Instant::now() + PATIENCE;
        while !is_ready() {
            let ended = child.try_wait().unwrap();
            if ended.is_some() || Instant::now() > end {
                let _ = child.kill();
                panic!("PostgreSQL did not start:\n{}", std::fs::read_to_string(&log).unwrap());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { directory, child }
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@localhost/postgres?host={}", self.directory.path().display())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Where `initdb` and `postgres` are: on the `PATH`, or the newest of those that Debian keeps apart.
fn programs() -> PathBuf {
    let version =
        |directory: &PathBuf| -> Option<u32> { directory.parent()?.file_name()?.to_str()?.parse().ok() };
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = debian.map(|entry| entry.path().join("bin")).max_by_key(version);
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(debian)
        .find(|directory| directory.join("initdb").exists() && directory.join("postgres").exists())
        .expect("PostgreSQL: run scripts/install --examples")
}
