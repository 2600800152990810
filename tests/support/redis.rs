//! A Redis of one test's own: on a private socket, in a directory that goes with it, killed at the end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use delayed::testing::Proxy;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use redis::{Commands, Connection, FromRedisValue};

use super::certificates::Certificate;
use super::wait;

/// How long a server may take to start, or a command to answer, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a server is started.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    /// On a loopback port too.
    pub(crate) tcp: bool,
    /// On a loopback port that speaks TLS alone, with this certificate.
    pub(crate) tls: Option<Certificate>,
    /// Keeps what it was told over a kill.
    pub(crate) append_only: bool,
    /// Asks for a password.
    pub(crate) password: Option<&'static str>,
    /// Refuses what needs memory beyond so many bytes.
    pub(crate) max_memory: Option<u64>,
    /// Words before the program, which say where it runs.
    pub(crate) before: Vec<String>,
    /// Which program, instead of `DELAYED_TEST_SERVER` or else `redis-server`.
    pub(crate) program: Option<PathBuf>,
    /// Has a wall clock that [`TestRedis::set_clock`] sets.
    pub(crate) skewed: bool,
    /// More arguments: `["--hz", "100"]`.
    pub(crate) extra: Vec<String>,
}

/// A running server.
#[derive(Debug)]
pub(crate) struct TestRedis {
    options: Options,
    directory: tempfile::TempDir,
    port: Option<u16>,
    child: Option<Child>,
    is_paused: AtomicBool,
}

impl TestRedis {
    /// Starts a server on a unix socket that keeps nothing.
    pub(crate) fn start() -> Self {
        Self::with(Options::default())
    }

    /// Starts a server, ready when this returns.
    pub(crate) fn with(options: Options) -> Self {
        let (directory, is_paused) = (super::directory(), AtomicBool::new(false));
        let mut server = Self { options, directory, port: None, child: None, is_paused };
        server.launch();
        server
    }

    fn launch(&mut self) {
        // Between picking a free port and binding it somebody else may take it: then another one is picked.
        let keep_port = self.port.is_some();
        for _ in 0..5 {
            if (self.options.tcp || self.options.tls.is_some()) && !keep_port {
                self.port = Some(free_port());
            }
            self.child = Some(self.spawn());
            if self.becomes_ready() {
                return;
            }
        }
        panic!("expected the server to start; its log says:\n{}", self.log());
    }

    fn spawn(&self) -> Child {
        let given =
            self.options.program.clone().or_else(|| Some(std::env::var_os("DELAYED_TEST_SERVER")?.into()));
        let program = given.unwrap_or_else(|| "redis-server".into());
        let mut words = self.options.before.iter().map(OsString::from).chain([program.clone().into()]);
        let mut command = Command::new(words.next().expect("the program at least"));
        command.args(words);
        let port = self.port.unwrap_or(0).to_string();
        match &self.options.tls {
            None => command.args(["--port", &port]),
            Some(certificate) => {
                command.args(["--port", "0", "--tls-port", &port, "--tls-auth-clients", "no"]);
                command.arg("--tls-cert-file").arg(&certificate.cert);
                command.arg("--tls-key-file").arg(&certificate.key);
                command.arg("--tls-ca-cert-file").arg(&certificate.authority)
            }
        };
        command.args(["--bind", "127.0.0.1"]);
        command.arg("--unixsocket").arg(self.socket()).arg("--dir").arg(self.directory.path());
        command.arg("--logfile").arg(self.log_path()).args(["--save", "", "--daemonize", "no"]);
        // Its default delays what it writes while the disk is slow, and a kill loses that.
        command.args(["--appendfsync", "no"]);
        command.args(["--appendonly", if self.options.append_only { "yes" } else { "no" }]);
        if let Some(password) = self.options.password {
            command.args(["--requirepass", password]);
        }
        if let Some(bytes) = self.options.max_memory {
            command.args(["--maxmemory", &bytes.to_string(), "--maxmemory-policy", "noeviction"]);
        }
        if self.options.skewed {
            let library = super::skew::build(self.directory.path());
            command.env("LD_PRELOAD", library).env("SKEW_FILE", self.directory.path().join("skew"));
        }
        command.args(&self.options.extra);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap_or_else(|error| match error.kind() {
            ErrorKind::NotFound => panic!("there is no {program:?} here: apt-get install redis-server"),
            _ => panic!("expected to start {program:?}: {error}"),
        })
    }

