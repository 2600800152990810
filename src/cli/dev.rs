//! Where does `--redis dev` lead? To a private server in the working directory, shared by all who ask for it.
//!
//! Who started the server owns it: it holds the lock on `.delayed/lock`, and the server ends with it. Others use the
//! server while it is there; for tools, which hold a shared lock on `.delayed/users`, the owner waits a moment. A server that is left without its owner is ended by the next one, which starts its own
//! on the same data.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::cli::args::Command;
use crate::cli::exit::{Code, Failure};
use crate::cli::settings::{Origin, Settings};
use crate::config::RedisConfig;

/// The address that stands for the private server.
const DEV: &str = "dev";
/// Where it keeps its data, in the working directory.
const DIRECTORY: &str = ".delayed";
const SOCKET: &str = "redis.sock";
/// The longest path that a socket can have, on every system.
const LONGEST_PATH: usize = 103;
/// How long a server may take to read its data, and to write it at its end.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long an owner waits for tools that use its server.
const COURTESY: Duration = Duration::from_secs(5);
/// Becomes the server; a process beside it ends the server when our end of the pipe closes without a word, as it does
/// when we are killed.
const SCRIPT: &str =
    r#"exec 3<&0 </dev/null; (read -r _ <&3 || kill "$$") >/dev/null 2>&1 & exec 3<&-; exec "$@""#;

/// A private server; it ends when its owner drops this.
pub(super) struct DevServer {
    socket: PathBuf,
    owned: Option<Owned>,
    /// Locked, shared, by a tool that uses somebody else's server.
    users: File,
}

struct Owned {
    child: Child,
    /// Released after the server has ended.
    _lock: File,
}

impl DevServer {
    /// Sees to the server when the settings or the command ask for it, and puts its address into the settings.
    pub(super) fn for_command(settings: &mut Settings, command: &Command) -> Result<Option<Self>, Failure> {
        let asked = settings.config.redis.url == DEV;
        let wanted = matches!(command, Command::Dev(_));
        if wanted && !asked && matches!(settings.origin("redis.url"), Origin::Flag(_)) {
            return Err(Failure::usage("`dev` runs a private Redis: leave out --redis"));
        }
        if command.stands_alone() || !(asked || wanted) {
            return Ok(None);
        }
        let server = Self::open(&directory()?, command.serves())?;
        settings.config.redis = reached_at(&server.socket, settings);
        Ok(Some(server))
    }

    /// How the server is reached that the settings or the command ask for, before it is started.
    pub(super) fn address_for(
        settings: &Settings,
        command: &Command,
    ) -> Result<Option<RedisConfig>, Failure> {
        if settings.config.redis.url != DEV && !matches!(command, Command::Dev(_)) {
            return Ok(None);
        }
        let directory = directory()?;
        let failed = |error| Failure::io(&format!("{} cannot be used", directory.display()), &error);
        make_private(&directory).map_err(failed)?;
        let socket = reachable(&directory).map_err(failed)?;
        Ok(Some(reached_at(&socket, settings)))
    }

    fn url(&self) -> String {
        url_of(&self.socket)
    }

