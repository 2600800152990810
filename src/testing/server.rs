//! Starts a private `redis-server`, and ends it however the test ends.

use std::fs::DirBuilder;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Names another program than `redis-server` or `valkey-server`.
const PROGRAM: &str = "DELAYED_TEST_SERVER";
const SOCKET: &str = "redis.sock";
const LOG: &str = "redis.log";
/// How long a server may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const CHECK_EVERY: Duration = Duration::from_millis(1);
/// The longest path of a directory in which the path of a socket is short enough on every system.
const LONGEST_DIRECTORY: usize = 60;
/// Becomes the server. A process beside it ends the server and removes its directory when our end of the pipe closes without
/// a word: when we are killed, or exit without dropping the server, as a `static` does.
const SCRIPT: &str = r#"directory=$1
shift
exec 3<&0 </dev/null
(read -r _ <&3 || { kill -9 "$$"; cd / && rm -rf -- "$directory"; }) >/dev/null 2>&1 &
exec 3<&- >/dev/null 2>&1
exec "$@""#;

/// A running server in a directory of its own; both are gone when it is dropped.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    directory: PathBuf,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error(
        "neither redis-server nor valkey-server is on the PATH: install Redis 6.2 or newer (apt-get install redis-server, \
         brew install redis), or name a program in {PROGRAM}"
    )]
    Missing,
    #[error("{PROGRAM} is {0:?}, which is not a program")]
    NoProgram(PathBuf),
    #[error("no directory for the server can be created in {1}: {0}")]
    Directory(#[source] io::Error, PathBuf),
    #[error("{1} cannot be started: {0}")]
    Spawn(#[source] io::Error, PathBuf),
    #[error("{program} does not start; its log ends with: {last}")]
    Ended { program: PathBuf, last: String },
}

impl Server {
    /// Starts a server on a Unix socket that keeps nothing. It is ready when this returns.
    pub(super) fn start() -> Result<Self, StartError> {
        let program = program()?;
        let directory = make_directory()?;
        let child = match spawn(&program, &directory) {
            Ok(child) => child,
            Err(error) => {
                let _ = std::fs::remove_dir_all(&directory);
                return Err(StartError::Spawn(error, program));
            }
        };
        let mut server = Self { child, directory };
        server.wait_until_ready(program)?;
        Ok(server)
    }

    /// The path of its socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.directory.join(SOCKET)
    }

    fn wait_until_ready(&mut self, program: PathBuf) -> Result<(), StartError> {
        let end = Instant::now() + PATIENCE;
        while !answers(&self.socket()) {
            let has_ended = self.child.try_wait().is_ok_and(|status| status.is_some());
            if has_ended || Instant::now() > end {
                let log = std::fs::read_to_string(self.directory.join(LOG)).unwrap_or_default();
                let last = log.lines().last().unwrap_or("(it is empty)").to_owned();
                return Err(StartError::Ended { program, last });
            }
            thread::sleep(CHECK_EVERY);
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(mut pipe) = self.child.stdin.take() {
            // The process beside the server has nothing left to do.
            let _ = pipe.write_all(b"gone\n");
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn program() -> Result<PathBuf, StartError> {
    if let Some(named) = std::env::var_os(PROGRAM) {
        return find(Path::new(&named)).ok_or_else(|| StartError::NoProgram(named.into()));
    }
    ["redis-server", "valkey-server"].iter().find_map(|name| find(Path::new(name))).ok_or(StartError::Missing)
}

/// The program of that name on the `PATH`, or at that path.
fn find(name: &Path) -> Option<PathBuf> {
    let is_program = |file: &PathBuf| {
        file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if name.components().count() > 1 {
        return std::path::absolute(name).ok().filter(is_program);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|file| file.is_absolute() && is_program(file))
}

/// A new directory for us alone, in which the path of a socket is short enough.
fn make_directory() -> Result<PathBuf, StartError> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let place = std::env::temp_dir();
    let place = if is_plain(&place) { place } else { "/tmp".into() };
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = place.join(format!("delayed-test-{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => return Ok(directory),
            // Left by a process that had our number before.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(StartError::Directory(error, place)),
        }
    }
}

/// Whether the path of a socket in a directory of this one is short enough, and stands in an address as it is.
fn is_plain(place: &Path) -> bool {
    let bytes = place.as_os_str().as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(byte);
    bytes.len() <= LONGEST_DIRECTORY && bytes.iter().all(is_plain)
}

fn spawn(program: &Path, directory: &Path) -> io::Result<Child> {
    // Names of files are relative to the directory.
    Command::new("sh")
        .args(["-c", SCRIPT, "delayed-test"])
        .arg(directory)
        .arg(program)
        .args(["--port", "0", "--unixsocket", SOCKET, "--unixsocketperm", "700", "--dir", "."])
        .args(["--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", LOG])
        .current_dir(directory)
        .stdin(Stdio::piped())
        // A Ctrl-C in the terminal is for the test: its end ends the server.
        .process_group(0)
        .spawn()
}

/// Whether a server answers there.
fn answers(socket: &Path) -> bool {
    let ask = || -> io::Result<bool> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"PING\r\n")?;
        let mut reply = [0; 5];
        stream.read_exact(&mut reply)?;
        Ok(reply == *b"+PONG")
    };
    ask().unwrap_or(false)
}