    /// Whether the server answers, as opposed to ending.
    fn becomes_ready(&mut self) -> bool {
        let client = redis::Client::open(self.url()).unwrap();
        let mut child = self.child.take().expect("a server was spawned");
        let ready = wait::until_some("the server's PONG", PATIENCE, || {
            if child.try_wait().unwrap().is_some() {
                return Some(false);
            }
            let mut connection = client.get_connection().ok()?;
            redis::cmd("PING").query::<String>(&mut connection).ok().map(|_| true)
        });
        self.child = ready.then_some(child);
        ready
    }

    /// Its address on the unix socket.
    pub(crate) fn url(&self) -> String {
        let password = self.options.password.map_or_else(String::new, |word| format!("?pass={word}"));
        format!("unix://{}{password}", self.socket().display())
    }

    /// Its address on the loopback port. Needs [`Options::tcp`].
    pub(crate) fn tcp_url(&self) -> String {
        let port = self.port.expect("expected a server with `Options { tcp: true, .. }`");
        let password = self.options.password.map_or_else(String::new, |word| format!(":{word}@"));
        format!("redis://{password}127.0.0.1:{port}")
    }

    /// Its address on the port that speaks TLS. Needs [`Options::tls`].
    pub(crate) fn tls_url(&self) -> String {
        self.tcp_url().replacen("redis://", "rediss://", 1)
    }

    /// A network that fails, before its unix socket.
    pub(crate) fn proxy(&self) -> Proxy {
        Proxy::to(&self.url()).unwrap()
    }

    /// Its socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }

    /// A directory for what else the test writes.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A new connection.
    pub(crate) fn connection(&self) -> Connection {
        let connection = redis::Client::open(self.url()).unwrap().get_connection();
        let connection = connection.unwrap_or_else(|error| panic!("expected to connect: {error}"));
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        connection
    }

    /// Kills it, as a power cut does.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("expected a server that runs");
        child.kill().unwrap();
        child.wait().unwrap();
        self.is_paused.store(false, Ordering::SeqCst);
    }

    /// Starts it again in the same place, killing it first when it runs: what it kept is there.
    pub(crate) fn restart(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
        self.launch();
    }

    /// Starts it again after a kill; this returns when it takes connections, which may be before it has loaded its data.
    pub(crate) fn restart_unready(&mut self) {
        self.kill();
        self.child = Some(self.spawn());
        let connect = || std::os::unix::net::UnixStream::connect(self.socket()).ok();
        wait::until_some("the server's socket", PATIENCE, connect);
    }

    /// Sets its wall clock so many seconds before or behind the machine's. Needs [`Options::skewed`].
    pub(crate) fn set_clock(&self, seconds: i64) {
        assert!(self.options.skewed, "expected a server with `Options {{ skewed: true, .. }}`");
        // At once, so that no half of a number is read.
        let written = self.directory.path().join("skew.new");
        std::fs::write(&written, seconds.to_string()).unwrap();
        std::fs::rename(written, self.directory.path().join("skew")).unwrap();
    }

    /// Stops it in its tracks: connections stay, nothing answers.
    pub(crate) fn pause(&self) {
        self.is_paused.store(true, Ordering::SeqCst);
        kill(self.pid(), Signal::SIGSTOP).unwrap();
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        kill(self.pid(), Signal::SIGCONT).unwrap();
        self.is_paused.store(false, Ordering::SeqCst);
    }

    fn pid(&self) -> Pid {
        let child = self.child.as_ref().expect("expected a server that runs");
        Pid::from_raw(i32::try_from(child.id()).unwrap())
    }

    /// Its loopback port. Needs [`Options::tcp`].
    pub(crate) fn port(&self) -> u16 {
        self.port.expect("expected a server with `Options { tcp: true, .. }`")
    }

    /// Whether it was neither killed nor paused.
    pub(crate) fn is_running(&self) -> bool {
        self.child.is_some() && !self.is_paused.load(Ordering::SeqCst)
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("redis.log")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_else(|error| format!("no log: {error}"))
    }
}

impl Drop for TestRedis {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("expected a free port");
    listener.local_addr().unwrap().port()
}

/// All that stands under a queue's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    /// Messages, oldest first.
    pub(crate) waiting: Vec<Vec<u8>>,
    /// How many notifications there are.
    pub(crate) tokens: u64,
    /// Wire id → message.
    pub(crate) processing: BTreeMap<String, Vec<u8>>,
    /// Dead letters, oldest first.
    pub(crate) dead: Vec<BTreeMap<String, Vec<u8>>>,
    /// SHA-1 of a message → deaths.
    pub(crate) deaths: BTreeMap<String, String>,
    /// Messages of the timetable, by the ids of their calls.
    pub(crate) later: BTreeMap<Vec<u8>, Vec<u8>>,
    /// All keys of the server, also those of other queues, sorted.
    pub(crate) keys: Vec<String>,
}