    fn open(directory: &Path, serves: bool) -> Result<Self, Failure> {
        let failed = |error| Failure::io(&format!("{} cannot be used", directory.display()), &error);
        make_private(directory).map_err(failed)?;
        let socket = reachable(directory).map_err(failed)?;
        let file =
            |name| File::options().create(true).append(true).open(directory.join(name)).map_err(failed);
        let (lock, users) = (file("lock")?, file("users")?);
        // Waits while an owner is ending its server.
        users.lock_shared().map_err(failed)?;
        let end = Instant::now() + PATIENCE;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            if answers(&socket) {
                if serves {
                    users.unlock().map_err(failed)?;
                }
                return Ok(Self { socket, owned: None, users });
            }
            if Instant::now() > end {
                let lock = directory.join("lock");
                return Err(Failure::new(
                    Code::Unreachable,
                    format!(
                        "another program has locked {}, and its server does not respond: end that program",
                        lock.display()
                    ),
                ));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        users.unlock().map_err(failed)?;
        end_orphan(&socket)?;
        let child = spawn(directory)?;
        let mut server = Self { socket, owned: Some(Owned { child, _lock: lock }), users };
        server.wait_until_ready(directory)?;
        tracing::info!(redis = server.url(), "private redis started");
        Ok(server)
    }

    fn wait_until_ready(&mut self, directory: &Path) -> Result<(), Failure> {
        let end = Instant::now() + PATIENCE;
        let Some(owned) = &mut self.owned else { return Ok(()) };
        while !answers(&self.socket) {
            let ended = owned.child.try_wait().is_ok_and(|ended| ended.is_some());
            if ended || Instant::now() > end {
                let log = directory.join("redis.log");
                let text = std::fs::read_to_string(&log).unwrap_or_default();
                let last = text.lines().last().unwrap_or("it says nothing");
                return Err(Failure::new(
                    Code::Unreachable,
                    format!("the private Redis does not start: see {}: {last}", log.display()),
                ));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

impl Drop for DevServer {
    fn drop(&mut self) {
        let Some(Owned { child, .. }) = &mut self.owned else { return };
        let end = Instant::now() + COURTESY;
        while matches!(self.users.try_lock(), Err(TryLockError::WouldBlock)) && Instant::now() < end {
            std::thread::sleep(LOOK_EVERY);
        }
        // What cannot be told to end, or does not, is killed; its data is in its file.
        let told = command(&self.socket, "SHUTDOWN").is_ok();
        let end = Instant::now() + if told { PATIENCE } else { Duration::ZERO };
        while child.try_wait().is_ok_and(|ended| ended.is_none()) {
            if Instant::now() > end {
                let _ = child.kill();
                let _ = child.wait();
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        if let Some(mut pipe) = child.stdin.take() {
            // The server is gone: there is nothing left to end.
            let _ = pipe.write_all(b"gone\n");
        }
    }
}

/// The settings that lead to a server there.
fn reached_at(socket: &Path, settings: &Settings) -> RedisConfig {
    RedisConfig { timeout: settings.config.redis.timeout, ..RedisConfig::new(url_of(socket)) }
}

/// The address of a socket: whatever stands in the path, a shell and every reader of addresses take it as it is.
fn url_of(socket: &Path) -> String {
    let path = socket.as_os_str().as_bytes().iter().map(|byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
            char::from(*byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    });
    format!("unix://{}", path.collect::<String>())
}

/// Where a private server keeps its data.
fn directory() -> Result<PathBuf, Failure> {
    let here = std::env::current_dir()
        .map_err(|error| Failure::io("the working directory cannot be found", &error))?;
    Ok(here.join(DIRECTORY))
}

/// A directory for us alone, which stays out of version control.
fn make_private(directory: &Path) -> std::io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        Ok(()) => std::fs::write(directory.join(".gitignore"), "*\n"),
    }
}

/// A path of the socket that is short enough, by way of a link when need be.
fn reachable(directory: &Path) -> std::io::Result<PathBuf> {
    let direct = directory.join(SOCKET);
    if direct.as_os_str().len() <= LONGEST_PATH {
        return Ok(direct);
    }
    let metadata = std::fs::metadata(directory)?;
    let name = format!("delayed-{}-{:x}-{:x}", metadata.uid(), metadata.dev(), metadata.ino());
    let link = PathBuf::from("/tmp").join(name);
    match std::fs::symlink_metadata(&link) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            std::os::unix::fs::symlink(directory, &link)?;
        }
        Err(error) => return Err(error),
        Ok(found) if found.uid() != metadata.uid() => {
            // It could lead anywhere tomorrow.
            let problem =
                format!("its path is too long for a socket, and {} belongs to another user", link.display());
            return Err(std::io::Error::other(problem));
        }
        Ok(_) if std::fs::read_link(&link)? == directory => {}
        Ok(_) => {
            // Of a directory that is gone, and whose number this one has now.
            std::fs::remove_file(&link)?;
            std::os::unix::fs::symlink(directory, &link)?;
        }
    }
    tracing::info!(
        link = %link.display(),
        "socket path is too long; using a link"
    );
    Ok(link.join(SOCKET))
}

/// Ends a server whose owner is gone, and removes its socket.
fn end_orphan(socket: &Path) -> Result<(), Failure> {
    let end = Instant::now() + PATIENCE;
    while UnixStream::connect(socket).is_ok() {
        if Instant::now() > end {
            let problem = format!("the server at {} does not exit: stop it by hand", socket.display());
            return Err(Failure::new(Code::Unreachable, problem));
        }
        let _ = command(socket, "SHUTDOWN");
        std::thread::sleep(LOOK_EVERY);
    }
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Failure::io("an old socket is in the way", &error))
        }
        _ => Ok(()),
    }
}

fn spawn(directory: &Path) -> Result<Child, Failure> {
    let Some(program) = find("redis-server").or_else(|| find("valkey-server")) else {
        return Err(Failure::new(
            Code::Unreachable,
            "neither redis-server nor valkey-server is on the PATH: apt-get install redis-server (or brew install \
             redis), or give the address of a Redis with --redis",
        ));
    };
    // The names of files are relative: the path of a socket is short that way.
    std::process::Command::new("sh")
        .args(["-c", SCRIPT, "delayed-dev"])
        .arg(program)
        .args(["--port", "0", "--unixsocket", SOCKET, "--unixsocketperm", "700", "--dir", "."])
        .args(["--appendonly", "yes", "--save", "", "--daemonize", "no", "--pidfile", "redis.pid"])
        .args(["--logfile", "redis.log", "--maxmemory-policy", "noeviction"])
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // What a terminal sends to us is not for the server: we may still need it.
        .process_group(0)
        .spawn()
        .map_err(|error| Failure::io("the private Redis cannot be started", &error))
}

/// The program of that name on the PATH.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| {
        file.is_absolute()
            && file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}

fn answers(socket: &Path) -> bool {
    command(socket, "PING").is_ok_and(|reply| reply.starts_with(b"+PONG"))
}

/// Sends one word, and gives what comes back; nothing when the server ends.
fn command(socket: &Path, word: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(format!("{word}\r\n").as_bytes())?;
    let mut reply = [0; 64];
    let length = stream.read(&mut reply)?;
    Ok(reply[..length].to_vec())
}