/// Reads all that stands under a queue's keys.
#[track_caller]
pub(crate) fn snapshot(connection: &mut Connection, queue: &str) -> State {
    let mut keys: Vec<String> = connection.keys("*").unwrap();
    keys.sort();
    // At one instant, since a message may move meanwhile; a Redis that is full refuses MULTI.
    let script = redis::Script::new(
        "return {redis.call('LRANGE', KEYS[1], 0, -1), redis.call('LRANGE', KEYS[2], 0, -1),
                 redis.call('HGETALL', KEYS[3]), redis.call('XRANGE', KEYS[4], '-', '+'),
                 redis.call('HGETALL', KEYS[5]), redis.call('HGETALL', KEYS[6])}",
    );
    let key = |end: &str| format!("{queue}{end}");
    let mut look = script.key(queue);
    look.key(key("_noti")).key(key("_processing")).key(key("_dead")).key(key("_deaths")).key(key("_later"));
    type Fields = BTreeMap<String, Vec<u8>>;
    type Later = BTreeMap<Vec<u8>, Vec<u8>>;
    type Look = (Vec<Vec<u8>>, Vec<String>, Fields, Vec<(String, Fields)>, BTreeMap<String, String>, Later);
    let (waiting, tokens, processing, dead, deaths, later): Look = look.invoke(connection).unwrap();
    assert!(tokens.iter().all(|token| token == "1"), "expected every token to be `1`: {tokens:?}");
    let dead = dead.into_iter().map(|(_, fields)| fields).collect();
    State { waiting, tokens: tokens.len() as u64, processing, dead, deaths, later, keys }
}

/// There are as many tokens as messages.
#[track_caller]
pub(crate) fn assert_consistent(connection: &mut Connection, queue: &str) {
    let state = snapshot(connection, queue);
    let waiting = state.waiting.len() as u64;
    assert_eq!(state.tokens, waiting, "expected one token for each waiting message: {state:#?}");
}

/// The value of each key, as `DUMP` has it, and whether it expires: equal when nothing was changed.
#[track_caller]
pub(crate) fn everything(connection: &mut Connection) -> BTreeMap<String, (Vec<u8>, bool)> {
    let keys: Vec<String> = connection.keys("*").unwrap();
    let value = |key: String| {
        let dump: Vec<u8> = read(connection, redis::cmd("DUMP").arg(&key));
        let time: i64 = read(connection, redis::cmd("PTTL").arg(&key));
        (key, (dump, time >= 0))
    };
    keys.into_iter().map(value).collect()
}

/// Runs a command that is expected to succeed.
#[track_caller]
pub(crate) fn read<T: FromRedisValue>(connection: &mut Connection, command: &redis::Cmd) -> T {
    command.query(connection).unwrap_or_else(|error| panic!("expected the command to succeed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_it_was_told_over_a_kill_when_it_shall() {
        let mut server = TestRedis::with(Options { append_only: true, tcp: true, ..Options::default() });
        let () = server.connection().rpush("q", "a").unwrap();
        server.kill();
        assert!(redis::Client::open(server.url()).unwrap().get_connection().is_err(), "expected no server");
        server.restart();
        assert_eq!(
            snapshot(&mut server.connection(), "q").waiting,
            [b"a"],
            "expected the message to be kept"
        );
        let mut tcp = redis::Client::open(server.tcp_url()).unwrap().get_connection().unwrap();
        assert_eq!(tcp.llen::<_, u64>("q").unwrap(), 1, "expected the port to lead to the same server");
    }

    #[test]
    fn asks_for_its_password_and_can_be_paused() {
        let server = TestRedis::with(Options { password: Some("secret"), ..Options::default() });
        let open = format!("unix://{}", server.socket().display());
        let refused = redis::Client::open(open).unwrap().get_connection();
        assert!(
            refused.and_then(|mut c| c.get::<_, Option<String>>("x")).is_err(),
            "expected a refusal without the password"
        );
        let mut connection = server.connection();
        connection.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        server.pause();
        connection.get::<_, Option<String>>("x").expect_err("expected no answer from a paused server");
        server.resume();
        assert_eq!(server.connection().get::<_, Option<String>>("x").unwrap(), None, "expected an answer");
    }
}
